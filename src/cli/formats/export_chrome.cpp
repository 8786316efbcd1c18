// SPDX-License-Identifier: Apache-2.0
// Chrome's JSON of traces, which Perfetto's UI reads too. Times are from CLOCK_REALTIME, as in PyTorch's
// profiler, so that both files can be viewed together.
#include <fmt/format.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "cli/base/size.hpp"
#include "cli/formats/export_formats.hpp"
#include "cli/recording/timeline.hpp"

namespace gpupool::cli {
namespace {

/// One point per change would be more than viewers can draw.
constexpr uint64_t kPoints = 2000;

/// In JSON's quotes, with U+FFFD for what is not UTF-8.
std::string json_text(std::string text) {
  const nlohmann::json quoted = std::move(text);
  return quoted.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Viewers that read a file piece by piece want times to rise, so counters and moments, each in the order of
/// time, are written in turn.
class ChromeTrace {
 public:
  ChromeTrace(const Recording& recording, uint64_t pool, const std::function<void(std::string_view)>& write)
      : recording_(recording),
        pool_(pool),
        write_(write),
        timeline_(make_timeline(recording, pool, kPoints)) {
    const auto about = recording.pools.find(pool);
    name_ = fmt::format("gpupool {} pool {}",
                        about != recording.pools.end() ? one_line(about->second.device) : "", pool);
  }

  void write() {
    write_("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    name_threads();
    for (const Happened& event : recording_.events) {
      const bool is_failure = event.kind == Kind::failed && event.pool == pool_;
      if (event.kind != Kind::mark && !is_failure) continue;
      add_counters_until(event.ns);
      if (is_failure) {
        instant(event, fmt::format("malloc of {} failed", format_bytes(event.bytes)),
                fmt::format(R"("bytes":{},"tag":{})", event.bytes, json_text(recording_.tag(event.tag))));
      } else {
        instant(event, one_line(recording_.marks[event.bytes]), "");
      }
    }
    add_counters_until(std::numeric_limits<uint64_t>::max());
    write_("\n]}\n");
  }

 private:
  /// Microseconds, to the nanosecond.
  std::string time(uint64_t ns) const {
    const uint64_t at = recording_.start_realtime_ns + ns;
    return fmt::format("{}.{:03}", at / 1000, at % 1000);
  }

  void add(const std::string& event) { write_(std::exchange(between_, ",\n") + event); }

  void name_threads() {
    add(fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", recording_.pid,
                    json_text(one_line(recording_.command, 200))));
    for (const RecordedThread& thread : recording_.threads) {
      add(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})",
                      recording_.pid, thread.number, json_text(one_line(thread.name))));
    }
  }

  void counter(std::string_view what, uint64_t ns, const std::string& values) {
    add(fmt::format(R"({{"ph":"C","pid":{},"name":{},"ts":{},"args":{{{}}}}})", recording_.pid,
                    json_text(fmt::format("{}{}", name_, what)), time(ns), values));
  }

  void add_counters_until(uint64_t ns) {
    for (; next_ < timeline_.ns.size() && timeline_.ns[next_] <= ns; ++next_) add_counters(next_);
  }

  void add_counters(size_t i) {
    const GroupedBytes& tags = timeline_.groups.front();
    const uint64_t live = timeline_.live[i];
    const uint64_t used = live + timeline_.idle[i];
    const uint64_t stuck = timeline_.reserved[i] > used ? timeline_.reserved[i] - used : 0;
    counter("", timeline_.ns[i],
            fmt::format(R"("live":{},"free in used chunks":{},"free chunks":{})", live, stuck,
                        timeline_.idle[i]));
    if (tags.names.size() <= 1) return;
    std::string by_tag;
    for (size_t k = 0; k < tags.names.size(); ++k) {
      by_tag += fmt::format("{}{}:{}", k == 0 ? "" : ",", json_text(tags.names[k]), tags.by_name[k][i]);
    }
    counter(" by tag", timeline_.ns[i], by_tag);
  }

  void instant(const Happened& event, const std::string& name, const std::string& arguments) {
    add(fmt::format(R"({{"ph":"i","s":"p","pid":{},"tid":{},"name":{},"ts":{},"args":{{{}}}}})",
                    recording_.pid, recording_.threads[event.thread].number, json_text(name), time(event.ns),
                    arguments));
  }

  const Recording& recording_;
  const uint64_t pool_;
  const std::function<void(std::string_view)>& write_;
  const Timeline timeline_;
  std::string name_;
  std::string between_;
  size_t next_ = 0;  // moment of the timeline that is not written yet
};

}  // namespace

void write_chrome_trace(const Recording& recording, uint64_t pool,
                        const std::function<void(std::string_view)>& write) {
  ChromeTrace(recording, pool, write).write();
}

}  // namespace gpupool::cli
