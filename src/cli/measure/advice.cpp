// SPDX-License-Identifier: Apache-2.0
#include "cli/measure/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "cli/base/size.hpp"
#include "cli/measure/what_if.hpp"
#include "cli/recording/leaks.hpp"
#include "cli/recording/walk.hpp"

namespace gpupool::cli {
namespace {

/// Smaller savings are not worth the effort: a twentieth, and this many bytes.
constexpr uint64_t kLeastShare = 20;
constexpr uint64_t kLeastBytes = uint64_t{32} << 20;
constexpr uint64_t kLeastLeak = uint64_t{1} << 20;

bool is_worth(uint64_t bytes, uint64_t of) {
  return bytes >= kLeastBytes && bytes >= of / kLeastShare;
}

uint64_t saved(uint64_t before, uint64_t after) {
  return before > after ? before - after : 0;
}

std::string milliseconds(uint64_t ns) {
  return fmt::format("{:.1f} ms", static_cast<double>(ns) / 1e6);
}

/// The results of one walk through the recording.
struct Sight {
  uint64_t most_reserved = 0;
  uint64_t most_stuck = 0;   // free, in chunks that blocks hold
  size_t most_stuck_at = 0;  // after so many events
  std::vector<size_t> given_back_at;
  uint64_t given_back = 0;
  uint64_t taken_again = 0;
  std::optional<size_t> failed_at;  // the first that was not too large anyway
  uint64_t live_then = 0;
  uint64_t failed_bytes = 0;
};

using Site = std::pair<uint32_t, uint32_t>;  // stack and tag

class Adviser {
 public:
  Adviser(const Recording& recording, uint64_t pool, Progress& progress)
      : recording_(recording), pool_(pool), progress_(progress), what_if_(recording, pool, progress) {
    if (const auto found = recording.pools.find(pool); found != recording.pools.end()) about_ = found->second;
  }

  std::vector<Advice> run() {
    look();
    least_ = what_if_.least_limit({});
    advise_batch();
    advise_leaks();
    advise_pinned();
    advise_empty_cache();
    advise_streams();
    advise_limit();
    return std::move(made_);
  }

 private:
  void look() {
    PoolWalk walk(pool_);
    uint64_t reserved = 0;
    uint64_t released = 0;  // by the last unmappings
    uint64_t missing = 0;   // of what was given back, not yet taken again
    const uint64_t limit = about_.limit_bytes != 0 ? about_.limit_bytes : about_.total_bytes;
    progress_.begin(fmt::format("what pool {} did", pool_), recording_.events.size());
    for (size_t i = 0; i < recording_.events.size(); ++i) {
      const Happened& event = recording_.events[i];
      walk.take(event);
      if (i % kEventsAtOnce == 0) progress_.set(i);
      if (event.pool != pool_) continue;
      if (event.kind == Kind::unmap) {
        released += saved(reserved, walk.reserved_bytes());
      } else if (event.kind == Kind::map) {
        // Memory mapped elsewhere at once was not given back.
        const uint64_t more = saved(walk.reserved_bytes(), reserved);
        const uint64_t again = std::min(saved(more, released), missing);
        sight_.taken_again += again;
        missing -= again;
        released = saved(released, more);
      } else if (released != 0) {
        sight_.given_back_at.push_back(i);
        sight_.given_back += released;
        missing += std::exchange(released, 0);
      }
      reserved = walk.reserved_bytes();
      sight_.most_reserved = std::max(sight_.most_reserved, reserved);
      const uint64_t stuck = saved(reserved, walk.live_bytes() + walk.idle_bytes());
      if (stuck > sight_.most_stuck) {
        sight_.most_stuck = stuck;
        sight_.most_stuck_at = i + 1;
      }
      if (event.kind != Kind::failed || sight_.failed_at || limit == 0 || event.bytes > limit) continue;
      sight_.failed_at = i + 1;
      sight_.live_then = walk.live_bytes();
      sight_.failed_bytes = event.bytes;
    }
  }

  void add(std::string kind, std::string text, uint64_t bytes, uint64_t nanoseconds = 0) {
    made_.push_back({std::move(kind), std::move(text), bytes, nanoseconds});
  }

  /// Advises a limit that would suffice.
  void advise_limit() {
    if (!least_) return;
    const uint64_t saving = saved(sight_.most_reserved, *least_);
    if (!is_worth(saving, sight_.most_reserved)) return;
    add("limit",
        fmt::format("Give the pool a limit of {}: the run completes under it, and the pool held {} at most. "
                    "That leaves {} to others.",
                    format_bytes(*least_), format_bytes(sight_.most_reserved), format_bytes(saving)),
        saving);
  }

