// SPDX-License-Identifier: Apache-2.0
// One process in `gpupool top`: how much it has held lately, and who holds it now.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "cli/processes/control_snapshot.hpp"
#include "cli/top/look.hpp"
#include "cli/top/mark.hpp"
#include "cli/top/sites.hpp"
#include "cli/top/terminal.hpp"

namespace gpupool::cli {

/// What a process has answered.
struct AskedHolders {
  std::vector<ShownHolder> holders;
  double seconds = 0;   // that its answer took
  std::string why_not;  // "": it has answered
};

/// `pool` 0: of all its pools. Waits half a second at most.
AskedHolders ask_holders(uint64_t pid, uint64_t pool);

struct HeldThen {
  uint64_t live = 0;
  uint64_t reserved = 0;
};

/// Lines of a chart, the last moment at the right: live bytes on what is reserved beside them.
std::vector<std::string> draw_chart(const std::deque<HeldThen>& moments, size_t columns, size_t lines);

/// A process, or a pool of it. Looking costs it nothing but an answer a second, while it is open here.
class TopProcess {
 public:
  /// `pool` 0: all.
  void open(uint64_t pid, uint64_t pool);
  void close() { *this = {}; }
  bool is_open() const noexcept { return pid_ != 0; }

  /// Takes a moment, unless it is the last one again.
  void see(const Look& now);
  /// Some keys move the mark; Enter folds what it is on; v turns from functions to calls, n shows native
  /// frames too, < and > turn the order, and a space stops the table until the next one. Other keys do
  /// nothing.
  void press(char key);
  void point(size_t line) { (void)mark_.point(line); }
  void scroll(int rows) { (void)mark_.scroll(rows); }

  std::vector<std::string> draw(const TerminalSize& size);
  /// All lines of both views, for a pipe or a file.
  std::vector<std::string> draw_all() const;

 private:
  void ask(uint64_t now_ns);
  void take_figures(const ShownProcess& process);
  std::vector<SiteLine> site_lines(bool as_tree) const;
  std::string title() const;
  std::string status() const;

  uint64_t pid_ = 0;
  uint64_t pool_ = 0;
  bool as_tree_ = false;
  bool has_native_ = false;  // frames of interpreters
  bool is_paused_ = false;
  bool has_ended_ = false;
  SiteOrder order_ = SiteOrder::total;
  std::set<uint64_t> folded_;
  Mark<uint64_t> mark_;
  std::string name_;      // "4711 (train.py), pool 3 (weights)"
  std::string figures_;   // "1 GiB live, ..."
  uint64_t seen_ns_ = 0;  // the last moment, and
  double interval_ = 0;   // seconds since the one before
  uint64_t next_ask_ns_ = 0;
  std::deque<HeldThen> moments_;
  AskedHolders asked_;
};

}  // namespace gpupool::cli
