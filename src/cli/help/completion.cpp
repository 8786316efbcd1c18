// SPDX-License-Identifier: Apache-2.0
// What shells complete: commands, their options, and the values of those that take one of a few. The rest are
// files, or nothing that is known here.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "cli/help/help.hpp"
#include "cli/help/options.hpp"
#include "cli/help/pages.hpp"

namespace gpupool::cli {
namespace {

/// Between single quotes of the shell.
std::string shell_word(std::string_view text) {
  std::string inside;
  for (const char letter : text) inside += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return "'" + inside + "'";
}

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  return fmt::format("{}", fmt::join(words, between));
}

std::vector<std::string> names_in(const std::vector<DescribedOption>& options) {
  std::vector<std::string> names;
  for (const DescribedOption& option : options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

// ---- bash

constexpr const char* kBashBegin = R"(# bash completion for gpupool, written by gpupool itself
_gpupool() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options=''
  # bash takes --name=value for three words.
  [[ $word == = ]] && word=''
  [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD-2]}
  COMPREPLY=()
)";

std::string bash(const CLI::App& app) {
  std::vector<std::string> firsts = names_in(options_of(app));
  std::string values;
  std::string options;
  for (const CLI::App* command : commands_of(app)) {
    firsts.push_back(command->get_name());
    const std::vector<DescribedOption> described = options_of(*command);
    options += fmt::format("    {}) options='{}' ;;\n", command->get_name(), joined(names_in(described)));
    for (const DescribedOption& option : described) {
      if (option.names.empty() || option.choices.empty()) continue;
      values += fmt::format("    {}:{}) COMPREPLY=($(compgen -W '{}' -- \"$word\")); return ;;\n",
                            command->get_name(), option.names.back(), joined(option.choices));
    }
  }
  return std::string(kBashBegin) +
         fmt::format(
             "  if ((COMP_CWORD == 1)); then\n    COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n    return\n  "
             "fi\n",
             joined(firsts)) +
         "  case ${COMP_WORDS[1]}:$before in\n" + values + "  esac\n  case ${COMP_WORDS[1]} in\n" + options +
         "  esac\n  [[ $word == -* ]] && COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n  return 0\n}\n"
         "complete -o default -F _gpupool gpupool\n";
}

// ---- zsh

/// In a description, which ends at ']' and ':'.
std::string zsh_text(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') escaped += '\\';
    escaped += letter;
  }
  return escaped;
}

std::string zsh_action(const DescribedOption& option) {
  if (!option.choices.empty()) return "(" + joined(option.choices) + ")";
  return option.takes_file() || option.names.empty() ? "_files" : " ";
}

std::string zsh_option(const DescribedOption& option, bool is_last) {
  if (option.names.empty()) {
    if (!is_last) return shell_word(fmt::format(":{}:{}", option.value, zsh_action(option)));
    return shell_word(fmt::format("*:{}:{}", option.value, zsh_action(option)));
  }
  const std::string value =
      option.takes_value() ? fmt::format(":{}:{}", zsh_text(option.value), zsh_action(option)) : "";
  std::string words;
  for (const std::string& name : option.names) {
    const bool is_long = name.starts_with("--");
    words += fmt::format(
        "{}{}", words.empty() ? "" : " ",
        shell_word(fmt::format("({}){}{}[{}]{}", joined(option.names), name,
                               option.takes_value() && is_long ? "=" : "", zsh_text(option.help), value)));
  }
  return words;
}

std::string zsh(const CLI::App& app) {
  std::string commands;
  std::string cases;
  for (const CLI::App* command : commands_of(app)) {
    commands += fmt::format("    {}\n", shell_word(command->get_name() + ":" + zsh_text(line_of(*command))));
    cases += fmt::format("    {}) _arguments -s", command->get_name());
    const std::vector<DescribedOption> options = options_of(*command);
    for (size_t i = 0; i < options.size(); ++i) {
      const bool is_last = i + 1 == options.size() || !options[i + 1].names.empty();
      cases += " \\\n      " + zsh_option(options[i], is_last);
    }
    cases += " ;;\n";
  }
  return "#compdef gpupool\n# zsh completion for gpupool, written by gpupool itself\n_gpupool() {\n"
         "  local -a commands=(\n" +
         commands +
         "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n"
         "  shift words\n  ((CURRENT--))\n  case $words[1] in\n" +
         cases + "  esac\n}\n_gpupool \"$@\"\n";
}

// ---- fish

std::string fish_option(const std::string& command, const DescribedOption& option) {
  std::string line = fmt::format("complete -c gpupool -n '__fish_seen_subcommand_from {}'", command);
  for (const std::string& name : option.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!option.choices.empty()) {
    line += " -x -a " + shell_word(joined(option.choices));
  } else if (option.takes_value()) {
    line += option.takes_file() ? " -r -F" : " -x";
  }
  return line + " -d " + shell_word(option.help) + "\n";
}

std::string fish(const CLI::App& app) {
  std::string text = "# fish completion for gpupool, written by gpupool itself\n";
  std::string options;
  for (const CLI::App* command : commands_of(app)) {
    const std::string name = command->get_name();
    text += fmt::format("complete -c gpupool -f -n __fish_use_subcommand -a {} -d {}\n", name,
                        shell_word(line_of(*command)));
    for (const DescribedOption& option : options_of(*command)) {
      if (!option.names.empty()) options += fish_option(name, option);
    }
  }
  return text + options;
}

}  // namespace

std::vector<Page> completions(const CLI::App& app) {
  return {{"bash-completion/completions/gpupool", bash(app)},
          {"zsh/site-functions/_gpupool", zsh(app)},
          {"fish/vendor_completions.d/gpupool.fish", fish(app)}};
}

}  // namespace gpupool::cli
