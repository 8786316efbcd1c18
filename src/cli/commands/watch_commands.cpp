// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/watch_commands.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/option_checks.hpp"

#include <CLI/CLI.hpp>

namespace gpupool::cli {
namespace {

constexpr const char* kRecordAbout =
    "Runs a program and records every malloc and free of its pools to a file,\n"
    "which the other commands read. Each process that makes a pool is recorded;\n"
    "what is written survives a kill. With --pid, records a process that runs already,\n"
    "until ctrl-C: one of yours, with GPUPOOL_CONTROL=1 in its environment.\n";
constexpr const char* kRecordExamples =
    "Examples:\n"
    "  gpupool record -- python train.py\n"
    "  gpupool record -o serve.gpt --stacks all -- ./server --port 80\n"
    "  gpupool record --pid 4711 --seconds 10 -o now.gpt\n"
    "  gpupool leaks train.gpt\n"
    "\n"
    "Exit status: the program's own; 1 if it made no pool. A signal counts as 128 and its number. With "
    "--pid:\n"
    "0 if there is a recording; 1 the process failed to, or did not answer; 2 bad input.";
constexpr const char* kSalvageAbout =
    "Makes a whole, packed recording of what GPUPOOL_RECORD or gpupool_record_start\n"
    "left behind, even if the process was killed or the file is damaged.\n";
constexpr const char* kExportAbout = "Writes a recording in another form.\n";
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
constexpr const char* kImportAbout =
    "Makes a trace for gpupool replay of what another allocator has recorded: the log\n"
    "of RMM's logging_resource_adaptor (Thread,Time,Action,Pointer,Size,Stream), or a\n"
    "snapshot of PyTorch (torch.cuda.memory._dump_snapshot). A snapshot can also become\n"
    "a recording, for leaks, report, advise, why and export.\n";
constexpr const char* kImportExamples =
    "Examples:\n"
    "  gpupool import snapshot.pickle | gpupool replay --find-cap -\n"
    "  gpupool import snapshot.pickle --format recording -o run.gpt && gpupool report run.gpt\n"
    "\n"
    "A snapshot tells of its events only if torch.cuda.memory._record_memory_history() was called. Nothing\n"
    "in a pickle is run: what is not plain data is refused. Either file may be packed by gzip.";
constexpr const char* kLeaksAbout =
    "Lists what was live at the end of a recording, by call site and tag; what\n"
    "grows from mark to mark comes first (gpupool_mark, once a step or request).\n";
constexpr const char* kLeaksExamples =
    "Examples:\n"
    "  gpupool leaks train.gpt\n"
    "  gpupool leaks train.gpt --fail-over 1MiB            for CI: exit status 1 if more is live at the "
    "end\n"
    "  gpupool leaks train.gpt --growing --fail-over 1MiB  only what grows from mark to mark counts";
constexpr const char* kAdviseAbout =
    "Says in words what to change in a program that was recorded, and what that\n"
    "would save, as found by playing the recording again with the change. Says\n"
    "nothing if there is nothing to gain.\n";
constexpr const char* kAdviseExamples =
    "Examples:\n"
    "  gpupool advise train.gpt\n"
    "  gpupool advise train.gpt --json | jq .advice\n"
    "\n"
    "The limits that it names are those of a pool on the simulated device, with an H200's memory.";
constexpr const char* kReportAbout =
    "Writes a page that tells what a recording says: what was live over time,\n"
    "where it lay, who held it, what leaked, and what limit it would fit under.\n"
    "It is one file, which any browser opens without a network. Two recordings\n"
    "are compared.\n";
constexpr const char* kReportExamples =
    "Examples:\n"
    "  gpupool report train.gpt\n"
    "  gpupool report before.gpt after.gpt -o difference.html\n"
    "\n"
    "What it says of the limit comes from playing the recording again on the simulated device; --no-fit\n"
    "leaves that out.";
constexpr const char* kWhyAbout =
    "Says what was at an address, from a recording: the block, how far into\n"
    "it the address is, who allocated it, when it was freed, and what lay\n"
    "beside it. In a program, gpupool_why says the same of the moment.\n";
constexpr const char* kWhyExamples =
    "Examples:\n"
    "  gpupool why 0x7f8410b12345 python.29228.gpt\n"
    "  sudo dmesg | grep Xid | gpupool why - python.29228.gpt\n"
    "  gpupool why 'NVRM: Xid ... faulted @ 0x7f84_10b12000 ...' python.29228.gpt\n"
    "\n"
    "Exit status: 0 a block was found; 1 none was; 2 bad input.";
const CLI::App* add_record(CLI::App& app, RecordOptions& options) {
  CLI::App* const command = app.add_subcommand("record", kRecordAbout)->footer(kRecordExamples);
  CLI::Option* const program =
      command->add_option("PROGRAM", options.program, "What to run, after --")->option_text("...");
  CLI::Option* const pid = command->add_option("--pid", options.pid, "Which process to record instead")
                               ->check(is_positive())
                               ->excludes(program)
                               ->option_text("N");
  command->add_option("--seconds", options.seconds, "How long to record that process")
      ->check(between(0.01, 1e8))
      ->needs(pid)
      ->option_text("S [until ctrl-C]");
  command->add_option("-o,--output", options.output, "The recording; must not be there")
      ->check(is_no_dash())
      ->option_text("FILE [PROGRAM.PID.gpt]");
  command->add_option("--stacks", options.stacks, "Which stacks to record of where a malloc is called")
      ->check(CLI::IsMember({"none", "native", "language", "all"}))
      ->option_text("none|native|language|all [language]");
  return command;
}

const CLI::App* add_salvage(CLI::App& app, SalvageOptions& options) {
  CLI::App* const command = app.add_subcommand("salvage", kSalvageAbout);
  command->add_option("FILE", options.file, "A recording")->required()->option_text(" ");
  command->add_option("-o,--output", options.output, "The packed recording; must not be there")
      ->check(is_no_dash())
      ->required()
      ->option_text("FILE");
  return command;
}

const CLI::App* add_export(CLI::App& app, ExportOptions& options) {
  CLI::App* const command = app.add_subcommand("export", kExportAbout)->footer(kExportExamples);
  command->add_option("FILE", options.file, "A recording")->required()->option_text(" ");
  command->add_option("-o,--output", options.output, "Where to write")->option_text("FILE [-]");
  command->add_option("--format", options.format, "In which form")
      ->check(CLI::IsMember({"text", "pprof", "torch", "chrome", "prometheus"}))
      ->option_text("text|pprof|torch|chrome|prometheus [text]");
  command->add_flag_callback(
      "--prometheus", [&options] { options.format = "prometheus"; }, "The same as --format prometheus");
  command
      ->add_option("--listen", options.listen,
                   "Answer GET /metrics, reading the recording each time; for --prometheus")
      ->option_text("ADDRESS:PORT");
  command->add_option("--last", options.last, "Events that a snapshot for PyTorch has at most")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 26))
      ->option_text("N [100000]");
  command->add_flag("--at-peak", options.at_peak, "A snapshot for PyTorch of when most was live");
  command->add_option("--pool", options.pool, "Which pool, if the recording has several")
      ->check(is_positive())
      ->option_text("N");
  return command;
}

