// SPDX-License-Identifier: Apache-2.0
// gpupool advise.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands/watch_commands.hpp"
#include "cli/measure/advice.hpp"
#include "cli/recording/recorded_pool.hpp"

namespace gpupool::cli {

int run_advise(const AdviseOptions& options) {
  const Recording recording = read_recording(options.file);
  const uint64_t pool = choose_pool(recording, options.pool);
  Progress progress;
  const std::vector<Advice> advice = advise(recording, pool, progress);
  progress.clear();
  if (options.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Advice& one : advice) {
      list.push_back({{"kind", one.kind},
                      {"text", one.text},
                      {"saved_bytes", one.saved_bytes},
                      {"saved_ns", one.saved_nanoseconds}});
    }
    print_json({{"file", recording.file}, {"pool", pool}, {"advice", std::move(list)}});
    return 0;
  }
  if (advice.empty()) fmt::print("Nothing would save much: {} is well as it is.\n", recording.file);
  for (size_t i = 0; i < advice.size(); ++i) fmt::print("{}. {}\n", i + 1, advice[i].text);
  return 0;
}

}  // namespace gpupool::cli
