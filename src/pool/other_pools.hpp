// SPDX-License-Identifier: Apache-2.0
// What other pools of the process can do for one that is short.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.hpp"

namespace gpupool::internal {

class Pool;
class QuietLock;
struct Rooms;

/// How often one that is short has pools put to sleep. Once is enough, unless others take what comes.
inline constexpr uint32_t kMostSleeps = 16;

/// With the pool's lock, which they give up, since pools' locks have no order among them.
class OtherPools {
 public:
  explicit OtherPools(const Rooms& rooms, std::weak_ptr<Pool> parent = {}) noexcept
      : rooms_(rooms), parent_(std::move(parent)) {}

  /// Empties those on the same device, which may be keeping what this one needs. Children keep what they
  /// have. Throws std::bad_alloc.
  void empty(QuietLock& lock);
  /// Has a child's parent release what it has cached under the limit that they share. The children themselves
  /// keep what they have. False if there is no parent, or if it released nothing.
  bool ask_parent(QuietLock& lock, uint64_t bytes);
  /// Puts pools to sleep that may be, until there is room for `bytes`: where the device was short, those on
  /// the same one; where the limit was, those under the same. False if nothing came, and no other request has
  /// had one of them put to sleep for more than it needed itself. Throws std::bad_alloc.
  bool put_to_sleep(QuietLock& lock, uint64_t bytes, Status shortage);

 private:
  bool is_on_device(const Pool& other) const noexcept;
  uint64_t room(Status shortage) const;

  const Rooms& rooms_;
  std::weak_ptr<Pool> parent_;
};

}  // namespace gpupool::internal
