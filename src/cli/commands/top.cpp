// SPDX-License-Identifier: Apache-2.0
// gpupool top: all processes of the machine that use gpupool, again and again.
#include <fmt/format.h>

#include <time.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "cli/base/library.hpp"
#include "cli/base/metrics_server.hpp"
#include "cli/base/output.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/options.hpp"
#include "cli/top/keys.hpp"
#include "cli/top/prometheus.hpp"
#include "cli/top/terminal.hpp"
#include "cli/top/view.hpp"

namespace gpupool::cli {
namespace {

struct TopOptions {
  bool once = false;
  bool json = false;
  bool prometheus = false;
  std::string listen;   // for Prometheus; "": write once
  double interval = 1;  // seconds
  uint64_t pid = 0;     // 0: all
  uint64_t inside = 0;  // the process whose holders are shown; 0: none
  TopChoice choice;
};

double seconds_of(clockid_t which) {
  timespec now{};
  (void)clock_gettime(which, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

class TopWatcher {
 public:
  explicit TopWatcher(uint64_t only) : only_(only) {}

  Look look() {
    Look moment;
    moment.gpus = nvml_.look();
    moment.processes = processes_.look(only_);
    moment.strangers = find_strangers(moment, only_);
    // After all pages were read, so that no age is negative.
    timespec now{};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    moment.now_ns = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
    moment.unix_time = seconds_of(CLOCK_REALTIME);
    return moment;
  }

 private:
  uint64_t only_;
  Nvml nvml_;
  Processes processes_;
};

/// The part of a moment that was asked for.
Look chosen_of(const Look& now, const TopChoice& choice) {
  Look chosen = now;
  keep_chosen(chosen.processes, choice);
  chosen.is_chosen = !choice.is_all();
  if (chosen.is_chosen) chosen.strangers.clear();
  return chosen;
}

/// Who holds what in one process.
void print_process(const Look& now, TopProcess& process, const TopOptions& options) {
  if (options.json) {
    const AskedHolders asked = ask_holders(options.inside, 0);
    return print_look_as_json(now, &asked);
  }
  process.see(now);
  for (const std::string& line : process.draw_all()) fmt::print("{}\n", line);
}

void print_moment(const Look& now, const Look* before, const TopOptions& options) {
  const Look chosen = chosen_of(now, options.choice);
  if (options.json) return print_look_as_json(chosen);
  TopStyle style;
  if (isatty(STDOUT_FILENO) == 1) style.width = terminal_size().columns;
  const auto rows = rows_in_order(chosen.processes, options.choice.sort);
  for (const std::string& line : draw_look(chosen, before, rows, style)) fmt::print("{}\n", line);
}

/// Without a screen: prints one moment after another, with an empty line between two tables.
int print_moments(const TopOptions& options, TopWatcher& watcher) {
  std::optional<Look> before;
  TopProcess process;
  if (options.inside != 0) process.open(options.inside, 0);
  for (;;) {
    Look now = watcher.look();
    if (before && !options.json) fmt::print("\n");
    if (process.is_open()) {
      if (now.processes.empty()) return 0;  // it has ended
      print_process(now, process, options);
    } else {
      print_moment(now, before ? &*before : nullptr, options);
    }
    if (options.once) return 0;
    if (!flush_output()) return 1;
    before = std::move(now);
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval));
  }
}

/// As much of the table as the terminal has room for, with the mark in it.
std::vector<std::string> draw(const Look& now, const Look* before, const TopChoice& choice,
                              const TopKeys& keys, TopHand& hand) {
  std::optional<Look> part;  // a copy of thousands of pools takes milliseconds
  if (!choice.is_all()) part = chosen_of(now, choice);
  const Look& chosen = part ? *part : now;
  const auto rows = rows_in_order(chosen.processes, choice.sort);
  hand.see(rows);
  const TerminalSize size = terminal_size();
  TopStyle style;
  style.width = size.columns;
  style.status = keys.status();
  style.room = room_for_rows(chosen, style, size.lines);
  style.first = hand.first_shown(style.room, lines_above_rows(chosen, style));
  if (hand.marked()) style.is_marked = [&](const TopRow& row) { return hand.is_marked(row); };
  return draw_look(chosen, before, rows, style);
}

/// Draws until the user leaves. False: the terminal is gone.
bool show_moments(const TopOptions& options, TopWatcher& watcher, TopHand& hand) {
  std::optional<Look> before;
  TopChoice choice = options.choice;
  TopProcess process;
  if (options.inside != 0) process.open(options.inside, 0);
  TopKeys keys(choice, hand, process);
  Screen screen;
  double next = seconds_of(CLOCK_MONOTONIC);
  for (;;) {
    Look now = watcher.look();
    next += options.interval;
    for (double left = 0;;) {
      // Drawn anew if a key or a new size of the terminal ends the wait early.
      if (process.is_open()) process.see(now);
      if (!screen.draw(keys.wants_help()   ? draw_help()
                       : process.is_open() ? process.draw(terminal_size())
                                           : draw(now, before ? &*before : nullptr, choice, keys, hand)))
        return false;
      left = next - seconds_of(CLOCK_MONOTONIC);
      if (!screen.wait(std::max(left, 0.01)) || !keys.press(screen.take_keys())) return true;
      if (seconds_of(CLOCK_MONOTONIC) >= next) break;
    }
    before = std::move(now);
  }
}

int write_metrics(const TopOptions& options, TopWatcher& watcher) {
  const auto write = [&] { return prometheus_text_of(chosen_of(watcher.look(), options.choice)); };
  if (options.listen.empty()) {
    fmt::print("{}", write());
  } else {
    serve_metrics(options.listen, write);
  }
  return 0;
}

int run_top(const TopOptions& options) {
  TopWatcher watcher(options.inside != 0 ? options.inside : options.pid);
  if (options.inside != 0 && watcher.look().processes.empty())
    throw InputError(fmt::format("process {} shows this user no pool of gpupool", options.inside));
  if (options.prometheus) return write_metrics(options, watcher);
  if (options.once || options.json || !is_screen()) return print_moments(options, watcher);
  TopHand hand;
  const bool was_seen = show_moments(options, watcher, hand);
  for (const std::string& line : hand.finish()) say(line);
  return was_seen ? 0 : 1;
}

constexpr const char* kTopAbout =
    "Watch all processes of this machine that use gpupool\n\n"
    "Shows all processes of this machine that use gpupool, again and again:\n"
    "what each of their pools holds, and what it costs. Of other users'\n"
    "processes, those that the system lets you look into.\n"
    "With a process's number: how much it has held lately, and which functions\n"
    "hold it now, for which it needs GPUPOOL_CONTROL=1 in its environment.\n";

constexpr const char* kTopExamples =
    "Columns, of each pool; if the terminal is narrow, some are left out:\n"
    "  LIVE, PENDING, CACHED   handed out; freed, but streams may still use it; free, and kept\n"
    "  RESERVED, LIMIT         what the pool has of the device, and may have\n"
    "  PEAK                    the most that was live\n"
    "  OTHER                   what the process has on the GPU beside its pools, as the driver says\n"
    "  ASLEEP                  the share of its memory that is away while it sleeps\n"
    "  FRAG                    the share of free ranges that is not in the largest one\n"
    "  STEALS, MISSES, DRIVER  chunks moved, mallocs that no thread's cache could serve, time in\n"
    "                          the driver: each second, or with --once since the pool began\n"
    "  GROUP, TAGS             the group it shares the device with; what most is held for,\n"
    "                          as samples estimate it\n"
    "  AGE                     how old these figures are: a pool writes them when it takes or gives\n"
    "                          back memory, and at other slow calls every 10 ms at most\n"
    "\n"
    "Keys: q leaves, so does ctrl-C; / and a text shows only what has it, Escape all again; < and > change\n"
    "the order; j and k, arrows, PageUp, PageDown, Home, End and clicks mark a pool; h has them all. Of one\n"
    "whose process has GPUPOOL_CONTROL=1 in its environment: Enter shows who holds what in it, e gives back\n"
    "what it has cached, s writes a snapshot of it, and r records its process to a file here, until r\n"
    "again. GPUPOOL_STATS=0 in the environment of a process hides it.\n"
    "\n"
    "Examples:\n"
    "  gpupool top\n"
    "  gpupool top --once\n"
    "  gpupool top 4711\n"
    "  gpupool top --user alice --device cuda:0 --sort live\n"
    "  gpupool top --prometheus > gpupool.prom\n"
    "  gpupool top --once --json | jq '.pools[]?.live_bytes'\n"
    "  gpupool top --json --interval 10 >> memory.jsonl";

}  // namespace

Command add_top(CLI::App& app) {
  auto [command, options, made] = new_command<TopOptions>(app, "top", kTopAbout, kTopExamples, run_top);
  command.add_flag("--once", options.once, "Look once, and end");
  command.add_option("-i,--interval", options.interval, "How often to look")
      ->check(between(0.1, 86400.0))
      ->option_text("S [1]");
  CLI::Option* const inside =
      command.add_option("PID", options.inside, "Who holds what in this process; else all processes")
          ->check(is_positive())
          ->option_text(" ");
  command.add_option("--pid", options.pid, "Only this process")->check(is_positive())->option_text("N");
  command.add_option("--name", options.choice.name, "Only pools with this in their name")
      ->option_text("TEXT");
  command.add_option("--tag", options.choice.tag, "Only pools with this in the name of a tag")
      ->option_text("TEXT");
  command.add_option("--user", options.choice.user, "Only this user's processes: a name or a number")
      ->option_text("USER");
  command
      .add_option("--device", options.choice.device, "Only pools on it: cuda:0, cuda, or a part of its UUID")
      ->option_text("NAME");
  command.add_option("--sort", options.choice.sort, "Which pools come first")
      ->check(CLI::IsMember(top_orders()))
      ->option_text(fmt::format("{} [reserved]", fmt::join(top_orders(), "|")));
  CLI::Option* const json = command.add_flag(
      "--json", options.json, "Print JSON for programs, one object a line: of each GPU, and each process");
  CLI::Option* const prometheus =
      command.add_flag("--prometheus", options.prometheus, "Print metrics for Prometheus, once")
          ->excludes(json);
  for (const char* const other : {"--pid", "--name", "--tag", "--user", "--device", "--sort", "--prometheus"})
    inside->excludes(command.get_option(other));
  command.add_option("--listen", options.listen, "Serve them at /metrics instead: 127.0.0.1:9838")
      ->needs(prometheus)
      ->option_text("ADDRESS:PORT");
  return made;
}

}  // namespace gpupool::cli
