// SPDX-License-Identifier: Apache-2.0
// The text format of Prometheus, 0.0.4: base units, one family of metrics after another, and no timestamps,
// which node_exporter's textfile collector refuses.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/base/prometheus.hpp"
#include "cli/base/utf8.hpp"
#include "cli/formats/export_formats.hpp"
#include "cli/recording/recorded_pool.hpp"
#include "cli/recording/walk.hpp"

namespace gpupool::cli {
namespace {

/// Each value of a label is a series of its own; tags beyond this many are summed as "other".
constexpr size_t kMostTagLabels = 64;

struct PoolFigures {
  uint64_t pool = 0;
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
  made.pool = pool;
  if (const auto about = recording.pools.find(pool); about != recording.pools.end())
    made.about = about->second;
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

class PrometheusText {
 public:
  explicit PrometheusText(const Recording& recording) : recording_(recording) {
    for (const auto& [pool, mallocs] : mallocs_by_pool(recording))
      pools_.push_back(figures_of(recording, pool));
  }

  std::string write() {
    gauge("live_bytes", "Bytes in live blocks, as blocks take them.", &PoolFigures::live);
    gauge("requested_bytes", "Bytes in live blocks, as the program requested them.", &PoolFigures::requested);
    gauge("idle_bytes", "Bytes of chunks that no live block touches.", &PoolFigures::idle);
    gauge("reserved_bytes", "Physical memory that the pool holds.", &PoolFigures::reserved);
    gauge("live_peak_bytes", "The most that was live since the recording began.", &PoolFigures::peak_live);
    gauge("reserved_peak_bytes", "The most that the pool has held since then.", &PoolFigures::peak_reserved);
    gauge("largest_free_bytes", "The longest run of free memory.", &PoolFigures::largest_free);
    gauge("live_blocks", "Live blocks.", &PoolFigures::blocks);
    gauge("chunks", "Chunks that the pool holds.", &PoolFigures::chunks);
    gauge("streams", "Streams that blocks were allocated for.", &PoolFigures::streams);
    limits();
    tags();
    family("allocated_bytes_total", "counter", "Bytes of all mallocs since the recording began.");
    each("allocated_bytes_total", [](const PoolFigures& pool) { return pool.allocated; });
    family("mallocs_total", "counter", "Mallocs since the recording began.");
    for (const PoolFigures& pool : pools_) {
      sample("mallocs_total", pool, ",result=\"ok\"", pool.mallocs);
      sample("mallocs_total", pool, ",result=\"failed\"", pool.failed);
    }
    family("frees_total", "counter", "Frees since the recording began.");
    each("frees_total", [](const PoolFigures& pool) { return pool.frees; });
    info();
    return std::move(text_);
  }

 private:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    text_ += fmt::format("# HELP gpupool_{} {}\n# TYPE gpupool_{} {}\n", name, help, name, type);
  }

  void sample(std::string_view name, const PoolFigures& pool, std::string_view labels, uint64_t value) {
    text_ += fmt::format("gpupool_{}{{device=\"{}\",pool=\"{}\",pid=\"{}\"{}}} {}\n", name,
                         label_text(one_line(pool.about.device)), pool.pool, recording_.pid, labels, value);
  }

  template <typename Value>
  void each(std::string_view name, Value value) {
    for (const PoolFigures& pool : pools_) sample(name, pool, "", value(pool));
  }

  void gauge(std::string_view name, std::string_view help, uint64_t PoolFigures::*value) {
    family(name, "gauge", help);
    each(name, [&](const PoolFigures& pool) { return pool.*value; });
  }

  void limits() {
    const auto has_limit = [](const PoolFigures& pool) { return pool.about.limit_bytes != 0; };
    if (std::none_of(pools_.begin(), pools_.end(), has_limit)) return;
    family("limit_bytes", "gauge", "The most that the pool may hold.");
    for (const PoolFigures& pool : pools_) {
      if (has_limit(pool)) sample("limit_bytes", pool, "", pool.about.limit_bytes);
    }
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
  std::string text_;
};

}  // namespace

std::string label_text(const std::string& text) {
  std::string escaped;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    for (const char c : harmless(std::string_view(text).substr(at, end - at))) {
      if (c == '\\' || c == '"') escaped += '\\';
      escaped += c;
    }
    if (end < text.size()) escaped += "\\n";
    at = end + 1;
  }
  return escaped;
}

std::string prometheus_text_of(const Recording& recording) {
  return PrometheusText(recording).write();
}

}  // namespace gpupool::cli
