// SPDX-License-Identifier: Apache-2.0
// Groups of processes that share a device's memory, seen from outside: docs/sharing.md. SWIG reads this file.
#pragma once

#include <string>
#include <vector>

#include "failure.hpp"

namespace binding {

/// A group at one moment, and its members in the order of their numbers. Since 0.2.
class ShareGroup {
 public:
  ShareGroup(const char* group, gpupool_backend_t backend, int32_t device) {
    share_.struct_size = sizeof share_;
    size_t count = 0;
    // Members may join between counting and filling.
    do {
      members_.resize(count);
      check(gpupool_share_info(group, backend, device, &share_, members_.data(),
                               sizeof(gpupool_share_member_t), members_.size(), &count));
    } while (count > members_.size());
    members_.resize(count);
  }

  /// Figures of the whole group.
  gpupool_share_t share() const { return share_; }
  uint32_t member_count() const { return static_cast<uint32_t>(members_.size()); }
  /// From 0; its slot is its number.
  gpupool_share_member_t member(uint32_t index) const {
    if (index >= members_.size()) refuse("there is no such member in the group");
    return members_[index];
  }

 private:
  gpupool_share_t share_{};
  std::vector<gpupool_share_member_t> members_;
};

#ifndef SWIG
inline const char* name_of_group(const std::string& group) {
  return group.empty() ? nullptr : group.c_str();
}
#endif

/// Describes a group of a device; "": the one that GPUPOOL_SHARE names. The caller need not be a member.
/// Since 0.2.
inline ShareGroup* share_info(const std::string& group = "", gpupool_backend_t backend = GPUPOOL_BACKEND_AUTO,
                              int32_t device = 0) {
  return new ShareGroup(name_of_group(group), backend, device);
}
/// Sets a figure of a group or, by its number, of a member: bytes, or a priority. Since 0.2.
inline void share_set(gpupool_share_figure_t what, int64_t amount, uint32_t member = 0,
                      const std::string& group = "", gpupool_backend_t backend = GPUPOOL_BACKEND_AUTO,
                      int32_t device = 0) {
  check(gpupool_share_set(name_of_group(group), backend, device, what, member, amount));
}
/// Takes back what dead members have left, and corrects the group's used bytes. Returns by how much they were
/// too high. Since 0.2.
inline int64_t share_repair(const std::string& group = "", gpupool_backend_t backend = GPUPOOL_BACKEND_AUTO,
                            int32_t device = 0) {
  int64_t off = 0;
  check(gpupool_share_repair(name_of_group(group), backend, device, &off));
  return off;
}

}  // namespace binding
