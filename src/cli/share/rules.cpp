// SPDX-License-Identifier: Apache-2.0
#include "cli/share/rules.hpp"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>

#include "cli/base/library.hpp"
#include "cli/base/size.hpp"
#include "cli/share/regions.hpp"

namespace gpupool::cli {
namespace {

/// Reads a name or a number.
template <typename Id, typename Lookup>
Id read_id(const std::string& text, const char* option, Lookup lookup) {
  Id id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error == std::errc{} && end == text.data() + text.size()) return id;
  const std::optional<Id> found = lookup(text.c_str());
  if (!found) throw InputError(fmt::format("{}: there is no '{}'", option, text));
  return *found;
}

uid_t read_user(const std::string& text) {
  return read_id<uid_t>(text, "--allow-uid", [](const char* name) -> std::optional<uid_t> {
    const passwd* const found = getpwnam(name);  // NOLINT(concurrency-mt-unsafe): there is one thread
    return found == nullptr ? std::nullopt : std::optional(found->pw_uid);
  });
}

gid_t read_group(const std::string& text) {
  return read_id<gid_t>(text, "--allow-gid", [](const char* name) -> std::optional<gid_t> {
    const group* const found = getgrnam(name);  // NOLINT(concurrency-mt-unsafe): there is one thread
    return found == nullptr ? std::nullopt : std::optional(found->gr_gid);
  });
}

Size read_limit(const std::string& text) {
  try {
    return parse_size(text);
  } catch (const Error&) {
    throw InputError(fmt::format(
        "--limit: '{}' is neither bytes such as 60GiB nor a share of the device such as 40%", text));
  }
}

/// In a user namespace all users whom it does not map have one number, which is then nobody's; so have
/// groups. Nothing: it maps all. `kind`: "uid" or "gid".
std::optional<uint32_t> unmapped_number(const std::string& kind) {
  constexpr uint64_t kAll = 0xffff'ffff;
  std::ifstream map("/proc/self/" + kind + "_map");
  uint64_t mapped = 0;
  for (uint64_t inside = 0, outside = 0, count = 0; map >> inside >> outside >> count;) mapped += count;
  if (mapped >= kAll) return std::nullopt;
  uint32_t number = 65534;
  std::ifstream("/proc/sys/kernel/overflow" + kind) >> number;
  return number;
}

}  // namespace

Rules::Rules(const ShareOptions& options) : group_(options.group) {
  for (const std::string& each : options.allowed_users) users_.push_back(read_user(each));
  for (const std::string& each : options.allowed_groups) groups_.push_back(read_group(each));
  users_.push_back(geteuid());
  users_.push_back(0);  // may do all of this without being asked
  if (const auto unmapped = unmapped_number("uid")) std::erase(users_, *unmapped);
  if (const auto unmapped = unmapped_number("gid")) std::erase(groups_, *unmapped);
  if (!group_.empty() && !is_region_word(group_))
    throw InputError(fmt::format("--group: '{}' is no name of a group", group_));
  if (options.limit.empty()) return;
  const Size limit = read_limit(options.limit);
  limit_ = limit.share == 0 ? limit.bytes : 0;
  limit_share_ = static_cast<uint32_t>(limit.share * 1e6);
}

bool Rules::admits(int connection, uid_t& user) const {
  ucred who{};
  socklen_t length = sizeof who;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) return false;
  user = who.uid;
  if (std::find(users_.begin(), users_.end(), who.uid) != users_.end()) return true;
  if (groups_.empty()) return false;
  std::vector<gid_t> theirs(65536);  // the most that a process may be in
  length = static_cast<socklen_t>(theirs.size() * sizeof(gid_t));
  if (getsockopt(connection, SOL_SOCKET, SO_PEERGROUPS, theirs.data(), &length) != 0) length = 0;
  theirs.resize(length / sizeof(gid_t));
  theirs.push_back(who.gid);
  return std::find_first_of(theirs.begin(), theirs.end(), groups_.begin(), groups_.end()) != theirs.end();
}

Says Rules::answer(Outcome outcome, const std::string& message) const {
  Says says{};
  std::memcpy(says.magic, wire::broker::kMagic, sizeof wire::broker::kMagic);
  says.version = wire::broker::kVersion;
  says.outcome = outcome;
  says.limit = limit_;
  says.limit_share = limit_share_;
  message.copy(says.message, sizeof says.message - 1);
  return says;
}

}  // namespace gpupool::cli
