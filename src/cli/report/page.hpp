// SPDX-License-Identifier: Apache-2.0
// The report as one HTML file that asks for nothing else.
#pragma once

#include <string>
#include <vector>

#include "cli/report/story.hpp"

namespace gpupool::cli {

/// One story or several. `compared` says which two stories to compare; it is empty if there is one recording.
std::string page_of(const std::vector<Story>& stories, const std::vector<size_t>& compared);

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
