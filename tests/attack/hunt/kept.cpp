// SPDX-License-Identifier: Apache-2.0
#include "attack/hunt/kept.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace hunt {
namespace {

State state_named(const std::string& name) {
  if (name == "holds") return State::holds;
  if (name == "fails") return State::fails;
  if (name == "drawn") return State::drawn;
  throw std::invalid_argument(name + " is not a state");
}

Kept read_line(const std::string& line) {
  std::istringstream words(line.substr(0, line.find('#')));
  std::string state;
  std::string law;
  Kept kept{};
  kept.line = line;
  words >> state >> law;
  kept.state = state_named(state);
  kept.law = law_named(law);
  if (kept.state != State::holds) words >> kept.figure;
  if (words.fail()) throw std::invalid_argument("a figure is missing: " + line);
  std::string rest;
  std::getline(words, rest);
  kept.pattern = from_line(rest);
  return kept;
}

}  // namespace

std::vector<Kept> read_kept(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::invalid_argument(file + " cannot be read");
  std::vector<Kept> all;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] != '#') all.push_back(read_line(line));
  }
  return all;
}

}  // namespace hunt
