// SPDX-License-Identifier: Apache-2.0
// A model of the budget word's protocol (src/share/word.hpp), and a checker that tries every interleaving:
// three members, with a possible death before each access to shared memory, of members and of those that
// clean up after them. Deliberate faults in the model show that the checker finds them.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <unordered_set>
#include <utility>
#include <vector>

namespace {

enum class Fault {
  none,
  no_note,          // the last writer is overwritten without a note for it
  note_read_first,  // who resolves looks for the note before it looks at the word
  no_second_look,   // a note is made without looking whether the word is still the same
  entered_first,    // the account is changed before the word
  no_resolve,       // what a dead member was about to do is ignored
};

constexpr int kSlots = 3;
constexpr int kLimit = 2;
constexpr std::array<std::array<int, 2>, kSlots> kScripts = {{{1, -1}, {1, -1}, {1, 0}}};

/// One change of the word, as each sees it.
struct Word {
  uint8_t used = 0;
  uint8_t writer = 0;
  uint8_t number = 0;
  bool operator==(const Word&) const = default;
};

enum Step : uint8_t {
  idle,
  announce,
  read_word,
  read_note,
  look_again,
  make_note,
  swap_word,
  enter,
  resolve_word,
  resolve_note,
  resolve_note_first,
  resolve_enter,
  dead,
};

struct Slot {
  // Shared.
  uint8_t amount = 0;
  uint8_t number = 0;
  int8_t intent = 0;
  uint8_t intent_number = 0;
  uint8_t done = 0;
  // Of whoever holds the place.
  uint8_t step = idle;
  uint8_t is_janitor = 0;
  uint8_t next = 0;  // of its script
  int8_t delta = 0;
  Word seen;
  uint8_t note = 0;
  // What really happened, which nobody in the model can see.
  uint8_t truth = 0;
};

struct State {
  Word word;
  uint8_t deaths = 0;
  std::array<Slot, kSlots> slots;
};
static_assert(sizeof(State) == 4 + kSlots * 14, "no padding: states are compared by their bytes");

struct Key {
  std::array<char, sizeof(State)> bytes;
  bool operator==(const Key&) const = default;
};
struct Hash {
  size_t operator()(const Key& key) const {
    uint64_t hash = 1469598103934665603U;
    for (const char c : key.bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
    return hash ^ hash >> 29;
  }
};

class Checker {
 public:
  Checker(Fault fault, int deaths) : fault_(fault), deaths_(deaths) {}

  /// The number of states, all of them good; 0: a bad one was found, and `why` says how it is bad.
  size_t run() {
    visit(State{});
    while (!open_.empty() && why == nullptr) {
      const State state = open_.back();
      open_.pop_back();
      bool moved = false;
      for (int who = 0; who < kSlots; ++who) moved = advance(state, who) || moved;
      if (!moved) check_rest(state);
    }
    return why == nullptr ? seen_.size() : 0;
  }

  const char* why = nullptr;

 private:
  void visit(const State& state) {
    Key key;
    std::memcpy(key.bytes.data(), &state, sizeof state);
    if (seen_.insert(key).second) open_.push_back(state);
  }

  void check(bool good, const char* what) {
    if (!good && why == nullptr) why = what;
  }

  /// Nobody has anything left to do.
  void check_rest(const State& state) {
    int sum = 0;
    for (const Slot& slot : state.slots) sum += slot.amount;
    check(sum == state.word.used, "used is not the sum of the amounts");
  }

  /// All that the holder of a place may do next, a death included; false where there is nothing.
  bool advance(const State& state, int who) {
    const Slot& slot = state.slots[who];
    State next = state;
    Slot& self = next.slots[who];
    if (slot.step == dead) {
      // Its lock is free: somebody takes its place to clean up.
      self.is_janitor = 1;
      start_resolving(self);
      visit(next);
      return true;
    }
    if (slot.step == idle && !begin(self, who)) return false;
    if (slot.step != idle && state.deaths < deaths_) {
      State without = state;
      ++without.deaths;
      without.slots[who].step = dead;
      forget(without.slots[who]);
      visit(without);
    }
    if (slot.step != idle) access(next, who);
    visit(next);
    return true;
  }

  /// The next change of the script begins.
  static bool begin(Slot& self, int who) {
    if (self.is_janitor != 0 || self.next >= kScripts[who].size() || kScripts[who][self.next] == 0)
      return false;
    self.delta = static_cast<int8_t>(kScripts[who][self.next++]);
    if (self.delta < 0 && self.amount == 0) {
      self.delta = 0;  // what it was to put back was refused
      return true;
    }
    self.step = announce;
    return true;
  }

