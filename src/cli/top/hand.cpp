// SPDX-License-Identifier: Apache-2.0
#include "cli/top/hand.hpp"

#include <fmt/format.h>

#include <ctime>
#include <exception>
#include <filesystem>
#include <utility>

#include "cli/base/out_file.hpp"
#include "cli/base/output.hpp"
#include "cli/base/size.hpp"
#include "cli/base/utf8.hpp"
#include "cli/processes/control.hpp"
#include "cli/processes/control_snapshot.hpp"

namespace gpupool::cli {
namespace {

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
  std::vector<TopPlace> places;
  places.reserve(rows.size());
  for (const TopRow& row : rows) places.push_back(place_of(row));
  if (!mark_.see(std::move(places))) {
    asks_ = false;
    said_.clear();
  }
  for (const TopRow& row : rows)
    if (is_marked(row)) marked_name_ = name_of(row);
  was_asked_ = asks_;
}

/// A question was about what was marked before.
void TopHand::forget_question() {
  asks_ = was_asked_ = false;
  said_.clear();
}

void TopHand::point(size_t line) {
  if (mark_.point(line)) forget_question();
}

void TopHand::scroll(int rows) {
  if (mark_.scroll(rows)) forget_question();
}

void TopHand::press(char key) {
  if (mark_.move(key)) {
    forget_question();
  } else if (marked()) {
    try {
      said_ = act(key);
    } catch (const std::exception& error) {
      said_ = error.what();
    }
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
  request.pool = marked()->pool;
  const ControlReply reply = Control(marked()->pid, kLongestAnswer).ask(request);
  return reply.message.empty() ? fmt::format("{} given back", format_bytes(reply.released)) : reply.message;
}

std::string TopHand::write_snapshot() const {
  ControlRequest request;
  request.command = ControlCommand::snapshot;
  request.pool = marked()->pool;
  const ControlReply reply = Control(marked()->pid, kLongestAnswer).ask(request);
  if (!reply.message.empty()) return reply.message;
  const std::string name = file_name(marked()->pid, "jsonl");
  OutFile file(name);
  file.write(text_of_snapshot(reply.file.get(), marked()->pid, false));
  file.close();
  return fmt::format("its blocks are in {}", name);
}

std::string TopHand::record() {
  const uint64_t pid = marked()->pid;
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
  if (!marked()) return "";
  if (asks_) return fmt::format("give back what {} has cached? y", marked_name_);
  if (!said_.empty()) return fmt::format("{}: {}", marked()->pid, harmless(said_));
  return fmt::format("{}: e trims, s writes a snapshot, r records, Enter shows who holds what",
                     marked()->pid);
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
