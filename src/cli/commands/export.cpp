// SPDX-License-Identifier: Apache-2.0
// gpupool export: a recording in another form.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/base/library.hpp"
#include "cli/base/metrics_server.hpp"
#include "cli/base/out_file.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/options.hpp"
#include "cli/formats/export_formats.hpp"
#include "cli/formats/pprof.hpp"
#include "cli/recording/recorded_pool.hpp"

namespace gpupool::cli {
namespace {

struct ExportOptions {
  std::string file;
  std::string output = "-";
  std::string format = "text";
  std::string listen;  // "": write once
  uint64_t pool = 0;   // 0: the only one
  uint64_t last = 100000;
  bool at_peak = false;
};

int run_export(const ExportOptions& options) {
  if (!options.listen.empty() && options.format != "prometheus") {
    throw InputError("--listen answers Prometheus: it needs --prometheus");
  }
  const Recording recording = read_recording(options.file);
  if (!options.listen.empty()) {
    serve_metrics(options.listen, [&] { return prometheus_text_of(read_recording(options.file)); });
    return 0;
  }
  OutFile out(options.output, {options.file});
  if (options.format == "prometheus") {
    // node_exporter runs as another user.
    out.let_all_read();
    out.write(prometheus_text_of(recording));
    out.close();
    return 0;
  }
  const uint64_t pool = choose_pool(recording, options.pool);
  const auto write = [&](std::string_view piece) { out.write(piece); };
  if (options.format == "pprof") {
    out.write(pprof_of(recording, pool));
  } else if (options.format == "torch") {
    out.write(torch_snapshot_of(recording, pool, options.last, options.at_peak));
  } else if (options.format == "chrome") {
    write_chrome_trace(recording, pool, write);
  } else {
    write_trace(recording, pool, write);
  }
  out.close();
  return 0;
}

constexpr const char* kExportAbout =
    "Write a recording for other tools: pprof, PyTorch, Perfetto\n\n"
    "Writes a recording in another form, to standard output or a file.\n";

constexpr const char* kExportExamples =
    "Formats:\n"
    "  text      what gpupool replay reads; tags and marks are comments\n"
    "  pprof     a profile for go tool pprof, Perfetto and speedscope: what was allocated, what is live\n"
    "            at the end, and what was at the peak, by call site, tag, stream, thread and size\n"
    "  torch     a snapshot for PyTorch's memory_viz (pytorch.org/memory_viz), of the last events (--last),\n"
    "            at the end or at the peak (--at-peak)\n"
    "  chrome    JSON for Perfetto (ui.perfetto.dev) and chrome://tracing, on the same clock as PyTorch's\n"
    "            profiler\n"
    "  prometheus  figures of all pools, also of a recording that is under way; as a file that ends in\n"
    "            .prom for node_exporter's textfile collector, or with --listen at /metrics\n"
    "\n"
    "Examples:\n"
    "  gpupool export train.gpt -o train.trace && gpupool replay train.trace\n"
    "  gpupool export train.gpt | gpupool replay --find-cap -\n"
    "  gpupool export train.gpt --format pprof -o train.pb.gz && go tool pprof -top train.pb.gz\n"
    "  go tool pprof -top -diff_base before.pb.gz after.pb.gz   what has grown between two runs\n"
    "  gpupool export train.gpt --format torch -o train.pickle\n"
    "  gpupool export train.gpt --prometheus --listen 127.0.0.1:9837";

}  // namespace

Command add_export(CLI::App& app) {
  auto [command, options, made] =
      new_command<ExportOptions>(app, "export", kExportAbout, kExportExamples, run_export);
  file_option(command, options.file);
  output_option(command, options.output);
  command.add_option("--format", options.format, "In which form")
      ->check(CLI::IsMember({"text", "pprof", "torch", "chrome", "prometheus"}))
      ->option_text("text|pprof|torch|chrome|prometheus [text]");
  command.add_flag_callback(
      "--prometheus", [&format = options.format] { format = "prometheus"; },
      "The same as --format prometheus");
  command
      .add_option("--listen", options.listen,
                  "Answer GET /metrics, reading the recording each time; for --prometheus")
      ->option_text("ADDRESS:PORT");
  command.add_option("--last", options.last, "Events that a snapshot for PyTorch has at most")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 26))
      ->option_text("N [100000]");
  command.add_flag("--at-peak", options.at_peak, "A snapshot for PyTorch of when most was live");
  pool_option(command, options.pool);
  return made;
}

}  // namespace gpupool::cli
