// SPDX-License-Identifier: Apache-2.0
// The check that all of a pool's records agree.
#pragma once

#include "base/status.hpp"

namespace gpupool::internal {

class Backing;
class Exports;
class Pending;
struct Rooms;

/// Lives for one call, under the pool's lock. Takes all caches' locks.
class Audit {
 public:
  Audit(const Rooms& rooms, const Backing& backing, const Pending& pending, const Exports& exports) noexcept
      : rooms_(rooms), backing_(backing), pending_(pending), exports_(exports) {}

  /// INTERNAL, in words, if something does not agree. Throws std::bad_alloc.
  Status run() const;

 private:
  bool is_counted_by_size() const;

  const Rooms& rooms_;
  const Backing& backing_;
  const Pending& pending_;
  const Exports& exports_;
};

}  // namespace gpupool::internal
