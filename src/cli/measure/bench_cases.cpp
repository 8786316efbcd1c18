// SPDX-License-Identifier: Apache-2.0
#include "cli/measure/bench_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <random>
#include <system_error>
#include <utility>

#include "cli/measure/mixed_sizes.hpp"
#include "cli/measure/ring.hpp"
#include "cli/measure/workers.hpp"

namespace gpupool::cli {
namespace {

constexpr uint64_t kKiB = uint64_t{1} << 10;
constexpr uint64_t kMiB = uint64_t{1} << 20;

/// Repeats before the clock runs, so that a new thread's caches are warm.
constexpr uint64_t kWarmUp = 10'000;

/// Makes the compiler believe that `value` is used.
template <class T>
void keep(T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

/// A case that is `work(thread, repeats)`, which holds the loop.
template <class Work>
BenchCase repeated(CaseInfo info, Work work) {
  const int threads = info.threads;
  return {std::move(info), [threads, work = std::move(work)](uint64_t count) {
            return time_threads(
                       threads, [&](int thread) { work(thread, std::min(count, kWarmUp)); },
                       [&](int thread) { work(thread, count); }) /
                   static_cast<double>(count);
          }};
}

/// What the mallocs of a case are made from.
struct Fixture {
  Fixture(const Config& config, size_t count) : pool(create_pool(config)) {
    for (size_t i = 0; i < count; ++i) streams.emplace_back(pool);
  }
  gpupool_stream_t stream(size_t number) const { return streams[number % streams.size()].id(); }
  /// malloc and free, again and again.
  void pair(uint64_t size, gpupool_stream_t stream, uint64_t count) const {
    for (uint64_t i = 0; i < count; ++i) {
      gpupool_ptr_t pointer = 0;
      check(gpupool_malloc(pool.handle(), size, stream, &pointer));
      check(gpupool_free(pool.handle(), pointer, stream));
    }
  }

  Pool pool;
  std::vector<Stream> streams;
};

/// malloc and free of one size, again and again, by several threads on a stream each, or all on one.
BenchCase pair_case(const Config& config, CaseInfo info, size_t streams) {
  const auto fixture = std::make_shared<Fixture>(config, streams);
  const uint64_t size = info.size;
  return repeated(std::move(info), [fixture, size](int thread, uint64_t repeats) {
    fixture->pair(size, fixture->stream(static_cast<size_t>(thread)), repeats);
  });
}

/// A recording of this process, in a new file that goes with it.
class TemporaryRecording {
 public:
  TemporaryRecording() {
    std::random_device random;
    path_ = std::filesystem::temp_directory_path() / fmt::format("gpupool-bench-{:08x}.gpt", random());
    check(gpupool_record_start(path_.string().c_str(), 0));
  }
  TemporaryRecording(const TemporaryRecording&) = delete;
  TemporaryRecording& operator=(const TemporaryRecording&) = delete;
  ~TemporaryRecording() {
    gpupool_record_stop();
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

 private:
  std::filesystem::path path_;
};

/// malloc and free of one size, which go into a recording without stacks.
BenchCase recorded_pair_case(const Config& config) {
  BenchCase pair = pair_case(config, {"pair_recorded", 64 * kKiB, 1, 0}, 1);
  return {pair.info, [run = pair.run](uint64_t count) {
            const TemporaryRecording recording;  // of this run alone, so that its file stays small
            return run(count);
          }};
}

/// malloc and free of one size on several streams in turn.
BenchCase streams_case(const Config& config, size_t streams) {
  const auto fixture = std::make_shared<Fixture>(config, streams);
  return repeated({fmt::format("streams_in_turn_{}", streams), 64 * kKiB, 1, 0}, [=](int, uint64_t repeats) {
    for (uint64_t i = 0; i < repeats; ++i) fixture->pair(64 * kKiB, fixture->stream(i), 1);
  });
}

/// malloc and free by several threads, each time of any of several sizes on any of several streams, as with
/// tasks that move between threads.
BenchCase wandering_case(const Config& config, size_t streams) {
  const auto fixture = std::make_shared<Fixture>(config, streams);
  CaseInfo info{fmt::format("wandering_{}", streams), kMixedSizes.back(), 8, 0, kMixedSizes.size()};
  return repeated(std::move(info), [=](int thread, uint64_t repeats) {
    std::minstd_rand random(static_cast<unsigned>(thread) + 1);
    for (uint64_t i = 0; i < repeats; ++i) {
      const gpupool_stream_t stream = fixture->stream(random());
      fixture->pair(kMixedSizes[random() % kMixedSizes.size()], stream, 1);
    }
  });
}

/// malloc and free of several sizes in turn, multiples of 512, on one stream.
BenchCase sizes_case(const Config& config, size_t sizes) {
  const auto fixture = std::make_shared<Fixture>(config, 1);
  const gpupool_stream_t stream = fixture->stream(0);
  CaseInfo info{fmt::format("sizes_in_turn_{}", sizes), 512 * sizes, 1, 0, sizes};
  return repeated(std::move(info), [=](int, uint64_t repeats) {
    for (uint64_t i = 0; i < repeats; ++i) fixture->pair(512 * (1 + i % sizes), stream, 1);
  });
}

/// malloc, free and gpupool_park_stream, as for a library whose streams may end at any time.
BenchCase parked_pair_case(const Config& config) {
  const auto fixture = std::make_shared<Fixture>(config, 1);
  const gpupool_stream_t stream = fixture->stream(0);
  return repeated({"pair_parked", 64 * kKiB, 1, 0}, [=](int, uint64_t repeats) {
    for (uint64_t i = 0; i < repeats; ++i) {
      fixture->pair(64 * kKiB, stream, 1);
      fixture->pool.park_stream(fixture->streams[0]);
    }
  });
}

/// One thread allocates, one size or several in turn, and another one frees what it gets from the first
/// through a ring of 256 pointers.
BenchCase free_elsewhere_case(const Config& config, const CaseInfo& info) {
  const auto fixture = std::make_shared<Fixture>(config, 1);
  return {info, [=](uint64_t count) {
            gpupool_t* const pool = fixture->pool.handle();
            const gpupool_stream_t stream = fixture->stream(0);
            SizesInTurn sizes;
            const auto make = [&] {
              gpupool_ptr_t pointer = 0;
              check(gpupool_malloc(pool, info.sizes == 1 ? info.size : sizes.next(), stream, &pointer));
              return pointer;
            };
            return through_ring(
                count, [] {}, make,
                [=](gpupool_ptr_t pointer) { check(gpupool_free(pool, pointer, stream)); });
          }};
}

/// Live blocks of 512 bytes and more, with log-uniform sizes.
class Churn : Fixture {
 public:
  static constexpr size_t kSizes = 1 << 16;

  Churn(const Config& config, const CaseInfo& info) : Fixture(config, 1), pointers_(info.live_blocks) {
    std::uniform_real_distribution<double> exponent(std::log2(kSmallest),
                                                    std::log2(static_cast<double>(info.size)));
    for (uint64_t& size : sizes_) size = static_cast<uint64_t>(std::exp2(exponent(random_)));
  }
  ~Churn() {
    for (const gpupool_ptr_t pointer : pointers_) gpupool_free(pool.handle(), pointer, stream_);
  }
  Churn(const Churn&) = delete;
  Churn& operator=(const Churn&) = delete;

  /// The first time, fills the pool and lets it settle.
  void prepare() {
    if (is_prepared_) return;
    for (gpupool_ptr_t& pointer : pointers_) malloc_into(pointer, random_());
    replace(2 * pointers_.size());
    is_prepared_ = true;
  }

  /// Frees a randomly picked one and allocates another in its place. That counts as one.
  void replace(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t random = random_();
      // The high half picks the block without a division; the low bits pick the size.
      gpupool_ptr_t& pointer = pointers_[((random >> 32) * pointers_.size()) >> 32];
      check(gpupool_free(pool.handle(), pointer, stream_));
      malloc_into(pointer, random);
    }
  }

 private:
  static constexpr double kSmallest = 512;

  void malloc_into(gpupool_ptr_t& pointer, uint64_t random) {
    pointer = 0;
    const uint64_t size = sizes_[random % sizes_.size()];
    check(gpupool_malloc(pool.handle(), size, stream_, &pointer));
  }

  const gpupool_stream_t stream_ = stream(0);
  std::mt19937_64 random_;  // seeded the same in every run
  std::array<uint64_t, kSizes> sizes_{};
  std::vector<gpupool_ptr_t> pointers_;
  bool is_prepared_ = false;
};

BenchCase churn_case(const Config& config, const CaseInfo& info) {
  const auto churn = std::make_shared<Churn>(config, info);
  return {info, [churn](uint64_t count) {
            return time_threads(
                       1, [&](int) { churn->prepare(); }, [&](int) { churn->replace(count); }) /
                   static_cast<double>(count);
          }};
}

}  // namespace

BenchCase mutex_case() {
  const auto mutex = std::make_shared<std::mutex>();
  return repeated({"mutex", 0, 1, 0}, [mutex](int, uint64_t repeats) {
    for (uint64_t i = 0; i < repeats; ++i) {
      mutex->lock();
      keep(*mutex);
      mutex->unlock();
    }
  });
}

BenchCase libc_case(uint64_t size) {
  return repeated({"libc", size, 1, 0}, [size](int, uint64_t repeats) {
    for (uint64_t i = 0; i < repeats; ++i) {
      void* pointer = std::malloc(size);
      keep(pointer);
      std::free(pointer);
    }
  });
}

std::vector<CaseMaker> all_cases(const Config& config, const std::vector<int>& thread_counts) {
  std::vector<CaseMaker> makers;
  for (const uint64_t size : {uint64_t{512}, 64 * kKiB, kMiB, 64 * kMiB, 256 * kMiB}) {
    makers.push_back([=] { return pair_case(config, {"pair", size, 1, 0}, 1); });
  }
  makers.push_back([=] { return recorded_pair_case(config); });
  for (const int threads : thread_counts) {
    makers.push_back([=] {
      return pair_case(config, {"pair_own_streams", 64 * kKiB, threads, 0}, static_cast<size_t>(threads));
    });
  }
  for (const int threads : thread_counts) {
    makers.push_back([=] { return pair_case(config, {"pair_one_stream", 64 * kKiB, threads, 0}, 1); });
  }
  for (const size_t streams : {size_t{2}, size_t{8}, size_t{64}}) {
    makers.push_back([=] { return streams_case(config, streams); });
  }
  for (const size_t streams : {size_t{8}, size_t{64}}) {
    makers.push_back([=] { return wandering_case(config, streams); });
  }
  for (const size_t sizes : {size_t{64}, size_t{1024}}) {
    makers.push_back([=] { return sizes_case(config, sizes); });
  }
  makers.push_back([=] { return parked_pair_case(config); });
  makers.push_back([=] { return free_elsewhere_case(config, {"free_elsewhere", 64 * kKiB, 2, 0}); });
  makers.push_back([=] {
    return free_elsewhere_case(config, {fmt::format("free_elsewhere_{}", kMixedSizes.size()),
                                        kMixedSizes.back(), 2, 0, kMixedSizes.size()});
  });
  // The same without the pool: the cost of passing a pointer to another thread.
  makers.push_back([] { return BenchCase{{"ring", 0, 2, 0}, time_ring}; });
  for (const auto& [largest, live] :
       {std::pair{16 * kMiB, 1'000}, {kMiB, 10'000}, {64 * kKiB, 100'000}, {64 * kKiB, 1'000'000}}) {
    const CaseInfo info{"churn", largest, 1, static_cast<uint64_t>(live), Churn::kSizes};
    makers.push_back([=] { return churn_case(config, info); });
  }
  return makers;
}

}  // namespace gpupool::cli
