// SPDX-License-Identifier: Apache-2.0
// Sharing a device's memory with other processes: which pools do, in which group, and the view from outside.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "abi/backends.hpp"
#include "abi/call.hpp"
#include "abi/options.hpp"
#include "abi/structs.hpp"
#include "base/log.hpp"
#include "base/parse.hpp"
#include "pool/process/pools_of_group.hpp"
#include "share/view.hpp"

namespace gpupool::internal::abi {
namespace {

/// An environment variable; null if it is unset or empty.
const char* variable(const char* name) noexcept {
  const char* const text = std::getenv(name);
  return text == nullptr || *text == '\0' ? nullptr : text;
}

/// A size, or a share of the device; unchanged if the variable is not set.
Status read_bytes(const char* name, uint64_t total, uint64_t& bytes) {
  const char* const text = variable(name);
  if (text == nullptr) return kSuccess;
  double share = 0;
  if (const Status status = parse_size(name, text, bytes, share); status != kSuccess) return status;
  return share == 0 ? kSuccess : bytes_of_share(share, total, bytes);
}

bool is_priority(int32_t priority) noexcept {
  return priority >= share::kLeastPriority && priority <= share::kMostPriority;
}

Status read_priority(int32_t& priority) {
  const char* const text = variable("GPUPOOL_SHARE_PRIORITY");
  if (text == nullptr) return kSuccess;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, priority);
  if (error == std::errc{} && stop == end && is_priority(priority)) return kSuccess;
  return fail(kInvalid, "GPUPOOL_SHARE_PRIORITY is \"%.64s\", not a number from %d to %d", text,
              share::kLeastPriority, share::kMostPriority);
}

/// The name of a group, from an argument or the environment; null: none.
struct GroupName {
  const char* text;
  const char* source;  // for messages
};

GroupName group_from(const char* argument) noexcept {
  if (argument != nullptr) return {argument, "share"};
  return {variable("GPUPOOL_SHARE"), "GPUPOOL_SHARE"};
}

/// Where the region of a group is, for a device.
Status find_place(const GroupName& group, const DeviceInfo& info, share::Place& place) {
  if (const Status status = share::check_group(group.source, group.text); status != kSuccess) return status;
  if (info.id[0] == '\0') {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "device %d: the driver gives no UUID, which a group needs",
                info.ordinal);
  }
  place.group = group.text;
  place.device = info.id;
  place.device_bytes = info.total;
  if (const char* const folder = variable("GPUPOOL_SHARE_DIR")) place.folder = folder;
  if (const char* const socket = variable("GPUPOOL_SHARE_SOCKET")) place.socket = socket;
  return read_bytes("GPUPOOL_SHARE_LIMIT", info.total, place.limit);
}

/// The group of a new pool; null: none.
GroupName group_of(const gpupool_config_t& config) noexcept {
  const GroupName group = group_from(config.share);
  return group.text != nullptr && *group.text == '\0' ? GroupName{nullptr, group.source} : group;
}

Status read_terms(const gpupool_config_t& config, uint64_t total, ShareTerms& terms) {
  terms.guaranteed = config.guaranteed_bytes;
  terms.priority = config.priority;
  if (terms.guaranteed == 0) {
    const Status status = read_bytes("GPUPOOL_SHARE_GUARANTEED", total, terms.guaranteed);
    if (status != kSuccess) return status;
  }
  if (terms.priority == 0) {
    if (const Status status = read_priority(terms.priority); status != kSuccess) return status;
  }
  if (!is_priority(terms.priority)) {
    return fail(kInvalid, "priority is %d, not %d to %d", terms.priority, share::kLeastPriority,
                share::kMostPriority);
  }
  if (config.share_wait_ns > share::kLongestWait) {
    return fail(kInvalid, "share_wait_ns is %" PRIu64 ", more than %" PRIu64 ", 10 s", config.share_wait_ns,
                share::kLongestWait);
  }
  if (config.share_wait_ns != 0) terms.wait_ns = config.share_wait_ns;
  return kSuccess;
}

