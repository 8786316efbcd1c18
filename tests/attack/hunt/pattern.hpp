// SPDX-License-Identifier: Apache-2.0
// What a program does over and over, as a few numbers. A pattern is drawn from a seed, and is a line of
// key=value; keys that have their usual value are left out.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace hunt {

using Random = std::mt19937_64;

/// On which of its streams a thread allocates the next block: always the same, the next one at each block or
/// at each batch, or any.
enum Route : int64_t { kFixed, kEachBlock, kEachBatch, kAnyStream };
/// Which block goes when `live` are there: the oldest, or any; or all of them, from the oldest, from the
/// newest, or in any order.
enum Order : int64_t { kOldest, kAny, kBatch, kStack, kShuffled };
enum Pick : int64_t { kInTurn, kAtRandom };
enum Slack : int64_t { kUsual, kTight, kTenth };
enum Debug : int64_t { kNoDebug, kGuard, kQuarantine };

struct Pattern {
  int64_t seed = 1;  // of everything "any" and "at random"
  int64_t threads = 1;
  int64_t streams = 1;
  int64_t own = 0;  // 1: each thread has its part of the streams for itself
  int64_t route = kFixed;
  int64_t sizes = 1;  // so many, from `low` to `high` in equal ratios; 0: each is new
  int64_t low = 4096;
  int64_t high = 4096;
  int64_t unit = 512;  // sizes are rounded up to it
  int64_t pick = kInTurn;
  int64_t live = 1;  // blocks of each thread at a time
  int64_t order = kOldest;
  int64_t steps = 100;    // mallocs of each thread in a period
  int64_t turn = 1;       // steps of a thread before the next thread goes on
  int64_t phases = 1;     // parts of a period; in each, sizes are three times those of the one before
  int64_t other = 0;      // 1: whenever `live` blocks were made, one of three times the size is
  int64_t elsewhere = 0;  // per cent of the frees that the next thread makes
  int64_t record = 0;     // per cent of the blocks that the next stream uses too
  int64_t busy = 0;       // per cent of the time that the GPU works on the blocks
  int64_t captures = 0;   // blocks that a graph captured in each period allocates and frees
  int64_t pools = 1;      // which take turns
  int64_t ballast = 0;    // MiB that are live throughout
  int64_t limit = 0;      // per cent of what is live at most; 0: none
  int64_t slack = kUsual;
  int64_t sample = 0;  // 1: as densely as is usual
  int64_t debug = kNoDebug;
  int64_t gap = 50;  // milliseconds of a period
  int64_t rest = 8;  // periods in which it should have come to rest

  bool operator==(const Pattern&) const = default;
};

/// A key of the line.
struct Field {
  const char* name;
  int64_t Pattern::*value;
  int64_t least;
  int64_t most;
  std::vector<int64_t> drawn;      // what draw() chooses from
  std::vector<const char*> words;  // of the values, from 0; none: numbers
};

std::span<const Field> fields();

/// Any pattern, of at most `bytes` live at a time.
Pattern draw(Random& random, uint64_t bytes);
/// Some keys of a pattern drawn anew.
Pattern change(const Pattern& pattern, Random& random, uint64_t bytes);
/// Values that contradict each other give way; `bytes` may be live at a time.
Pattern made_sound(Pattern pattern, uint64_t bytes);

std::string to_line(const Pattern& pattern);
/// Throws std::invalid_argument, with the word that was not understood.
Pattern from_line(const std::string& line);

}  // namespace hunt
