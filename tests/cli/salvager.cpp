// SPDX-License-Identifier: Apache-2.0
// What `gpupool salvage FILE -o OUTPUT` does, for many files in one process: reads the two paths from a line
// each, and says on standard error what the command says, and then the status that it ends with.
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/recording/recording.hpp"

int main() {
  using namespace gpupool::cli;  // NOLINT: the command's own
  std::string file;
  std::string output;
  while (std::getline(std::cin, file) && std::getline(std::cin, output)) {
    int status = 0;
    try {
      Damage damage;
      pack_recording(file, output, damage);
      report_packed(output, damage);
    } catch (const InputError& error) {
      say(error.what());
      status = 2;
    } catch (const std::exception& error) {
      say(error.what());
      status = 1;
    }
    std::fprintf(stderr, "status %d\n", status);
  }
}
