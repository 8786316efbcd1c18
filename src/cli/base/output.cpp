// SPDX-License-Identifier: Apache-2.0
#include "cli/base/output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/base/system.hpp"
#include "cli/base/utf8.hpp"

namespace gpupool::cli {

void Table::print() const {
  std::vector<size_t> widths;
  std::vector<std::string> titles;
  for (const Column& column : columns_) {
    widths.push_back(column.title.size());
    titles.push_back(column.title);
  }
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::vector<std::string> rules;
  rules.reserve(widths.size());
  for (const size_t width : widths) rules.emplace_back(width, '-');
  print_row(titles, widths);
  print_row(rules, widths);
  for (const auto& row : rows_) print_row(row, widths);
}

void Table::print_row(const std::vector<std::string>& cells, const std::vector<size_t>& widths) const {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i != 0) line += "  ";
    line += columns_[i].align == Align::left ? fmt::format("{:<{}}", cells[i], widths[i])
                                             : fmt::format("{:>{}}", cells[i], widths[i]);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  fmt::print("{}\n", line);
}

void say(std::string_view words) noexcept {
  // fmt::print() throws where it cannot write.
  (void)std::fprintf(stderr, "gpupool: %.*s\n", static_cast<int>(words.size()), words.data());
}

bool flush_output() {
  // What one flush fails to write is dropped, so that the next one has nothing left to fail with.
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

void print_json(const nlohmann::ordered_json& object) {
  // Names of files need not be UTF-8; JSON must be.
  fmt::print("{}\n",
             harmless_json(object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)));
  std::fflush(stdout);
}

std::string clock_text(std::time_t moment, const char* format) {
  const std::tm local = local_time(moment);
  char text[64] = "";
  if (local.tm_mday != 0) (void)std::strftime(text, sizeof text, format, &local);
  return text;
}

double round_to(double value, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(value * scale) / scale;
}

std::string list_first(const std::vector<std::string>& names, size_t most, std::string_view between) {
  const size_t shown = std::min(names.size(), most);
  std::string text;
  for (size_t i = 0; i < shown; ++i) text += fmt::format("{}{}", i == 0 ? "" : between, names[i]);
  if (shown < names.size()) text += fmt::format("{}and {} more", between, names.size() - shown);
  return text;
}

Progress::Progress() : is_terminal_(is_terminal(stderr)) {
  static const Clock::time_point first_draw = Clock::now() + std::chrono::seconds(1);
  next_draw_ = first_draw;
}

Progress::~Progress() {
  clear();
}

void Progress::begin(std::string label, uint64_t total) {
  label_ = std::move(label);
  total_ = std::max<uint64_t>(total, 1);
  set(0);
}

void Progress::set(uint64_t done) {
  if (!is_terminal_) return;
  const Clock::time_point now = Clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + std::chrono::milliseconds(100);
  draw(done);
}

void Progress::draw(uint64_t done) {
  constexpr size_t kWidth = 30;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  const auto filled = static_cast<size_t>(share * kWidth);
  const std::string bar = fmt::format("\r\x1b[K[{}{}] {:3.0f} %  {}", std::string(filled, '#'),
                                      std::string(kWidth - filled, '.'), share * 100, label_);
  (void)std::fputs(bar.c_str(), stderr);
  std::fflush(stderr);
  is_drawn_ = true;
}

void Progress::clear() {
  if (is_drawn_) (void)std::fputs("\r\x1b[K", stderr);
  is_drawn_ = false;
}

}  // namespace gpupool::cli
