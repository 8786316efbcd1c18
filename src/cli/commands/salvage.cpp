// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/salvage.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "cli/base/output.hpp"
#include "cli/commands/watch_commands.hpp"

namespace gpupool::cli {

namespace fs = std::filesystem;

void report_packed(const std::string& file, const Damage& damage) {
  const Recording recording = read_recording(file);
  say(fmt::format("{} events of process {} are in {} ({} bytes){}{}", recording.events.size(), recording.pid,
                  file, fs::file_size(file), recording.is_ended ? "" : "; the process was killed",
                  recording.lost != 0
                      ? fmt::format("; {} more events were lost, as the disk was full", recording.lost)
                      : ""));
  if (damage.chunks != 0) {
    say(fmt::format("{} chunks are damaged and were cut; first: {}", damage.chunks, damage.first));
  }
}

int run_salvage(const SalvageOptions& options) {
  Damage damage;
  pack_recording(options.file, options.output, damage);
  report_packed(options.output, damage);
  return 0;
}

}  // namespace gpupool::cli
