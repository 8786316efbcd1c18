// SPDX-License-Identifier: Apache-2.0
// What the programs that try hosts share.
#pragma once

#include <gpupool/gpupool.h>

#include <cstdio>
#include <cstdlib>

/// Ends the program if something is not so.
inline void expect(bool is_right, const char* what) {
  if (is_right) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}

inline gpupool_stats_t stats_of(gpupool_t* pool) {
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  (void)gpupool_stats(pool, &stats);
  return stats;
}

inline gpupool_block_t block_at(gpupool_t* pool, const void* ptr) {
  gpupool_block_t block{};
  (void)gpupool_block_info(pool, reinterpret_cast<gpupool_ptr_t>(ptr), &block, sizeof block);
  return block;
}

/// A stream's work that reads and writes a block for a millisecond; the simulated device notices another's at
/// that time.
inline void work_on(gpupool_stream_t stream, const void* ptr, uint64_t size) {
  (void)gpupool_sim_work(0, stream, reinterpret_cast<gpupool_ptr_t>(ptr), size, 1000000);
}

inline void expect_no_faults() {
  uint64_t count = 0;
  char text[512];
  (void)gpupool_sim_faults(0, &count, text, sizeof text);
  expect(count == 0, text);
}

/// All that the pool handed out has come back.
inline void expect_all_freed(gpupool_t* pool) {
  const gpupool_stat_t blocks = stats_of(pool).all.allocated_blocks;
  expect(blocks.total_allocated > 0, "something was allocated");
  expect(blocks.total_allocated == blocks.total_freed, "all of it was freed");
  expect_no_faults();
}
