// SPDX-License-Identifier: Apache-2.0
// What several commands have among their options, and checks that CLI11 does not have.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <system_error>

#include "cli/commands/commands.hpp"

namespace gpupool::cli {

/// As CLI::Range, which lets "nan" pass: that is neither below nor above anything.
inline CLI::Validator between(double least, double most) {
  const auto check = [=](std::string& text) {
    double value = 0;
    const bool is_within = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return is_within ? std::string() : fmt::format("Value {} not in range {} to {}", text, least, most);
  };
  return {check, fmt::format("FLOAT in [{} - {}]", least, most)};
}

/// As CLI::PositiveNumber, which shows the largest number with all of its digits. CLI11 takes what is too
/// large for the largest that there is, and "010" for 8.
inline CLI::Validator is_positive() {
  const auto check = [](std::string& text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_whole = error == std::errc() && end == text.data() + text.size();
    return is_whole && text.front() != '0' ? std::string()
                                           : fmt::format("'{}' is no whole number from 1 on", text);
  };
  return {check, "POSITIVE"};
}

/// An empty value, as of a variable of a shell that is not set, must not be taken for an option that is not
/// there.
inline void refuse_empty_values(CLI::App& app) {
  for (CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; })) {
    for (CLI::Option* const option : command->get_options()) {
      if (option->get_positional() || option->get_items_expected_max() == 0) continue;
      option->check(
          [](const std::string& text) { return std::string(text.empty() ? "its value is empty" : ""); });
    }
  }
}

/// A recording is read again once it is made, so it cannot go to standard output, as what other commands
/// write can.
inline CLI::Validator is_no_dash() {
  const auto check = [](std::string& text) {
    return std::string(text == "-" ? "a recording goes to a file, not to standard output" : "");
  };
  return {check, "FILE"};
}

template <typename Options>
struct NewCommand {
  CLI::App& command;
  Options& options;  // as long as the command
  Command made;
};

template <typename Options>
NewCommand<Options> new_command(CLI::App& app, const char* name, const char* about, const char* examples,
                                std::function<int(Options& options)> run) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand(name, about)->footer(examples);
  return {*command, *options, {command, [=] { return run(*options); }}};
}

inline void file_option(CLI::App& command, std::string& file) {
  command.add_option("FILE", file, "A recording")->required()->option_text(" ");
}

inline void output_option(CLI::App& command, std::string& output) {
  command.add_option("-o,--output", output, "Where to write")->option_text("FILE [-]");
}

inline CLI::Option* pool_option(CLI::App& command, uint64_t& pool,
                                const char* help = "Which pool, if the recording has several") {
  return command.add_option("--pool", pool, help)->check(is_positive())->option_text("N");
}

inline void device_option(CLI::App& command, std::string& device) {
  command
      .add_option("--device", device,
                  "auto (CUDA where a GPU is usable, else sim), cuda, cuda:N, sim, sim:N, host, N")
      ->option_text("NAME [auto]");
}

inline CLI::Option* json_flag(CLI::App& command, bool& json) {
  return command.add_flag("--json", json, "Print JSON for programs, one object a line, and nothing else");
}

}  // namespace gpupool::cli
