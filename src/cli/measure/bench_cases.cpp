// SPDX-License-Identifier: Apache-2.0
#include "cli/measure/bench_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <random>
#include <system_error>

#include "cli/measure/ring.hpp"
#include "cli/measure/workers.hpp"

namespace gpupool::cli {
namespace {

/// Repeats before the clock runs, so that a new thread's caches are warm.
constexpr uint64_t kWarmUp = 1000;

/// Makes the compiler believe that `value` is used.
template <class T>
void keep(T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

void pair(gpupool_t* pool, uint64_t size, gpupool_stream_t stream, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    gpupool_ptr_t pointer = 0;
    check(gpupool_malloc(pool, size, stream, &pointer));
    check(gpupool_free(pool, pointer, stream));
  }
}

/// Times `work(count)` on one warmed-up thread. Returns nanoseconds per unit of work.
template <class Repeats>
double time_one_thread(uint64_t count, const Repeats& work) {
  return time_threads(
             1, [&](int) { work(kWarmUp); }, [&](int) { work(count); }) /
         static_cast<double>(count);
}

class PairCase : public BenchCase {
 public:
  PairCase(const Config& config, CaseInfo info, bool is_one_stream)
      : BenchCase(std::move(info)), pool_(create_pool(config)) {
    const int streams = is_one_stream ? 1 : this->info().threads;
    for (int i = 0; i < streams; ++i) streams_.emplace_back(pool_);
  }

  double run(uint64_t count) override {
    const auto work = [this](int thread, uint64_t repeats) {
      pair(pool_.handle(), info().size, streams_[static_cast<size_t>(thread) % streams_.size()].id(),
           repeats);
    };
    return time_threads(
               info().threads, [&](int thread) { work(thread, std::min(count, kWarmUp)); },
               [&](int thread) { work(thread, count); }) /
           static_cast<double>(count);
  }

 private:
  Pool pool_;
  std::vector<Stream> streams_;
};

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

class RecordedPairCase : public BenchCase {
 public:
  RecordedPairCase(const Config& config, CaseInfo info)
      : BenchCase(std::move(info)), pool_(create_pool(config)), stream_(pool_) {}

  double run(uint64_t count) override {
    const TemporaryRecording recording;  // of this run alone, so that its file stays small
    return time_one_thread(
        count, [this](uint64_t repeats) { pair(pool_.handle(), info().size, stream_.id(), repeats); });
  }

 private:
  Pool pool_;
  Stream stream_;
};

class StreamsCase : public BenchCase {
 public:
  StreamsCase(const Config& config, CaseInfo info, size_t streams)
      : BenchCase(std::move(info)), pool_(create_pool(config)) {
    for (size_t i = 0; i < streams; ++i) streams_.emplace_back(pool_);
  }

  double run(uint64_t count) override {
    const auto work = [this](int thread, uint64_t repeats) {
      std::minstd_rand random(static_cast<unsigned>(thread) + 1);
      const bool wanders = info().threads > 1;
      for (uint64_t i = 0; i < repeats; ++i)
        pair(pool_.handle(), info().size, streams_[(wanders ? random() : i) % streams_.size()].id(), 1);
    };
    return time_threads(
               info().threads, [&](int thread) { work(thread, kWarmUp * 10); },
               [&](int thread) { work(thread, count); }) /
           static_cast<double>(count);
  }

 private:
  Pool pool_;
  std::vector<Stream> streams_;
};

class SizesCase : public BenchCase {
 public:
  SizesCase(const Config& config, CaseInfo info, size_t sizes)
      : BenchCase(std::move(info)), pool_(create_pool(config)), stream_(pool_), sizes_(sizes) {}

  double run(uint64_t count) override {
    return time_one_thread(count, [this](uint64_t repeats) {
      for (uint64_t i = 0; i < repeats; ++i) pair(pool_.handle(), 512 * (1 + i % sizes_), stream_.id(), 1);
    });
  }

 private:
  Pool pool_;
  Stream stream_;
  size_t sizes_;
};

class ParkedPairCase : public BenchCase {
 public:
  ParkedPairCase(const Config& config, CaseInfo info)
      : BenchCase(std::move(info)), pool_(create_pool(config)), stream_(pool_) {}

  double run(uint64_t count) override {
    return time_one_thread(count, [this](uint64_t repeats) {
      for (uint64_t i = 0; i < repeats; ++i) {
        pair(pool_.handle(), info().size, stream_.id(), 1);
        pool_.park_stream(stream_);
      }
    });
  }

 private:
  Pool pool_;
  Stream stream_;
};

class FreeElsewhereCase : public BenchCase {
 public:
  FreeElsewhereCase(const Config& config, CaseInfo info)
      : BenchCase(std::move(info)), pool_(create_pool(config)), stream_(pool_) {}

  double run(uint64_t count) override {
    const auto make = [this] {
      gpupool_ptr_t pointer = 0;
      check(gpupool_malloc(pool_.handle(), info().size, stream_.id(), &pointer));
      return pointer;
    };
    const auto use = [this](gpupool_ptr_t pointer) {
      check(gpupool_free(pool_.handle(), pointer, stream_.id()));
    };
    return through_ring(
        count, [] {}, make, use);
  }

