// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "cli/base/prometheus.hpp"
#include "cli/formats/export_formats.hpp"
#include "cli/recording/recorded_pool.hpp"
#include "cli/recording/walk.hpp"

namespace gpupool::cli {
namespace {

/// Each value of a label is a series of its own; tags beyond this many are summed as "other".
constexpr size_t kMostTagLabels = 64;

struct PoolFigures {
  std::string labels;
  RecordedPool about;
  uint64_t live = 0;
  uint64_t requested = 0;
  uint64_t idle = 0;
  uint64_t reserved = 0;
  uint64_t peak_live = 0;
  uint64_t peak_reserved = 0;
  uint64_t blocks = 0;
  uint64_t chunks = 0;
  uint64_t streams = 0;
  uint64_t largest_free = 0;
  uint64_t mallocs = 0;
  uint64_t allocated = 0;
  uint64_t failed = 0;
  uint64_t frees = 0;
  std::map<std::string, uint64_t> by_tag;
};

PoolFigures figures_of(const Recording& recording, uint64_t pool) {
  PoolFigures made;
  if (const auto about = recording.pools.find(pool); about != recording.pools.end())
    made.about = about->second;
  made.labels = fmt::format("device=\"{}\",pool=\"{}\",pid=\"{}\"", label_text(one_line(made.about.device)),
                            pool, recording.pid);
  PoolWalk walk(pool);
  std::set<uint64_t> streams;
  for (const Happened& event : recording.events) {
    if (event.pool == pool && event.kind == Kind::failed) ++made.failed;
    walk.take(
        event,
        [&](const LiveBlock& block) {
          streams.insert(block.made->stream);
          if (block.made->kind == Kind::have) return;
          ++made.mallocs;
          made.allocated += rounded(block.made->bytes);
        },
        [&](const LiveBlock&) { ++made.frees; });
    made.peak_live = std::max(made.peak_live, walk.live_bytes());
    made.peak_reserved = std::max(made.peak_reserved, walk.reserved_bytes());
  }
  made.live = walk.live_bytes();
  made.idle = walk.idle_bytes();
  made.reserved = walk.reserved_bytes();
  made.blocks = walk.blocks().size();
  made.chunks = walk.chunks().size();
  made.streams = streams.size();
  made.largest_free = walk.largest_free();
  for (const auto& [address, block] : walk.blocks()) {
    made.requested += block.made->bytes;
    const std::string tag = recording.tag(block.made->tag);
    const bool is_known = made.by_tag.contains(tag) || made.by_tag.size() < kMostTagLabels;
    made.by_tag[is_known ? tag : "other"] += rounded(block.made->bytes);
  }
  return made;
}

class PrometheusText : MetricsText {
 public:
  explicit PrometheusText(const Recording& recording) : recording_(recording) {
    for (const auto& [pool, mallocs] : mallocs_by_pool(recording))
      pools_.push_back(figures_of(recording, pool));
  }

  std::string write() {
    all("live_bytes", "gauge", "Bytes in live blocks, as blocks take them.", &PoolFigures::live);
    all("requested_bytes", "gauge", "Bytes in live blocks, as the program requested them.",
        &PoolFigures::requested);
    all("idle_bytes", "gauge", "Bytes of chunks that no live block touches.", &PoolFigures::idle);
    all("reserved_bytes", "gauge", "Physical memory that the pool holds.", &PoolFigures::reserved);
    all("live_peak_bytes", "gauge", "The most that was live since the recording began.",
        &PoolFigures::peak_live);
    all("reserved_peak_bytes", "gauge", "The most that the pool has held since then.",
        &PoolFigures::peak_reserved);
    all("largest_free_bytes", "gauge", "The longest run of free memory.", &PoolFigures::largest_free);
    all("live_blocks", "gauge", "Live blocks.", &PoolFigures::blocks);
    all("chunks", "gauge", "Chunks that the pool holds.", &PoolFigures::chunks);
    all("streams", "gauge", "Streams that blocks were allocated for.", &PoolFigures::streams);
    const auto limit = [](const PoolFigures& pool) { return pool.about.limit_bytes; };
    if (std::any_of(pools_.begin(), pools_.end(), limit))
      each("limit_bytes", "gauge", "The most that the pool may hold.", pools_, limit, true);
    tags();
    all("allocated_bytes_total", "counter", "Bytes of all mallocs since the recording began.",
        &PoolFigures::allocated);
    family("mallocs_total", "counter", "Mallocs since the recording began.");
    for (const PoolFigures& pool : pools_) {
      sample("mallocs_total", pool, ",result=\"ok\"", pool.mallocs);
      sample("mallocs_total", pool, ",result=\"failed\"", pool.failed);
    }
    all("frees_total", "counter", "Frees since the recording began.", &PoolFigures::frees);
    info();
    return std::move(text_);
  }

 private:
  void all(std::string_view name, std::string_view type, std::string_view help,
           uint64_t PoolFigures::*value) {
    each(name, type, help, pools_, [&](const PoolFigures& pool) { return pool.*value; });
  }

  void tags() {
    family("tag_live_bytes", "gauge", "Bytes in live blocks by tag.");
    for (const PoolFigures& pool : pools_) {
      for (const auto& [tag, bytes] : pool.by_tag)
        sample("tag_live_bytes", pool, fmt::format(",tag=\"{}\"", label_text(tag)), bytes);
    }
  }

  void info() {
    family("recording_lost_events_total", "counter", "Events that the disk had no room for.");
    text_ += fmt::format("gpupool_recording_lost_events_total{{pid=\"{}\"}} {}\n", recording_.pid,
                         recording_.lost);
    family("pool_info", "gauge", "Facts that do not change.");
    for (const PoolFigures& pool : pools_) {
      sample("pool_info", pool,
             fmt::format(",version=\"{}\",model=\"{}\"", label_text(one_line(recording_.library)),
                         label_text(one_line(pool.about.name))),
             1);
    }
  }

  const Recording& recording_;
  std::vector<PoolFigures> pools_;
};

}  // namespace

std::string prometheus_text_of(const Recording& recording) {
  return PrometheusText(recording).write();
}

}  // namespace gpupool::cli
