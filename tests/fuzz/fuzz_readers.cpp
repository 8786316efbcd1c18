// SPDX-License-Identifier: Apache-2.0
// The libFuzzer target of the readers: no file may do more than be refused, with the place of what is wrong.
// If GPUPOOL_FUZZ_SEEDS names a folder, the seeds are written to it first.
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "fuzz/readers.hpp"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* folder = std::getenv("GPUPOOL_FUZZ_SEEDS");
  if (folder == nullptr) return 0;
  const auto seeds = gpupool::fuzz::reader_seeds();
  for (size_t i = 0; i < seeds.size(); ++i)
    std::ofstream(std::string(folder) + "/seed-" + std::to_string(i), std::ios::binary) << seeds[i];
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    (void)gpupool::fuzz::read_file(data, size);
  } catch (const gpupool::fuzz::Misread& misread) {
    std::fprintf(stderr, "broken promise: %s\n", misread.what());
    std::abort();
  }
  return 0;
}
