// SPDX-License-Identifier: Apache-2.0
// A recording as a trace for gpupool replay.
#include <fmt/format.h>

#include <map>

#include "cli/library.hpp"
#include "cli/live.hpp"
#include "cli/out_file.hpp"
#include "cli/pprof.hpp"
#include "cli/watch_commands.hpp"

namespace gpupool::cli {
namespace {

/// The pool that is meant, where the recording has several that were used.
uint64_t choose_pool(const Recording& recording, uint64_t wanted) {
  std::map<uint64_t, uint64_t> used;
  for (const Happened& event : recording.events) {
    if (event.kind == Kind::malloc || event.kind == Kind::have) ++used[event.pool];
  }
  if (wanted != 0 && !used.contains(wanted)) {
    throw InputError(fmt::format("{}: pool {} has allocated nothing", recording.file, wanted));
  }
  if (wanted != 0 || used.size() == 1) return wanted != 0 ? wanted : used.begin()->first;
  if (used.empty()) throw InputError(recording.file + ": nothing was allocated");
  std::string names;
  for (const auto& [pool, mallocs] : used)
    names += fmt::format("{}{} ({} mallocs)", names.empty() ? "" : ", ", pool, mallocs);
  throw InputError(fmt::format("{}: choose one with --pool: {}", recording.file, names));
}

void write_text(const Recording& recording, uint64_t pool, OutFile& out) {
  out.write("#! gpupool-trace 2\n");
  out.write(fmt::format("# {}, pool {}, library {}\n", one_line(recording.command), pool, recording.library));
  if (recording.lost != 0) out.write(fmt::format("# {} events were lost\n", recording.lost));
  LiveBlocks live;
  uint32_t tag = 0;
  for (const Happened& event : recording.events) {
    if (event.kind == Kind::mark) {
      out.write(fmt::format("#m {}\n", one_line(recording.marks[event.bytes])));
      continue;
    }
    if (event.pool != pool) continue;
    live.take(
        event,
        [&](const LiveBlock& block) {
          if (event.tag != tag) out.write(fmt::format("#g {}\n", recording.tag(event.tag)));
          tag = event.tag;
          out.write(fmt::format("a {} {} {}\n", block.number, event.bytes, event.stream));
        },
        [&](const LiveBlock& block, const Happened&) { out.write(fmt::format("f {}\n", block.number)); });
  }
}

}  // namespace

int run_export(const ExportOptions& options) {
  const Recording recording = read_recording(options.file);
  const uint64_t pool = choose_pool(recording, options.pool);
  OutFile out(options.output);
  if (options.format == "pprof") {
    out.write(pprof_of(recording, pool));
  } else {
    write_text(recording, pool, out);
  }
  out.close();
  return 0;
}

}  // namespace gpupool::cli
