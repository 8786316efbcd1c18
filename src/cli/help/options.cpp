// SPDX-License-Identifier: Apache-2.0
#include "cli/help/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

namespace gpupool::cli {
namespace {

/// "TEXT:{auto,vmm,driver}" is what CLI11 says of an option that takes one of these.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{');
  const size_t end = type.find('}', begin);
  std::vector<std::string> choices;
  if (end == std::string::npos) return choices;
  std::istringstream words(type.substr(begin + 1, end - begin - 1));
  for (std::string word; std::getline(words, word, ',');) choices.push_back(word);
  return choices;
}

DescribedOption read_option(const CLI::Option& option) {
  DescribedOption described;
  for (const std::string& name : option.get_snames()) described.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) described.names.push_back("--" + name);
  const std::string& text = option.get_option_text();
  const size_t space = std::min(text.find(' '), text.size());
  described.value = option.get_items_expected_max() == 0 ? "" : text.substr(0, space);
  described.rest = text.substr(std::min(space + 1, text.size()));
  if (option.get_positional()) described.value = option.get_name();
  described.help = option.get_description();
  described.choices = choices_of(option);
  described.is_required = option.get_required();
  return described;
}

}  // namespace

bool DescribedOption::takes_file() const {
  return value.starts_with("FILE") || value.starts_with("PATH");
}

std::vector<DescribedOption> options_of(const CLI::App& command) {
  std::vector<DescribedOption> described;
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : command.get_options()) {
      if (option->get_positional() == positional && !option->get_group().empty())
        described.push_back(read_option(*option));
    }
  }
  return described;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

}  // namespace gpupool::cli
