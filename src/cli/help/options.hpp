// SPDX-License-Identifier: Apache-2.0
// What pages say of a command's options, read from CLI11.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpupool::cli {

/// An option, or a word without a name. Hidden ones are not described.
struct DescribedOption {
  std::vector<std::string> names;  // "-o", "--output"; none: a word by its place
  std::string value;               // "FILE", of "FILE [-]"; "": it takes none
  std::string rest;                // "[-]": what it is if not given
  std::string help;
  std::vector<std::string> choices;  // none: anything
  bool is_required = false;

  bool takes_value() const { return !value.empty(); }
  bool takes_file() const;
};

/// Words by their places first, then options, in the order of the help.
std::vector<DescribedOption> options_of(const CLI::App& command);

/// The commands of the whole.
std::vector<const CLI::App*> commands_of(const CLI::App& app);

}  // namespace gpupool::cli