  /// Advises against giving memory back in a loop.
  void advise_empty_cache() {
    constexpr size_t kLeastTimes = 5;
    constexpr uint64_t kLoopNs = 30'000'000'000;  // the pool itself gives back once a minute
    const std::vector<size_t>& at = sight_.given_back_at;
    if (at.size() < kLeastTimes || sight_.taken_again * 2 < sight_.given_back) return;
    const auto ns = [&](size_t i) { return recording_.events[i].ns; };
    if ((ns(at.back()) - ns(at.front())) / (at.size() - 1) > kLoopNs) return;
    const WhatIf::DriverWork with = what_if_.driver_work(at);
    const WhatIf::DriverWork without = what_if_.driver_work({});
    const uint64_t saving = saved(with.nanoseconds, without.nanoseconds);
    if (saving * kLeastShare < with.nanoseconds) return;
    add("empty_cache",
        fmt::format("Do not empty the cache in the loop: {} times {} were given back in all, and {} of it "
                    "taken again. "
                    "In a replay, the driver works for {} with it and {} without, in {} calls instead of {}.",
                    format_count(at.size()), format_bytes(sight_.given_back),
                    format_bytes(sight_.taken_again), milliseconds(with.nanoseconds),
                    milliseconds(without.nanoseconds), format_count(without.calls), format_count(with.calls)),
        0, saving);
  }

  /// Free memory, by the site whose blocks keep it from others: they outlive their neighbours.
  std::map<Site, uint64_t> find_pins() const {
    PoolWalk walk(pool_);
    for (size_t i = 0; i < sight_.most_stuck_at; ++i) walk.take(recording_.events[i]);
    const uint64_t now = recording_.events[sight_.most_stuck_at - 1].ns;
    const uint64_t old = (recording_.events.back().ns - recording_.events.front().ns) / 10;
    std::map<Site, uint64_t> pins;
    for (const auto& [address, block] : walk.blocks()) {
      const Happened& made = *block.made;
      auto chunk = walk.chunks().upper_bound(address);
      if (chunk == walk.chunks().begin() || now - made.ns < old) continue;
      --chunk;
      // Nearly free, except for such blocks.
      if (chunk->second.live_bytes * 4 > chunk->second.bytes) continue;
      pins[{made.stack, made.tag}] +=
          (chunk->second.bytes - chunk->second.live_bytes) / std::max<uint64_t>(chunk->second.users, 1);
    }
    return pins;
  }

  void advise_pinned() {
    if (!least_ || sight_.most_stuck_at == 0 || !is_worth(sight_.most_stuck, sight_.most_reserved)) return;
    const std::map<Site, uint64_t> pins = find_pins();
    const auto most = std::max_element(pins.begin(), pins.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == pins.end() || !is_worth(most->second, sight_.most_reserved)) return;
    const Site site = most->first;
    uint64_t own_stream = 1;
    for (const Happened& event : recording_.events) own_stream = std::max(own_stream, event.stream + 1);
    Change change;
    change.stream = [&](const LiveBlock& block) {
      return Site(block.made->stack, block.made->tag) == site ? own_stream : block.made->stream;
    };
    const std::optional<uint64_t> without = what_if_.least_limit(change);
    const uint64_t saving = without ? saved(*least_, *without) : 0;
    if (!is_worth(saving, *least_)) return;
    add("pinned",
        fmt::format(
            "Keep the long-lived blocks of {} apart, in a pool or stream of their own, or allocate them "
            "first: they held {} of free memory in chunks that were nearly empty. With them apart the "
            "run completes under {} instead of {}.",
            name_of_site(recording_, site.first, site.second), format_bytes(most->second),
            format_bytes(*without), format_bytes(*least_)),
        saving);
  }

  void advise_leaks() {
    if (!least_) return;
    for (const Leak& leak : find_leaks(recording_, pool_)) {
      if (!leak.growth || leak.lost() < kLeastLeak) continue;
      Change change;
      change.freed_after = free_what_leaked(leak);
      const std::optional<uint64_t> without = what_if_.least_limit(change);
      const uint64_t saving = without ? saved(*least_, *without) : 0;
      add("leak",
          fmt::format("Free {}: it grows by {}, and {}. Were each freed {}, the run would "
                      "complete under {} instead of {}.",
                      leak.of == Leak::Of::site ? fmt::format("what {} allocates", name_of(recording_, leak))
                                                : name_of(recording_, leak),
                      leak.growth.words(),
                      leak.blocks != 0 ? fmt::format("{} in {} blocks are live at the end",
                                                     format_bytes(leak.bytes), format_count(leak.blocks))
                                       : fmt::format("{} of it were freed only at the end",
                                                     format_bytes(leak.growth.bytes)),
                      leak.growth.each != 0 ? "two marks later" : "after a hundredth of the run",
                      format_bytes(without.value_or(*least_)), format_bytes(*least_)),
          saving);
    }
  }

