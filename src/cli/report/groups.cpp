// SPDX-License-Identifier: Apache-2.0
#include "cli/report/groups.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "cli/recording/live.hpp"

namespace gpupool::cli {
namespace {

using SiteNumber = std::pair<uint32_t, uint32_t>;  // stack and tag

class Grouper {
 public:
  Grouper(const Recording& recording, uint64_t pool) : recording_(recording), pool_(pool) {}

  Groups run() {
    find_peak();
    const auto& events = recording_.events;
    for (size_t i = 0; i < events.size(); ++i) {
      if (events[i].pool == pool_) take(events[i]);
      if (i + 1 == peak_) add_live(&SiteSums::peak_blocks, &SiteSums::peak_bytes);
    }
    add_live(&SiteSums::end_blocks, &SiteSums::end_bytes);
    for (const Leak& leak : find_leaks(recording_, pool_)) {
      if (leak.growth) made_.growing.push_back(leak);
      if (leak.of != Leak::Of::site) continue;
      sites_[{leak.stack, leak.tag}].growth = leak.growth;
      made_.end_bytes += leak.bytes;
      made_.end_blocks += leak.blocks;
    }
    made_.sites.reserve(sites_.size());
    for (auto& [key, site] : sites_) {
      site.stack = key.first;
      site.tag = key.second;
      made_.sites.push_back(site);
    }
    std::sort(made_.sites.begin(), made_.sites.end(), [](const SiteSums& a, const SiteSums& b) {
      return std::tuple(b.peak_bytes, b.bytes, a.stack, a.tag) <
             std::tuple(a.peak_bytes, a.bytes, b.stack, b.tag);
    });
    return std::move(made_);
  }

 private:
  void find_peak() {
    LiveBlocks blocks;
    uint64_t live = 0;
    for (size_t i = 0; i < recording_.events.size(); ++i) {
      const Happened& event = recording_.events[i];
      if (event.pool != pool_) continue;
      blocks.take(
          event, [&](const LiveBlock& block) { live += rounded(block.made->bytes); },
          [&](const LiveBlock& block, const Happened&) { live -= rounded(block.made->bytes); });
      if (live <= made_.peak_bytes) continue;
      made_.peak_bytes = live;
      made_.peak_blocks = blocks.all().size();
      made_.peak_ns = event.ns;
      peak_ = i + 1;
    }
  }

  void take(const Happened& event) {
    if (event.kind == Kind::failed) made_.failed.push_back({event.ns, event.bytes, event.tag});
    live_.take(
        event,
        [&](const LiveBlock& block) {
          SiteSums& site = site_of(*block.made);
          ++site.mallocs;
          site.bytes += rounded(block.made->bytes);
          site.requested += block.made->bytes;
          SizeSums& size = made_.sizes[block.made->bytes];
          ++size.mallocs;
          size.most_live = std::max(size.most_live, ++size.live);
          newest_ = block.number;
          ++made_.mallocs;
        },
        [&](const LiveBlock& block, const Happened& freed) {
          SiteSums& site = site_of(*block.made);
          ++site.freed;
          site.life_ns += freed.ns - block.made->ns;
          --made_.sizes[block.made->bytes].live;
          ++made_.frees;
          if (newest_ - block.number > 1) return;
          ++site.temporary_mallocs;
          site.temporary_bytes += rounded(block.made->bytes);
        });
  }

  void add_live(uint64_t SiteSums::*blocks, uint64_t SiteSums::*bytes) {
    for (const auto& [key, block] : live_.all()) {
      SiteSums& site = site_of(*block.made);
      ++(site.*blocks);
      site.*bytes += rounded(block.made->bytes);
    }
  }

  SiteSums& site_of(const Happened& made) { return sites_[{made.stack, made.tag}]; }

  const Recording& recording_;
  const uint64_t pool_;
  size_t peak_ = 0;  // how many events had happened by then
  uint64_t newest_ = 0;
  LiveBlocks live_;
  std::map<SiteNumber, SiteSums> sites_;
  Groups made_;
};

}  // namespace

Groups make_groups(const Recording& recording, uint64_t pool) {
  return Grouper(recording, pool).run();
}

}  // namespace gpupool::cli
