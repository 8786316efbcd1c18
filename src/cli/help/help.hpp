// SPDX-License-Identifier: Apache-2.0
// What `gpupool --help` looks like, and what is said of a command that there is not.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace gpupool::cli {

/// The commands by group, one line each, before the options. `gpupool COMMAND --help` says all about one.
class Help : public CLI::Formatter {
 public:
  Help();
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

/// What a command is for, in a line: the first of its description. The rest are paragraphs.
std::string line_of(const CLI::App& command);

/// If the first argument looks like a command but is not one, throws InputError, and suggests the right one.
void refuse_unknown_command(const CLI::App& app, int argc, char** argv);

}  // namespace gpupool::cli
