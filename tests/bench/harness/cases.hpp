// SPDX-License-Identifier: Apache-2.0
// What `PEER bench` measures: the cases of `gpupool bench`, over any peer. See harness.hpp for what a peer
// is.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/measure/mixed_sizes.hpp"
#include "cli/measure/ring.hpp"
#include "cli/measure/workers.hpp"
#include "latency.hpp"

namespace gpupool_bench {

constexpr uint64_t kKiB = uint64_t{1} << 10;
constexpr uint64_t kMiB = uint64_t{1} << 20;

template <class Peer>
uint64_t must_malloc(Peer& peer, uint64_t bytes, typename Peer::Stream stream) {
  const uint64_t address = peer.malloc(bytes, stream);
  if (address == 0) throw std::runtime_error("out of memory");
  return address;
}

/// What a thread of a program does once before it allocates, where the peer needs that.
template <class Peer>
void enter_thread() {
  if constexpr (requires { Peer::enter_thread(); }) Peer::enter_thread();
}

/// A malloc and its free, again and again, by several threads on some streams.
template <class Peer>
class PairCase {
 public:
  using Stream = typename Peer::Stream;

  PairCase(int threads, size_t streams) : peer_(0), threads_(threads) {
    for (size_t i = 0; i < streams; ++i) streams_.push_back(peer_.new_stream());
  }
  virtual ~PairCase() = default;
  PairCase(const PairCase&) = delete;
  PairCase& operator=(const PairCase&) = delete;

  double run(uint64_t count) {
    constexpr uint64_t kWarmUp = 2048;  // each of the sizes in turn
    return gpupool::cli::time_threads(
               threads_,
               [&](int thread) {
                 enter_thread<Peer>();
                 work(thread, std::min(count, kWarmUp));
               },
               [&](int thread) { work(thread, count); }) /
           static_cast<double>(count);
  }

 protected:
  void pair(uint64_t size, Stream stream) { peer_.free(must_malloc(peer_, size, stream), size, stream); }
  Stream stream(size_t number) const { return streams_[number % streams_.size()]; }

 private:
  virtual void work(int thread, uint64_t repeats) = 0;

  Peer peer_;
  int threads_;
  std::vector<Stream> streams_;
};

/// Of one size, each thread on a stream of its own, or all on one.
template <class Peer>
class OneSizeCase : public PairCase<Peer> {
 public:
  OneSizeCase(uint64_t size, int threads, bool is_one_stream)
      : PairCase<Peer>(threads, is_one_stream ? 1 : static_cast<size_t>(threads)), size_(size) {}

 private:
  void work(int thread, uint64_t repeats) override {
    const auto stream = this->stream(static_cast<size_t>(thread));
    for (uint64_t i = 0; i < repeats; ++i) this->pair(size_, stream);
  }

  uint64_t size_;
};

/// Of many sizes in turn, multiples of 512.
template <class Peer>
class SizesCase : public PairCase<Peer> {
 public:
  explicit SizesCase(size_t sizes) : PairCase<Peer>(1, 1), sizes_(sizes) {}

 private:
  void work(int, uint64_t repeats) override {
    for (uint64_t i = 0; i < repeats; ++i) this->pair(512 * (1 + i % sizes_), this->stream(0));
  }

  size_t sizes_;
};

/// Of any of several sizes on any of the streams, as with tasks that move between threads.
template <class Peer>
class WanderingCase : public PairCase<Peer> {
 public:
  using PairCase<Peer>::PairCase;

