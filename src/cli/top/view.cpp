// SPDX-License-Identifier: Apache-2.0
#include "cli/top/view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <numeric>
#include <optional>

#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/base/utf8.hpp"
#include "cli/top/choice.hpp"
#include "gpupool/gpupool.h"

namespace gpupool::cli {
namespace {

using Cells = std::vector<std::string>;

/// If the terminal is too narrow, columns with the lowest `worth` go first. The command comes last, and has
/// what is left.
struct TopColumn {
  const char* title;
  const char* title_of_rate;
  bool is_left;
  int worth;
};
constexpr TopColumn kTopColumns[] = {
    {"PID", "PID", false, 100},        {"USER", "USER", true, 35},          {"POOL", "POOL", true, 60},
    {"DEVICE", "DEVICE", true, 50},    {"LIVE", "LIVE", false, 95},         {"PENDING", "PENDING", false, 30},
    {"CACHED", "CACHED", false, 90},   {"RESERVED", "RESERVED", false, 92}, {"LIMIT", "LIMIT", false, 55},
    {"PEAK", "PEAK", false, 70},       {"OTHER", "OTHER", false, 28},       {"ASLEEP", "ASLEEP", false, 26},
    {"FRAG", "FRAG", false, 24},       {"STEALS", "STEALS/S", false, 14},   {"MISSES", "MISSES/S", false, 16},
    {"DRIVER", "DRIVER/S", false, 18}, {"GROUP", "GROUP", true, 20},        {"TAGS", "TAGS", true, 12},
    {"AGE", "AGE", false, 80},
};
constexpr size_t kColumns = std::size(kTopColumns);
constexpr size_t kLeastCommand = 8;
constexpr size_t kMostPlainCommand = 120;
constexpr size_t kMostName = 24;
constexpr const char* kNothing = "-";

std::string short_text(std::string_view text, size_t width) {
  const std::string shown = harmless(text);
  return display_width(shown) <= width ? shown : cut_to_width(shown, width - 1) + "~";
}

std::string bytes_or_nothing(uint64_t bytes) {
  return bytes == 0 ? kNothing : format_bytes(bytes);
}

std::string percent_of(uint64_t part, uint64_t whole) {
  if (whole == 0 || part == 0) return kNothing;
  return fmt::format("{:.0f}%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string pool_label(const ShownPool& pool) {
  if (pool.name.empty()) return fmt::format("{}{}", pool.is_child ? "child " : "", pool.number);
  return short_text(pool.name, kMostName);
}

std::string group_label(const ShownPool& pool) {
  if (pool.runs_alone) return "(alone)";
  if (pool.group.empty()) return kNothing;
  return fmt::format("{} {} of {}", short_text(pool.group, kMostName), format_bytes(pool.group_used),
                     format_bytes(pool.group_limit));
}

std::string tags_label(const ShownPool& pool) {
  constexpr size_t kMost = 3;
  // Marks lie so far apart along the live bytes (gpupool_holders), and what covers n of them is known to
  // within a share of 1 / sqrt(n).
  const auto apart = static_cast<double>(std::clamp(pool.live / 1024, uint64_t{1} << 20, uint64_t{64} << 20));
  std::string text;
  for (size_t at = 0; at < std::min(kMost, pool.tags.size()); ++at) {
    text += fmt::format(
        "{}{} {}", at == 0 ? "" : ", ", short_text(pool.tags[at].name, kMostName),
        format_estimate(pool.tags[at].bytes, std::sqrt(apart * static_cast<double>(pool.tags[at].bytes))));
  }
  return text.empty() ? kNothing : text;
}

/// What a process has on a pool's GPU beside its pools.
std::string other_label(const Look& now, const ShownProcess& process, const ShownPool& pool) {
  for (const Gpu& gpu : now.gpus) {
    if (gpu.id != pool.device_id) continue;
    const std::optional<uint64_t> used = used_on(gpu, process.pid);
    if (!used) return kNothing;
    const uint64_t ours = reserved_by(process, &gpu.id);
    return bytes_or_nothing(*used - std::min(*used, ours));
  }
  return kNothing;
}

/// The same pool a moment ago; null if it was not there.
const ShownPool* pool_before(const Look* before, uint64_t pid, size_t page, uint64_t number) {
  if (before == nullptr) return nullptr;
  for (const ShownProcess& process : before->processes) {
    if (process.pid != pid || page >= process.pages.size()) continue;
    for (const ShownPool& pool : process.pages[page].pools)
      if (pool.number == number) return &pool;
  }
  return nullptr;
}

/// A count or, with a moment before, its rate per second.
std::string count_label(uint64_t ShownPool::*count, const ShownPool& pool, const ShownPool* old,
                        double seconds, bool is_time) {
  const uint64_t now = pool.*count;
  if (seconds <= 0) return is_time ? duration_text(static_cast<double>(now) / 1e9) : format_count(now);
  if (old == nullptr || old->*count > now) return kNothing;
  const double rate = static_cast<double>(now - old->*count) / seconds;
  return is_time ? fmt::format("{:.1f}ms", rate / 1e6)
                 : format_count(static_cast<uint64_t>(std::round(rate)));
}

/// The cells of a pool, and its process's command behind them.
Cells cells_of(const Look& now, const Look* before, const ShownProcess& process, size_t page,
               const ShownPool& pool) {
  const ShownPool* const old = pool_before(before, process.pid, page, pool.number);
  const double seconds = before == nullptr ? 0 : static_cast<double>(now.now_ns - before->now_ns) / 1e9;
  const uint64_t broken = pool.free_ranges - std::min(pool.free_ranges, pool.largest_free_range);
  const std::optional<double> age = age_of(pool, now);
  return {std::to_string(process.pid),
          short_text(process.user, kMostName),
          pool_label(pool),
          device_of(pool),
          format_bytes(pool.live),
          bytes_or_nothing(pool.pending),
          bytes_or_nothing(pool.cached),
          format_bytes(pool.reserved),
          bytes_or_nothing(pool.limit),
          format_bytes(pool.live_peak),
          other_label(now, process, pool),
          percent_of(pool.asleep, pool.asleep + pool.reserved),
          percent_of(broken, pool.free_ranges),
          count_label(&ShownPool::steals, pool, old, seconds, false),
          count_label(&ShownPool::misses, pool, old, seconds, false),
          count_label(&ShownPool::driver_ns, pool, old, seconds, true),
          group_label(pool),
          tags_label(pool),
          age ? age_text(*age) : kNothing,
          harmless(process.command)};
}

/// Which columns fit, and how wide each of them is.
struct Fit {
  std::array<bool, kColumns> is_shown;
  std::array<size_t, kColumns> widths;
  size_t command;
};

Fit fit_columns(const Cells& titles, const std::vector<Cells>& rows, size_t width) {
  constexpr size_t kGap = 2;
  Fit fit{};
  fit.is_shown.fill(true);
  size_t total = kLeastCommand;
  for (size_t at = 0; at < kColumns; ++at) {
    fit.widths[at] = display_width(titles[at]);
    for (const Cells& row : rows) fit.widths[at] = std::max(fit.widths[at], display_width(row[at]));
    total += fit.widths[at] + kGap;
  }
  std::array<size_t, kColumns> order{};
  std::iota(order.begin(), order.end(), size_t{0});
  // A column that says nothing of any pool goes first.
  const auto worth = [&](size_t at) {
    const bool says =
        std::any_of(rows.begin(), rows.end(), [&](const Cells& row) { return row[at] != kNothing; });
    return kTopColumns[at].worth - (says ? 0 : 1000);
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return worth(a) < worth(b); });
  for (const size_t at : order) {
    if (width == 0 || total <= width || kTopColumns[at].worth == 100) break;
    fit.is_shown[at] = false;
    total -= fit.widths[at] + kGap;
  }
  fit.command = width == 0 ? kMostPlainCommand : width - std::min(width, total - kLeastCommand);
  return fit;
}

std::string line_of(const Cells& cells, const Fit& fit) {
  std::string line;
  for (size_t at = 0; at < kColumns; ++at) {
    if (!fit.is_shown[at]) continue;
    const std::string pad(fit.widths[at] - display_width(cells[at]), ' ');
    line += kTopColumns[at].is_left ? cells[at] + pad : pad + cells[at];
    line += "  ";
  }
  line += cut_to_width(cells[kColumns], fit.command);
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

void add_table(const Look& now, const Look* before, const std::vector<TopRow>& shown, const TopStyle& style,
               std::vector<std::string>& lines) {
  std::vector<Cells> rows;
  // Of thousands, only those that are seen cost anything.
  const size_t first = std::min(style.first, shown.size());
  const size_t end = first + std::min(style.room, shown.size() - first);
  rows.reserve(end - first);
  for (size_t at = first; at < end; ++at) {
    const TopRow& row = shown[at];
    rows.push_back(cells_of(now, before, *row.process, row.page, *row.pool));
  }
  if (rows.empty()) return;
  const bool has_marks = style.is_marked != nullptr;
  const std::string margin = has_marks ? "  " : "";
  Cells titles;
  for (const TopColumn& column : kTopColumns)
    titles.emplace_back(before == nullptr ? column.title : column.title_of_rate);
  titles.emplace_back("COMMAND");
  const Fit fit = fit_columns(titles, rows, style.width - std::min(style.width, margin.size()));
  lines.push_back(margin + line_of(titles, fit));
  for (size_t at = 0; at < rows.size(); ++at) {
    const bool is_marked = has_marks && style.is_marked(shown[first + at]);
    lines.push_back((is_marked ? "> " : margin) + line_of(rows[at], fit));
  }
  if (rows.size() < shown.size())
    lines.push_back(fmt::format("pools {} to {} of {}; h for help", first + 1, end, shown.size()));
}

/// Adds a line for each thing that is not as it should be.
void add_notes(const Look& now, std::vector<std::string>& lines) {
  for (const ShownProcess& process : now.processes) {
    const auto add = [&](const std::string& what) {
      lines.push_back(fmt::format("{} ({}): {}", process.pid, short_text(process.command, 40), what));
    };
    if (!process.why_closed.empty()) add(fmt::format("its page cannot be read: {}", process.why_closed));
    uint64_t not_shown = 0;
    uint64_t busy = 0;
    for (const StatsPage& page : process.pages) {
      not_shown += page.not_shown;
      busy += page.busy;
    }
    if (not_shown != 0) add(fmt::format("it does not show {} more pools", not_shown));
    if (busy != 0) add(fmt::format("{} pools were being written", busy));
  }
}

constexpr size_t kMostStrangers = 3;

/// A line for each of the largest processes on a GPU that show no pool.
void add_strangers(const Look& now, const Gpu& gpu, std::vector<std::string>& lines) {
  size_t left = kMostStrangers;
  for (const Stranger& each : now.strangers) {
    if (each.gpu != gpu.id || left == 0) continue;
    --left;
    const std::string command = each.command.empty() ? "not seen here" : short_text(each.command, 40);
    lines.push_back(fmt::format("  {} ({}): {}, no pool seen", each.pid, command, format_bytes(each.bytes)));
  }
}

/// The longest of some ways to say it that fits.
std::string summary_of(const Look& now, size_t width) {
  uint64_t pools = 0;
  uint64_t live = 0;
  uint64_t cached = 0;
  uint64_t reserved = 0;
  for (const ShownProcess& process : now.processes) {
    for (const StatsPage& page : process.pages) {
      for (const ShownPool& pool : page.pools) {
        if (pool.is_hidden) continue;
        ++pools;
        live += pool.live;
        cached += pool.cached;
        reserved += pool.reserved;
      }
    }
  }
  const std::string clock = clock_text(static_cast<std::time_t>(now.unix_time), "%H:%M:%S");
  if (now.processes.empty() && now.is_chosen)
    return fmt::format("gpupool top  {}  no pool that was asked for", clock);
  if (now.processes.empty())
    return fmt::format("gpupool top  {}  no process that this one may look into uses gpupool", clock);
  const std::string name = fmt::format("gpupool top  {}  ", clock);
  const std::string processes =
      fmt::format("{} process{}, ", now.processes.size(), now.processes.size() == 1 ? "" : "es");
  const std::string figures =
      fmt::format("{} pool{}: {} live, {} cached, {} reserved", pools, pools == 1 ? "" : "s",
                  format_bytes(live), format_bytes(cached), format_bytes(reserved));
  for (const std::string& text :
       {name + processes + figures, clock + "  " + processes + figures, processes + figures})
    if (width == 0 || display_width(text) <= width) return text;
  return figures;
}

}  // namespace

size_t lines_above_rows(const Look& now, const TopStyle& style) {
  std::vector<std::string> strangers;
  for (const Gpu& gpu : now.gpus) add_strangers(now, gpu, strangers);
  return 2 + (style.status.empty() ? 0 : 1) + now.gpus.size() + strangers.size();  // the summary, titles
}

size_t room_for_rows(const Look& now, const TopStyle& style, size_t lines) {
  constexpr size_t kMostNotes = 3;
  std::vector<std::string> notes;
  add_notes(now, notes);
  const size_t others = lines_above_rows(now, style) + 1 + std::min(notes.size(), kMostNotes);
  return lines > others ? lines - others : 1;
}

std::vector<std::string> draw_help() {
  return {
      "gpupool top: keys",
      "",
      "  h ?                  this help; any key goes back",
      "  j k, arrows          mark the next pool, or the one before",
      "  PageDown PageUp      as many pools further, or back; also ctrl-F, ctrl-B",
      "  g G, Home End        mark the first pool, or the last",
      "  / TEXT Enter         only pools that have it in a name or tag; Escape: all",
      "  < >                  another order",
      "  Enter                who holds what in the marked pool; Escape: back",
      "  e, then y            give back what the marked pool has cached",
      "  s                    write a snapshot of it to a file here",
      "  r                    record its process to a file here, until r again",
      "  q, ctrl-C            leave",
      "  mouse                a click marks a pool or a line, the wheel scrolls",
      "",
      "Of one pool, or process:",
      "  v                    the tree of calls, or the table of functions",
      "  Enter                fold the marked line of the tree, or unfold it",
      "  n                    native frames of an interpreter too, or not",
      "  < >                  by total, own, or oldest",
      "  space                pause, or go on",
      "",
      "e, s, r and who holds what need GPUPOOL_CONTROL=1 in the environment of the pool's process.",
  };
}

std::vector<std::string> draw_look(const Look& now, const Look* before, const std::vector<TopRow>& rows,
                                   const TopStyle& style) {
  std::vector<std::string> lines = {summary_of(now, style.width)};
  if (!style.status.empty()) lines.push_back(style.status);
  for (const Gpu& gpu : now.gpus) {
    const uint64_t ours = pooled_on(now, gpu);
    lines.push_back(fmt::format("GPU {} {}: {} of {} used, {} in these pools, {} by others", gpu.number,
                                harmless(gpu.name), format_bytes(gpu.used), format_bytes(gpu.total),
                                format_bytes(ours), format_bytes(gpu.used - std::min(gpu.used, ours))));
    add_strangers(now, gpu, lines);
  }
  add_table(now, before, rows, style, lines);
  add_notes(now, lines);
  if (style.width != 0) {
    for (std::string& line : lines) line = cut_to_width(line, style.width);
  }
  return lines;
}

}  // namespace gpupool::cli
