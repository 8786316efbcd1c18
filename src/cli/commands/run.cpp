// SPDX-License-Identifier: Apache-2.0
// gpupool run: starts a program with settings that keep its GPU memory below a cap, and with a pool of the
// driver's that keeps it. It becomes the program, so that signals, status and number are the program's own.
#include <fmt/format.h>

#include <unistd.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "cli/base/library.hpp"
#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/base/utf8.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/run_settings.hpp"
#include "cli/processes/nvml.hpp"
#include "cli/processes/program.hpp"

namespace gpupool::cli {
namespace {

struct RunOptions {
  std::vector<std::string> program;  // with its arguments
  std::string cap;                   // "": none
  std::string group;
  bool keep = false;
  bool hooks = false;
  bool print = false;
};

constexpr const char* kCap = "GPUPOOL_RUN_CAP";
constexpr int kCannotRun = 127;
// The driver's pools take whole granules of this size.
constexpr uint64_t kLeastCap = uint64_t{2} << 20;

constexpr const char* kRunAbout =
    "Run a program whose GPU memory is kept and capped\n\n"
    "Runs any CUDA program with the settings that its framework has: the limits of CuPy, JAX, vLLM and\n"
    "SGLang, and growth instead of a preallocation in JAX and TensorFlow. The CUDA driver also loads\n"
    "libgpupool_inject.so, which makes a capped pool the current one of cudaMallocAsync. What cudaMalloc\n"
    "gives, contexts and pools that a program makes itself are in no cap but the framework's own.\n\n"
    "With --hooks, the loader gives the program libgpupool_audit.so's functions for those of the driver\n"
    "that take memory: all of it is counted, and refused beyond the cap, except contexts and managed\n"
    "memory. What is free, and how much there is in all, are then answered as the cap has it. With\n"
    "--share too, all of it is the group's, beside what gpupool's pools of other processes have.\n\n"
    "What was set, and what could not be, is said on standard error.\n";

constexpr const char* kRunExamples =
    "Examples:\n"
    "  gpupool run --cap 8GiB -- python train.py\n"
    "  gpupool run --keep --cap 8GiB -- ./solver\n"
    "  gpupool run --hooks --cap 8GiB -- ./llama-server -m MODEL\n"
    "  gpupool run --cap 8GiB --print -- vllm serve MODEL\n"
    "\n"
    "Exit status: the program's own; 127 if it cannot be run; 2 bad input.";

/// Also of none.
bool is_group_name(std::string_view name) {
  constexpr size_t kMost = 48;
  return name.size() <= kMost && !name.starts_with('.') && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                  c == '_' || c == '.';
         });
}

uint64_t largest_gpu() {
  uint64_t most = 0;
  for (const Gpu& gpu : Nvml().look()) most = std::max(most, gpu.total);
  return most;
}

uint64_t cap_of(const RunOptions& options) {
  if (options.cap.empty()) return 0;
  const uint64_t cap = parse_bytes(options.cap, "--cap");
  if (cap < kLeastCap)
    throw InputError(fmt::format("--cap: {} is less than a pool can have, which is {}", format_bytes(cap),
                                 format_bytes(kLeastCap)));
  return cap;
}

/// A command within another one's cap keeps to that, if it is smaller.
uint64_t cap_within(uint64_t cap, RunSettings& settings) {
  const char* const text = std::getenv(kCap);
  if (text == nullptr || cap == 0) return cap;
  uint64_t around = 0;
  const char* const end = text + std::strlen(text);
  const auto read = std::from_chars(text, end, around);
  if (read.ec != std::errc{} || read.ptr != end || around == 0 || around >= cap) return cap;
  settings.notes.push_back(fmt::format("{}={} is smaller than --cap, and stays", kCap, around));
  return around;
}

/// What the injected library reads.
void add_injection(const RunOptions& options, RunSettings& settings) {
  constexpr const char* kVariable = "CUDA_INJECTION64_PATH";
  const std::string library = find_library_of_ours(kInjectedLibrary);
  const char* const taken = std::getenv(kVariable);
  if (taken != nullptr && *taken != '\0' && library != taken)
    throw InputError(
        fmt::format("{} is {}, and the driver loads one library only", kVariable, harmless(taken)));
  settings.variables.emplace_back(kVariable, library);
  if (options.keep) settings.variables.emplace_back("GPUPOOL_RUN_KEEP", "1");
}

