// SPDX-License-Identifier: Apache-2.0
#include "cli/recording/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_map>

namespace gpupool::cli {
namespace {

/// As many groups as there are colours that people tell apart; one more is for all others.
constexpr size_t kMostGroups = 10;

/// One way to divide live bytes into groups.
class Division {
 public:
  using KeyOf = std::function<uint64_t(const Happened&)>;
  using NameOf = std::function<std::string(uint64_t)>;

  Division(std::string what, KeyOf key_of, NameOf name_of)
      : what_(std::move(what)), key_of_(std::move(key_of)), name_of_(std::move(name_of)) {}

  /// The first time through: which groups are the largest.
  void measure(const Happened& made, bool begins) {
    Amount& amount = amounts_[key_of_(made)];
    if (begins) {
      amount.now += rounded(made.bytes);
      amount.most = std::max(amount.most, amount.now);
    } else {
      amount.now -= rounded(made.bytes);
    }
  }

  /// Between: the largest groups get a place each, in the order of their sizes or, `by_key`, of their keys.
  void choose(bool by_key) {
    std::vector<std::pair<uint64_t, uint64_t>> largest;  // bytes, key
    largest.reserve(amounts_.size());
    for (const auto& [key, amount] : amounts_) largest.emplace_back(amount.most, key);
    std::sort(largest.begin(), largest.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    const bool has_others = largest.size() > kMostGroups;
    if (has_others) largest.resize(kMostGroups);
    if (by_key)
      std::sort(largest.begin(), largest.end(), [](auto& a, auto& b) { return a.second < b.second; });
    for (const auto& [bytes, key] : largest) {
      places_.emplace(key, made_.names.size());
      made_.names.push_back(name_of_(key));
    }
    if (has_others) made_.names.push_back(fmt::format("{} others", amounts_.size() - kMostGroups));
    now_.resize(made_.names.size());
    made_.by_name.resize(made_.names.size());
    made_.what = what_;
  }

  /// The second time through.
  void follow(const Happened& made, bool begins) {
    const auto found = places_.find(key_of_(made));
    uint64_t& bytes = found != places_.end() ? now_[found->second] : now_.back();
    bytes += begins ? rounded(made.bytes) : uint64_t{0} - rounded(made.bytes);
  }
  const std::vector<uint64_t>& now() const noexcept { return now_; }

  void note(const std::vector<uint64_t>& bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) made_.by_name[i].push_back(bytes[i]);
  }
  GroupedBytes finish() { return std::move(made_); }

 private:
  struct Amount {
    uint64_t now = 0;
    uint64_t most = 0;
  };
  std::string what_;
  KeyOf key_of_;
  NameOf name_of_;
  std::unordered_map<uint64_t, Amount> amounts_;
  std::unordered_map<uint64_t, size_t> places_;
  std::vector<uint64_t> now_;
  GroupedBytes made_;
};

uint64_t size_class(const Happened& made) {
  constexpr uint64_t kMebi = uint64_t{1} << 20;
  constexpr std::array<uint64_t, 4> kEnds = {kMebi, 16 * kMebi, 256 * kMebi, ~uint64_t{0}};
  return static_cast<uint64_t>(
      std::find_if(kEnds.begin(), kEnds.end(), [&](uint64_t end) { return made.bytes <= end; }) -
      kEnds.begin());
}

std::array<Division, 4> divisions_of(const Recording& recording) {
  const auto tag_name = [&](uint64_t tag) {
    return tag == 0 ? std::string("no tag") : recording.tag(static_cast<uint32_t>(tag));
  };
  const auto size_name = [](uint64_t size) {
    constexpr std::array<const char*, 4> kNames = {"up to 1 MiB", "up to 16 MiB", "up to 256 MiB",
                                                   "larger blocks"};
    return std::string(kNames[size]);
  };
  const auto stream_name = [](uint64_t stream) { return fmt::format("stream {:#x}", stream); };
  const auto thread_name = [&](uint64_t thread) {
    const RecordedThread& told = recording.threads[thread];
    return fmt::format("{} ({})", one_line(told.name), told.number);
  };
  return {Division(
              "tag", [](const Happened& made) { return made.tag; }, tag_name),
          Division("size", size_class, size_name),
          Division(
              "stream", [](const Happened& made) { return made.stream; }, stream_name),
          Division(
              "thread", [](const Happened& made) { return made.thread; }, thread_name)};
}

/// The second time through the events: picks moments out of all that happens.
class Thinner {
 public:
  Thinner(uint64_t pool, std::array<Division, 4>& divisions, Timeline& made)
      : walk_(pool), divisions_(divisions), made_(made) {}

