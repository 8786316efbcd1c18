// SPDX-License-Identifier: Apache-2.0
// What the program has allocated of the driver, without gpupool's pools: told to a recording, which begins
// with the first of it, and shown on the page that `gpupool top` reads.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "frameworks/inject/device_words.hpp"
#include "os/mutex.hpp"
#include "watch/recorder.hpp"
#include "watch/stats_page.hpp"

namespace gpupool::inject {

enum class MemoryKind : uint32_t { device, pinned, managed };
inline constexpr uint32_t kMemoryKinds = 3;

struct Block {
  uint64_t bytes = 0;
  uint64_t stream = 0;
  const void* context = nullptr;  // with which it ends; null: it is a mapping, and ends with none
  uint32_t pool = 0;
  internal::StackId stack = 0;
};

/// Any thread may call. In a forked child nothing is recorded, since the driver does not work there.
class Ledger {
 public:
  /// There is one, for the life of the process. `plan`: what GPUPOOL_RECORD_DRIVER says.
  static Ledger& begin(internal::Plan plan, bool has_stacks);

  bool has_stacks() const { return has_stacks_; }
  /// Nothing is recorded any more. Takes no lock.
  bool is_over() const noexcept { return is_over_.load(std::memory_order_relaxed); }
  /// The number of what is allocated on a device in this way, of which the recording makes a pool of its own.
  static uint32_t pool_of(int device, MemoryKind kind) {
    return static_cast<uint32_t>(device) * kMemoryKinds + static_cast<uint32_t>(kind) + 1;
  }
  bool knows(uint32_t pool);
  void describe(uint32_t pool, const DeviceWords& device);

  /// The driver has given this; call it before the program knows. Said twice, it counts once.
  void take(uint64_t address, const Block& block);
  /// The driver gets it back; call it before it does, since another thread may be given the address next.
  void give(uint64_t address);
  /// What begins in these addresses is unmapped.
  void give_mappings(uint64_t address, uint64_t bytes);
  void end_context(const void* context);
  /// The driver had no memory.
  void refuse(uint32_t pool, uint64_t bytes);

 private:
  using Blocks = std::map<uint64_t, Block>;
  struct Pool {
    std::string words;  // for the recording
    wire::stats::Figures figures{};
    wire::stats::Slot* slot = nullptr;
    uint32_t named_in = 0;  // the recording that knows its words
  };

  Ledger(internal::Plan plan, bool has_stacks) : plan_(std::move(plan)), has_stacks_(has_stacks) {}

  bool is_open();
  void end_with(const char* what);
  bool start(internal::Plan plan);
  void take_turn();
  void stop();
  void name(uint32_t pool);
  internal::Entry entry(internal::EventKind kind, uint64_t address, const Block& block) const;
  Blocks::iterator drop(Blocks::iterator at);
  void show(Pool& pool) noexcept;
  void forget();

  static Ledger* only_;

  internal::os::Mutex lock_;
  internal::Plan plan_;  // until the recording has begun
  const bool has_stacks_;
  bool is_begun_ = false;
  std::atomic<bool> is_over_{false};
  Blocks blocks_;
  std::map<uint32_t, Pool> pools_;
};

}  // namespace gpupool::inject
