// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/process_state.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/base/output.hpp"
#include "cli/base/utf8.hpp"
#include "cli/processes/whole.hpp"

namespace gpupool::cli {
namespace {

/// The driver's word, and what it means to the user.
struct StateWords {
  const char* word;
  const char* meaning;  // with the process's number
};

StateWords words_of(driver::CUprocessState state) {
  switch (state) {
    case driver::CU_PROCESS_STATE_RUNNING: return {"running", ""};
    case driver::CU_PROCESS_STATE_LOCKED:
      return {"locked", ": a command is at it, or was killed; gpupool wake {} --whole ends that"};
    case driver::CU_PROCESS_STATE_CHECKPOINTED:
      return {"checkpointed", ": asleep as a whole, until gpupool wake {} --whole"};
    case driver::CU_PROCESS_STATE_FAILED: return {"failed", ": it cannot run on; end it"};
  }
  return {"unknown", ": the driver is newer than gpupool"};
}

}  // namespace

int show_process(const std::string& who, bool json) {
  constexpr double kLimit = 60;
  const WholeState found = look_at_whole(who, kLimit);
  const auto [word, meaning] = words_of(found.state);
  if (json) {
    print_json({{"pid", found.pid}, {"name", valid_utf8(found.name)}, {"state", word}});
  } else {
    fmt::print("process {} ({}): {}{}\n", found.pid, harmless(found.name), word,
               fmt::format(fmt::runtime(meaning), found.pid));
  }
  return 0;
}

}  // namespace gpupool::cli
