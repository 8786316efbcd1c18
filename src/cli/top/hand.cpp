// SPDX-License-Identifier: Apache-2.0
#include "cli/top/hand.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <filesystem>

#include "cli/base/out_file.hpp"
#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/base/utf8.hpp"
#include "cli/processes/control.hpp"
#include "cli/processes/control_snapshot.hpp"

namespace gpupool::cli {
namespace {

constexpr double kLongestAnswer = 2;  // seconds, while nothing is drawn

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
  was_asked_ = asks_;
}

void TopHand::press(char key) {
  if (key == 'j' || key == 'k') {
    asks_ = was_asked_ = false;
    said_.clear();
    move(key == 'j');
  } else if (marked_) {
    try {
      said_ = act(key);
    } catch (const std::exception& error) {
      said_ = error.what();
    }
  }
}

void TopHand::move(bool is_down) {
  if (places_.empty()) return;
  const auto at = std::find(places_.begin(), places_.end(), marked_);
  if (at == places_.end()) {
    marked_ = is_down ? places_.front() : places_.back();
  } else if (is_down && at + 1 != places_.end()) {
    marked_ = at[1];
  } else if (!is_down && at != places_.begin()) {
    marked_ = at[-1];
  }
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
  if (asks_) return fmt::format("give back what pool {} of {} has cached? y", marked_->pool, marked_->pid);
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
