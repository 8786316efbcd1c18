// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpupool::internal {

/// The base of a class that is neither copied nor moved. One whose first member has it does not need it, and
/// would be larger, since two empty bases of one kind have two addresses.
class NoCopy {
 public:
  NoCopy(const NoCopy&) = delete;
  NoCopy& operator=(const NoCopy&) = delete;

 protected:
  constexpr NoCopy() noexcept = default;
  ~NoCopy() = default;
};

}  // namespace gpupool::internal