 private:
  void work(int thread, uint64_t repeats) override {
    std::minstd_rand random(static_cast<unsigned>(thread) + 1);
    for (uint64_t i = 0; i < repeats; ++i) {
      const auto stream = this->stream(random());
      this->pair(gpupool::cli::kMixedSizes[random() % gpupool::cli::kMixedSizes.size()], stream);
    }
  }
};

/// The yardstick: lock and unlock of a mutex that nobody else wants.
class MutexCase {
 public:
  double run(uint64_t count) {
    const auto work = [&](int) {
      for (uint64_t i = 0; i < count; ++i) {
        mutex_.lock();
        asm volatile("" : : "g"(&mutex_) : "memory");
        mutex_.unlock();
      }
    };
    return gpupool::cli::time_threads(
               1, [](int) {}, work) /
           static_cast<double>(count);
  }

 private:
  std::mutex mutex_;
};

/// One thread allocates, and another frees what it gets from the first.
template <class Peer>
class FreeElsewhereCase {
 public:
  /// 0: several sizes in turn.
  explicit FreeElsewhereCase(uint64_t size) : peer_(0), size_(size), stream_(peer_.new_stream()) {}

  double run(uint64_t count) {
    const auto next = [size = size_](gpupool::cli::SizesInTurn& sizes) {
      return size != 0 ? size : sizes.next();
    };
    gpupool::cli::SizesInTurn made;
    gpupool::cli::SizesInTurn freed;
    return gpupool::cli::through_ring(
        count, enter_thread<Peer>, [&] { return must_malloc(peer_, next(made), stream_); },
        [&](uint64_t address) { peer_.free(address, next(freed), stream_); });
  }

 private:
  Peer peer_;
  uint64_t size_;
  typename Peer::Stream stream_;
};

/// The yardstick for it: handing addresses over, and nothing else.
class RingCase {
 public:
  double run(uint64_t count) { return gpupool::cli::time_ring(count); }
};

/// Many live blocks, of which a random one is freed and replaced by one of another size, from 512 bytes to
/// `size`, evenly spread in their logarithm.
template <class Peer>
class Churn {
 public:
  static constexpr size_t kSizes = 1 << 16;

  Churn(uint64_t live_blocks, uint64_t size) : peer_(0), stream_(peer_.new_stream()), blocks_(live_blocks) {
    std::uniform_real_distribution<double> exponent(9, std::log2(static_cast<double>(size)));
    for (uint64_t& each : sizes_) each = static_cast<uint64_t>(std::exp2(exponent(random_)));
    for (Block& block : blocks_) fill(block, random_());
    for (uint64_t i = 0; i < 2 * live_blocks; ++i) replace();
  }
  ~Churn() {
    for (const Block& block : blocks_) peer_.free(block.address, block.bytes, stream_);
  }
  Churn(const Churn&) = delete;
  Churn& operator=(const Churn&) = delete;

  void replace() { fill(free_one(), random_()); }

  /// The same with a clock around the malloc, which goes to `histogram`.
  void replace_timed(Histogram& histogram) {
    Block& block = free_one();
    const uint64_t random = random_();
    const Clock::time_point start = Clock::now();
    fill(block, random);
    histogram.add(nanoseconds_since(start));
  }

  double run(uint64_t count) {
    const auto work = [&](int) {
      for (uint64_t i = 0; i < count; ++i) replace();
    };
    return gpupool::cli::time_threads(
               1, [](int) { enter_thread<Peer>(); }, work) /
           static_cast<double>(count);
  }

  Peer& peer() { return peer_; }

 private:
  struct Block {
    uint64_t address;
    uint64_t bytes;
  };
  Block& free_one() {
    // The high half picks without a division.
    Block& block = blocks_[((random_() >> 32) * blocks_.size()) >> 32];
    peer_.free(block.address, block.bytes, stream_);
    return block;
  }

  void fill(Block& block, uint64_t random) {
    block.bytes = sizes_[random % sizes_.size()];
    block.address = must_malloc(peer_, block.bytes, stream_);
  }

  Peer peer_;
  typename Peer::Stream stream_;
  std::mt19937_64 random_;  // seeded the same in every run
  std::array<uint64_t, kSizes> sizes_{};
  std::vector<Block> blocks_;
};

}  // namespace gpupool_bench
