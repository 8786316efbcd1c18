// SPDX-License-Identifier: Apache-2.0
// A lock and a hash table that need nothing but pages of the system: this library has a copy of the C library
// of its own, whose malloc does not know when the program's threads end. Both are valid as zeros.
#pragma once

#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gpupool::audit {

/// For a few instructions; a long waiter sleeps in between. Works with std::lock_guard.
class SpinLock {
 public:
  void lock() noexcept {
    constexpr int kTries = 200;  // a holder that runs needs far fewer
    for (int tries = 0; is_held_.exchange(true, std::memory_order_acquire); ++tries) {
      constexpr timespec kRest{0, 50'000};
      if (tries >= kTries) nanosleep(&kRest, nullptr);
    }
  }
  void unlock() noexcept { is_held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> is_held_;
};

inline uint64_t hash_of(uint64_t key) noexcept {
  const uint64_t product =
      key * 0x9e3779b97f4a7c15u;  // of the golden ratio: neighbours come to lie far apart
  return product ^ (product >> 32);
}

/// By keys other than 0, which are addresses or numbers.
template <typename Value>
class Table {
 public:
  Value* find(uint64_t key) noexcept {
    if (slots_ == nullptr || key == 0) return nullptr;
    Slot& slot = slots_[place_of(key)];
    return slot.key == key ? &slot.value : nullptr;
  }

  /// In place of what was there. False: the host has no memory for it.
  bool put(uint64_t key, const Value& value) noexcept {
    if (key == 0) return false;
    if (count_ * 2 >= room_ && !move_to(room_ != 0 ? room_ * 2 : kFirstRoom)) return false;
    Slot& slot = slots_[place_of(key)];
    if (slot.key == 0) ++count_;
    slot = {key, value};
    return true;
  }

  bool remove(uint64_t key, Value& removed) noexcept {
    if (slots_ == nullptr || key == 0) return false;
    const size_t at = place_of(key);
    if (slots_[at].key != key) return false;
    removed = slots_[at].value;
    remove_at(at);
    // One that was large once would cost misses of the processor's caches for ever.
    if (count_ * 16 < room_ && room_ > kFirstRoom) (void)move_to(room_ / 2);
    return true;
  }

  /// Looks at all; null: none is it.
  template <typename Function>
  Value* find_if(Function is_it) noexcept {
    for (size_t at = 0; at < room_; ++at)
      if (slots_[at].key != 0 && is_it(slots_[at].key, slots_[at].value)) return &slots_[at].value;
    return nullptr;
  }

  template <typename Function>
  void remove_if(Function is_to_go) noexcept {
    for (size_t at = 0; at < room_;) {
      if (slots_[at].key != 0 && is_to_go(slots_[at].value)) {
        remove_at(at);  // another one may now be here
      } else {
        ++at;
      }
    }
  }

 private:
  struct Slot {
    uint64_t key;
    Value value;
  };

  /// Where the key is, or else belongs.
  size_t place_of(uint64_t key) const noexcept {
    size_t at = hash_of(key) & (room_ - 1);
    while (slots_[at].key != 0 && slots_[at].key != key) at = (at + 1) & (room_ - 1);
    return at;
  }

  /// What lies behind moves up, so that no search ends too early.
  void remove_at(size_t hole) noexcept {
    const size_t last = room_ - 1;
    for (size_t at = (hole + 1) & last; slots_[at].key != 0; at = (at + 1) & last) {
      const size_t home = hash_of(slots_[at].key) & last;
      if (((at - home) & last) < ((at - hole) & last)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole].key = 0;
    --count_;
  }

  static constexpr size_t kFirstRoom = 128;

  bool move_to(size_t room) noexcept {
    void* const pages =
        mmap(nullptr, room * sizeof(Slot), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return false;
    const size_t old_room = std::exchange(room_, room);
    Slot* const old = std::exchange(slots_, static_cast<Slot*>(pages));
    for (size_t at = 0; at < old_room; ++at)
      if (old[at].key != 0) slots_[place_of(old[at].key)] = old[at];
    if (old != nullptr) munmap(old, old_room * sizeof(Slot));
    return true;
  }

  Slot* slots_;
  size_t room_;  // a power of 2, at most half of it in use
  size_t count_;
};

}  // namespace gpupool::audit
