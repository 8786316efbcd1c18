// SPDX-License-Identifier: Apache-2.0
// What a pattern is played on: a pool, a peer, or the simplest allocator that there is.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace hunt {

/// Streams and pools go by their numbers in the pattern. What an allocator lacks, it leaves out.
class Allocator {
 public:
  virtual ~Allocator() = default;
  /// Each thread calls this first.
  virtual void enter_thread() {}
  /// 0: there is no memory.
  virtual uint64_t malloc(int pool, uint64_t bytes, int stream) = 0;
  virtual void free(int pool, uint64_t address, uint64_t bytes, int stream) = 0;
  virtual void record_stream(int /*pool*/, uint64_t /*address*/, int /*stream*/) {}
  /// The stream works on a block.
  virtual void work(uint64_t /*address*/, int /*stream*/, uint64_t /*nanoseconds*/) {}
  virtual void begin_capture(int /*stream*/) {}
  virtual void end_capture(int /*stream*/) {}
  /// Time passes in which the host does something else.
  virtual void advance(uint64_t /*nanoseconds*/) {}
  virtual void synchronize() {}
  virtual uint64_t reserved_bytes() const = 0;
  /// How many locks its calls have taken so far, if that is counted.
  virtual uint64_t locks_taken() const { return 0; }
};

/// The least that a simple allocator needs: best fit with merging in one range of addresses for each pool,
/// which only grows, by granules. Streams wait for nobody.
class BestFit : public Allocator {
 public:
  explicit BestFit(size_t pools) : arenas_(pools) {}

  uint64_t malloc(int pool, uint64_t bytes, int stream) override;
  void free(int pool, uint64_t address, uint64_t bytes, int stream) override;
  /// What a graph frees stays its own until another is captured.
  void begin_capture(int stream) override;
  void end_capture(int stream) override;
  uint64_t reserved_bytes() const override;

 private:
  struct Arena {
    uint64_t end = 0;
    std::map<uint64_t, uint64_t> by_address;  // of free ranges: their sizes
    std::set<std::pair<uint64_t, uint64_t>> by_size;
  };
  static void put(Arena& arena, uint64_t address, uint64_t bytes);
  static void take(Arena& arena, std::map<uint64_t, uint64_t>::iterator range);

  std::vector<Arena> arenas_;
  bool is_capturing_ = false;
  std::vector<std::pair<uint64_t, uint64_t>> of_graph_;  // in the first arena: addresses and sizes
};

}  // namespace hunt
