// SPDX-License-Identifier: Apache-2.0
// The report as one HTML file that asks for nothing else.
#pragma once

#include <string>
#include <vector>

#include "cli/report/comparison.hpp"

namespace gpupool::cli {

/// What the page has of one pool of a recording, which need not be there any more.
struct Chapter {
  std::string summary;  // HTML
  std::string data;     // JSON for the scripts
};

Chapter chapter_of(const Story& story);

/// The chapters of one recording's pools, or of two recordings' to compare, in the order of `runs`.
std::string page_of(const std::vector<Chapter>& chapters, const std::vector<std::vector<ComparedPool>>& runs);

/// The parts of the page that are always the same. CMake makes them of the files in page/.
struct PageParts {
  const char* style;
  const char* style_hash;  // SHA-256 as base64, for the page's policy
  const char* script;
  const char* script_hash;
  const char* body;
  const char* compare;
  const char* licence;  // of what others have made
};
extern const PageParts kPageParts;

}  // namespace gpupool::cli
