// SPDX-License-Identifier: Apache-2.0
// The thread that answers the neighbours. It sleeps until one of them rings: a member that nobody asks for
// anything never wakes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/no_copy.hpp"
#include "os/thread.hpp"
#include "share/membership.hpp"
#include "share/owner.hpp"

namespace gpupool::internal::share {

class Listener : NoCopy {
 public:
  Listener(Membership& membership, Owner& owner) noexcept : membership_(membership), owner_(owner) {}

  /// While it answers, it keeps what `member` points to, of which all this is part. UNAVAILABLE: no thread.
  Status start(std::weak_ptr<const void> member);
  /// Its own thread may be the one that ends the member.
  void stop() noexcept;

  /// Bytes that were given back because neighbours asked.
  uint64_t given() const noexcept { return given_.load(std::memory_order_relaxed); }

 private:
  static void* listen(void* listener);
  void serve(Slot& own, uint32_t rung) noexcept;
  void release_asked(Slot& own, uint64_t asked, bool may_sleep) noexcept;
  bool is_needier(const Slot& own) const noexcept;
  void rest(Slot& own, uint32_t rung) noexcept;

  Membership& membership_;
  Owner& owner_;
  std::weak_ptr<const void> member_;
  os::HelperThread thread_;
  bool listens_ = false;
  // The thread holds it too, because the member may end while the thread works.
  const std::shared_ptr<std::atomic<bool>> stops_ = std::make_shared<std::atomic<bool>>(false);
  std::atomic<uint64_t> given_{0};

  // The thread's only.
  uint64_t immune_until_ = 0;
  uint64_t charges_then_ = 0;  // when it gave back last
  uint64_t grew_at_ = 0;       // when the member was last seen to have taken more
  uint64_t charges_seen_ = 0;
};

}  // namespace gpupool::internal::share
