// SPDX-License-Identifier: Apache-2.0
#include "cli/recording/leaks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "cli/recording/live.hpp"

namespace gpupool::cli {
namespace {

constexpr std::array kDivisions = {Leak::Of::site, Leak::Of::tag, Leak::Of::stream};

uint64_t key_of(Leak::Of of, const Happened& made) {
  if (of == Leak::Of::stream) return made.stream;
  return of == Leak::Of::tag ? made.tag : uint64_t{made.stack} << 32 | made.tag;
}

Leak leak_of(Leak::Of of, uint64_t key) {
  Leak leak;
  leak.of = of;
  if (of == Leak::Of::stream) leak.stream = key;
  if (of != Leak::Of::stream) leak.tag = static_cast<uint32_t>(key);
  if (of == Leak::Of::site) leak.stack = static_cast<uint32_t>(key >> 32);
  return leak;
}

using Leaks = std::map<uint64_t, Leak>;  // by key

/// Whether the site of a block that has just been freed allocates next, though it is not all that allocates:
/// then the block is replaced, as a buffer that is made larger.
bool is_replaced(const LiveBlock& block, uint64_t newest, const Happened* next, const Happened* end) {
  if (block.number == newest) return false;
  const auto says_more = [&](const Happened& event) {
    return event.kind == Kind::malloc || event.kind == Kind::free || event.kind == Kind::mark;
  };
  next = std::find_if(next, end, says_more);
  return next != end && next->kind == Kind::malloc && next->pool == block.made->pool &&
         next->stack == block.made->stack && next->tag == block.made->tag;
}

/// What grows, of each division.
std::array<Leaks, 3> find_growing(const Recording& recording, std::optional<uint64_t> pool, Moments::By by) {
  const Moments moments = moments_of(recording, pool, by);
  std::array<std::map<uint64_t, Floor>, 3> floors;
  LiveBlocks live;
  size_t passed = 0;
  const auto add = [&](const LiveBlock& block, bool begins) {
    for (size_t i = 0; i < kDivisions.size(); ++i) {
      Floor& floor = floors[i][key_of(kDivisions[i], *block.made)];
      const uint64_t bytes = rounded(block.made->bytes);
      floor.change(moments, passed, begins ? floor.bytes() + bytes : floor.bytes() - bytes);
    }
  };
  const std::vector<Happened>& events = recording.events;
  uint64_t newest = 0;
  bool is_between = false;  // what is live says nothing while a block is replaced
  for (size_t i = 0; i < events.size() && passed < moments.at.size(); ++i) {
    if (!pool || events[i].pool == *pool) {
      live.take(
          events[i],
          [&](const LiveBlock& block) {
            add(block, true);
            newest = block.number;
            is_between = false;
          },
          [&](const LiveBlock& block, const Happened&) {
            add(block, false);
            is_between = is_replaced(block, newest, &events[i] + 1, events.data() + events.size());
          });
    }
    while (!is_between && passed < moments.at.size() && moments.at[passed] <= i + 1) ++passed;
  }
  std::array<Leaks, 3> found;
  for (size_t i = 0; i < kDivisions.size(); ++i) {
    for (auto& [key, floor] : floors[i]) {
      const Growth growth = floor.growth(moments);
      if (growth) (found[i][key] = leak_of(kDivisions[i], key)).growth = growth;
    }
  }
  return found;
}

std::array<Leaks, 3> find_growing(const Recording& recording, std::optional<uint64_t> pool) {
  if (moments_of(recording, pool, Moments::By::marks).at.size() >= kLeastMarks) {
    return find_growing(recording, pool, Moments::By::marks);
  }
  // The start of a program may be long in frees, its rests are long in time: what grows, grows by both,
  // unless it does so too evenly for a start. How much it is, frees say, since a machine that is busy now and
  // then stretches time.
  auto found = find_growing(recording, pool, Moments::By::frees);
  const auto by_time = find_growing(recording, pool, Moments::By::time);
  for (size_t i = 0; i < found.size(); ++i) {
    std::erase_if(found[i], [&](const auto& leak) {
      return !leak.second.growth.is_even && !by_time[i].contains(leak.first);
    });
  }
  return found;
}

}  // namespace

bool can_judge_growth(const Recording& recording) {
  const auto has_enough = [&](Moments::By by) {
    return moments_of(recording, {}, by).at.size() >= kLeastMarks;
  };
  return has_enough(Moments::By::marks) || has_enough(Moments::By::frees);
}

bool Leak::has(const Happened& made) const noexcept {
  return key_of(of, made) == (of == Of::stream ? stream : uint64_t{stack} << 32 | tag);
}

std::string name_of_site(const Recording& recording, uint32_t stack, uint32_t tag) {
  const std::string name = recording.tag(tag);
  const std::string at = stack == 0 ? "a place with no stack" : recording.site(stack);
  return name.empty() ? at : fmt::format("{} (tag \"{}\")", at, name);
}

std::string name_of(const Recording& recording, const Leak& leak) {
  if (leak.of == Leak::Of::stream) return fmt::format("what is allocated on stream {:#x}", leak.stream);
  if (leak.of == Leak::Of::site) return name_of_site(recording, leak.stack, leak.tag);
  return leak.tag == 0 ? "what is allocated without a tag"
                       : fmt::format("what is allocated under the tag \"{}\"", recording.tag(leak.tag));
}

std::vector<Leak> find_leaks(const Recording& recording, std::optional<uint64_t> pool) {
  auto [sites, tags, streams] = find_growing(recording, pool);
  // A tag or a stream is told where sites do not explain most of it.
  std::map<uint32_t, uint64_t> explained;
  uint64_t explained_in_all = 0;
  for (const auto& [key, site] : sites) {
    explained[site.tag] += site.growth.bytes;
    explained_in_all += site.growth.bytes;
  }
  std::erase_if(tags,
                [&](const auto& tag) { return explained[tag.second.tag] * 2 >= tag.second.growth.bytes; });
  for (const auto& [key, tag] : tags) explained_in_all += tag.growth.bytes;
  std::erase_if(streams,
                [&](const auto& stream) { return explained_in_all * 2 >= stream.second.growth.bytes; });

  LiveBlocks live;
  for (const Happened& event : recording.events) {
    if (pool && event.pool != *pool) continue;
    live.take(event);
  }
  const auto add = [](Leak& leak, const Happened& made) {
    leak.bytes += rounded(made.bytes);
    leak.first_ns = leak.blocks++ == 0 ? made.ns : std::min(leak.first_ns, made.ns);
  };
  for (const auto& [place, block] : live.all()) {
    const uint64_t key = key_of(Leak::Of::site, *block.made);
    add(sites.try_emplace(key, leak_of(Leak::Of::site, key)).first->second, *block.made);
    for (Leaks* const groups : {&tags, &streams}) {
      for (auto& [group_key, group] : *groups) {
        if (group.has(*block.made)) add(group, *block.made);
      }
    }
  }
  std::vector<Leak> found;
  for (const Leaks* const leaks : {&sites, &tags, &streams}) {
    for (const auto& [key, leak] : *leaks) found.push_back(leak);
  }
  std::sort(found.begin(), found.end(), [](const Leak& a, const Leak& b) {
    return std::tuple(b.growth.bytes, b.bytes, a.of, a.tag, a.stack, a.stream) <
           std::tuple(a.growth.bytes, a.bytes, b.of, b.tag, b.stack, b.stream);
  });
  return found;
}

}  // namespace gpupool::cli