  static void forget(Slot& self) {
    self.seen = {};
    self.note = 0;
    self.delta = 0;
  }

  void start_resolving(Slot& self) const {
    if (fault_ == Fault::no_resolve || self.intent_number != self.number + 1) {
      start_reclaiming(self);
    } else {
      self.step = fault_ == Fault::note_read_first ? resolve_note_first : resolve_word;
    }
  }

  static void start_reclaiming(Slot& self) {
    forget(self);
    self.delta = static_cast<int8_t>(-self.amount);
    self.step = self.delta == 0 ? idle : announce;
  }

  void end_change(Slot& self) {
    check(self.amount == self.truth, "an account is not what was taken");
    forget(self);
    self.step = idle;
  }

  /// One access to shared memory.
  void access(State& state, int who) {
    Slot& self = state.slots[who];
    const uint8_t number = static_cast<uint8_t>(self.number + 1);
    switch (self.step) {
      case announce:
        self.intent = self.delta;
        self.intent_number = number;
        self.step = fault_ == Fault::entered_first ? enter : read_word;
        return;
      case read_word:
        self.seen = state.word;
        if (self.delta > 0 && self.seen.used + self.delta > kLimit) {
          end_change(self);
        } else if (self.seen.writer == who || fault_ == Fault::no_note) {
          self.step = swap_word;
        } else {
          self.step = read_note;
        }
        return;
      case read_note:
        self.note = state.slots[self.seen.writer].done;
        self.step = fault_ == Fault::no_second_look ? make_note : look_again;
        return;
      case look_again: self.step = state.word == self.seen ? make_note : read_word; return;
      case make_note: {
        uint8_t& done = state.slots[self.seen.writer].done;
        const bool is_there = self.note == self.seen.number;
        const bool is_made = is_there || done == self.note;
        if (is_made && !is_there) done = self.seen.number;
        self.step = is_made ? swap_word : read_word;
        return;
      }
      case swap_word:
        if (state.word != self.seen) {
          self.step = read_word;
          return;
        }
        // The number is entered already where the fault enters it first.
        state.word = {static_cast<uint8_t>(self.seen.used + self.delta), static_cast<uint8_t>(who),
                      fault_ == Fault::entered_first ? self.number : number};
        check(state.word.used <= kLimit, "more is used than the limit allows");
        self.truth = static_cast<uint8_t>(self.truth + self.delta);
        if (fault_ == Fault::entered_first) {
          end_change(self);
        } else {
          self.step = enter;
        }
        return;
      case enter:
        self.amount = static_cast<uint8_t>(self.amount + self.delta);
        self.number = number;
        if (fault_ == Fault::entered_first) {
          self.step = read_word;
        } else {
          end_change(self);
        }
        return;
      case resolve_note_first:
        self.note = self.done;
        self.step = resolve_word;
        return;
      case resolve_word:
        if (state.word.writer == who && state.word.number == self.intent_number) {
          self.step = resolve_enter;
        } else if (fault_ == Fault::note_read_first) {
          self.step = self.note == self.intent_number ? resolve_enter : idle;
          if (self.step == idle) finish_resolving(self);
        } else {
          self.step = resolve_note;
        }
        return;
      case resolve_note:
        self.step = resolve_enter;
        if (self.done != self.intent_number) finish_resolving(self);
        return;
      case resolve_enter:
        self.amount = static_cast<uint8_t>(self.amount + self.intent);
        self.number = self.intent_number;
        finish_resolving(self);
        return;
      default: return;
    }
  }

  void finish_resolving(Slot& self) {
    check(self.amount == self.truth, "an account that was resolved is not what was taken");
    start_reclaiming(self);
  }

  Fault fault_;
  int deaths_;
  std::unordered_set<Key, Hash> seen_;
  std::vector<State> open_;
};

TEST(WordModel, F5_ThreeMembersAndThreeDeathsAreConsistentInEveryInterleaving) {
  Checker checker(Fault::none, 3);
  const size_t states = checker.run();
  EXPECT_EQ(checker.why, nullptr) << checker.why;
  EXPECT_GT(states, 1'000'000U) << "so few states are not all interleavings";
  RecordProperty("states", std::to_string(states));
}

TEST(WordModel, F5_EveryFaultThatIsPutInIsFound) {
  for (const Fault fault : {Fault::no_note, Fault::note_read_first, Fault::no_second_look,
                            Fault::entered_first, Fault::no_resolve}) {
    Checker checker(fault, 3);
    EXPECT_EQ(checker.run(), 0U) << "fault " << static_cast<int>(fault) << " was not found";
    EXPECT_NE(checker.why, nullptr);
  }
}

}  // namespace