  void run(const std::vector<Happened>& events, uint64_t wanted) {
    if (events.empty()) return;
    const uint64_t width = (events.back().ns - events.front().ns) / wanted;
    const uint64_t most = std::max<uint64_t>(events.size() / wanted, 1);
    uint64_t begin_ns = events.front().ns;
    uint64_t begin = 0;
    look(begin_ns, 0);
    for (uint64_t i = 0; i < events.size(); ++i) {
      const Happened& event = events[i];
      if (event.ns - begin_ns > width || i - begin >= most) {
        note();
        // What was live when a rest began.
        if (i != 0 && event.ns - events[i - 1].ns > width) {
          look(events[i - 1].ns, i);
          note();
        }
        begin_ns = event.ns;
        begin = i;
        look(begin_ns, i);
      }
      take(event, i + 1);
    }
    note();
    look(events.back().ns, events.size());
    note();
  }

 private:
  struct Look {
    uint64_t ns = 0;
    uint64_t events = 0;
    uint64_t live = 0;
    uint64_t reserved = 0;
    uint64_t idle = 0;
    uint64_t blocks = 0;
    std::array<std::vector<uint64_t>, 4> groups;
  };

  void take(const Happened& event, uint64_t number) {
    walk_.take(
        event,
        [&](const LiveBlock& block) {
          for (Division& division : divisions_) division.follow(*block.made, true);
        },
        [&](const LiveBlock& block) {
          for (Division& division : divisions_) division.follow(*block.made, false);
        });
    if (walk_.reserved_bytes() > made_.peak_reserved) {
      made_.peak_reserved = walk_.reserved_bytes();
      made_.peak_reserved_ns = event.ns;
    }
    if (walk_.live_bytes() > look_.live) look(event.ns, number);
  }

  void look(uint64_t ns, uint64_t events) {
    look_.ns = ns;
    look_.events = events;
    look_.live = walk_.live_bytes();
    look_.reserved = walk_.reserved_bytes();
    look_.idle = walk_.idle_bytes();
    look_.blocks = walk_.blocks().size();
    for (size_t i = 0; i < divisions_.size(); ++i) look_.groups[i] = divisions_[i].now();
  }

  void note() {
    if (!made_.live.empty() && look_.live > made_.live[made_.peak]) made_.peak = made_.live.size();
    made_.ns.push_back(look_.ns);
    made_.events.push_back(look_.events);
    made_.live.push_back(look_.live);
    made_.reserved.push_back(look_.reserved);
    made_.idle.push_back(look_.idle);
    made_.blocks.push_back(look_.blocks);
    for (size_t i = 0; i < divisions_.size(); ++i) divisions_[i].note(look_.groups[i]);
  }

  PoolWalk walk_;
  std::array<Division, 4>& divisions_;
  Timeline& made_;
  Look look_;
};

}  // namespace

Timeline make_timeline(const Recording& recording, uint64_t pool, uint64_t wanted) {
  std::array<Division, 4> divisions = divisions_of(recording);
  PoolWalk walk(pool);
  for (const Happened& event : recording.events) {
    walk.take(
        event,
        [&](const LiveBlock& block) {
          for (Division& division : divisions) division.measure(*block.made, true);
        },
        [&](const LiveBlock& block) {
          for (Division& division : divisions) division.measure(*block.made, false);
        });
  }
  Timeline made;
  for (size_t i = 0; i < divisions.size(); ++i) divisions[i].choose(i == 1);
  Thinner(pool, divisions, made).run(recording.events, wanted);
  for (Division& division : divisions) made.groups.push_back(division.finish());
  return made;
}

}  // namespace gpupool::cli
