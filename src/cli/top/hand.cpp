// SPDX-License-Identifier: Apache-2.0
#include "cli/top/hand.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <filesystem>
#include <string_view>

#include "cli/base/out_file.hpp"
#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/base/utf8.hpp"
#include "cli/processes/control.hpp"
#include "cli/processes/control_snapshot.hpp"

namespace gpupool::cli {
namespace {

constexpr std::string_view kMoves = "jkgG\x02\x06";

constexpr double kLongestAnswer = 2;  // seconds, while nothing is drawn

std::string name_of(const TopRow& row) {
  constexpr size_t kMost = 14;  // so that the question fits into 80 columns
  const auto named = [](const std::string& name) {
    return name.empty() ? "" : fmt::format(" ({})", cut_to_width(harmless(name), kMost));
  };
  return fmt::format("pool {}{} of {}{}", row.pool->number, named(row.pool->name), row.process->pid,
                     named(row.process->command));
}

/// A name that is free in the current folder: "gpupool.4711.083015.gpt", then "gpupool.4711.083015.2.gpt".
std::string file_name(uint64_t pid, const char* kind) {
  const std::string clock = clock_text(std::time(nullptr), "%H%M%S");
  std::string name = fmt::format("gpupool.{}.{}.{}", pid, clock, kind);
  for (int at = 2; std::filesystem::exists(std::filesystem::symlink_status(name)); ++at)
    name = fmt::format("gpupool.{}.{}.{}.{}", pid, clock, at, kind);
  return name;
}

}  // namespace

void TopHand::see(const std::vector<TopRow>& rows) {
  places_.clear();
  for (const TopRow& row : rows) places_.push_back(place_of(row));
  const bool is_there = std::find(places_.begin(), places_.end(), marked_) != places_.end();
  if (marked_ && !is_there) {
    marked_.reset();
    asks_ = false;
    said_.clear();
  }
  for (const TopRow& row : rows)
    if (marked_ == place_of(row)) marked_name_ = name_of(row);
  was_asked_ = asks_;
}

/// As many as there are rows: none.
size_t TopHand::marked_row() const {
  return static_cast<size_t>(std::find(places_.begin(), places_.end(), marked_) - places_.begin());
}

/// A question was about what was marked before.
void TopHand::mark(size_t row) {
  asks_ = was_asked_ = false;
  said_.clear();
  marked_ = places_[row];
}

size_t TopHand::first_shown(size_t room, size_t above) {
  room_ = std::max<size_t>(room, 1);
  above_ = above;
  const size_t at = marked_row();
  if (at != places_.size()) first_ = std::clamp(first_, at + 1 - std::min(at + 1, room_), at);
  return first_ = std::min(first_, places_.size() - std::min(places_.size(), room_));
}

void TopHand::press(char key) {
  if (kMoves.find(key) != std::string_view::npos) {
    move(key);
  } else if (marked_) {
    try {
      said_ = act(key);
    } catch (const std::exception& error) {
      said_ = error.what();
    }
  }
}

/// Without a mark, j and k begin at the first and the last row, and pages count from the first.
void TopHand::move(char key) {
  if (places_.empty()) return;
  const size_t last = places_.size() - 1;
  size_t at = marked_row();
  const bool is_new = at > last;
  if (is_new) at = 0;
  switch (key) {
    case 'j': at += is_new ? 0 : 1; break;
    case 'k': at = is_new ? last : at - std::min<size_t>(at, 1); break;
    case kPageDown: at += room_; break;
    case kPageUp: at -= std::min(at, room_); break;
    default: at = key == 'g' ? 0 : last;
  }
  mark(std::min(at, last));
}

void TopHand::point(size_t line) {
  const size_t row = first_ + line - above_ - 1;
  if (line > above_ && line <= above_ + room_ && row < places_.size()) mark(row);
}

void TopHand::scroll(int rows) {
  const size_t most = places_.size() - std::min(places_.size(), room_);
  first_ = static_cast<size_t>(
      std::clamp<int64_t>(static_cast<int64_t>(first_) + rows, 0, static_cast<int64_t>(most)));
  const size_t at = marked_row();
  if (at != places_.size()) mark(std::clamp(at, first_, first_ + room_ - 1));
}

std::string TopHand::act(char key) {
  const bool is_confirmed = key == 'y' && was_asked_;
  asks_ = key == 'e' || (key == 'y' && asks_ && !was_asked_);
  was_asked_ = false;
  if (is_confirmed) return trim();
  if (key == 's') return write_snapshot();
  if (key == 'r') return record();
  return "";
}

std::string TopHand::trim() const {
  ControlRequest request;
  request.command = ControlCommand::trim;
  request.pool = marked_->pool;
  const ControlReply reply = Control(marked_->pid, kLongestAnswer).ask(request);
  return reply.message.empty() ? fmt::format("{} given back", format_bytes(reply.released)) : reply.message;
}

std::string TopHand::write_snapshot() const {
  ControlRequest request;
  request.command = ControlCommand::snapshot;
  request.pool = marked_->pool;
  const ControlReply reply = Control(marked_->pid, kLongestAnswer).ask(request);
  if (!reply.message.empty()) return reply.message;
  const std::string name = file_name(marked_->pid, "jsonl");
  OutFile file(name);
  file.write(text_of_snapshot(reply.file.get(), marked_->pid, false));
  file.close();
  return fmt::format("its blocks are in {}", name);
}

std::string TopHand::record() {
  const uint64_t pid = marked_->pid;
  if (recordings_.count(pid) != 0) return end_recording(pid);
  const std::string name = file_name(pid, "gpt");
  recordings_[pid] = std::make_unique<ProcessRecording>(pid, kLongestAnswer, "all", "", name);
  return fmt::format("recording to {}; r ends it", name);
}

std::string TopHand::end_recording(uint64_t pid) {
  const auto recording = std::move(recordings_.extract(pid).mapped());
  std::vector<PackedFile> made;
  const std::string trouble = recording->end(made);
  return fmt::format("the recording is in {}{}{}", recording->output(), trouble.empty() ? "" : "; ", trouble);
}

std::string TopHand::status() const {
  if (!marked_) return "";
  if (asks_) return fmt::format("give back what {} has cached? y", marked_name_);
  if (!said_.empty()) return fmt::format("{}: {}", marked_->pid, harmless(said_));
  return fmt::format("{}: e trims, s writes a snapshot, r records", marked_->pid);
}

std::vector<std::string> TopHand::finish() {
  std::vector<std::string> lines;
  while (!recordings_.empty()) {
    const uint64_t pid = recordings_.begin()->first;
    try {
      lines.push_back(fmt::format("{}: {}", pid, end_recording(pid)));
    } catch (const std::exception& error) {
      lines.push_back(fmt::format("{}: {}", pid, error.what()));
    }
  }
  return lines;
}

}  // namespace gpupool::cli