/// Logged once, because the same applies to every other pool.
void warn_alone() noexcept {
  static constinit std::atomic<bool> is_said{false};
  if (is_said.exchange(true)) return;
  std::fprintf(stderr, "gpupool: runs alone, and shares with nobody: %s\n", last_error().message);
  if (log_enabled(GPUPOOL_LOG_WARNING)) {
    log_line(GPUPOOL_LOG_WARNING, "runs alone, and shares with nobody: %s", last_error().message);
  }
}

/// A group's region seen from outside, by a process that need not be a member.
struct OpenView {
  share::View view;
  share::Place place;
  std::unique_ptr<Device> device;

  Status open(const char* share, gpupool_backend_t wanted, int32_t ordinal);
};

Status OpenView::open(const char* share, gpupool_backend_t wanted, int32_t ordinal) {
  const GroupName group = group_from(share);
  if (group.text == nullptr)
    return fail(kInvalid, "share is NULL, and GPUPOOL_SHARE is not set: which group?");
  gpupool_backend_t backend{};
  if (const Status status = resolve_backend(wanted, backend); status != kSuccess) return status;
  if (const Status status = open_backend(backend, ordinal, {}, device); status != kSuccess) return status;
  if (const Status status = find_place(group, device->info(), place); status != kSuccess) return status;
  return view.open(place);
}

gpupool_share_member_t shown_member(const share::Neighbour& from) noexcept {
  gpupool_share_member_t to{};
  to.slot = from.slot;
  to.state = from.is_dead ? GPUPOOL_SHARE_MEMBER_STATE_LIMBO : GPUPOOL_SHARE_MEMBER_STATE_LIVE;
  to.pid = from.pid;
  to.uid = from.uid;
  to.priority = from.priority;
  to.is_waiting = from.waits ? 1 : 0;
  to.want_bytes = from.want;
  to.reserved_bytes = from.reserved;
  to.charged_bytes = from.charged;
  to.live_bytes = from.live;
  to.guaranteed_bytes = from.guaranteed;
  to.limit_bytes = from.limit;
  to.given_bytes = from.given;
  to.taken_bytes = from.taken;
  static_assert(sizeof to.name >= sizeof from.name);
  std::memcpy(to.name, from.name, sizeof from.name);
  return to;
}

Status set_figure(share::View& view, int32_t what, uint32_t member, int64_t value) {
  if (what < GPUPOOL_SHARE_FIGURE_LIMIT || what > GPUPOOL_SHARE_FIGURE_MEMBER_PRIORITY) {
    return fail(kInvalid, "what is %d, not 1 to 4: a gpupool_share_figure_t", what);
  }
  if (what == GPUPOOL_SHARE_FIGURE_MEMBER_PRIORITY) {
    return view.set_priority_of(member, static_cast<int32_t>(std::clamp<int64_t>(value, -100, 100)));
  }
  if (value < 0) return fail(kInvalid, "value is %" PRId64 " bytes, less than none", value);
  const auto bytes = static_cast<uint64_t>(value);
  if (what == GPUPOOL_SHARE_FIGURE_LIMIT) return view.set_limit(bytes);
  return what == GPUPOOL_SHARE_FIGURE_MEMBER_LIMIT ? view.set_limit_of(member, bytes)
                                                   : view.set_guarantee_of(member, bytes);
}

}  // namespace

