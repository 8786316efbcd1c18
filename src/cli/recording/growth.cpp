// SPDX-License-Identifier: Apache-2.0
#include "cli/recording/growth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "cli/base/size.hpp"

namespace gpupool::cli {
namespace {

constexpr size_t kMostWindows = 1024;

/// A program without a leak that holds now more, now less shows growth about as often.
constexpr double kChance = 1.0 / 4000;
constexpr size_t kMostPieces = 16;
/// Of slopes between any two of so many points.
constexpr size_t kPoints = 128;

/// Where nobody marks.
constexpr size_t kLooks = 4096;
constexpr uint64_t kLongGap = 32;                  // times the usual gap
constexpr size_t kLeastMallocs = 4 * kMostPieces;  // the start of a program may be all that there is of it

/// How many of so many pieces of a run must each have held less, at their least, than all behind them. If
/// values come in no order, the piece that is the i-th from the end does so with a chance of 1 / i, whatever
/// the others do.
size_t needed_of(size_t pieces) {
  std::array<double, kMostPieces + 1> chances{1};
  for (size_t i = 1; i <= pieces; ++i) {
    const double chance = 1 / static_cast<double>(i);
    for (size_t n = i; n > 0; --n) chances[n] = chances[n] * (1 - chance) + chances[n - 1] * chance;
    chances[0] *= 1 - chance;
  }
  double sum = 0;
  size_t needed = pieces + 1;
  while (needed > 0 && sum + chances[needed - 1] <= kChance) sum += chances[--needed];
  return needed;
}

template <typename Value>
Value median(std::vector<Value> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

using Levels = std::vector<uint64_t>;

/// What was never given back later: at each window, the least from there on.
Levels lasting_of(const Levels& floors) {
  Levels lasting = floors;
  for (size_t i = lasting.size(); i-- > 1;) lasting[i - 1] = std::min(lasting[i - 1], lasting[i]);
  return lasting;
}

/// Whether it rises from `from` on in most pieces.
bool rises_from(const Levels& lasting, size_t from) {
  const size_t windows = lasting.size() - from;
  const size_t pieces = std::min(kMostPieces, windows);
  const auto rises_in = [&](size_t piece) {
    const size_t begin = from + windows * piece / pieces;
    return lasting[from + windows * (piece + 1) / pieces] > lasting[begin];
  };
  size_t risen = 1;  // what comes last has nothing behind it
  for (size_t i = 0; i + 1 < pieces; ++i) risen += rises_in(i) ? 1 : 0;
  return risen >= needed_of(pieces);
}

/// The most that was given back at once from `begin` on, before `end`.
uint64_t fallen_in(const Levels& floors, size_t begin, size_t end) {
  uint64_t most = 0;
  uint64_t fallen = 0;
  for (size_t i = begin; i < end; ++i) {
    most = std::max(most, floors[i]);
    fallen = std::max(fallen, most - floors[i]);
  }
  return fallen;
}

/// The slope of Theil and Sen, in bytes a window: the median of those between all pairs of points.
double slope_of(const Levels& lasting, size_t from) {
  const size_t step = (lasting.size() - from) / kPoints + 1;
  std::vector<double> slopes;
  for (size_t a = from; a < lasting.size(); a += step) {
    for (size_t b = a + step; b < lasting.size(); b += step) {
      slopes.push_back(static_cast<double>(lasting[b] - lasting[a]) / static_cast<double>(b - a));
    }
  }
  return median(std::move(slopes));
}

/// Windows in which more lasts than before.
std::vector<size_t> rises_of(const Levels& lasting) {
  std::vector<size_t> rises;
  for (size_t i = 0; i < lasting.size(); ++i) {
    if (lasting[i] > (i == 0 ? 0 : lasting[i - 1])) rises.push_back(i);
  }
  return rises;
}

/// A part of a program that says little of the rest.
constexpr size_t kLastPart = 8;

/// Whether the last rise is followed by a rest as there are others, or by a short last part of the program.
bool rises_to_end(const std::vector<size_t>& rises, size_t windows, size_t from) {
  const size_t rest = windows - 1 - rises.back();
  size_t longest = 0;
  for (size_t i = 1; i < rises.size(); ++i) {
    if (rises[i - 1] >= from) longest = std::max(longest, rises[i] - rises[i - 1]);
  }
  return rest <= std::max((windows - from) / kLastPart, std::min(2 * longest, (windows - from) / 4));
}

/// A rest between rises is long if it is more than so many times the mean.
constexpr size_t kLongRest = 8;

/// The first of the last rises with no long rest between them; of all of them, if those would be too few.
size_t begin_of(const std::vector<size_t>& rises, size_t windows) {
  const size_t longest =
      std::max(kLongRest * (rises.back() - rises.front()) / (rises.size() - 1), windows / kLastPart);
  size_t first = rises.size() - 1;
  while (first > 0 && rises[first] - rises[first - 1] <= longest) --first;
  return rises.size() - first < kLeastMarks ? 0 : first;
}

/// So few rises are no chance if nothing is given back, and they are even.
constexpr size_t kLeastEven = 5;

/// The first of the last rises that are even: of one amount, at distances that differ by a quarter at most.
/// None if they are too few, do not go on to the end, or are less than half of the run.
std::optional<size_t> begin_of_even(const Levels& floors, const Levels& lasting,
                                    const std::vector<size_t>& rises) {
  const auto amount = [&](size_t i) {
    return lasting[rises[i]] - (rises[i] == 0 ? 0 : lasting[rises[i] - 1]);
  };
  size_t first = rises.size() - 1;
  size_t shortest = floors.size();
  size_t longest = 0;
  for (; first > 0 && amount(first - 1) == amount(rises.size() - 1); --first) {
    const size_t distance = rises[first] - rises[first - 1];
    if (4 * std::max(longest, distance) > 5 * std::min(shortest, distance) + 4) break;
    shortest = std::min(shortest, distance);
    longest = std::max(longest, distance);
  }
  const size_t rest = floors.size() - 1 - rises.back();
  const bool is_even = rises.size() - first >= kLeastEven && rest <= longest &&
                       2 * (rises.back() - rises[first] + rest) >= floors.size() &&
                       fallen_in(floors, rises[first], floors.size()) == 0;
  return is_even ? std::optional(first) : std::nullopt;
}

/// How it grows, of which `first` is the first rise.
Growth describe(const Levels& lasting, const Moments& moments, const std::vector<size_t>& rises,
                size_t first) {
  const size_t since = rises[first];
  const size_t before = since == 0 ? 0 : since - 1;
  const double slope = slope_of(lasting, since);
  Growth growth;
  // At most what the slope comes to: the last level may be the top of a tooth, the first rise a warm-up.
  growth.bytes =
      std::min(lasting.back() - lasting[before],
               static_cast<uint64_t>(std::llround(slope * static_cast<double>(lasting.size() - 1 - before))));
  const size_t moment = since * moments.in_window();
  growth.since_ns = moments.ns[moment];
  if (moments.by != Moments::By::marks) {
    const double seconds = static_cast<double>(moments.ns.back() - growth.since_ns) / 1e9;
    growth.bytes_per_second =
        static_cast<uint64_t>(static_cast<double>(growth.bytes) / std::max(seconds, 1e-9));
    return growth;
  }
  growth.since_mark = moment + 1;
  growth.bytes_per_mark = growth.rise =
      static_cast<uint64_t>(std::llround(slope / static_cast<double>(moments.in_window())));
  growth.each = 1;
  const double rest =
      static_cast<double>(rises.back() - since) / static_cast<double>(rises.size() - 1 - first);
  if (rest < 1.5) return growth;
  growth.each = static_cast<uint64_t>(std::llround(rest * static_cast<double>(moments.in_window())));
  Levels amounts;
  for (size_t i = first + 1; i < rises.size(); ++i)
    amounts.push_back(lasting[rises[i]] - lasting[rises[i] - 1]);
  growth.rise = median(std::move(amounts));
  return growth;
}

Growth judge(const Levels& floors, const Moments& moments) {
  const Levels lasting = lasting_of(floors);
  const size_t windows = lasting.size();
  const std::vector<size_t> rises = rises_of(lasting);
  if (rises.size() < 2) return {};
  const std::optional<size_t> even = begin_of_even(floors, lasting, rises);
  // The first part may be the program's start: half of it, three quarters if what follows is long, and more
  // if it is very long.
  const std::array starts{size_t{0}, windows / 4, windows / 2, windows - windows / 4, windows - windows / 8};
  const bool is_growing =
      even || std::any_of(starts.begin(), starts.end(), [&](size_t from) {
        constexpr size_t kLong = 32;
        const size_t least = from > windows / 2 ? kLong : kLeastMarks;
        return windows - from >= least && rises_from(lasting, from) && rises_to_end(rises, windows, from);
      });
  if (!is_growing) return {};
  const size_t first = even ? *even : begin_of(rises, windows);
  Growth growth = describe(lasting, moments, rises, first);
  growth.is_even = even.has_value();
  // What was given back before it began is no leak if it comes again, unless it takes far longer. And what
  // goes up and down by chance, as a full cache does, is higher at some end too, but seldom by more than it
  // goes down. What becomes rare, as what is new to a cache does, will end.
  constexpr size_t kFarLonger = 6;
  constexpr std::ptrdiff_t kRare = 3;
  const size_t since = rises[first];
  const size_t middle = since + (windows - since) / 2;
  const bool comes_again =
      2 * fallen_in(floors, 0, since) >= growth.bytes && windows - since < kFarLonger * since;
  const auto begin = rises.begin() + static_cast<std::ptrdiff_t>(first);
  const auto half = std::lower_bound(begin, rises.end(), middle);
  const bool becomes_rare = half - begin > kRare * (rises.end() - half);
  const bool may_be_chance = fallen_in(floors, middle, windows) >= lasting.back() - lasting[middle];
  return comes_again || may_be_chance || becomes_rare ? Growth{} : growth;
}

/// A longer time between two events counts as this: it may be the machine's, busy with something else, and
/// not the program's.
uint64_t longest_gap(const std::vector<Happened>& events, size_t end) {
  std::vector<uint64_t> gaps(1, 0);
  for (size_t i = 1; i < end; ++i) gaps.push_back(events[i].ns - events[i - 1].ns);
  return std::max<uint64_t>(kLongGap * median(std::move(gaps)), 1);
}

bool is_malloc_of(const Happened& event, std::optional<uint64_t> pool) {
  return (event.kind == Kind::malloc || event.kind == Kind::have) && (!pool || event.pool == *pool);
}

}  // namespace

std::string Growth::words() const {
  const std::string since =
      fmt::format(" since {}", each != 0 ? fmt::format("mark {}", since_mark)
                                         : fmt::format("{:.3f} s", static_cast<double>(since_ns) / 1e9));
  if (each == 0) return format_bytes(bytes_per_second) + " a second" + since;
  return format_bytes(rise) + (each == 1 ? " each mark" : fmt::format(" each {} marks", each)) + since;
}

size_t Moments::in_window() const noexcept {
  return (at.size() + kMostWindows - 1) / kMostWindows;
}

size_t Moments::windows() const noexcept {
  return at.empty() ? 0 : (at.size() + in_window() - 1) / in_window();
}

Moments moments_of(const Recording& recording, std::optional<uint64_t> pool, Moments::By by) {
  const auto& events = recording.events;
  size_t end = events.size();
  while (end > 0 && !is_malloc_of(events[end - 1], pool)) --end;
  Moments moments{by, {}, {}};
  const auto add = [&](size_t i) {
    moments.at.push_back(i + 1);
    moments.ns.push_back(events[i].ns);
  };
  if (by == Moments::By::marks) {
    for (size_t i = 0; i < events.size(); ++i) {
      if (events[i].kind != Kind::mark) continue;
      add(i);
      if (i >= end) break;
    }
    return moments;
  }
  const auto mallocs = std::count_if(events.begin(), events.end(),
                                     [&](const Happened& event) { return is_malloc_of(event, pool); });
  if (static_cast<size_t>(mallocs) < kLeastMallocs) return moments;
  const uint64_t longest = by == Moments::By::time ? longest_gap(events, end) : 0;
  const auto is_free = [&](const Happened& event) {
    return event.kind == Kind::free && (!pool || event.pool == *pool);
  };
  // What only allocates, beside what frees too, may be loading what it needs.
  const auto at_end = events.begin() + static_cast<std::ptrdiff_t>(end);
  const bool frees_little = static_cast<size_t>(std::count_if(events.begin(), at_end, is_free)) < kLeastMarks;
  const auto step_to = [&](size_t i) {  // from the event before it
    if (by == Moments::By::frees)
      return uint64_t{frees_little ? is_malloc_of(events[i], pool) : is_free(events[i])};
    return i == 0 ? uint64_t{0} : std::min(events[i].ns - events[i - 1].ns, longest);
  };
  uint64_t whole = 0;
  for (size_t i = 0; i < end; ++i) whole += step_to(i);
  const double distance = static_cast<double>(whole) / kLooks;
  uint64_t position = 0;
  for (size_t i = 0; i < end; ++i) {
    const uint64_t step = step_to(i);
    position += step;
    const auto is_due = [&] {
      return static_cast<double>(position) >= distance * static_cast<double>(moments.at.size() + 1);
    };
    if (step == 0 || !is_due()) continue;
    add(i);
    // A rest is one moment's, however long.
    while (by == Moments::By::time && moments.at.size() < kLooks && is_due()) add(i);
  }
  return moments;
}

void Floor::change(const Moments& moments, size_t moment, uint64_t bytes) {
  if (next_ < moment) {
    const size_t first = next_ / moments.in_window();
    const size_t last = (moment - 1) / moments.in_window();
    // Its first window may have begun with another level, and its floor is then the lower one.
    const bool is_begun = next_ % moments.in_window() != 0;
    const auto put = [&](size_t window, uint64_t floor) {
      if (!runs_.empty() && runs_.back().window == window)
        runs_.back().bytes = floor;
      else if (runs_.empty() || runs_.back().bytes != floor)
        runs_.push_back({window, floor});
    };
    put(first, is_begun && !runs_.empty() ? std::min(runs_.back().bytes, bytes_) : bytes_);
    if (last != first) put(first + 1, bytes_);
    next_ = moment;
  }
  bytes_ = bytes;
}

Growth Floor::growth(const Moments& moments) {
  const size_t windows = moments.windows();
  change(moments, moments.at.size(), bytes_);
  if (windows < kLeastMarks || runs_.size() < kLeastEven) return {};
  Levels floors(windows);
  size_t run = 0;
  for (size_t i = 0; i < windows; ++i) {
    if (run + 1 < runs_.size() && runs_[run + 1].window == i) ++run;
    floors[i] = runs_[run].bytes;
  }
  return judge(floors, moments);
}

}  // namespace gpupool::cli
