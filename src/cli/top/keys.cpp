// SPDX-License-Identifier: Apache-2.0
#include "cli/top/keys.hpp"

#include <fmt/format.h>

#include <utility>

#include "cli/base/process_files.hpp"
#include "cli/base/utf8.hpp"

namespace gpupool::cli {
namespace {

constexpr size_t kMostTyped = 64;
constexpr char kEscape = '\x1b';
constexpr int kRowsOfWheel = 3;

/// The hand's key for one that a terminal sends as several bytes, by the last one and what is before it; 0:
/// none.
char hand_key(const std::string& parameters, char last) {
  switch (last == '~' && parameters.size() == 1 ? parameters[0] : last) {
    case 'A': return 'k';
    case 'B': return 'j';
    case '5': return kPageUp;
    case '6': return kPageDown;
    case 'H':
    case '1':
    case '7': return 'g';
    case 'F':
    case '4':
    case '8': return 'G';
    default: return 0;
  }
}

}  // namespace

bool TopKeys::press(std::string_view keys) {
  for (size_t at = 0; at < keys.size(); ++at) {
    const char key = keys[at];
    if (sequence_ != Sequence::kNone) {
      if (continue_sequence(key)) continue;
    } else if (key == kEscape && at + 1 < keys.size() && (keys[at + 1] == '[' || keys[at + 1] == 'O')) {
      sequence_ = Sequence::kEscape;
      continue;
    }
    // It is Escape alone, or the rest is still to come: there is no telling which.
    if (key == kEscape) sequence_ = Sequence::kEscape;
    if (!press_one(key)) return false;
  }
  return true;
}

/// True: the byte is part of the key that a terminal sends as several.
bool TopKeys::continue_sequence(char key) {
  const Sequence before = std::exchange(sequence_, Sequence::kNone);
  if (before == Sequence::kEscape) {
    if (key == '[') sequence_ = Sequence::kLong;
    if (key == 'O') sequence_ = Sequence::kShort;
    parameters_.clear();
    return sequence_ != Sequence::kNone;
  }
  if (key == kEscape) return false;  // the rest was lost
  if (before == Sequence::kOldMouse || (before == Sequence::kLong && key >= ' ' && key < '@')) {
    if (parameters_.size() < kMostTyped) parameters_ += key;
    if (before == Sequence::kLong || parameters_.size() < 3) sequence_ = before;
  } else if (before == Sequence::kLong && key == 'M' && parameters_.empty()) {
    // A terminal that does not know SGR writes the button and the place as three bytes, which may look like
    // keys.
    sequence_ = Sequence::kOldMouse;
  } else if (!is_typing_) {
    finish_sequence(key);
  }
  return true;
}

void TopKeys::finish_sequence(char last) {
  const bool is_mouse = last == 'M' && parameters_.starts_with('<');
  const char meant = hand_key(parameters_, last);
  if (!is_mouse && meant != 0) (void)press_one(meant);
  if (!is_mouse || std::exchange(wants_help_, false)) return;
  // "<0;12;7": the first button in column 12 of line 7. Of the button's bits, 28 are shift and its like.
  const std::string_view all = parameters_;
  const uint64_t button = number_of(all.substr(1, all.find(';') - 1)) & ~uint64_t{28};
  const auto mark = [&](auto& rows) {
    if (button == 0) rows.point(number_of(all.substr(all.rfind(';') + 1)));
    if (button == 64) rows.scroll(-kRowsOfWheel);
    if (button == 65) rows.scroll(kRowsOfWheel);
  };
  process_.is_open() ? mark(process_) : mark(hand_);
}

bool TopKeys::press_one(char key) {
  if (std::exchange(wants_help_, false)) return true;
  if (is_typing_) {
    type(key);
  } else if (key == 'q' || key == 'Q') {
    return false;
  } else if (key == 'h' || key == '?') {
    hand_.press(key);  // which takes back a question
    wants_help_ = true;
  } else if (process_.is_open()) {
    if (key == kEscape) {
      process_.close();
    } else {
      process_.press(key);
    }
  } else {
    press_in_table(key);
  }
  return true;
}

void TopKeys::press_in_table(char key) {
  if (key == '/') {
    is_typing_ = true;
    choice_.text.clear();
  } else if (key == kEscape) {
    choice_.text.clear();
  } else if (key == '<' || key == '>') {
    choice_.sort = next_order(choice_.sort, key == '>');
  } else {
    hand_.press(key);
    const bool is_enter = key == '\n' || key == '\r';
    if (const auto& place = hand_.marked(); is_enter && place) process_.open(place->pid, place->pool);
  }
}

void TopKeys::type(char key) {
  std::string& text = choice_.text;
  if (key == kEscape) text.clear();
  if (key == '\n' || key == '\r' || key == kEscape) {
    is_typing_ = false;
  } else if (key == '\b' || key == '\x7f') {
    // A letter may be several bytes, of which all but the first begin with the bits 10.
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
    if (!text.empty()) text.pop_back();
  } else if (static_cast<unsigned char>(key) >= ' ' && text.size() < kMostTyped) {
    text += key;
  }
}

std::string TopKeys::status() const {
  std::string text;
  const auto add = [&](const std::string& words) {
    if (!text.empty() && !words.empty()) text += ", ";
    text += words;
  };
  if (choice_.sort != TopChoice().sort) add(fmt::format("by {}", choice_.sort));
  if (is_typing_ || !choice_.text.empty())
    add(fmt::format("only /{}{}", harmless(choice_.text), is_typing_ ? "_" : ""));
  add(hand_.status());
  return text;
}

}  // namespace gpupool::cli
