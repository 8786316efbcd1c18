// SPDX-License-Identifier: Apache-2.0
// Sums by a key, such as a call site, as one window of time after the other passes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cli/recording/live.hpp"

namespace gpupool::cli {

/// What a group of mallocs comes to, in bytes as blocks take them.
struct Sums {
  uint64_t mallocs = 0;
  uint64_t bytes = 0;              // of all of them
  uint64_t requested = 0;          // the same, as was asked for
  uint64_t temporary_mallocs = 0;  // freed before the second malloc after them
  uint64_t temporary_bytes = 0;
  uint64_t freed = 0;
  uint64_t life_ns = 0;      // of those that were freed, added up
  uint64_t most_blocks = 0;  // live at once
  uint64_t peak_blocks = 0;
  uint64_t peak_bytes = 0;  // live when most was live in the pool
  uint64_t end_blocks = 0;
  uint64_t end_bytes = 0;
};

/// The sums of one window: what it allocated and freed, and what was live at its peak and its end.
struct WindowSums : Sums {
  size_t window = 0;
};

/// All the time, and the windows in which something was allocated or freed; in others, what was live stays.
struct GroupSums : Sums {
  std::vector<WindowSums> windows;
};

template <typename Key>
class Tally {
 public:
  void add(const Key& key, const Happened& made) {
    Group& group = touch(key);
    WindowSums& sums = group.windows.back();
    ++sums.mallocs;
    sums.bytes += rounded(made.bytes);
    sums.requested += made.bytes;
    group.live_bytes += rounded(made.bytes);
    sums.most_blocks = std::max(sums.most_blocks, ++group.live_blocks);
  }

  void remove(const Key& key, const Happened& made, uint64_t life_ns, bool is_temporary) {
    Group& group = touch(key);
    WindowSums& sums = group.windows.back();
    ++sums.freed;
    sums.life_ns += life_ns;
    group.live_bytes -= rounded(made.bytes);
    --group.live_blocks;
    if (!is_temporary) return;
    ++sums.temporary_mallocs;
    sums.temporary_bytes += rounded(made.bytes);
  }

  void note_peak() {
    for (Group* group : touched_) group->set_peak();
  }

  void end_window() {
    for (Group* group : touched_) {
      group->windows.back().end_blocks = group->live_blocks;
      group->windows.back().end_bytes = group->live_bytes;
    }
    touched_.clear();
    ++window_;
  }

  /// Hands over (key, sums) of each group; the pool's peak was in the window `peak`.
  template <typename Use>
  void finish(size_t peak, Use use) {
    for (auto& [key, group] : groups_) {
      GroupSums made;
      for (const WindowSums& sums : group.windows) {
        add_up(made, sums);
        if (sums.window > peak) continue;
        made.peak_blocks = sums.window == peak ? sums.peak_blocks : sums.end_blocks;
        made.peak_bytes = sums.window == peak ? sums.peak_bytes : sums.end_bytes;
      }
      made.end_blocks = group.live_blocks;
      made.end_bytes = group.live_bytes;
      made.windows = std::move(group.windows);
      use(key, std::move(made));
    }
  }

 private:
  struct Group {
    uint64_t live_blocks = 0;
    uint64_t live_bytes = 0;
    std::vector<WindowSums> windows;

    void set_peak() {
      windows.back().peak_blocks = live_blocks;
      windows.back().peak_bytes = live_bytes;
    }
  };

  Group& touch(const Key& key) {
    Group& group = groups_[key];
    if (group.windows.empty() || group.windows.back().window != window_) {
      WindowSums& sums = group.windows.emplace_back();
      sums.window = window_;
      sums.most_blocks = group.live_blocks;
      group.set_peak();  // for good, if the window's peak has passed
      touched_.push_back(&group);
    }
    return group;
  }

  static void add_up(Sums& all, const Sums& sums) {
    all.mallocs += sums.mallocs;
    all.bytes += sums.bytes;
    all.requested += sums.requested;
    all.temporary_mallocs += sums.temporary_mallocs;
    all.temporary_bytes += sums.temporary_bytes;
    all.freed += sums.freed;
    all.life_ns += sums.life_ns;
    all.most_blocks = std::max(all.most_blocks, sums.most_blocks);
  }

  size_t window_ = 0;
  std::map<Key, Group> groups_;
  std::vector<Group*> touched_;  // in this window
};

}  // namespace gpupool::cli
