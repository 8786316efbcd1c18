// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/whole.hpp"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/base/utf8.hpp"
#include "cli/processes/whole.hpp"

namespace gpupool::cli {
namespace {

std::string words_of(bool sleeps, const WholeResult& done) {
  std::string text = sleeps ? "asleep as a whole" : "awake as a whole";
  if (!done.changed) text += " already";
  if (!done.pools) return text;
  text += fmt::format("; {} of its {} pools {}: ", done.pools->changed_pools, done.pools->pools,
                      sleeps ? "slept first" : "woken");
  return text + (sleeps ? fmt::format("{} given back, contents of {} saved",
                                      format_bytes(done.pools->released), format_bytes(done.pools->saved))
                        : fmt::format("{} taken", format_bytes(done.pools->created)));
}

void print_whole(bool sleeps, uint64_t pid, const WholeResult& done, double seconds, bool json) {
  if (!json) {
    std::string gpu;
    if (done.gpu_bytes) gpu = fmt::format("; it had {} on the GPU", format_bytes(*done.gpu_bytes));
    fmt::print("process {}: {}{}, in {:.4g} s\n", pid, words_of(sleeps, done), gpu, seconds);
    return;
  }
  nlohmann::ordered_json object = {
      {"pid", pid}, {"command", sleeps ? "sleep" : "wake"}, {"whole", true}, {"changed", done.changed}};
  object["pools"] = done.pools ? done.pools->pools : 0;
  object["changed_pools"] = done.pools ? done.pools->changed_pools : 0;
  if (!done.pools) object["why_no_pools"] = valid_utf8(done.why_no_pools);
  if (done.gpu_bytes) object["gpu_bytes"] = *done.gpu_bytes;
  object["seconds"] = seconds;
  print_json(object);
}

void run_one(const WholeOptions& options, uint64_t pid) {
  const bool sleeps = options.pools.command == ControlCommand::sleep;
  const auto start = std::chrono::steady_clock::now();
  if (sleeps) say_limits(pid);
  const WholeResult done = sleeps ? sleep_whole(pid, options.pools, options.limit)
                                  : wake_whole(pid, options.pools, options.limit, options.pools.timeout);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  print_whole(sleeps, pid, done, seconds.count(), options.json);
  if (done.pools && !done.pools->message.empty() && !sleeps)
    throw std::runtime_error(
        fmt::format("process {} runs, and its pools sleep: {}", pid, done.pools->message));
}

}  // namespace

int run_whole(const WholeOptions& options) {
  if (options.gpu.empty()) {
    run_one(options, find_own_process(options.who));
    return 0;
  }
  const std::vector<uint64_t> pids = own_processes_on(options.gpu);
  if (pids.empty()) throw InputError(fmt::format("no process of yours is on GPU {}", options.gpu));
  int status = 0;
  for (const uint64_t pid : pids) {
    try {
      run_one(options, pid);
    } catch (const std::runtime_error& error) {
      say(error.what());
      status = 1;
    }
  }
  return status;
}

}  // namespace gpupool::cli
