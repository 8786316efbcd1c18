// SPDX-License-Identifier: Apache-2.0
// gpupool replay: options in, rows out.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/options.hpp"
#include "cli/measure/replay.hpp"
#include "cli/recording/trace.hpp"

namespace gpupool::cli {
namespace {

struct ReplayOptions {
  std::vector<std::string> files;
  std::string device = "auto";
  std::string cap;
  std::string max_chunk;
  std::string mode = "auto";
  double slack = 0;
  int passes = 2;
  bool find_cap = false;
  bool data = false;
  bool paced = false;
  bool json = false;
};

using Json = nlohmann::ordered_json;

/// One trace's outcome.
struct Row {
  const Trace& trace;
  ReplayResult result;
  uint64_t cap_bytes = 0;  // 0: none
  std::optional<double> cap_over_live;

  double reserved_over_live() const {
    return static_cast<double>(result.peak_reserved_bytes) / static_cast<double>(trace.peak_live_bytes);
  }
  double ns_per_event(const PassResult& pass) const {
    return pass.nanoseconds / static_cast<double>(trace.events.size());
  }
};

ReplaySetup make_setup(const ReplayOptions& options, const gpupool_device_info_t& device) {
  ReplaySetup setup;
  setup.config = config_for(device);
  setup.config.slack = options.slack;
  if (!options.max_chunk.empty()) {
    setup.config.max_chunk_bytes = parse_bytes(options.max_chunk, "--max-chunk");
  }
  if (options.mode == "vmm") setup.config.mode = Mode::vmm;
  if (options.mode == "driver") setup.config.mode = Mode::driver;
  setup.passes = options.passes;
  setup.with_data = options.data;
  setup.paced = options.paced;
  return setup;
}

std::vector<Trace> load_traces(const std::vector<std::string>& files) {
  std::vector<Trace> traces;
  for (const std::string& file : files) {
    traces.push_back(load_trace(file));
    if (!traces.back().is_ended) {
      say(fmt::format("warning: {}: the last line does not end; the trace may have been cut", file));
    }
  }
  return traces;
}

/// Memory that the host can still provide without swapping; nothing if that is unknown.
std::optional<uint64_t> available_host_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  uint64_t kib = 0;
  while (file >> word) {
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return std::nullopt;
}

/// With data, the simulated device's memory is host memory; running out of that ends in a crash.
void require_host_memory(const Trace& trace) {
  const std::optional<uint64_t> available = available_host_bytes();
  if (available && trace.peak_live_bytes > *available) {
    throw InputError(
        fmt::format("{}: --data on the simulated device needs {} of host memory and {} is available",
                    trace.file, format_bytes(trace.peak_live_bytes), format_bytes(*available)));
  }
}

Row replay_one(const Trace& trace, const ReplaySetup& setup, const ReplayOptions& options,
               Progress& progress) {
  Row row{trace, {}, 0, {}};
  if (!options.cap.empty()) row.cap_bytes = parse_cap(options.cap).for_peak(trace.peak_live_bytes);
  progress.begin(
      fmt::format("{}: {} passes{}", trace.name, setup.passes, setup.with_data ? " with data" : ""),
      static_cast<uint64_t>(setup.passes) * trace.events.size());
  row.result = replay(trace, setup, row.cap_bytes, false, progress);
  if (options.find_cap) {
    std::vector<std::string> problems;
    row.cap_over_live = find_cap(trace, setup, row.reserved_over_live(), progress, problems);
    if (!row.cap_over_live) problems.emplace_back("no cap was found with which the trace completes");
    row.result.inconsistencies += problems.size();
    row.result.problems.insert(row.result.problems.end(), problems.begin(), problems.end());
  }
  return row;
}

Json to_json(const Row& row, const gpupool_device_info_t& device, const ReplayOptions& options) {
  Json ns = Json::array(), calls = Json::array(), time = Json::array(), by_kind = Json::object();
  Json reserved = Json::array(), hits = Json::array(), misses = Json::array(), steals = Json::array();
  for (const PassResult& pass : row.result.passes) {
    ns.push_back(round_to(row.ns_per_event(pass), 1));
    calls.push_back(pass.driver_calls());
    time.push_back(round_to(pass.driver_microseconds(), 3));
    reserved.push_back(pass.peak_reserved_bytes);
    hits.push_back(pass.hits);
    misses.push_back(pass.misses);
    steals.push_back(pass.steals);
    for (const DriverCall& call : kDriverCalls) {
      by_kind[std::string(call.name)].push_back((pass.driver.*call.stat).count);
    }
  }
  Json json = {
      {"trace", row.trace.name},
      {"file", row.trace.file},
      {"device", device_label(device)},
      {"device_name", device.name},
      {"events", row.trace.events.size()},
      {"streams", row.trace.streams.size()},
      {"passes", row.result.passes.size()},
      {"data", options.data},
      {"paced", options.paced},
      {"peak_live_bytes", row.trace.peak_live_bytes},
      {"peak_reserved_bytes", row.result.peak_reserved_bytes},
      {"reserved_over_live", round_to(row.reserved_over_live(), 6)},
  };
  if (row.cap_bytes != 0) json["cap_bytes"] = row.cap_bytes;
  if (options.find_cap)
    json["cap_over_live"] = row.cap_over_live ? Json(round_to(*row.cap_over_live, 6)) : Json();
  json["peak_reserved_bytes_by_pass"] = std::move(reserved);
  json["ns_per_event"] = std::move(ns);
  json["driver_calls"] = std::move(calls);
  json["driver_time_us"] = std::move(time);
  json["driver_calls_by_kind"] = std::move(by_kind);
  json["hits"] = std::move(hits);
  json["misses"] = std::move(misses);
  json["steals"] = std::move(steals);
  json["host_waits"] = row.result.host_waits;
  json["failed_allocations"] = row.result.failed_allocations;
  json["inconsistencies"] = row.result.inconsistencies;
  return json;
}

std::string format_microseconds(double microseconds) {
  if (microseconds < 1000) return fmt::format("{:.0f} us", microseconds);
  if (microseconds < 1e6) return fmt::format("{:.2f} ms", microseconds / 1e3);
  return fmt::format("{:.2f} s", microseconds / 1e6);
}

Table make_table(bool with_cap) {
  using Align = Table::Align;
  std::vector<Table::Column> columns = {
      {"trace", Align::left}, {"events"},        {"streams"},    {"live peak"},
      {"reserved peak"},      {"reserved/live"}, {"pass"},       {"ns/event"},
      {"driver calls"},       {"driver time"},   {"host waits"}, {"failed"},
  };
  if (with_cap) columns.insert(columns.begin() + 6, {"cap/live"});
  return Table(std::move(columns));
}

/// Adds a line for each pass; figures of the whole trace stand in the first.
void add_rows(Table& table, const Row& row, bool with_cap) {
  for (size_t i = 0; i < row.result.passes.size(); ++i) {
    const PassResult& pass = row.result.passes[i];
    const auto once = [&](std::string cell) { return i == 0 ? std::move(cell) : std::string(); };
    std::vector<std::string> cells = {
        once(row.trace.name),
        once(format_count(row.trace.events.size())),
        once(std::to_string(row.trace.streams.size())),
        once(format_bytes(row.trace.peak_live_bytes)),
        once(format_bytes(row.result.peak_reserved_bytes)),
        once(fmt::format("{:.4f}", row.reserved_over_live())),
        std::to_string(i + 1),
        fmt::format("{:.0f}", row.ns_per_event(pass)),
        format_count(pass.driver_calls()),
        format_microseconds(pass.driver_microseconds()),
        format_count(pass.driver.host_wait.count),
        once(format_count(row.result.failed_allocations)),
    };
    if (with_cap) {
      cells.insert(cells.begin() + 6,
                   once(row.cap_over_live ? fmt::format("{:.4f}", *row.cap_over_live) : "none"));
    }
    table.add(std::move(cells));
  }
}

void print_problems(const Row& row) {
  for (const std::string& problem : row.result.problems) {
    say(fmt::format("{}: {}", row.trace.name, problem));
  }
  if (row.result.failed_allocations != 0) {
    say(fmt::format("{}: {} allocations failed", row.trace.name,
                    format_count(row.result.failed_allocations)));
  }
  if (row.result.inconsistencies != 0) {
    say(fmt::format("{}: {} inconsistencies found", row.trace.name,
                    format_count(row.result.inconsistencies)));
  }
}

int run_replay(const ReplayOptions& options) {
  if (!options.cap.empty()) parse_cap(options.cap);  // a bad one is reported before any work
  const gpupool_device_info_t device = find_device(options.device);
  const ReplaySetup setup = make_setup(options, device);
  const std::vector<Trace> traces = load_traces(options.files);
  if (options.data && device.backend == GPUPOOL_BACKEND_SIM) {
    for (const Trace& trace : traces) require_host_memory(trace);
  }
  for (const Trace& trace : traces) {
    if (options.paced && trace.duration == 0) {
      throw InputError(trace.file + ": --pace needs a line '# duration SECONDS', and there is none");
    }
  }
  configure_data(device, options.data);

  bool is_good = true;
  Table table = make_table(options.find_cap);
  Progress progress;
  for (const Trace& trace : traces) {
    const Row row = replay_one(trace, setup, options, progress);
    progress.clear();
    if (options.json) {
      print_json(to_json(row, device, options));
    } else {
      add_rows(table, row, options.find_cap);
    }
    print_problems(row);
    is_good = is_good && row.result.is_good();
  }
  if (!options.json) {
    fmt::print("device {} ({})\n\n", device_label(device), device.name);
    table.print();
  }
  return is_good ? 0 : 1;
}

constexpr const char* kReplayAbout =
    "Play a recorded workload through a pool: what memory it takes\n\n"
    "Plays recorded workloads through a pool: how much memory did it need,\n"
    "how long did it take, what did it ask of the driver. A trace is read\n"
    "and checked first, then played several times in one pool: the first\n"
    "pass pays for memory, later ones show a pool that is warm. After each\n"
    "pass everything is freed and the pool's records are checked.\n";

constexpr const char* kReplayExamples =
    "A trace is a text file, possibly packed with gzip, with one event a line; - is standard input:\n"
    "  # comment\n"
    "  a ID BYTES STREAM   block ID is allocated; each number of a stream becomes a real stream\n"
    "  f ID                block ID is freed, on the stream it was allocated for\n"
    "It has at most 67,108,864 lines of at most 4,096 characters.\n"
    "\n"
    "What is printed:\n"
    "  live peak       most bytes live at once, each block rounded up to 512\n"
    "  reserved peak   most physical memory that the pool held; over live: how tight it was\n"
    "  cap/live        smallest limit, in live peaks, with which the trace completes (--find-cap)\n"
    "  ns/event        time of the host for one malloc or free; with --data, writing and checking too\n"
    "  driver calls    calls of the driver in that pass, and the time that they took: measured on\n"
    "  driver time     CUDA, at the prices of an H200 on the simulated device\n"
    "  host waits      times that the host waited for the GPU\n"
    "  failed          allocations that failed\n"
    "\n"
    "Examples:\n"
    "  gpupool replay --device sim *.trace.gz\n"
    "  gpupool replay --cap 1.05x lm_train.trace.gz         does it fit into 5 % more than is live?\n"
    "  gpupool replay --find-cap --json lm_serve.trace.gz   what is the least it fits into?\n"
    "  gpupool replay --device cuda:0 --data my.trace       is every block left alone?\n"
    "  make_trace | gpupool replay -                        a trace that is no file\n"
    "\n"
    "Exit status: 0 all went well; 1 an allocation failed or something was inconsistent; 2 bad input.";

}  // namespace

Command add_replay(CLI::App& app) {
  auto [command, options, made] =
      new_command<ReplayOptions>(app, "replay", kReplayAbout, kReplayExamples, run_replay);
  command.add_option("FILE", options.files, "Traces, as text or gzip")->required()->option_text("...");
  device_option(command, options.device);
  command.add_option("--passes", options.passes, "How often to play each trace in the same pool")
      ->check(CLI::Range(1, 1000000))
      ->option_text("N [2]");
  command
      .add_option("--cap", options.cap, "Limit the pool: bytes (or 10GiB), or a multiple of the live peak")
      ->option_text("BYTES|1.05x");
  command.add_flag("--find-cap", options.find_cap,
                   "Also find the smallest cap that completes, to 0.1 % of the live peak");
  command.add_flag("--data", options.data, "Write every block and check it before it is freed; slow on sim");
  command.add_flag("--pace", options.paced,
                   "Spread each pass over the time the recorded program took: virtual time on sim");
  command
      .add_option("--slack", options.slack,
                  "Reserve this much more to save driver calls: 0.1 is 10 %; -1: always tight")
      ->option_text("X");
  command.add_option("--max-chunk", options.max_chunk, "Size of the pool's largest chunk, such as 32MiB")
      ->option_text("BYTES");
  command
      .add_option("--mode", options.mode,
                  "vmm: chunks mapped where they are needed; driver: the driver's malloc")
      ->check(CLI::IsMember({"auto", "vmm", "driver"}))
      ->option_text("auto|vmm|driver");
  json_flag(command, options.json);
  return made;
}

}  // namespace gpupool::cli
