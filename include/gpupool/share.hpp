// SPDX-License-Identifier: Apache-2.0
// One card, many processes, for C++20: see docs/sharing.md. Since 0.2.
//
//     gpupool::Pool pool({.share = "team", .guaranteed_bytes = 2u << 30});
//     for (const auto& member : gpupool::share_info("team").members) std::puts(member.name);
//
//     send(gpupool::export_block(pool, block.ptr()));          // in one process
//     const gpupool::Import weights(pool, receive());          // in another
//
// Errors are exceptions, as in gpupool.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpupool/gpupool.hpp"

namespace gpupool {
inline namespace v0 {

/// Which group, on which device. The caller need not be a member.
struct ShareGroup {
  /// std::nullopt: the one that GPUPOOL_SHARE names.
  std::optional<std::string> name{};
  int32_t device = 0;
  Backend backend = Backend::automatic;

  [[nodiscard]] const char* c_name() const noexcept { return name ? name->c_str() : nullptr; }
  [[nodiscard]] gpupool_backend_t c_backend() const noexcept {
    return static_cast<gpupool_backend_t>(backend);
  }
};

/// A group at one moment, and its members in the order of their numbers.
struct ShareInfo {
  gpupool_share_t share;
  std::vector<gpupool_share_member_t> members;
};

[[nodiscard]] inline ShareInfo share_info(const ShareGroup& group = {}) {
  ShareInfo all{};
  all.share.struct_size = sizeof all.share;
  size_t count = 0;
  // Members may join between counting and filling.
  do {
    all.members.resize(count);
    check(gpupool_share_info(group.c_name(), group.c_backend(), group.device, &all.share, all.members.data(),
                             sizeof(gpupool_share_member_t), all.members.size(), &count));
  } while (count > all.members.size());
  all.members.resize(count);
  return all;
}

enum class ShareFigure : int32_t {
  limit = GPUPOOL_SHARE_FIGURE_LIMIT,
  member_limit = GPUPOOL_SHARE_FIGURE_MEMBER_LIMIT,
  member_guarantee = GPUPOOL_SHARE_FIGURE_MEMBER_GUARANTEE,
  member_priority = GPUPOOL_SHARE_FIGURE_MEMBER_PRIORITY,
};

/// Sets a figure of a group or, by its number, of a member.
inline void share_set(const ShareGroup& group, ShareFigure what, int64_t value, uint32_t member = 0) {
  check(gpupool_share_set(group.c_name(), group.c_backend(), group.device, static_cast<int32_t>(what), member,
                          value));
}

/// Takes back what dead members have left; returns by how much the used bytes were too high.
inline int64_t share_repair(const ShareGroup& group = {}) {
  int64_t off = 0;
  check(gpupool_share_repair(group.c_name(), group.c_backend(), group.device, &off));
  return off;
}

/// Asks the other members of the pool's group for room for so many more bytes, ahead of need, and waits for
/// it at most timeout_ns.
inline void share_request(Pool& pool, uint64_t bytes, uint64_t timeout_ns) {
  check(gpupool_share_request(pool.handle(), bytes, timeout_ns));
}

/// Lets other processes of the same user map a block: the text is for gpupool_import in any language, and
/// good until the block is freed.
[[nodiscard]] inline std::string export_block(Pool& pool, gpupool_ptr_t ptr) {
  char handle[GPUPOOL_EXPORT_BYTES];
  check(gpupool_export(pool.handle(), ptr, handle, sizeof handle));
  return handle;
}

/// A block of another process, mapped for a pool's device.
class Import {
 public:
  Import() = default;
  Import(Pool& pool, const std::string& handle) : pool_(pool.handle()) {
    check(gpupool_import(pool_, handle.c_str(), &ptr_, &size_));
  }

  Import(Import&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        ptr_(std::exchange(other.ptr_, 0)),
        size_(std::exchange(other.size_, 0)) {}
  Import& operator=(Import&& other) noexcept {
    Import taken(std::move(other));
    std::swap(pool_, taken.pool_);
    std::swap(ptr_, taken.ptr_);
    std::swap(size_, taken.size_);
    return *this;
  }
  /// Waits for all work of the device's context. If it cannot end now, it ends with the pool.
  ~Import() {
    if (ptr_ != 0) (void)gpupool_import_close(pool_, ptr_);
  }

  [[nodiscard]] gpupool_ptr_t ptr() const noexcept { return ptr_; }
  /// Bytes that the other process allocated.
  [[nodiscard]] uint64_t size() const noexcept { return size_; }
  explicit operator bool() const noexcept { return ptr_ != 0; }

  /// Ends it now. If that fails, it is as before.
  void close() {
    if (ptr_ == 0) return;
    check(gpupool_import_close(pool_, ptr_));
    ptr_ = size_ = 0;
  }

 private:
  gpupool_t* pool_ = nullptr;
  gpupool_ptr_t ptr_ = 0;
  uint64_t size_ = 0;
};

}  // namespace v0
}  // namespace gpupool
