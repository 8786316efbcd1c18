// SPDX-License-Identifier: Apache-2.0
// The libFuzzer target: any bytes are an operation sequence, and no sequence may break an invariant.
#include <cstdio>
#include <cstdlib>

#include "fuzz/world.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    gpupool::fuzz::run_sequence(data, size);
  } catch (const gpupool::fuzz::Broken& broken) {
    std::fprintf(stderr, "broken promise: %s\n", broken.what());
    std::abort();
  }
  return 0;
}