/// What both libraries read.
void add_group(const RunOptions& options, RunSettings& settings) {
  const auto is_set = [](const char* text) { return text != nullptr && *text != '\0'; };
  settings.variables.emplace_back("GPUPOOL_RUN_SHARE", options.group);
  if (!options.hooks) return;
  if (is_set(std::getenv("GPUPOOL_SHARE_SOCKET")))
    throw InputError(
        "--share: under the hooks there is no group of a broker, which GPUPOOL_SHARE_SOCKET names");
  if (const char* const limit = std::getenv("GPUPOOL_SHARE_LIMIT"); is_set(limit))
    settings.variables.emplace_back("GPUPOOL_RUN_SHARE_LIMIT",
                                    std::to_string(parse_bytes(limit, "GPUPOOL_SHARE_LIMIT")));
  // What the program's pools take is the group's already: they would be charged twice.
  settings.variables.emplace_back("GPUPOOL_SHARE", "");
}

/// Before what is audited already.
void add_hooks(RunSettings& settings) {
  if (const std::string why = why_no_hooks(); !why.empty())
    throw InputError(fmt::format("--hooks: {}; --cap without them sets what frameworks have", why));
  const std::string library = find_library_of_ours(kHooksLibrary);
  // The loader splits the variable at colons, and knows names that begin with $.
  if (library.find_first_of(":$") != std::string::npos)
    throw InputError(
        fmt::format("--hooks: the loader finds no library with : or $ in its path, as {}", library));
  const char* const others = std::getenv("LD_AUDIT");
  std::string all = library;
  std::istringstream each(others != nullptr ? others : "");
  for (std::string other; std::getline(each, other, ':');)
    if (!other.empty() && other != library) all += ":" + other;
  settings.variables.emplace_back("LD_AUDIT", all);
}

/// Becomes the program, or says why not. A shell is not asked to make sense of a file that is no program.
int become_program(const RunSettings& settings, const std::string& path) {
  std::vector<char*> words;
  words.reserve(settings.words.size() + 1);
  for (const std::string& word : settings.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  (void)execv(path.c_str(), words.data());
  say(fmt::format("{} cannot be run: {}", settings.words[0], std::strerror(errno)));
  return kCannotRun;
}

int run_program(const RunOptions& options) {
  const uint64_t wanted = cap_of(options);
  if (options.program.empty()) throw InputError("run takes a program, after --");
  if (!options.group.empty() && !options.keep && !options.hooks)
    throw InputError("--share: needs --hooks or --keep");
  if (!is_group_name(options.group))
    throw InputError("--share: a group has 1 to 48 letters, digits, '-', '_' and '.', no '.' first");
  if (wanted == 0 && !options.keep && !options.hooks)
    throw InputError("run takes --cap, --keep or --hooks, or several of them");
  RunSettings settings;
  settings.words = options.program;
  const uint64_t cap = cap_within(wanted, settings);
  if (options.hooks) add_hooks(settings);
  // With the hooks, the driver's one place for a library is left to profilers.
  if (options.keep || !options.hooks) add_injection(options, settings);
  if (!options.group.empty()) add_group(options, settings);
  if (cap != 0) settings.variables.emplace_back(kCap, std::to_string(cap));
  // Under the hooks a GPU has no more than the cap: a share of that is no share of the card.
  if (cap != 0) add_limits(cap, options.hooks ? cap : largest_gpu(), settings);
  for (const std::string& note : settings.notes) say(harmless(note));
  if (options.print) {
    for (const auto& [name, value] : settings.variables) fmt::print("{}={}\n", name, value);
    return 0;
  }
  for (const auto& [name, value] : settings.variables) {
    say(harmless(fmt::format("{}={}", name, value)));
    (void)setenv(name.c_str(), value.c_str(), 1);
  }
  const std::string path = path_of_program(options.program[0]);
  if (const std::string why = why_out_of_reach(path); !why.empty())
    say(fmt::format("{} {}", harmless(options.program[0]), why));
  return become_program(settings, path);
}

}  // namespace

Command add_run(CLI::App& app) {
  auto [command, options, made] = new_command<RunOptions>(app, "run", kRunAbout, kRunExamples, run_program);
  command.add_option("PROGRAM", options.program, "What to run, after --")->option_text("...");
  command.add_option("--cap", options.cap, "What it may have on each GPU")->option_text("BYTES [all]");
  command.add_flag("--keep", options.keep,
                   "Let the driver's pools keep what cudaFreeAsync frees, instead of giving it back");
  command
      .add_option("--share", options.group,
                  "Take, or with --keep keep, only what this group of processes leaves over")
      ->option_text("GROUP");
  command.add_flag("--hooks", options.hooks,
                   "Count and cap what the driver itself gives, by any call that takes memory");
  command.add_flag("--print", options.print,
                   "Print what would be set, one NAME=VALUE a line, and do nothing");
  return made;
}

}  // namespace gpupool::cli
