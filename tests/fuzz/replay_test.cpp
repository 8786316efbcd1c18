// SPDX-License-Identifier: Apache-2.0
// The fuzzer's sequences without a fuzzer: pseudo-random ones, the same in every run.
#include <gtest/gtest.h>

#include <random>

#include "fuzz/world.hpp"

namespace gpupool::fuzz {
namespace {

constexpr uint32_t kSequences = 300;

/// Long sequences reach deeper, short ones fail in ways that can be read.
std::vector<uint8_t> sequence(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(50 + random() % 600);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

void run_sequences(const char* debug, uint32_t count = kSequences) {
  for (uint32_t seed = 0; seed < count; ++seed) {
    const std::vector<uint8_t> bytes = sequence(seed);
    try {
      run_sequence(bytes.data(), bytes.size(), debug);
    } catch (const Broken& broken) {
      FAIL() << "sequence " << seed << ": " << broken.what() << "\nGPUPOOL_FUZZ_TRACE=1 shows what it did";
    }
  }
}

TEST(Replay, NoSequenceBreaksAPromise) {
  run_sequences("");
}

// The device, which refuses work outside of blocks then, sees no broken rule.
TEST(Replay, NoWorkOfASequenceIsOutsideOfBlocks) {
  run_sequences("annotate");
}

// Nor does what the modes themselves queue break one.
TEST(Replay, NoModeQueuesWorkThatBreaksAPromise) {
  run_sequences("canary,poison", kSequences / 8);  // filling takes time
}

}  // namespace
}  // namespace gpupool::fuzz
