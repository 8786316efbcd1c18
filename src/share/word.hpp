// SPDX-License-Identifier: Apache-2.0
// The budget word: what all members of a group have taken together, changed by a compare-and-swap. Any member
// can find out later whether a change happened.
//
// A member announces what it is about to do (`intent`), does it in the word, and enters it in its own account
// (`state`). It may be killed at any instruction: the next holder of its place sees from the announcement and
// the word whether the change was made. Because others overwrite the word, each first records for the last
// writer, in that writer's `done`, what it saw there. There is no lock, so a stopped member delays nobody.
//
//   word    used (32 bits of 512 bytes) | last writer's slot (8) | number of its change (24)
//   state   amount (40 bits)            | number of the last change entered (24)
//   intent  by how much (40, signed)    | number of the change (24)
//   done    number of the last change that another member saw in the word
//
// Numbers are never reset, so a place can be reused as it is. tests/share/word_model_test.cpp tries every
// interleaving, with deaths at every step.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/spin_lock.hpp"

namespace gpupool::internal::share {

/// Amounts in the word are in units of this many bytes.
inline constexpr uint64_t kUnitBytes = 512;
/// The most that the word can count: 2 TiB less one unit.
inline constexpr uint64_t kMostUnits = (uint64_t{1} << 32) - 1;

using Word = std::atomic<uint64_t>;
static_assert(Word::is_always_lock_free, "the word is shared by processes");

/// A member's part of the protocol. In shared memory. Others write `done`, the owner the rest: on lines of
/// their own, so that the owner's stay in its core.
struct Account {
  Word state;
  Word intent;
  alignas(64) Word done;
};

namespace word {

inline constexpr uint64_t kNumbers = uint64_t{1} << 24;

constexpr uint64_t number_of(uint64_t value) noexcept {
  return value & (kNumbers - 1);
}
constexpr uint64_t after(uint64_t number) noexcept {
  return (number + 1) & (kNumbers - 1);
}
constexpr int64_t amount_of(uint64_t value) noexcept {
  return static_cast<int64_t>(value) >> 24;
}
constexpr uint64_t entry(int64_t amount, uint64_t number) noexcept {
  return static_cast<uint64_t>(amount) << 24 | number;
}
constexpr uint64_t used_of(uint64_t value) noexcept {
  return value >> 32;
}
constexpr uint32_t writer_of(uint64_t value) noexcept {
  return static_cast<uint32_t>(value >> 24 & 0xff);
}
constexpr uint64_t make(uint64_t used, uint32_t writer, uint64_t number) noexcept {
  return used << 32 | uint64_t{writer} << 24 | number;
}

/// The used amount after a change; corrupt values saturate instead of wrapping around.
constexpr uint64_t changed(uint64_t used, int64_t delta) noexcept {
  const int64_t sum = static_cast<int64_t>(used) + delta;
  if (sum < 0) return 0;
  return sum > static_cast<int64_t>(kMostUnits) ? kMostUnits : static_cast<uint64_t>(sum);
}

/// Records for the writer of the value seen in the word that its change was made, before the value is
/// overwritten. The second read of the word keeps a member that was stopped in between from undoing a later
/// record. False: the word has changed, read it again.
inline bool note(const Word& word, Account& writer, uint64_t seen) noexcept {
  uint64_t done = writer.done.load(std::memory_order_acquire);
  if (word.load(std::memory_order_seq_cst) != seen) return false;
  const uint64_t number = number_of(seen);
  return done == number || writer.done.compare_exchange_strong(done, number, std::memory_order_seq_cst);
}

/// Waits after a collision, longer after each. Whoever made its change can make many more meanwhile, with the
/// word in its core; if all tried again at once, the word would go from core to core for every change.
class Backoff {
 public:
  void wait() noexcept {
    for (uint32_t i = 0; i < pauses_; ++i) cpu_relax();
    pauses_ = std::min(2 * pauses_, kMostPauses);
  }

 private:
  static constexpr uint32_t kMostPauses = 1024;  // 50 us

  uint32_t pauses_ = 64;
};

/// Changes the used amount by `delta` units for the owner of an account, or for the holder of a dead owner's
/// place. `account_of(slot)` returns the account of each slot below 256. False, and nothing changed, if that
/// would exceed `limit`.
template <typename AccountOf>
bool change(Word& word, AccountOf account_of, uint32_t self, int64_t delta, uint64_t limit) noexcept {
  Account& own = account_of(self);
  const uint64_t state = own.state.load(std::memory_order_acquire);
  const uint64_t number = after(number_of(state));
  own.intent.store(entry(delta, number), std::memory_order_release);
  Backoff backoff;
  for (;; backoff.wait()) {
    uint64_t seen = word.load(std::memory_order_seq_cst);
    const uint64_t then = changed(used_of(seen), delta);
    if (delta > 0 && then > limit) return false;
    const uint32_t writer = writer_of(seen);
    if (writer != self && !note(word, account_of(writer), seen)) continue;
    if (word.compare_exchange_weak(seen, make(then, self, number), std::memory_order_seq_cst)) break;
  }
  own.state.store(entry(amount_of(state) + delta, number), std::memory_order_release);
  return true;
}

/// What a member has taken, including its last change if that was made: `seen` must be read from the word
/// after its state and intent.
inline uint64_t resolved(uint32_t slot, const Account& account, uint64_t state, uint64_t intent,
                         uint64_t seen) noexcept {
  const uint64_t number = number_of(intent);
  if (number != after(number_of(state))) return state;
  const bool is_in_word = writer_of(seen) == slot && number_of(seen) == number;
  if (!is_in_word && account.done.load(std::memory_order_seq_cst) != number) return state;
  return entry(amount_of(state) + amount_of(intent), number);
}

/// Enters the last change of an owner that died before it could do so, if the change was made. The caller
/// holds its place.
inline void resolve(const Word& word, uint32_t slot, Account& account) noexcept {
  const uint64_t state = account.state.load(std::memory_order_acquire);
  const uint64_t intent = account.intent.load(std::memory_order_acquire);
  const uint64_t now = resolved(slot, account, state, intent, word.load(std::memory_order_seq_cst));
  if (now != state) account.state.store(now, std::memory_order_release);
}

}  // namespace word
}  // namespace gpupool::internal::share