Status share_pool(const gpupool_config_t& config, Pool& pool) {
  const GroupName group = group_of(config);
  const Pool::Options& options = pool.options();
  const bool can_share = options.kind != Kind::pinned && !options.is_upstream;
  const DeviceInfo& info = pool.device().info();
  ShareTerms terms;
  if (const Status status = read_terms(config, info.total, terms); status != kSuccess) return status;
  if (group.text == nullptr || (!can_share && config.share == nullptr)) {
    if (config.guaranteed_bytes == 0) return kSuccess;
    return fail(kInvalid, "guaranteed_bytes is %" PRIu64 ", and the pool shares with nobody",
                config.guaranteed_bytes);
  }
  if (!can_share) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED,
                "share is \"%.64s\", and pinned memory, and an upstream's, is not shared", group.text);
  }
  share::Place place;
  std::unique_ptr<GroupLimit> joined;
  Status status = find_place(group, info, place);
  if (status == kSuccess) status = join_group(place, terms, pool.device().raw(), joined);
  if (status == GPUPOOL_ERROR_UNAVAILABLE) {
    warn_alone();
    pool.run_alone();
    return kSuccess;
  }
  if (status == kSuccess) pool.share(std::move(joined));
  return status;
}

}  // namespace gpupool::internal::abi

using namespace gpupool::internal;       // NOLINT: the C functions are a thin layer over these
using namespace gpupool::internal::abi;  // NOLINT

extern "C" {

gpupool_status_t gpupool_share_info(const char* share, gpupool_backend_t backend, int32_t device,
                                    gpupool_share_t* info, gpupool_share_member_t* members,
                                    size_t member_size, size_t member_capacity, size_t* out_member_count) {
  if (out_member_count == nullptr) return refuse_null("out_member_count");
  *out_member_count = 0;
  if (info == nullptr) return refuse_null("info");
  if (member_capacity != 0 && members == nullptr) return refuse_null("members");
  if (const Status status = check_size(info->struct_size, "info->struct_size"); status != kSuccess)
    return status;
  if (const Status status = check_size(member_size, "member_size"); status != kSuccess) return status;
  return guarded([&]() -> Status {
    OpenView group;
    if (const Status status = group.open(share, backend, device); status != kSuccess) return status;
    const std::vector<share::Neighbour> all = group.view.members();
    const share::Standing standing = group.view.standing();
    gpupool_share_t whole{};
    whole.struct_size = sizeof whole;
    whole.members = static_cast<uint32_t>(all.size());
    whole.limit_bytes = standing.limit;
    whole.used_bytes = standing.used;
    whole.total_bytes = standing.total;
    whole.limbo_bytes = standing.limbo;
    whole.foreign_bytes = standing.foreign;
    (void)give_text(group.place.path(), whole.path, sizeof whole.path);
    write_struct(whole, info);
    write_list(all, members, member_size, member_capacity, shown_member);
    *out_member_count = all.size();
    return kSuccess;
  });
}

gpupool_status_t gpupool_share_request(gpupool_t* pool, uint64_t bytes, uint64_t timeout_ns) {
  return on_pool(pool, [&](Pool& self) -> Status {
    if (bytes > kSizeMax) {
      return fail(GPUPOOL_ERROR_OVER_LIMIT, "%" PRIu64 " bytes are more than any device has", bytes);
    }
    if (timeout_ns > share::kLongestWait) {
      return fail(kInvalid, "timeout_ns is %" PRIu64 ", more than %" PRIu64 ", 10 s", timeout_ns,
                  share::kLongestWait);
    }
    return self.request_from_group(bytes, timeout_ns);
  });
}

gpupool_status_t gpupool_share_set(const char* share, gpupool_backend_t backend, int32_t device, int32_t what,
                                   uint32_t member, int64_t value) {
  return guarded([&]() -> Status {
    OpenView group;
    const Status status = group.open(share, backend, device);
    return status == kSuccess ? set_figure(group.view, what, member, value) : status;
  });
}

gpupool_status_t gpupool_share_repair(const char* share, gpupool_backend_t backend, int32_t device,
                                      int64_t* out_off) {
  if (out_off != nullptr) *out_off = 0;
  return guarded([&]() -> Status {
    OpenView group;
    if (const Status status = group.open(share, backend, device); status != kSuccess) return status;
    uint64_t free = 0;
    if (group.device->free_memory(free) != kSuccess) free = ~uint64_t{0};
    int64_t off = 0;
    const Status status = group.view.repair(free, off);
    if (status == kSuccess && out_off != nullptr) *out_off = off;
    return status;
  });
}

}  // extern "C"