  /// Of the blocks that are live when the program's work ends: after which event each would have been freed.
  std::multimap<size_t, uint64_t> free_what_leaked(const Leak& leak) const {
    const bool is_marked = leak.growth.each != 0;
    const Moments moments =
        moments_of(recording_, pool_, is_marked ? Moments::By::marks : Moments::By::frees);
    const size_t later = is_marked ? 2 : moments.at.size() / 100 + 1;
    LiveBlocks live;
    for (size_t i = 0; i < moments.at.back(); ++i) {
      if (recording_.events[i].pool == pool_) live.take(recording_.events[i]);
    }
    std::multimap<size_t, uint64_t> freed;
    for (const auto& [key, block] : live.all()) {
      if (!leak.has(*block.made)) continue;
      const auto made = static_cast<size_t>(block.made - recording_.events.data());
      const auto next = std::upper_bound(moments.at.begin(), moments.at.end(), made);
      if (static_cast<size_t>(moments.at.end() - next) < later) continue;
      freed.emplace(next[static_cast<std::ptrdiff_t>(later) - 1], block.number);
    }
    return freed;
  }

  /// Finds streams that have finished their work and still hold free memory when the recording ends.
  void advise_streams() {
    PoolWalk walk(pool_);
    std::map<uint64_t, uint64_t> last_used;  // when, by stream
    for (const Happened& event : recording_.events) {
      walk.take(
          event, [&](const LiveBlock& block) { last_used[block.made->stream] = event.ns; },
          [&](const LiveBlock& block) { last_used[block.made->stream] = event.ns; });
    }
    std::map<uint64_t, uint64_t> held;
    for (const auto& [address, chunk] : walk.chunks()) {
      if (chunk.users == 0) held[chunk.stream] += chunk.bytes;
    }
    const uint64_t begin = recording_.events.front().ns;
    const uint64_t late = begin + (recording_.events.back().ns - begin) / 3 * 2;
    for (const auto& [stream, bytes] : held) {
      const auto used = last_used.find(stream);
      if (used == last_used.end() || used->second > late || last_used.size() < 2) continue;
      if (is_worth(bytes, sight_.most_reserved)) advise_stream(stream, bytes, used->second, last_used);
    }
  }

  void advise_stream(uint64_t stream, uint64_t bytes, uint64_t since,
                     const std::map<uint64_t, uint64_t>& last_used) {
    // The recording as if its work had run on the stream that works longest.
    const auto latest = std::max_element(last_used.begin(), last_used.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
    Change change;
    change.stream = [&](const LiveBlock& block) {
      return block.made->stream == stream ? latest->first : block.made->stream;
    };
    const uint64_t saving = saved(what_if_.most_reserved({}), what_if_.most_reserved(change));
    add("stream",
        fmt::format(
            "Release stream {:#x} when its work is done (gpupool_release_stream): it still holds {} in free "
            "chunks at the end, and nothing happened on it for the last {:.1f} s. {}",
            stream, format_bytes(bytes), static_cast<double>(recording_.events.back().ns - since) / 1e9,
            saving == 0 ? "Replayed with its work on another stream, the pool takes as much at its peak."
                        : fmt::format("Replayed with its work on another stream, the pool takes {} less "
                                      "at its peak.",
                                      format_bytes(saving))),
        saving);
  }

  /// A malloc that fails by little: a smaller batch fits.
  void advise_batch() {
    const uint64_t limit = about_.limit_bytes != 0 ? about_.limit_bytes : about_.total_bytes;
    if (!sight_.failed_at) return;
    size_t step = 0;  // the last mark before the failure
    for (size_t i = 0; i < *sight_.failed_at; ++i) {
      if (recording_.events[i].kind == Kind::mark) step = i;
    }
    const Happened* begin = &recording_.events[step];
    for (uint64_t percent = 95; percent >= 10; percent -= 5) {
      Change change;
      change.end = *sight_.failed_at;
      change.bytes = [&](const LiveBlock& block) {
        const uint64_t bytes = block.made->bytes;
        return block.made < begin ? bytes : bytes / 100 * percent + bytes % 100 * percent / 100;
      };
      if (!what_if_.fits_under(change, limit)) continue;
      const uint64_t needed = sight_.live_then + sight_.failed_bytes;
      return add(
          "batch",
          fmt::format("Make the batch smaller: a malloc of {} failed while {} were live, under a limit of "
                      "{}. With all that was allocated {} at {} % of its size, it fits.",
                      format_bytes(sight_.failed_bytes), format_bytes(sight_.live_then), format_bytes(limit),
                      step == 0 ? "in the run" : "since the mark before", percent),
          saved(needed, limit));
    }
  }

  const Recording& recording_;
  const uint64_t pool_;
  Progress& progress_;
  const WhatIf what_if_;
  RecordedPool about_;
  Sight sight_;
  std::optional<uint64_t> least_;  // the limit under which the run completes as it is
  std::vector<Advice> made_;
};

}  // namespace

std::vector<Advice> advise(const Recording& recording, uint64_t pool, Progress& progress) {
  return Adviser(recording, pool, progress).run();
}

}  // namespace gpupool::cli
