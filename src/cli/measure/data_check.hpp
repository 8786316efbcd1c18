// SPDX-License-Identifier: Apache-2.0
// Writes every block of a replay and reads it back before it is freed: it must be undisturbed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gpupool/gpupool.hpp"

namespace gpupool::cli {

/// Fills are queued behind each malloc, reads before each free, on the block's stream; the results are
/// compared later, many blocks at a time, because each comparison waits for the streams.
class DataCheck {
 public:
  /// Borrows pool and streams. `slot_count` as in Trace.
  DataCheck(Pool& pool, std::span<const gpupool_stream_t> streams, uint32_t slot_count);

  /// Right after a malloc: fills the block with a byte that is (nearly) unique to `id`.
  void write(uint32_t slot, uint64_t id, gpupool_ptr_t ptr, uint64_t bytes, gpupool_stream_t stream);

  /// Right before a free: queues reads of the block's ends and of places between.
  void read(uint32_t slot, gpupool_stream_t stream);

  /// Waits for the streams and compares everything that was read.
  void compare();

  uint64_t mismatches() const noexcept { return mismatches_; }
  /// A description of the first mismatch.
  const std::string& first_mismatch() const noexcept { return first_mismatch_; }

 private:
  struct Block {
    gpupool_ptr_t ptr;
    uint64_t bytes;
    uint64_t id;
    std::byte pattern;
  };
  struct Sample {
    size_t staging_offset;
    size_t size;
    uint64_t block_offset;
    Block block;
  };

  void read_range(const Block& block, uint64_t offset, size_t size, gpupool_stream_t stream);
  void compare_sample(const Sample& sample);

  Pool& pool_;
  std::span<const gpupool_stream_t> streams_;
  std::vector<Block> blocks_;  // by slot
  std::vector<std::byte> staging_;
  size_t staging_used_ = 0;
  std::vector<Sample> samples_;
  std::mt19937_64 random_;  // seeded the same in every run
  uint64_t writes_ = 0;
  uint64_t mismatches_ = 0;
  std::string first_mismatch_;
};

}  // namespace gpupool::cli
