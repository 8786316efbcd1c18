// SPDX-License-Identifier: Apache-2.0
// Manual pages, in the language of man(7).
#include <fmt/format.h>
#include <gpupool/gpupool.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <sstream>

#include "cli/help/help.hpp"
#include "cli/help/options.hpp"
#include "cli/help/pages.hpp"

namespace gpupool::cli {
namespace {

/// As it is to be read and copied: roff makes typography of some characters, and of a line's first.
std::string roff(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '\\': escaped += "\\e"; break;
      case '-': escaped += "\\-"; break;
      case '\'': escaped += "\\(aq"; break;
      case '^': escaped += "\\(ha"; break;
      case '~': escaped += "\\(ti"; break;
      case '`': escaped += "\\(ga"; break;
      case '|': escaped += "|\\:"; break;  // a line may end here
      default: escaped += letter;
    }
  }
  return escaped.starts_with('.') ? "\\&" + escaped : escaped;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

/// Paragraphs of text, in which indented lines stay as they are. A line of its own that ends in ':' is a
/// heading, and so is "Exit status:".
std::string roff_paragraphs(const std::string& text) {
  constexpr std::string_view kExitStatus = "Exit status: ";
  std::string page;
  bool is_kept = false;  // as it is
  bool is_first = true;  // of a paragraph
  const auto keep = [&](bool kept) {
    if (kept != is_kept) page += kept ? ".nf\n" : ".fi\n";
    is_kept = kept;
  };
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      keep(false);
      is_first = true;
      continue;
    }
    const bool is_indented = line.front() == ' ';
    keep(is_indented);
    if (is_first && line.back() == ':' && line.find(' ') == std::string::npos) {
      page += ".SH " + upper(line.substr(0, line.size() - 1)) + "\n";
    } else if (is_first && line == "What is printed:") {
      page += ".SH OUTPUT\n";
    } else if (is_first && line.starts_with(kExitStatus)) {
      page += ".SH EXIT STATUS\n" + roff(line.substr(kExitStatus.size())) + "\n";
    } else {
      if (is_first) page += ".PP\n";
      page += roff(line) + "\n";
    }
    is_first = false;
  }
  keep(false);
  return page;
}

std::string header(const std::string& name, const std::string& line) {
  std::string what = line;
  what.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(what.front())));
  return fmt::format(".TH {} 1 \"\" \"gpupool {}\" \"gpupool\"\n.nh\n.ad l\n.SH NAME\n{} \\- {}\n",
                     upper(name), gpupool_version_string(), roff(name), roff(what));
}

std::string roff_options(const CLI::App& command) {
  std::string page;
  for (const DescribedOption& option : options_of(command)) {
    page += ".TP\n";
    for (const std::string& name : option.names)
      page += fmt::format("{}\\fB{}\\fR", &name == option.names.data() ? "" : ", ", roff(name));
    if (option.takes_value())
      page += fmt::format("{}\\fI{}\\fR", option.names.empty() ? "" : " ", roff(option.value));
    if (!option.rest.empty()) page += " " + roff(option.rest);
    page += "\n" + roff(option.help) + "\n";
  }
  return page.empty() ? page : ".SH OPTIONS\n" + page;
}

std::string synopsis(const CLI::App& command) {
  std::string words = fmt::format(".SH SYNOPSIS\n.B gpupool {}\n[\\fIOPTION\\fR...]", command.get_name());
  for (const DescribedOption& option : options_of(command)) {
    if (!option.names.empty()) continue;
    const std::string name = "\\fI" + option.value + "\\fR";
    words += " " + (option.is_required ? name : "[" + name + "]");
  }
  return words + "\n";
}

Page page_of(const CLI::App& command) {
  const std::string name = "gpupool-" + command.get_name();
  const std::string line = line_of(command);
  return {"man/man1/" + name + ".1", header(name, line) + synopsis(command) + ".SH DESCRIPTION\n" +
                                         roff_paragraphs(command.get_description().substr(line.size())) +
                                         roff_options(command) + roff_paragraphs(command.get_footer()) +
                                         ".SH SEE ALSO\n.BR gpupool (1)\n"};
}

}  // namespace

std::vector<Page> manual_pages(const CLI::App& app) {
  const std::string about = app.get_description();
  std::string text = header("gpupool", "one pool of GPU memory for programs in any language");
  text += ".SH SYNOPSIS\n.B gpupool\n\\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.SH DESCRIPTION\n";
  text += roff_paragraphs(about.substr(line_of(app).size())) + ".SH COMMANDS\n";
  std::vector<Page> pages;
  std::string group;
  for (const CLI::App* command : commands_of(app)) {
    if (group != command->get_group()) text += ".SS " + (group = command->get_group()) + "\n";
    text += fmt::format(".TP\n.BR gpupool\\-{} (1)\n{}\n", command->get_name(), roff(line_of(*command)));
    pages.push_back(page_of(*command));
  }
  text += roff_options(app) + roff_paragraphs(app.get_footer());
  pages.insert(pages.begin(), {"man/man1/gpupool.1", text});
  return pages;
}

}  // namespace gpupool::cli
