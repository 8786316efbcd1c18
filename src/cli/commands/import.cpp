// SPDX-License-Identifier: Apache-2.0
// gpupool import: what another allocator has recorded, as a trace or a recording.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "cli/base/library.hpp"
#include "cli/base/out_file.hpp"
#include "cli/base/output.hpp"
#include "cli/base/text_file.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/import.hpp"
#include "cli/commands/options.hpp"
#include "cli/formats/import_rmm.hpp"
#include "cli/formats/import_torch.hpp"
#include "cli/recording/packing.hpp"
#include "cli/recording/recorded_pool.hpp"
#include "cli/recording/recording_writer.hpp"

namespace gpupool::cli {
namespace {

constexpr uint64_t kLargestPickle = uint64_t{4} << 30;
/// A snapshot is kept whole. Gzip packs one into about a tenth.
constexpr uint64_t kMostPickleGrowth = 200;

void import_snapshot(const ImportOptions& options, std::string bytes, OutFile& out) {
  const std::string label = file_label(options.file);
  const Recording recording = recording_of_snapshot(label, std::move(bytes), options.device);
  if (options.format == "recording") {
    return out.write(pack_chunks(bytes_of_recording(recording)));
  }
  if (recording.pools.size() > 1) {
    constexpr size_t kMostNamed = 16;
    std::vector<std::string> devices;
    devices.reserve(recording.pools.size());
    for (const auto& [pool, about] : recording.pools) devices.push_back(std::to_string(pool - 1));
    throw InputError(fmt::format("{}: several devices have blocks: {}. Choose one with --device", label,
                                 list_first(devices, kMostNamed, " ")));
  }
  write_trace(recording, recording.pools.begin()->first, [&](std::string_view piece) { out.write(piece); });
}

constexpr const char* kImportAbout =
    "Read what RMM or PyTorch has recorded\n\n"
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

}  // namespace

int run_import(const ImportOptions& options) {
  const std::string label = file_label(options.file);
  OutFile out(options.output, {options.file});
  std::string pickle;
  std::optional<RmmLog> log;
  const auto use = [&](std::string_view text) {
    if (!log && (!pickle.empty() || is_pickle(text))) {
      if (pickle.size() + text.size() > kLargestPickle)
        throw InputError(
            fmt::format("{}: at byte {}: the pickle is larger than 4 GiB", label, pickle.size()));
      pickle += text;
      return;
    }
    if (!log) {
      refuse_recording(label, text);
      log.emplace(label, out);
    }
    log->feed(text);
  };
  read_text(options.file, use, {.most_growth = kMostPickleGrowth, .is_binary = false});
  if (!pickle.empty()) {
    import_snapshot(options, std::move(pickle), out);
  } else {
    if (options.format != "text" || options.device)
      throw InputError(label + ": --format and --device are for snapshots of PyTorch, and this is none");
    if (!log) log.emplace(label, out);
    log->finish();
  }
  out.close();
  return 0;
}

Command add_import(CLI::App& app) {
  auto [command, options, made] =
      new_command<ImportOptions>(app, "import", kImportAbout, kImportExamples, run_import);
  command.add_option("FILE", options.file, "RMM's log, or PyTorch's snapshot")->required()->option_text(" ");
  output_option(command, options.output);
  command
      .add_option("--format", options.format,
                  "A trace for gpupool replay, or a recording of all devices, for the rest")
      ->check(CLI::IsMember({"text", "recording"}))
      ->option_text("text|recording [text]");
  command.add_option("--device", options.device, "Only this device of a snapshot")->option_text("N");
  return made;
}

}  // namespace gpupool::cli
