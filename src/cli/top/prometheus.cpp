// SPDX-License-Identifier: Apache-2.0
// Metrics have the names of `gpupool export --format prometheus` where they mean the same.
#include "cli/top/prometheus.hpp"

#include <algorithm>
#include <map>

#include "cli/base/prometheus.hpp"
#include "cli/top/choice.hpp"

namespace gpupool::cli {
namespace {

struct LiveMetric {
  const char* name;
  const char* type;
  const char* help;
  uint64_t ShownPool::*value;
};
constexpr LiveMetric kLiveMetrics[] = {
    {"live_bytes", "gauge", "Bytes in live blocks, as blocks take them.", &ShownPool::live},
    {"pending_bytes", "gauge", "Bytes that are freed and that streams may still use.", &ShownPool::pending},
    {"cached_bytes", "gauge", "Free bytes that the pool keeps.", &ShownPool::cached},
    {"slack_bytes", "gauge", "Bytes that captured graphs keep.", &ShownPool::slack},
    {"reserved_bytes", "gauge", "Physical memory that the pool holds: the sum of these four.",
     &ShownPool::reserved},
    {"asleep_bytes", "gauge", "Physical memory that waking will create.", &ShownPool::asleep},
    {"backup_bytes", "gauge", "Memory of the host that is kept for sleep.", &ShownPool::backup},
    {"live_peak_bytes", "gauge", "The most that was live.", &ShownPool::live_peak},
    {"reserved_peak_bytes", "gauge", "The most that the pool has held.", &ShownPool::reserved_peak},
    {"largest_free_bytes", "gauge", "The longest range of free memory.", &ShownPool::largest_free_range},
    {"live_blocks", "gauge", "Live blocks.", &ShownPool::live_blocks},
    {"streams", "gauge", "Streams that the pool knows.", &ShownPool::streams},
    {"retries_total", "counter", "Mallocs that were tried again after memory was given back.",
     &ShownPool::retries},
    {"driver_calls_total", "counter", "Calls of the driver.", &ShownPool::driver_calls},
};

struct LabelledRow : TopRow {
  explicit LabelledRow(const TopRow& row) : TopRow(row) {
    // A process may have several copies of the library, which number pools alike.
    const std::string number =
        page == 0 ? std::to_string(pool->number) : fmt::format("{}/{}", page, pool->number);
    labels = fmt::format("device=\"{}\",UUID=\"{}\",pool=\"{}\",pid=\"{}\"", device_of(*pool),
                         label_text(pool->device_id), number, process->pid);
  }
  std::string labels;
};

class LiveText : MetricsText {
 public:
  explicit LiveText(const Look& now) : now_(now) {
    for (const TopRow& row : rows_in_order(now.processes, "pid")) rows_.emplace_back(row);
  }

  std::string write() {
    for (const LiveMetric& metric : kLiveMetrics)
      each(metric.name, metric.type, metric.help, rows_,
           [&](const TopRow& row) { return row.pool->*metric.value; });
    each(
        "limit_bytes", "gauge", "The most that the pool may hold; absent without a limit.", rows_,
        [](const TopRow& row) { return row.pool->limit; }, true);
    counters();
    family("tag_live_bytes", "gauge", "Bytes in live blocks by tag, as samples estimate them: the largest.");
    for (const LabelledRow& row : rows_) {
      // A page has only the beginning of a long name, so several tags may look alike. No series may come
      // twice.
      std::map<std::string, uint64_t> by_label;
      for (const ShownTag& tag : row.pool->tags) by_label[label_text(tag.name)] += tag.bytes;
      for (const auto& [label, bytes] : by_label)
        sample("tag_live_bytes", row, fmt::format(",tag=\"{}\"", label), bytes);
    }
    about();
    return std::move(text_);
  }

 private:
  void counters() {
    family("mallocs_total", "counter", "Mallocs, by whether a thread's cache could serve them.");
    for (const LabelledRow& row : rows_) {
      sample("mallocs_total", row, ",result=\"hit\"", row.pool->hits);
      sample("mallocs_total", row, ",result=\"miss\"", row.pool->misses);
      sample("mallocs_total", row, ",result=\"failed\"", row.pool->failed_mallocs);
    }
    family("steals_total", "counter", "Chunks that were moved, by whose stream they were.");
    for (const LabelledRow& row : rows_) {
      const uint64_t other = std::min(row.pool->stream_steals, row.pool->steals);
      sample("steals_total", row, ",from=\"own\"", row.pool->steals - other);
      sample("steals_total", row, ",from=\"other\"", other);
    }
    each("driver_seconds_total", "counter", "Time in calls of the driver.", rows_,
         [](const TopRow& row) { return static_cast<double>(row.pool->driver_ns) / 1e9; });
  }

  void about() {
    family("page_age_seconds", "gauge", "How old the figures of the pool are.");
    for (const LabelledRow& row : rows_) {
      if (row.pool->shown_ns > now_.now_ns) continue;
      sample("page_age_seconds", row, "", static_cast<double>(now_.now_ns - row.pool->shown_ns) / 1e9);
    }
    family("pool_info", "gauge", "Facts that hardly change.");
    for (const LabelledRow& row : rows_) {
      sample("pool_info", row,
             fmt::format(",version=\"{}\",name=\"{}\",user=\"{}\",command=\"{}\"",
                         label_text(row.process->pages[row.page].version), label_text(row.pool->name),
                         label_text(row.process->user), label_text(row.process->command)),
             1);
    }
  }

  const Look& now_;
  std::vector<LabelledRow> rows_;
};

}  // namespace

std::string prometheus_text_of(const Look& now) {
  return LiveText(now).write();
}

}  // namespace gpupool::cli
