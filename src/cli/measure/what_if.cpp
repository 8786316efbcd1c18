// SPDX-License-Identifier: Apache-2.0
#include "cli/measure/what_if.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "cli/base/library.hpp"
#include "cli/base/size.hpp"
#include "cli/measure/replay.hpp"

namespace gpupool::cli {
namespace {

ReplaySetup one_pass() {
  ReplaySetup setup;
  setup.config = config_for(find_device("sim"));
  setup.passes = 1;
  return setup;
}

/// Writes a recording as the text of a trace, with a change.
class ChangedTrace {
 public:
  ChangedTrace(const Recording& recording, uint64_t pool, const Change& change)
      : recording_(recording), pool_(pool), change_(change) {}

  std::string write() {
    const size_t end = std::min(change_.end, recording_.events.size());
    auto next = change_.freed_after.begin();
    for (size_t i = 0; i < end; ++i) {
      take(recording_.events[i], i + 1 == end);
      for (; next != change_.freed_after.end() && next->first <= i + 1; ++next) {
        text_ += fmt::format("f {}\n", next->second);
        freed_.insert(next->second);
      }
    }
    return std::move(text_);
  }

 private:
  void take(const Happened& event, bool is_last) {
    if (event.pool != pool_) return;
    if (event.kind == Kind::failed && is_last && change_.end != SIZE_MAX) {
      return allocate({&event, recording_.events.size() + 1});
    }
    live_.take(
        event, [&](const LiveBlock& block) { allocate(block); },
        [&](const LiveBlock& block, const Happened&) {
          if (!freed_.contains(block.number)) text_ += fmt::format("f {}\n", block.number);
        });
  }

  void allocate(const LiveBlock& block) {
    const uint64_t bytes = change_.bytes ? change_.bytes(block) : block.made->bytes;
    const uint64_t stream = change_.stream ? change_.stream(block) : block.made->stream;
    text_ += fmt::format("a {} {} {}\n", block.number, bytes, stream);
  }

  const Recording& recording_;
  const uint64_t pool_;
  const Change& change_;
  LiveBlocks live_;
  std::unordered_set<uint64_t> freed_;  // sooner than in the recording
  std::string text_;
};

}  // namespace

WhatIf::WhatIf(const Recording& recording, uint64_t pool, Progress& progress)
    : recording_(recording), pool_(pool), progress_(progress) {}

Trace WhatIf::trace(const Change& change) const {
  return parse_trace(ChangedTrace(recording_, pool_, change).write(), recording_.file);
}

std::optional<uint64_t> WhatIf::least_limit(const Change& change) const {
  const Trace changed = trace(change);
  std::vector<std::string> problems;
  const std::optional<double> cap = find_cap(changed, one_pass(), 1.02, progress_, problems);
  progress_.clear();
  if (!cap || !problems.empty()) return std::nullopt;
  return scale_bytes(changed.peak_live_bytes, *cap);
}

bool WhatIf::fits_under(const Change& change, uint64_t limit) const {
  const Trace changed = trace(change);
  if (changed.peak_live_bytes > limit) return false;
  progress_.begin("with a change, under " + format_bytes(limit), changed.events.size());
  return replay(changed, one_pass(), limit, true, progress_).is_good();
}

uint64_t WhatIf::most_reserved(const Change& change) const {
  const Trace changed = trace(change);
  progress_.begin("with a change", changed.events.size());
  return replay(changed, one_pass(), 0, false, progress_).peak_reserved_bytes;
}

WhatIf::DriverWork WhatIf::driver_work(const std::vector<size_t>& empty_after) const {
  Pool pool = create_pool(one_pass().config);
  std::map<uint64_t, Stream> streams;
  std::unordered_map<uint64_t, gpupool_ptr_t> pointers;
  LiveBlocks live;
  const auto stream_of = [&](const LiveBlock& block) {
    return streams.try_emplace(block.made->stream, pool).first->second.id();
  };
  auto next = empty_after.begin();
  progress_.begin("what the driver does", recording_.events.size());
  for (size_t i = 0; i < recording_.events.size(); ++i) {
    if (i % kEventsAtOnce == 0) progress_.set(i);
    if (recording_.events[i].pool == pool_) {
      live.take(
          recording_.events[i],
          [&](const LiveBlock& block) {
            gpupool_ptr_t pointer = 0;
            // A malloc that does not fit is left out, in both plays alike.
            if (gpupool_malloc(pool.handle(), block.made->bytes, stream_of(block), &pointer) ==
                GPUPOOL_SUCCESS)
              pointers[block.number] = pointer;
          },
          [&](const LiveBlock& block, const Happened&) {
            const auto found = pointers.find(block.number);
            if (found == pointers.end()) return;
            check(gpupool_free(pool.handle(), found->second, stream_of(block)));
            pointers.erase(found);
          });
    }
    for (; next != empty_after.end() && *next == i + 1; ++next) {
      check(gpupool_empty(pool.handle(), nullptr));
    }
  }
  PassResult result;
  result.driver = pool.stats().driver;
  for (const auto& [number, pointer] : pointers) {
    check(gpupool_free(pool.handle(), pointer, GPUPOOL_STREAM_UNKNOWN));
  }
  return {result.driver_calls(), static_cast<uint64_t>(result.driver_microseconds() * 1000)};
}

}  // namespace gpupool::cli
