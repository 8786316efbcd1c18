// SPDX-License-Identifier: Apache-2.0
// Who takes freed blocks in place of their heaps: debug modes, and sleep for those whose memory is away.
#pragma once

#include "core/range.hpp"
#include "core/size.hpp"

namespace gpupool::internal {

/// Guarded by the pool's lock.
class Keeper {
 public:
  /// Takes a block that its streams have passed, and frees it to its heap when it likes.
  virtual void take(Range& block) noexcept = 0;
  /// Frees what it keeps to heaps: all, or only what waits until there is more of it. False: there was none.
  virtual bool release(bool /*all*/) noexcept { return false; }
  /// A live block is freed.
  virtual void note_free(Address /*block*/) noexcept {}
  /// A stream is about to be released: nothing can be queued on it any more.
  virtual void leave(Stream /*stream*/) noexcept {}

 protected:
  ~Keeper() = default;
};

}  // namespace gpupool::internal
