// SPDX-License-Identifier: Apache-2.0
#include "cli/top/process.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <utility>

#include "cli/base/size.hpp"
#include "cli/base/utf8.hpp"
#include "cli/processes/control.hpp"

namespace gpupool::cli {
namespace {

constexpr double kHoldersWait = 0.5;                  // seconds, while nothing is drawn
constexpr uint64_t kAskEvery = 900'000'000;           // ns: each second, which is never quite one
constexpr uint64_t kAskAfterFailure = 5'000'000'000;  // ns
constexpr size_t kMostKept = 1000;                    // wider than a terminal
constexpr size_t kLeastChart = 3;                     // lines
constexpr size_t kMostChart = 8;
constexpr size_t kScale = 10;  // columns, for "1023.9 MiB"

std::string named(const std::string& name) {
  constexpr size_t kMost = 24;
  return name.empty() ? "" : fmt::format(" ({})", cut_to_width(harmless(name), kMost));
}

/// One place of the chart: `live` and `reserved` are eighths above its bottom, and may be any number.
std::string cell_of(int64_t live, int64_t reserved) {
  constexpr std::array kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr int64_t kFull = 8;
  if (live > 0) return kBlocks[static_cast<size_t>(std::min(live, kFull) - 1)];
  return reserved >= kFull / 2 ? "░" : " ";
}

constexpr const char* kTitles = "     TOTAL             OWN    OLDEST  ";

std::string text_of(const SiteLine& line, uint64_t whole, char fold) {
  const double share = whole == 0 ? 0 : 100 * static_cast<double>(line.total) / static_cast<double>(whole);
  return fmt::format("{:>10} {:>3.0f}% {:>12} {:>9}  {:{}}{} {}", format_bytes(line.total), share,
                     line.own == 0 ? "-" : format_bytes(line.own),
                     age_text(static_cast<double>(line.oldest_ns) / 1e9), "", 2 * line.depth, fold,
                     line.name);
}

uint64_t live_of(const std::vector<ShownHolder>& holders) {
  uint64_t bytes = 0;
  for (const ShownHolder& holder : holders) bytes += holder.live_bytes;
  return bytes;
}

}  // namespace

AskedHolders ask_holders(uint64_t pid, uint64_t pool) {
  AskedHolders asked;
  try {
    ControlRequest request;
    request.command = ControlCommand::holders;
    request.pool = pool;
    const ControlReply reply = Control(pid, kHoldersWait).ask(request);
    asked.why_not = reply.message;
    asked.seconds = reply.seconds;
    if (reply.message.empty()) asked.holders = read_holders(reply.file.get());
  } catch (const std::exception& error) {
    asked.why_not = error.what();
  }
  return asked;
}

std::vector<std::string> draw_chart(const std::deque<HeldThen>& moments, size_t columns, size_t lines) {
  const size_t shown = std::min(moments.size(), columns);
  const auto first = moments.end() - static_cast<std::ptrdiff_t>(shown);
  uint64_t most = 1;
  for (auto each = first; each != moments.end(); ++each) most = std::max({most, each->live, each->reserved});
  const auto eighths = [&](uint64_t bytes) {
    const double share = static_cast<double>(bytes) / static_cast<double>(most);
    return static_cast<int64_t>(std::ceil(share * 8 * static_cast<double>(lines)));
  };
  std::vector<std::string> chart;
  for (size_t line = 0; line < lines; ++line) {
    const auto bottom = static_cast<int64_t>(8 * (lines - 1 - line));
    std::string text = fmt::format("{:>{}} ",
                                   line == 0           ? format_bytes(most)
                                   : line + 1 == lines ? "0"
                                                       : "",
                                   kScale);
    text.append(columns - shown, ' ');
    for (auto each = first; each != moments.end(); ++each)
      text += cell_of(eighths(each->live) - bottom, eighths(each->reserved) - bottom);
    chart.push_back(std::move(text));
  }
  return chart;
}

void TopProcess::open(uint64_t pid, uint64_t pool) {
  close();
  pid_ = pid;
  pool_ = pool;
  name_ = std::to_string(pid);
}

void TopProcess::see(const Look& now) {
  if (now.now_ns == seen_ns_) return;
  if (seen_ns_ != 0) interval_ = static_cast<double>(now.now_ns - seen_ns_) / 1e9;
  seen_ns_ = now.now_ns;
  const auto process = std::find_if(now.processes.begin(), now.processes.end(),
                                    [&](const ShownProcess& each) { return each.pid == pid_; });
  has_ended_ = process == now.processes.end();
  if (has_ended_) return;
  take_figures(*process);
  if (!has_ended_ && !is_paused_) ask(now.now_ns);
}

void TopProcess::take_figures(const ShownProcess& process) {
  ShownPool sum;
  has_ended_ = true;
  name_ = fmt::format("{}{}", pid_, named(process.command));
  for (const StatsPage& page : process.pages) {
    for (const ShownPool& pool : page.pools) {
      if (pool_ != 0 && pool.number != pool_) continue;
      has_ended_ = false;
      if (pool_ != 0) name_ += fmt::format(", pool {}{}", pool.number, named(pool.name));
      sum.live += pool.live;
      sum.pending += pool.pending;
      sum.cached += pool.cached;
      sum.reserved += pool.reserved;
    }
  }
  if (has_ended_) return;
  figures_ = fmt::format("{} live, {} cached, {} reserved", format_bytes(sum.live),
                         format_bytes(sum.cached + sum.pending), format_bytes(sum.reserved));
  moments_.push_back({sum.live, sum.reserved});
  if (moments_.size() > kMostKept) moments_.pop_front();
}

void TopProcess::ask(uint64_t now_ns) {
  if (now_ns < next_ask_ns_) return;
  AskedHolders asked = ask_holders(pid_, pool_);
  if (!asked.why_not.empty()) asked.holders = std::move(asked_.holders);
  asked_ = std::move(asked);
  next_ask_ns_ = now_ns + (asked_.why_not.empty() ? kAskEvery : kAskAfterFailure);
}

void TopProcess::press(char key) {
  if (mark_.move(key)) return;
  constexpr int kOrders = 3;
  switch (key) {
    case ' ': is_paused_ = !is_paused_; break;
    case 'v': as_tree_ = !as_tree_; break;
    case 'n': has_native_ = !has_native_; break;
    case '<':
    case '>':
      order_ = static_cast<SiteOrder>((static_cast<int>(order_) + (key == '>' ? 1 : 2)) % kOrders);
      break;
    case '\r':
    case '\n':
      if (mark_.marked() && as_tree_ && folded_.erase(*mark_.marked()) == 0) folded_.insert(*mark_.marked());
      break;
    default: break;
  }
}

std::vector<SiteLine> TopProcess::site_lines(bool as_tree) const {
  const auto holders = has_native_ ? asked_.holders : without_native(asked_.holders);
  return as_tree ? tree_of(holders, order_, folded_) : functions_of(holders, order_);
}

std::string TopProcess::title() const {
  return fmt::format("{}: {}{}", name_, figures_, has_ended_ ? "; ENDED" : is_paused_ ? "; PAUSED" : "");
}

std::string TopProcess::status() const {
  if (!asked_.why_not.empty()) return harmless(asked_.why_not);
  if (asked_.holders.empty()) return "no live block is a sample: little is held, or GPUPOOL_SAMPLE is 0";
  constexpr std::array kOrderNames = {"total", "own", "oldest"};
  return fmt::format("who holds {}, as samples estimate it; by {}; asking took {:.1f} ms",
                     format_bytes(live_of(asked_.holders)), kOrderNames[static_cast<size_t>(order_)],
                     asked_.seconds * 1e3);
}

std::vector<std::string> TopProcess::draw(const TerminalSize& size) {
  std::vector<std::string> lines = {title()};
  const size_t columns = size.columns - std::min(size.columns, kScale + 1);
  const size_t height = std::clamp(size.lines / 4, kLeastChart, kMostChart);
  for (std::string& line : draw_chart(moments_, columns, height)) lines.push_back(std::move(line));
  lines.push_back(fmt::format("{:>{}} █ live ░ reserved, every {:.1f} s; v {}, h help, Esc back", "", kScale,
                              interval_, as_tree_ ? "functions" : "calls"));
  lines.push_back(status());
  const std::vector<SiteLine> sites = site_lines(as_tree_);
  const size_t room = size.lines - std::min(size.lines, lines.size() + 2);  // titles, the count
  std::vector<uint64_t> keys;
  keys.reserve(sites.size());
  for (const SiteLine& site : sites) keys.push_back(site.key);
  (void)mark_.see(std::move(keys));
  const size_t first = mark_.first_shown(room, lines.size() + 1);
  const size_t end = std::min(first + room, sites.size());
  const uint64_t whole = live_of(asked_.holders);
  if (!sites.empty()) lines.push_back(fmt::format("  {}{}", kTitles, as_tree_ ? "CALLS" : "FUNCTION"));
  for (size_t at = first; at < end; ++at) {
    const SiteLine& site = sites[at];
    const char fold = !site.has_callees ? ' ' : folded_.contains(site.key) ? '+' : '-';
    lines.push_back((mark_.marked() == site.key ? "> " : "  ") + text_of(site, whole, fold));
  }
  if (end - first < sites.size())
    lines.push_back(fmt::format("lines {} to {} of {}", first + 1, end, sites.size()));
  for (std::string& line : lines) line = cut_to_width(line, size.columns);
  return lines;
}

std::vector<std::string> TopProcess::draw_all() const {
  std::vector<std::string> lines = {title(), status()};
  for (const bool as_tree : {false, true}) {
    const std::vector<SiteLine> sites = site_lines(as_tree);
    if (!sites.empty()) lines.push_back(fmt::format("{}{}", kTitles, as_tree ? "CALLS" : "FUNCTION"));
    for (const SiteLine& site : sites)
      lines.push_back(text_of(site, live_of(asked_.holders), site.has_callees ? '-' : ' '));
  }
  return lines;
}

}  // namespace gpupool::cli
