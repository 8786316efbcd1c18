// SPDX-License-Identifier: Apache-2.0
// A recording in another format.
#include "cli/base/library.hpp"
#include "cli/base/metrics_server.hpp"
#include "cli/base/out_file.hpp"
#include "cli/commands/watch_commands.hpp"
#include "cli/formats/export_formats.hpp"
#include "cli/formats/pprof.hpp"
#include "cli/recording/recorded_pool.hpp"

namespace gpupool::cli {

int run_export(const ExportOptions& options) {
  if (!options.listen.empty() && options.format != "prometheus") {
    throw InputError("--listen answers Prometheus: it needs --prometheus");
  }
  const Recording recording = read_recording(options.file);
  if (!options.listen.empty()) {
    serve_metrics(options.listen, [&] { return prometheus_text_of(read_recording(options.file)); });
    return 0;
  }
  OutFile out(options.output);
  if (options.format == "prometheus") {
    // node_exporter runs as another user.
    out.let_all_read();
    out.write(prometheus_text_of(recording));
    out.close();
    return 0;
  }
  const uint64_t pool = choose_pool(recording, options.pool);
  if (options.format == "pprof") {
    out.write(pprof_of(recording, pool));
  } else if (options.format == "torch") {
    out.write(torch_snapshot_of(recording, pool, options.last, options.at_peak));
  } else if (options.format == "chrome") {
    out.write(chrome_trace_of(recording, pool));
  } else {
    write_trace(recording, pool, [&](std::string_view piece) { out.write(piece); });
  }
  out.close();
  return 0;
}

}  // namespace gpupool::cli
