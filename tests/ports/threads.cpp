// SPDX-License-Identifier: Apache-2.0
// What a thread has cached goes back when the thread ends, on every system: threads [data].
#include <cstdio>
#include <thread>
#include <vector>

#include "gpupool/gpupool.h"

namespace {

constexpr int kThreads = 8;
constexpr int kRounds = 2000;
constexpr uint64_t kSize = 4096;

bool work(gpupool_t* pool, gpupool_stream_t stream) {
  for (int i = 0; i < kRounds; ++i) {
    gpupool_ptr_t block = 0;
    if (gpupool_malloc(pool, kSize, stream, &block) != GPUPOOL_SUCCESS) return false;
    if (gpupool_free(pool, block, stream) != GPUPOOL_SUCCESS) return false;
  }
  return true;
}

}  // namespace

int main() {
  gpupool_config_t config;
  gpupool_t* pool = nullptr;
  gpupool_config_init(&config, sizeof config);
  config.backend = GPUPOOL_BACKEND_SIM;
  if (gpupool_create(&config, &pool) != GPUPOOL_SUCCESS) return 1;
  std::vector<char> done(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(
        [&, i] { done[static_cast<size_t>(i)] = work(pool, 0x1000U + 16U * static_cast<unsigned>(i)); });
  }
  for (std::thread& each : threads) each.join();
  for (const char each : done) {
    if (!each) return std::puts("failed: a thread got no memory"), 1;
  }
  uint64_t released = 0;
  gpupool_stats_t stats{};
  stats.struct_size = sizeof stats;
  gpupool_trim(pool, 0, &released);
  gpupool_stats(pool, &stats);
  if (stats.all.reserved_bytes.current != 0 || gpupool_validate(pool) != GPUPOOL_SUCCESS) {
    std::printf("failed: %llu bytes stay reserved\n",
                static_cast<unsigned long long>(stats.all.reserved_bytes.current));
    return 1;
  }
  std::puts("what threads cached is back");
  return gpupool_destroy(pool) != GPUPOOL_SUCCESS;
}
