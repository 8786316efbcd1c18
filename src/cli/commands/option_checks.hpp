// SPDX-License-Identifier: Apache-2.0
// Checks of options that CLI11 does not have.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

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

}  // namespace gpupool::cli