const CLI::App* add_import(CLI::App& app, ImportOptions& options) {
  CLI::App* const command = app.add_subcommand("import", kImportAbout)->footer(kImportExamples);
  command->add_option("FILE", options.file, "RMM's log, or PyTorch's snapshot")->required()->option_text(" ");
  command->add_option("-o,--output", options.output, "Where to write")->option_text("FILE [-]");
  command
      ->add_option("--format", options.format,
                   "A trace for gpupool replay, or a recording with all devices, for the other commands")
      ->check(CLI::IsMember({"text", "recording"}))
      ->option_text("text|recording [text]");
  command->add_option("--device", options.device, "Only this device of a snapshot")->option_text("N");
  return command;
}

const CLI::App* add_leaks(CLI::App& app, LeaksOptions& options) {
  CLI::App* const command = app.add_subcommand("leaks", kLeaksAbout)->footer(kLeaksExamples);
  command->add_option("FILE", options.file, "A recording")->required()->option_text(" ");
  command
      ->add_option("--fail-over", options.fail_over, "Exit with status 1 if more bytes are leaked than this")
      ->option_text("BYTES");
  command->add_flag("--growing", options.growing, "Only what grows from mark to mark");
  command->add_option("--count", options.count, "How many sites to list")
      ->check(CLI::Range(1, 100000))
      ->option_text("N [20]");
  command->add_flag("--json", options.json, kJsonHelp);
  return command;
}

const CLI::App* add_report(CLI::App& app, ReportOptions& options) {
  CLI::App* const command = app.add_subcommand("report", kReportAbout)->footer(kReportExamples);
  command->add_option("FILE", options.files, "A recording, or two to compare")
      ->required()
      ->option_text("[FILE]");
  command->add_option("-o,--output", options.output, "Where to write the page")
      ->option_text("FILE [report.html]");
  command->add_option("--pool", options.pool, "Only this pool, if the recording has several")
      ->check(is_positive())
      ->option_text("N");
  command->add_flag("--no-fit", options.no_fit,
                    "Do not play the recording again, which takes some seconds: no least limit");
  return command;
}

const CLI::App* add_advise(CLI::App& app, AdviseOptions& options) {
  CLI::App* const command = app.add_subcommand("advise", kAdviseAbout)->footer(kAdviseExamples);
  command->add_option("FILE", options.file, "A recording")->required()->option_text(" ");
  command->add_option("--pool", options.pool, "Which pool, if the recording has several")
      ->check(is_positive())
      ->option_text("N");
  command->add_flag("--json", options.json, kJsonHelp);
  return command;
}

const CLI::App* add_why(CLI::App& app, WhyOptions& options) {
  CLI::App* const command = app.add_subcommand("why", kWhyAbout)->footer(kWhyExamples);
  command
      ->add_option("ADDRESS", options.what, "An address, a line with one, or - for lines on standard input")
      ->required()
      ->option_text(" ");
  command->add_option("FILE", options.file, "A recording")->required()->option_text(" ");
  return command;
}

}  // namespace

WatchCommands::WatchCommands(CLI::App& app)
    : record_(add_record(app, record_options_)),
      salvage_(add_salvage(app, salvage_options_)),
      export_(add_export(app, export_options_)),
      import_(add_import(app, import_options_)),
      leaks_(add_leaks(app, leaks_options_)),
      report_(add_report(app, report_options_)),
      advise_(add_advise(app, advise_options_)),
      why_(add_why(app, why_options_)) {}

std::optional<int> WatchCommands::run() const {
  if (record_->parsed()) return run_record(record_options_);
  if (salvage_->parsed()) return run_salvage(salvage_options_);
  if (export_->parsed()) return run_export(export_options_);
  if (import_->parsed()) return run_import(import_options_);
  if (leaks_->parsed()) return run_leaks(leaks_options_);
  if (report_->parsed()) return run_report(report_options_);
  if (advise_->parsed()) return run_advise(advise_options_);
  if (why_->parsed()) return run_why(why_options_);
  return std::nullopt;
}

}  // namespace gpupool::cli
