// SPDX-License-Identifier: Apache-2.0
// Contexts other than a device's own: whose streams a program uses with a pool all the same.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "base/no_copy.hpp"
#include "device/cuda/api.hpp"

namespace gpupool::internal {

/// Whoever made such a context may end it at any time. Its streams' work has ended then, and its events must
/// not be touched. Since the driver gives the handle to another context later, a context is known by a number
/// that no other one has, before or after.
class OtherContexts : NoCopy {
 public:
  explicit OtherContexts(const CudaDriver& driver) noexcept : driver_(driver) {}

  /// The number of a context that is there, legal while streams capture. Throws std::bad_alloc.
  Status learn(cuda::CUcontext context, uint64_t& number);
  /// Null once the context has ended.
  cuda::CUcontext find(uint64_t number) noexcept;

 private:
  struct Context {
    cuda::CUcontext handle = nullptr;
    cuda::CUdevice device = 0;
    /// Of its device, so that the handle and its number outlive it until somebody retains it again.
    bool is_primary = false;
  };

  Status ask(cuda::CUcontext handle, uint64_t& number) const noexcept;
  Status look_at(Context& context) const noexcept;
  bool is_there(const Context& context, uint64_t number) const noexcept;

  const CudaDriver& driver_;
  std::mutex mutex_;
  std::map<uint64_t, Context> known_;  // those not found to have ended
};

}  // namespace gpupool::internal
