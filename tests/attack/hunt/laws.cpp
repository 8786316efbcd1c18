// SPDX-License-Identifier: Apache-2.0
#include "attack/hunt/laws.hpp"

#include <limits>
#include <stdexcept>

namespace hunt {
namespace {

constexpr double kAnything = std::numeric_limits<double>::infinity();
/// A figure this far above a bound of 0 counts as the bound once more.
constexpr double kLeastBound = 1e-3;

/// Then time says nothing, and locks are not counted.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

/// What a program's beginning has left goes within a few windows of time (policy::kApartNs).
constexpr int64_t kMinutesMs = 300'000;

/// Room to come to rest in: the pool leaves an eighth of a limit free, and each stream may keep what it has.
bool has_room(const Pattern& pattern) {
  return pattern.limit == 0 || pattern.limit >= 200;
}

/// Frees that take the long way, as they must.
bool has_long_frees(const Pattern& pattern) {
  return pattern.record != 0 || pattern.debug == kQuarantine || pattern.captures != 0;
}

const LawText kTexts[] = {
    {"misses", "of each malloc",
     [](const Pattern& pattern) {
       const bool is_alone = pattern.threads == 1 || pattern.sizes == 0;
       return is_alone || has_long_frees(pattern) || pattern.limit != 0 ? kAnything : 0.05;
     },
     "threads that miss wait for each other; a twentieth is left to sizes whose places collide. In rest, a "
     "miss is"
     " also a block that was freed to a cache and drained from it. One thread's misses are judged by their "
     "time"},
    {"driver_calls", "of each malloc, beyond a thousandth of the time",
     [](const Pattern& pattern) {
       return pattern.sizes == 0 || !has_room(pattern) || pattern.slack != kUsual || pattern.gap < 50
                  ? kAnything
                  : 0.01;
     },
     "what repeats, and has room, comes to rest within eight periods; a slack asks for moves instead"},
    {"driver_time", "of the time",
     [](const Pattern& pattern) {
       if (pattern.slack != kUsual || pattern.gap < 50) return kAnything;
       if (has_room(pattern)) return 0.01;
       return pattern.limit >= 120 ? 0.02 : 0.05;
     },
     "moving memory may take a thousandth of the time, and some milliseconds more in all; near a limit, a "
     "twentieth is what a program still bears"},
    {"reserved", "of what best fit needs, and a granule",
     [](const Pattern& pattern) {
       // What a busy stream still uses waits, for which best fit does not.
       const bool waits = pattern.record != 0 && pattern.busy != 0;
       if (pattern.limit != 0 || waits) return kAnything;
       return pattern.rest * pattern.gap >= kMinutesMs ? 1.25 : 2.0;
     },
     "streams that keep apart have what each needs beside what another has left, but not once for each "
     "stream; what is left of a beginning goes within minutes"},
    {"locks", "of each call",
     [](const Pattern& pattern) {
       if (kIsSanitized) return kAnything;
       return has_long_frees(pattern) || pattern.limit != 0 ? 2.0 : 0.6;
     },
     "a malloc that misses takes one, and the free of its block none; frees that take the long way take "
     "theirs"},
    {"mean_ns", "of each call", [](const Pattern&) { return kIsSanitized ? kAnything : 1500.0; },
     "a miss without a driver call, and the free before it, take some hundred nanoseconds"},
    {"cached_ns", "of each call, if none misses",
     [](const Pattern& pattern) { return kIsSanitized || has_long_frees(pattern) ? kAnything : 100.0; },
     "a cached call takes 10 to 30 ns, and 60 where 20,000 blocks do not fit into the processor's caches"},
    {"longest_us", "of a call", [](const Pattern&) { return kIsSanitized ? kAnything : 200.0; },
     "no call does what grows with the blocks that others freed; a request of a server lasts a millisecond"},
    {"failures", "of each malloc",
     [](const Pattern& pattern) { return pattern.limit == 0 || pattern.limit >= 120 ? 0.0 : kAnything; },
     "a fifth of room is enough for any order of frees, since memory can be moved; a tenth is not, in "
     "granules"
     " of 2 MiB"},
    {"faults", "seen", [](const Pattern&) { return 0.0; },
     "no rule of the device is broken, the pool's records are right, and the process neither ends nor hangs"},
};

}  // namespace

std::span<const LawText> laws() {
  return kTexts;
}

Law law_named(const std::string& name) {
  for (size_t i = 0; i < kLawCount; ++i) {
    if (name == kTexts[i].name) return static_cast<Law>(i);
  }
  throw std::invalid_argument(name + " is not a law");
}

double excess(Law law, const Pattern& pattern, const Figures& figures) {
  const double bound = kTexts[law].bound(pattern);
  if (bound == kAnything) return 0;
  return bound == 0 ? figures.values[law] / kLeastBound : figures.values[law] / bound;
}

}  // namespace hunt
