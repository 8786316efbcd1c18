// SPDX-License-Identifier: Apache-2.0
// A program's leave to put a pool to sleep for others that are short.
#pragma once

#include <cstdint>
#include <optional>

#include "base/no_copy.hpp"
#include "pool/sleep/sleep_options.hpp"

namespace gpupool::internal {

struct GroupLink;

/// Guarded by the pool's lock.
class Allowance : NoCopy {
 public:
  explicit Allowance(const GroupLink& group) noexcept : group_(group) {}

  /// From now on, and in this way.
  void give(const SleepOptions& options) noexcept;
  void end() noexcept;
  bool is_given() const noexcept { return options_.has_value(); }
  /// How. It is given.
  const SleepOptions& options() const noexcept { return *options_; }
  /// When it was given last, in steps of all pools; 0: it is not.
  uint64_t since() const noexcept { return since_; }

 private:
  /// GroupLimit see in the region whether there is somebody to ask.
  void count_sleepers(int32_t more) const noexcept;

  const GroupLink& group_;
  std::optional<SleepOptions> options_;
  uint64_t since_ = 0;
};

}  // namespace gpupool::internal