 private:
  Pool pool_;
  Stream stream_;
};

class RingCase : public BenchCase {
 public:
  explicit RingCase(CaseInfo info) : BenchCase(std::move(info)) {}

  double run(uint64_t count) override { return time_ring(count); }
};

class ChurnCase : public BenchCase {
 public:
  ChurnCase(const Config& config, CaseInfo info)
      : BenchCase(std::move(info)),
        pool_(create_pool(config)),
        stream_(pool_),
        pointers_(this->info().live_blocks) {
    std::uniform_real_distribution<double> exponent(std::log2(kSmallest),
                                                    std::log2(static_cast<double>(this->info().size)));
    for (uint64_t& size : sizes_) size = static_cast<uint64_t>(std::exp2(exponent(random_)));
  }

  ~ChurnCase() override {
    for (const gpupool_ptr_t pointer : pointers_) gpupool_free(pool_.handle(), pointer, stream_.id());
  }
  ChurnCase(const ChurnCase&) = delete;
  ChurnCase& operator=(const ChurnCase&) = delete;

  double run(uint64_t count) override {
    return time_threads(
               1, [&](int) { prepare(); }, [&](int) { replace(count); }) /
           static_cast<double>(count);
  }

 private:
  static constexpr double kSmallest = 512;

  /// The first time, fills the pool and lets it settle.
  void prepare() {
    if (is_prepared_) return;
    for (gpupool_ptr_t& pointer : pointers_) malloc_into(pointer, random_());
    replace(2 * pointers_.size());
    is_prepared_ = true;
  }

  void replace(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t random = random_();
      // The high half picks the block without a division; the low bits pick the size.
      gpupool_ptr_t& pointer = pointers_[((random >> 32) * pointers_.size()) >> 32];
      check(gpupool_free(pool_.handle(), pointer, stream_.id()));
      malloc_into(pointer, random);
    }
  }

  void malloc_into(gpupool_ptr_t& pointer, uint64_t random) {
    pointer = 0;
    const uint64_t size = sizes_[random % sizes_.size()];
    check(gpupool_malloc(pool_.handle(), size, stream_.id(), &pointer));
  }

  Pool pool_;
  Stream stream_;
  std::mt19937_64 random_;  // seeded the same in every run
  std::array<uint64_t, 1 << 16> sizes_{};
  std::vector<gpupool_ptr_t> pointers_;
  bool is_prepared_ = false;
};

class MutexCase : public BenchCase {
 public:
  MutexCase() : BenchCase({"mutex", 0, 1, 0}) {}

  double run(uint64_t count) override {
    return time_one_thread(count, [this](uint64_t repeats) {
      for (uint64_t i = 0; i < repeats; ++i) {
        mutex_.lock();
        keep(mutex_);
        mutex_.unlock();
      }
    });
  }

 private:
  std::mutex mutex_;
};

class LibcCase : public BenchCase {
 public:
  explicit LibcCase(uint64_t size) : BenchCase({"libc", size, 1, 0}) {}

  double run(uint64_t count) override {
    return time_one_thread(count, [this](uint64_t repeats) {
      for (uint64_t i = 0; i < repeats; ++i) {
        void* pointer = std::malloc(info().size);
        keep(pointer);
        std::free(pointer);
      }
    });
  }
};

}  // namespace

std::unique_ptr<BenchCase> make_pair_case(const Config& config, CaseInfo info, bool is_one_stream) {
  return std::make_unique<PairCase>(config, std::move(info), is_one_stream);
}

std::unique_ptr<BenchCase> make_recorded_pair_case(const Config& config, CaseInfo info) {
  return std::make_unique<RecordedPairCase>(config, std::move(info));
}

std::unique_ptr<BenchCase> make_streams_case(const Config& config, CaseInfo info, size_t streams) {
  return std::make_unique<StreamsCase>(config, std::move(info), streams);
}

std::unique_ptr<BenchCase> make_sizes_case(const Config& config, CaseInfo info, size_t sizes) {
  return std::make_unique<SizesCase>(config, std::move(info), sizes);
}

std::unique_ptr<BenchCase> make_parked_pair_case(const Config& config, CaseInfo info) {
  return std::make_unique<ParkedPairCase>(config, std::move(info));
}

std::unique_ptr<BenchCase> make_free_elsewhere_case(const Config& config, CaseInfo info) {
  return std::make_unique<FreeElsewhereCase>(config, std::move(info));
}

std::unique_ptr<BenchCase> make_ring_case(CaseInfo info) {
  return std::make_unique<RingCase>(std::move(info));
}

std::unique_ptr<BenchCase> make_churn_case(const Config& config, CaseInfo info) {
  return std::make_unique<ChurnCase>(config, std::move(info));
}

std::unique_ptr<BenchCase> make_mutex_case() {
  return std::make_unique<MutexCase>();
}

std::unique_ptr<BenchCase> make_libc_case(uint64_t size) {
  return std::make_unique<LibcCase>(size);
}

}  // namespace gpupool::cli
