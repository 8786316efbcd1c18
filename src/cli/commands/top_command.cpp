// SPDX-License-Identifier: Apache-2.0
// gpupool top: all processes of the machine that use gpupool, again and again.
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "cli/base/library.hpp"
#include "cli/base/metrics_server.hpp"
#include "cli/base/output.hpp"
#include "cli/commands/machine_commands.hpp"
#include "cli/top/keys.hpp"
#include "cli/top/prometheus.hpp"
#include "cli/top/terminal.hpp"
#include "cli/top/view.hpp"

namespace gpupool::cli {
namespace {

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
  return chosen;
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
  for (;;) {
    Look now = watcher.look();
    if (before && !options.json) fmt::print("\n");
    print_moment(now, before ? &*before : nullptr, options);
    if (options.once) return 0;
    if (!flush_output()) return 1;
    before = std::move(now);
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval));
  }
}

/// Draws until the user leaves. False: the terminal is gone.
bool show_moments(const TopOptions& options, TopWatcher& watcher, TopHand& hand) {
  std::optional<Look> before;
  TopChoice choice = options.choice;
  TopKeys keys(choice, hand);
  Screen screen;
  double next = seconds_of(CLOCK_MONOTONIC);
  for (;;) {
    Look now = watcher.look();
    next += options.interval;
    for (double left = 0;;) {
      // Drawn anew if a key or a new size of the terminal ends the wait early.
      const Look chosen = chosen_of(now, choice);
      const auto rows = rows_in_order(chosen.processes, choice.sort);
      hand.see(rows);
      TopStyle style{terminal_size().columns, keys.status(), {}};
      if (hand.has_mark()) style.is_marked = [&](const TopRow& row) { return hand.is_marked(row); };
      if (!screen.draw(draw_look(chosen, before ? &*before : nullptr, rows, style))) return false;
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

}  // namespace

int run_top(const TopOptions& options) {
  TopWatcher watcher(options.pid);
  if (options.prometheus) return write_metrics(options, watcher);
  if (options.once || options.json || !is_screen()) return print_moments(options, watcher);
  TopHand hand;
  const bool was_seen = show_moments(options, watcher, hand);
  for (const std::string& line : hand.finish()) say(line);
  return was_seen ? 0 : 1;
}

}  // namespace gpupool::cli
