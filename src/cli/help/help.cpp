// SPDX-License-Identifier: Apache-2.0
#include "cli/help/help.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/base/library.hpp"

namespace gpupool::cli {
namespace {

/// How many letters must be added, taken away or changed to make one word of the other.
size_t distance(std::string_view from, std::string_view to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t changed = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

Help::Help() {
  column_width(30);
}

std::string Help::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  if (app->get_parent() != nullptr) return Formatter::make_help(app, std::move(name), mode);
  return make_description(app) + "Usage: gpupool COMMAND [OPTION...]\n" + make_subcommands(app, mode) +
         make_groups(app, mode) + make_footer(app);
}

std::string Help::make_subcommand(const CLI::App* command) const {
  return fmt::format("  {:<10}{}\n", command->get_name(), line_of(*command));
}

std::string line_of(const CLI::App& command) {
  const std::string description = command.get_description();
  return description.substr(0, description.find('\n'));
}

void refuse_unknown_command(const CLI::App& app, int argc, char** argv) {
  constexpr size_t kMaxDistance = 2;
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word.empty() || word.front() == '-') return;
  std::string names;
  std::string nearest;
  size_t least = kMaxDistance + 1;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string name = command->get_name();
    const size_t letters = distance(word, name);
    if (letters == 0) return;
    if (letters < least && 2 * letters < name.size()) {  // two letters are most of "top"
      least = letters;
      nearest = fmt::format("; did you mean {}?", name);
    }
    names += (names.empty() ? "" : ", ") + name;
  }
  if (nearest.empty()) nearest = "; there are " + names;
  throw InputError(fmt::format("there is no command '{}'{}", word.substr(0, 64), nearest));
}

}  // namespace gpupool::cli
