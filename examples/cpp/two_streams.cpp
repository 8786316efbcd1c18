// SPDX-License-Identifier: Apache-2.0
// A pipeline over two streams: one fills a new buffer each round, the other reads it. The host never waits
// for a buffer, and none is overwritten early; the pool keeps them apart.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <gpupool/gpupool.hpp>
#include <vector>

namespace {

constexpr size_t kRounds = 8;
constexpr size_t kBytes = 16 << 20;

int run() {
  gpupool::Pool pool;
  const gpupool::Stream producer(pool);
  const gpupool::Stream consumer(pool);

  std::vector<std::vector<uint8_t>> results(kRounds, std::vector<uint8_t>(kBytes));
  for (size_t round = 0; round < kRounds; ++round) {
    gpupool::Block buffer(pool, kBytes, producer);
    pool.fill(buffer.ptr(), static_cast<uint8_t>(round + 1), kBytes, producer);
    producer.synchronize();  // a CUDA program would make consumer wait for an event
    const auto result = static_cast<gpupool_ptr_t>(reinterpret_cast<uintptr_t>(results[round].data()));
    pool.copy(result, buffer.ptr(), kBytes, consumer);
    buffer.record_stream(consumer);
    // The buffer is freed here, while consumer may still be reading it.
  }
  const gpupool_stats_t stats = pool.stats();
  std::printf("%zu rounds of %zu MiB: reserved peak %llu MiB, host waits by the pool: %llu\n", kRounds,
              kBytes >> 20, static_cast<unsigned long long>(stats.all.reserved_bytes.peak >> 20),
              static_cast<unsigned long long>(stats.driver.host_wait.count));

  consumer.synchronize();
  size_t disturbed = 0;
  for (size_t round = 0; round < kRounds; ++round) {
    disturbed += static_cast<size_t>(
        std::ranges::count_if(results[round], [&](uint8_t byte) { return byte != round + 1; }));
  }
  std::printf("bytes disturbed: %zu\n", disturbed);
  pool.synchronize();
  const bool settled = pool.stats().all.active_bytes.current == 0;
  return disturbed == 0 && settled && stats.driver.host_wait.count == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
