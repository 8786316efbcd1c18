// SPDX-License-Identifier: Apache-2.0
#include "attack/hunt/pattern.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>
#include <stdexcept>

namespace hunt {
namespace {

/// Mallocs in a period, so that a pattern is played in a tenth of a second; and those of many threads, which
/// hand over at each turn.
constexpr int64_t kMostSteps = 20'000;
constexpr int64_t kMostStepsOfThreads = 6'000;
constexpr int64_t kMostTurns = 800;
/// So many times what may be live is allocated in a period at most, because each chunk of it may take some
/// calls of the simulated driver.
constexpr int64_t kMostTimes = 32;

constexpr int64_t kMostSize = int64_t{64} << 30;

const Field kFields[] = {
    {"seed", &Pattern::seed, 0, INT64_MAX, {1, 2, 3, 4, 5, 6, 7, 8}, {}},
    {"threads", &Pattern::threads, 1, 64, {1, 1, 1, 1, 2, 3, 4, 8, 16}, {}},
    {"streams", &Pattern::streams, 1, 1024, {1, 1, 2, 3, 4, 8, 16, 32, 64}, {}},
    {"own", &Pattern::own, 0, 1, {0, 1}, {}},
    {"route", &Pattern::route, 0, 3, {0, 1, 2, 3}, {"fixed", "block", "batch", "any"}},
    {"sizes", &Pattern::sizes, 0, 4096, {0, 1, 1, 2, 2, 3, 5, 8, 12, 20, 64, 500}, {}},
    {"low", &Pattern::low, 1, kMostSize, {}, {}},
    {"high", &Pattern::high, 1, kMostSize, {}, {}},
    {"unit", &Pattern::unit, 1, kMostSize, {512, 512, 4096, 256 << 10, 2 << 20}, {}},
    {"pick", &Pattern::pick, 0, 1, {0, 1}, {"turn", "any"}},
    {"live", &Pattern::live, 1, 1'000'000, {1, 1, 2, 3, 8, 20, 64, 300, 2000, 20'000}, {}},
    {"order", &Pattern::order, 0, 4, {0, 1, 2, 3, 4}, {"oldest", "any", "batch", "stack", "shuffled"}},
    {"steps", &Pattern::steps, 1, 1'000'000, {20, 60, 100, 240, 1000}, {}},
    {"turn", &Pattern::turn, 1, 1'000'000, {1, 1, 5, 50}, {}},
    {"phases", &Pattern::phases, 1, 6, {1, 1, 1, 2, 3}, {}},
    {"other", &Pattern::other, 0, 1, {0, 0, 0, 0, 1}, {}},
    {"elsewhere", &Pattern::elsewhere, 0, 100, {0, 0, 0, 10, 50, 100}, {}},
    {"record", &Pattern::record, 0, 100, {0, 0, 0, 0, 10, 100}, {}},
    {"busy", &Pattern::busy, 0, 1000, {0, 0, 0, 30, 90}, {}},
    {"captures", &Pattern::captures, 0, 1000, {0, 0, 0, 0, 0, 0, 4, 20}, {}},
    {"pools", &Pattern::pools, 1, 16, {1, 1, 1, 1, 2, 3}, {}},
    {"ballast", &Pattern::ballast, 0, 65'536, {0, 0, 0, 16, 1024, 20'000}, {}},
    {"limit", &Pattern::limit, 0, 10'000, {0, 0, 0, 102, 110, 120, 150, 200, 400}, {}},
    {"slack", &Pattern::slack, 0, 2, {0, 0, 0, 0, 1, 2}, {"usual", "tight", "tenth"}},
    {"sample", &Pattern::sample, 0, 1, {0, 0, 0, 1}, {}},
    {"debug", &Pattern::debug, 0, 2, {0, 0, 0, 0, 0, 0, 0, 1, 2}, {"none", "guard", "quarantine"}},
    {"gap", &Pattern::gap, 0, 1'000'000, {50, 50, 50, 200, 1000, 20'000}, {}},
    {"rest", &Pattern::rest, 1, 1'000'000, {8}, {}},
};

int64_t any_of(const std::vector<int64_t>& values, Random& random) {
  return values[random() % values.size()];
}

/// Sizes from 512 bytes to 4 GiB, equally likely in each power of two, and up to 256 times as large ones.
void draw_sizes(Pattern& pattern, Random& random) {
  pattern.low = std::max<int64_t>(512, int64_t{1} << (9 + random() % 23));
  if (random() % 2 == 0) pattern.low = pattern.low / 4 * 3;
  pattern.high = pattern.low << random() % 9;
  if (random() % 3 == 0) pattern.high += pattern.high / 3;
}

int64_t value_of(const Field& field, const std::string& text) {
  for (size_t i = 0; i < field.words.size(); ++i) {
    if (text == field.words[i]) return static_cast<int64_t>(i);
  }
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (!field.words.empty() || error != std::errc() || stop != end || value < field.least ||
      value > field.most) {
    throw std::invalid_argument(std::string(field.name) + "=" + text + " is not a value of this key");
  }
  return value;
}

}  // namespace

std::span<const Field> fields() {
  return kFields;
}

Pattern made_sound(Pattern pattern, uint64_t bytes) {
  if (pattern.own != 0) pattern.streams = std::max(pattern.streams, pattern.threads);
  pattern.high = std::max(pattern.low, pattern.high);
  const int64_t most = pattern.threads == 1
                           ? kMostSteps
                           : std::min(kMostStepsOfThreads, kMostTurns * pattern.turn) / pattern.threads;
  pattern.live = std::min(pattern.live, std::max<int64_t>(1, most));
  pattern.steps = std::clamp(pattern.steps, pattern.live, std::max(pattern.live, most));
  if (pattern.other != 0) pattern.steps = std::max(pattern.steps, pattern.live + 1);
  pattern.turn = std::min(pattern.turn, pattern.steps);
  if (pattern.threads == 1) pattern.elsewhere = 0, pattern.turn = 1;
  int64_t factor = std::max(pattern.threads * pattern.live, pattern.threads * pattern.steps / kMostTimes);
  for (int64_t phase = 1; phase < pattern.phases; ++phase) factor *= 3;
  factor *= 1 + 2 * pattern.other;
  const auto room = static_cast<int64_t>(bytes) / factor;
  pattern.high = std::clamp<int64_t>(room, 512, pattern.high);
  pattern.low = std::min(pattern.low, pattern.high);
  pattern.unit = std::min(pattern.unit, std::max<int64_t>(512, pattern.high));
  return pattern;
}

Pattern draw(Random& random, uint64_t bytes) {
  Pattern pattern;
  for (const Field& field : kFields) {
    if (!field.drawn.empty()) pattern.*field.value = any_of(field.drawn, random);
  }
  draw_sizes(pattern, random);
  return made_sound(pattern, bytes);
}

Pattern change(const Pattern& pattern, Random& random, uint64_t bytes) {
  Pattern changed = pattern;
  for (uint64_t times = 1 + random() % 3; times > 0; --times) {
    const Field& field = kFields[random() % std::size(kFields)];
    if (field.drawn.empty()) {
      draw_sizes(changed, random);
    } else {
      changed.*field.value = any_of(field.drawn, random);
    }
  }
  return made_sound(changed, bytes);
}

std::string to_line(const Pattern& pattern) {
  static const Pattern usual;
  std::string line;
  for (const Field& field : kFields) {
    const int64_t value = pattern.*field.value;
    if (value == usual.*field.value) continue;
    if (!line.empty()) line += ' ';
    line += std::string(field.name) + '=';
    line += field.words.empty() ? std::to_string(value) : field.words[static_cast<size_t>(value)];
  }
  return line.empty() ? "threads=1" : line;
}

Pattern from_line(const std::string& line) {
  Pattern pattern;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const Field* const field = std::find_if(std::begin(kFields), std::end(kFields), [&](const Field& each) {
      return word.compare(0, equals, each.name) == 0;
    });
    if (equals == std::string::npos || field == std::end(kFields)) {
      throw std::invalid_argument(word + " is not a key=value of a pattern");
    }
    pattern.*field->value = value_of(*field, word.substr(equals + 1));
  }
  return pattern;
}

}  // namespace hunt
