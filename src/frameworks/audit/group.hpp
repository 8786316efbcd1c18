// SPDX-License-Identifier: Apache-2.0
// How this process comes to a group, and waits for what others have.
#pragma once

#include <bitset>
#include <cstdint>

#include "frameworks/audit/ledger.hpp"

namespace gpupool::audit {

/// Reads which group it is, before the program begins: the environment may change later.
void read_group() noexcept;

/// Takes a place in the group of this device. One that cannot be had is said, and then nothing but the cap
/// limits. No lock is held.
void join_first(int device) noexcept;
inline void join(int device) noexcept {
  if (shares && Ledger::get().device(device).joined != Ledger::Joined::yes) [[unlikely]]
    join_first(device);
}

/// Waits for `bytes` of the group, in its order: the dead leave theirs, and members give what they have
/// cached.
///
///     for (GroupWait wait(device, bytes); wait.go_on();)
///       if (take()) ...
class GroupWait {
 public:
  GroupWait(int device, uint64_t bytes) noexcept;
  GroupWait(const GroupWait&) = delete;
  GroupWait& operator=(const GroupWait&) = delete;
  ~GroupWait();

  /// Whether there may be more now; false: nobody has anything to give, or it took 50 ms.
  bool go_on() noexcept;

 private:
  bool ask(share::Layout& region) noexcept;
  bool sweep(share::Layout& region) const noexcept;

  int device_;
  uint64_t bytes_;
  uint64_t until_ = 0;
  bool waits_ = false;
  bool is_last_ = false;
  std::bitset<share::kSlots> asked_;
};

}  // namespace gpupool::audit
