// SPDX-License-Identifier: Apache-2.0
#include "cli/top_keys.hpp"

#include <fmt/format.h>

#include "cli/utf8.hpp"

namespace gpupool::cli {
namespace {

constexpr size_t kMostTyped = 64;
constexpr char kEscape = '\x1b';

/// A key that a terminal sends as three bytes, and the one that means the same.
struct Arrow {
  std::string_view sent;
  char key;
};
constexpr Arrow kArrows[] = {{"\x1b[A", 'k'}, {"\x1bOA", 'k'}, {"\x1b[B", 'j'}, {"\x1bOB", 'j'}};

}  // namespace

bool TopKeys::press(std::string_view keys) {
  while (!keys.empty()) {
    char key = keys[0];
    size_t bytes = 1;
    for (const Arrow& arrow : kArrows) {
      if (!is_typing_ && keys.substr(0, arrow.sent.size()) == arrow.sent) {
        key = arrow.key;
        bytes = arrow.sent.size();
      }
    }
    if (!press_one(key)) return false;
    keys.remove_prefix(bytes);
  }
  return true;
}

bool TopKeys::press_one(char key) {
  if (is_typing_) {
    type(key);
  } else if (key == 'q' || key == 'Q') {
    return false;
  } else if (key == '/') {
    is_typing_ = true;
    choice_.text.clear();
  } else if (key == kEscape) {
    choice_.text.clear();
  } else if (key == '<' || key == '>') {
    choice_.sort = next_order(choice_.sort, key == '>');
  } else {
    hand_.press(key);
  }
  return true;
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
