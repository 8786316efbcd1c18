// SPDX-License-Identifier: Apache-2.0
#include "watch/ring.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/parse.hpp"
#include "os/files.hpp"
#include "os/process.hpp"
#include "watch/journal.hpp"

namespace gpupool::internal {
namespace {

constexpr std::string_view kLast = ",last=";
/// As often a process may become another program with pools, and leave a recording each time.
constexpr int kMostPrograms = 1000;
/// The rest of a file's greatest length is for the blocks that are live when it begins.
constexpr uint64_t kMostRingBytes = kJournalMost;

Status refuse(std::string_view last, const char* why) noexcept {
  constexpr size_t kShown = 64;
  last = last.substr(0, kShown);
  return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "last is \"%.*s\", %s", static_cast<int>(last.size()),
              last.data(), why);
}

Status read_last(std::string_view last, Plan& plan) {
  const std::string_view unit =
      trimmed(last).substr(std::min(last.find_first_not_of("0123456789. "), last.size()));
  if (unit.empty() || unit == "m" || unit == "M")
    return refuse(last, "which may be a time or a size: write 10min or 10MiB");
  uint64_t value = 0;
  plan.part_bytes = kMostRingBytes / 2;
  if (parse_time("last", last, value) == kSuccess) {
    if (value < kLeastRingNs) return refuse(last, "less than 1s");
    plan.part_ns = value / 2;
  } else if (parse_bytes("last", last, value) == kSuccess) {
    if (value < kLeastRingBytes) return refuse(last, "less than 1MiB");
    if (value > kMostRingBytes) return refuse(last, "more than 4GiB");
    plan.part_bytes = value / 2;
  } else {
    return refuse(last, "not a size such as 512MiB or a time such as 10min");
  }
  return kSuccess;
}

/// Of a ring, if it is one.
void name_files(Plan& plan, const std::string& path, bool is_ring) {
  plan.path = path;
  if (!is_ring) return;
  plan.old_path = path + ".old";
  plan.failed_path = path + ".oom";
}

bool is_taken(const Plan& plan) noexcept {
  return os::is_there(plan.path.c_str()) ||
         (plan.is_ring() && (os::is_there(plan.old_path.c_str()) || os::is_there(plan.failed_path.c_str())));
}

std::string with_number(std::string path) {
  const std::string number = std::to_string(os::process_id());
  for (size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at + number.size())) {
    path.replace(at, 2, number);
  }
  return path;
}

}  // namespace

Status read_plan(const char* text, Plan& plan) {
  const std::string_view all = text;
  const size_t end = all.rfind(kLast);
  const std::string named(all.substr(0, end));
  plan.path = with_number(named);
  plan.names_process = plan.path != named;
  if (end == std::string_view::npos) return kSuccess;
  if (const Status status = read_last(all.substr(end + kLast.size()), plan); status != kSuccess)
    return status;
  if (plan.path.empty())
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "path names no file before \"%s\"", kLast.data());
  std::array<char, 4096> whole;
  if (!os::whole_path(plan.path.c_str(), whole.data(), whole.size() - 4))
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the recording \"%.200s\" cannot be made: %s",
                plan.path.c_str(), std::strerror(errno));
  name_files(plan, whole.data(), true);
  return kSuccess;
}

void avoid_earlier(Plan& plan) {
  const std::string path = plan.path;
  for (int program = 2; plan.names_process && program <= kMostPrograms && is_taken(plan); ++program)
    name_files(plan, path + "." + std::to_string(program), plan.is_ring());
}

Status check_is_free(const Plan& plan) {
  for (const std::string* path : {&plan.old_path, &plan.failed_path}) {
    if (!path->empty() && os::is_there(path->c_str()))
      return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                  "\"%.200s\" is there already, and the recording would replace it", path->c_str());
  }
  return kSuccess;
}

Status put_aside(Plan& plan, bool after_failure) noexcept {
  std::string& to = after_failure ? plan.failed_path : plan.old_path;
  if (!os::replace_file(plan.path.c_str(), to.c_str()) && errno != ENOENT)
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "\"%.200s\" cannot become \"%.200s\": %s", plan.path.c_str(),
                to.c_str(), std::strerror(errno));
  if (after_failure) to.clear();
  return kSuccess;
}

}  // namespace gpupool::internal
