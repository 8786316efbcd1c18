// SPDX-License-Identifier: Apache-2.0
// What people and programs read: tables, lines of JSON, a progress bar, numbers, lists that are cut.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace gpupool::cli {

/// A table on standard output, with columns as wide as they need to be.
class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::right;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// Takes as many cells as there are columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void print() const;

 private:
  void print_row(const std::vector<std::string>& cells, const std::vector<size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Says something to people, in a line of standard error that begins with the command's name. Nothing else
/// fails if nobody can read it.
void say(std::string_view words) noexcept;

/// Writes out what is buffered for standard output. False: a part of it is lost, now or at any time before.
bool flush_output();

/// Prints an object as one line on standard output.
void print_json(const nlohmann::ordered_json& object);

/// Rounds to `digits` decimals, so that JSON shows no more precision than was measured.
double round_to(double value, int digits);

/// "a, b, and 7 more": the first `most` names with what goes between them, and how many others there are.
std::string list_first(const std::vector<std::string>& names, size_t most, std::string_view between);

/// That moment in local time, as strftime writes it; "" if there is no such time.
std::string clock_text(std::time_t moment, const char* format);

/// A progress bar on standard error. It shows only on a terminal, and only once a second has passed since the
/// first one was made.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Begins a part of the work: `total` steps.
  void begin(std::string label, uint64_t total);
  /// Reports completed steps of this part. Cheap; call it as often as convenient.
  void set(uint64_t done);
  /// Wipes the bar, so that other lines can be printed.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(uint64_t done);

  bool is_terminal_;
  bool is_drawn_ = false;
  Clock::time_point next_draw_;
  std::string label_;
  uint64_t total_ = 1;
};

}  // namespace gpupool::cli
