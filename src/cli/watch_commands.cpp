// SPDX-License-Identifier: Apache-2.0
#include "cli/watch_commands.hpp"

#include <CLI/CLI.hpp>

namespace gpupool::cli {
namespace {

constexpr const char* kRecordAbout =
    "Runs a program and records every malloc and free of its pools to a file,\n"
    "which the other commands read. Each process that makes a pool is recorded;\n"
    "what is written survives a kill.\n";
constexpr const char* kRecordExamples =
    "Examples:\n"
    "  gpupool record -- python train.py\n"
    "  gpupool record -o serve.gpt --stacks all -- ./server --port 80\n"
    "  gpupool leaks train.gpt\n"
    "\n"
    "Exit status: the program's own; 1 if it made no pool. A signal counts as 128 and its number.";
constexpr const char* kSalvageAbout =
    "Makes a whole, packed recording of what GPUPOOL_RECORD or gpupool_record_start\n"
    "left behind, also where the process was killed or the file is damaged.\n";
constexpr const char* kExportAbout = "Writes a recording in another form.\n";
constexpr const char* kExportExamples =
    "Formats:\n"
    "  text      what gpupool replay reads; tags and marks are comments\n"
    "  pprof     a profile for go tool pprof, Perfetto and speedscope: what was allocated, what is live\n"
    "            at the end, and what was at the peak, by call site, tag, stream, thread and size\n"
    "\n"
    "Examples:\n"
    "  gpupool export train.gpt -o train.trace && gpupool replay train.trace\n"
    "  gpupool export train.gpt | gpupool replay --find-cap -\n"
    "  gpupool export train.gpt --format pprof -o train.pb.gz && go tool pprof -top train.pb.gz\n"
    "  go tool pprof -top -diff_base before.pb.gz after.pb.gz   what has grown between two runs";
constexpr const char* kImportAbout =
    "Makes a trace for gpupool replay of the log that RMM's logging_resource_adaptor\n"
    "writes (Thread,Time,Action,Pointer,Size,Stream).\n";
constexpr const char* kLeaksAbout =
    "Lists what was live at the end of a recording, by call site and tag; what\n"
    "grows from mark to mark comes first (gpupool_mark, once a step or request).\n";
constexpr const char* kLeaksExamples =
    "Examples:\n"
    "  gpupool leaks train.gpt\n"
    "  gpupool leaks train.gpt --fail-over 1MiB            for CI: exit status 1 where more is live at the "
    "end\n"
    "  gpupool leaks train.gpt --growing --fail-over 1MiB  only what grows from mark to mark counts";
constexpr const char* kJsonHelp = "Print JSON for programs, one object a line, and nothing else";

}  // namespace

WatchCommands::WatchCommands(CLI::App& app)
    : record_(app.add_subcommand("record", kRecordAbout)->footer(kRecordExamples)),
      salvage_(app.add_subcommand("salvage", kSalvageAbout)),
      export_(app.add_subcommand("export", kExportAbout)->footer(kExportExamples)),
      import_(app.add_subcommand("import", kImportAbout)),
      leaks_(app.add_subcommand("leaks", kLeaksAbout)->footer(kLeaksExamples)) {
  CLI::App& record = *app.get_subcommand("record");
  record.add_option("PROGRAM", record_options_.program, "What to run, after --")
      ->required()
      ->option_text("...");
  record.add_option("-o,--output", record_options_.output, "The recording; must not be there")
      ->option_text("FILE [PROGRAM.PID.gpt]");
  record.add_option("--stacks", record_options_.stacks, "What to note of where a malloc is called")
      ->check(CLI::IsMember({"none", "native", "language", "all"}))
      ->option_text("none|native|language|all [language]");

  CLI::App& salvage = *app.get_subcommand("salvage");
  salvage.add_option("FILE", salvage_options_.file, "A recording")->required()->option_text(" ");
  salvage.add_option("-o,--output", salvage_options_.output, "The packed recording; must not be there")
      ->required()
      ->option_text("FILE");

  CLI::App& exporting = *app.get_subcommand("export");
  exporting.add_option("FILE", export_options_.file, "A recording")->required()->option_text(" ");
  exporting.add_option("-o,--output", export_options_.output, "Where to write")->option_text("FILE [-]");
  exporting.add_option("--format", export_options_.format, "In which form")
      ->check(CLI::IsMember({"text", "pprof"}))
      ->option_text("text|pprof [text]");
  exporting.add_option("--pool", export_options_.pool, "Which pool, where the recording has several")
      ->check(CLI::PositiveNumber)
      ->option_text("N");

  CLI::App& importing = *app.get_subcommand("import");
  importing.add_option("FILE", import_options_.file, "RMM's log")->required()->option_text(" ");
  importing.add_option("-o,--output", import_options_.output, "Where to write the trace")
      ->option_text("FILE [-]");

  CLI::App& leaks = *app.get_subcommand("leaks");
  leaks.add_option("FILE", leaks_options_.file, "A recording")->required()->option_text(" ");
  leaks
      .add_option("--fail-over", leaks_options_.fail_over,
                  "Exit with status 1 where more bytes are leaked than this")
      ->option_text("BYTES");
  leaks.add_flag("--growing", leaks_options_.growing, "Only what grows from mark to mark");
  leaks.add_option("--count", leaks_options_.count, "How many sites to list")
      ->check(CLI::Range(1, 100000))
      ->option_text("N [20]");
  leaks.add_flag("--json", leaks_options_.json, kJsonHelp);
}

std::optional<int> WatchCommands::run() const {
  if (record_->parsed()) return run_record(record_options_);
  if (salvage_->parsed()) return run_salvage(salvage_options_);
  if (export_->parsed()) return run_export(export_options_);
  if (import_->parsed()) return run_import(import_options_);
  if (leaks_->parsed()) return run_leaks(leaks_options_);
  return std::nullopt;
}

}  // namespace gpupool::cli
