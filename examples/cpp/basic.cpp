// SPDX-License-Identifier: Apache-2.0
// The C++ wrapper: owners that free themselves, and failures as exceptions.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <gpupool/gpupool.hpp>
#include <numeric>
#include <vector>

namespace {

int run() {
  gpupool::Pool pool({.limit_bytes = 64 << 20});
  const gpupool::Stream stream(pool);

  std::vector<float> sent(1'000'000);
  std::iota(sent.begin(), sent.end(), 0.0F);
  std::vector<float> received(sent.size());
  {
    const gpupool::Block a(pool, sent.size() * sizeof(float), stream);
    const gpupool::Block b(pool, a.size(), stream);
    gpupool::copy_to_device(a, sent);               // waits
    pool.copy(b.ptr(), a.ptr(), a.size(), stream);  // does not; any kernel would do
    gpupool::copy_to_host(received, b);             // waits
  }                                                 // a and b are freed, in stream order
  std::printf("%zu floats there and back: %s\n", sent.size(), sent == received ? "the same" : "DIFFERENT");

  bool refused = false;
  try {
    const gpupool::Block too_large(pool, 100 << 20, stream);
  } catch (const gpupool::OutOfMemory& error) {
    refused = error.status() == GPUPOOL_ERROR_OVER_LIMIT;
    std::printf("100 MiB of 64: %s\n", error.what());
  }

  const gpupool_stats_t stats = pool.stats();
  std::printf("live now %llu, live peak %llu, reserved %llu; given back %llu\n",
              static_cast<unsigned long long>(stats.all.allocated_bytes.current),
              static_cast<unsigned long long>(stats.all.allocated_bytes.peak),
              static_cast<unsigned long long>(stats.all.reserved_bytes.current),
              static_cast<unsigned long long>(pool.empty()));
  const bool good = sent == received && refused && stats.all.allocated_bytes.current == 0 &&
                    pool.stats().all.reserved_bytes.current == 0;
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
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
