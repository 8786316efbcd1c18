// SPDX-License-Identifier: Apache-2.0
// Chrome's JSON of traces, which Perfetto's UI reads too. Times are from CLOCK_REALTIME, as in PyTorch's
// profiler, so that both files can be viewed together.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

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

class ChromeTrace {
 public:
  ChromeTrace(const Recording& recording, uint64_t pool) : recording_(recording), pool_(pool) {}

  std::string write() {
    const auto about = recording_.pools.find(pool_);
    name_ = fmt::format("gpupool {} pool {}",
                        about != recording_.pools.end() ? one_line(about->second.device) : "", pool_);
    name_threads();
    add_counters();
    add_moments();
    // Viewers that read a file piece by piece want times to rise.
    std::multimap<uint64_t, const std::string*> by_time;  // of one time in their order
    for (const Event& event : events_) by_time.emplace(event.ns, &event.text);
    std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    const char* between = "";
    for (const auto& [ns, event] : by_time) text += std::exchange(between, ",\n") + *event;
    return text + "\n]}\n";
  }

 private:
  struct Event {
    uint64_t ns;
    std::string text;
  };

  /// Microseconds, to the nanosecond.
  std::string time(uint64_t ns) const {
    const uint64_t at = recording_.start_realtime_ns + ns;
    return fmt::format("{}.{:03}", at / 1000, at % 1000);
  }

  void add(uint64_t ns, std::string text) { events_.push_back({ns, std::move(text)}); }

  void name_threads() {
    add(0, fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", recording_.pid,
                       json_text(one_line(recording_.command, 200))));
    for (const RecordedThread& thread : recording_.threads) {
      add(0, fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})",
                         recording_.pid, thread.number, json_text(one_line(thread.name))));
    }
  }

  void counter(std::string_view what, uint64_t ns, const std::string& values) {
    add(ns, fmt::format(R"({{"ph":"C","pid":{},"name":{},"ts":{},"args":{{{}}}}})", recording_.pid,
                        json_text(fmt::format("{}{}", name_, what)), time(ns), values));
  }

  void add_counters() {
    const Timeline timeline = make_timeline(recording_, pool_, kPoints);
    const GroupedBytes& tags = timeline.groups.front();
    for (size_t i = 0; i < timeline.ns.size(); ++i) {
      const uint64_t live = timeline.live[i];
      const uint64_t used = live + timeline.idle[i];
      const uint64_t stuck = timeline.reserved[i] > used ? timeline.reserved[i] - used : 0;
      counter("", timeline.ns[i],
              fmt::format(R"("live":{},"free in used chunks":{},"free chunks":{})", live, stuck,
                          timeline.idle[i]));
      std::string by_tag;
      for (size_t k = 0; k < tags.names.size(); ++k) {
        by_tag += fmt::format("{}{}:{}", k == 0 ? "" : ",", json_text(tags.names[k]), tags.by_name[k][i]);
      }
      if (tags.names.size() > 1) counter(" by tag", timeline.ns[i], by_tag);
    }
  }

  void instant(const Happened& event, const std::string& name, const std::string& arguments) {
    add(event.ns, fmt::format(R"({{"ph":"i","s":"p","pid":{},"tid":{},"name":{},"ts":{},"args":{{{}}}}})",
                              recording_.pid, recording_.threads[event.thread].number, json_text(name),
                              time(event.ns), arguments));
  }

  void add_moments() {
    for (const Happened& event : recording_.events) {
      if (event.kind == Kind::mark) instant(event, one_line(recording_.marks[event.bytes]), "");
      if (event.kind != Kind::failed || event.pool != pool_) continue;
      instant(event, fmt::format("malloc of {} failed", format_bytes(event.bytes)),
              fmt::format(R"("bytes":{},"tag":{})", event.bytes, json_text(recording_.tag(event.tag))));
    }
  }

  const Recording& recording_;
  const uint64_t pool_;
  std::string name_;
  std::vector<Event> events_;
};

}  // namespace

std::string chrome_trace_of(const Recording& recording, uint64_t pool) {
  return ChromeTrace(recording, pool).write();
}

}  // namespace gpupool::cli
