// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pool as the device memory handler of cuStateVec, cuTensorNet, cuDensityMat and cuDSS, whose structures
/// are alike.
///
///     auto handler = gpupool::mem_handler<custatevecDeviceMemHandler_t>(gpupool::plug::default_pool(0));
///     custatevecSetDeviceMemHandler(handle, &handler);
///
/// Needs C++17, and none of these libraries. All inline over the C functions. Since 0.2.
#ifndef GPUPOOL_MEM_HANDLER_HPP
#define GPUPOOL_MEM_HANDLER_HPP

#include <gpupool/plug.hpp>

#include <cstddef>
#include <cstring>

namespace gpupool {
inline namespace v0 {

/// A structure with the members ctx, device_alloc, device_free and name. The library copies it; the pool must
/// outlive the library's handle. Memory is reused in its stream's order, and nothing waits; the stream may be
/// destroyed after the last free on it. A shortage, or the per-thread default stream, is the library's own
/// error.
template <class Handler>
Handler mem_handler(gpupool_t* pool) noexcept {
  Handler handler{};
  handler.ctx = pool;
  handler.device_alloc = [](void* ctx, void** ptr, std::size_t size, auto stream) {
    *ptr = plug::allocate(static_cast<gpupool_t*>(ctx), size, plug::number(stream));
    return *ptr == nullptr && size != 0 ? 1 : 0;
  };
  handler.device_free = [](void* ctx, void* ptr, std::size_t, auto stream) {
    return plug::release(static_cast<gpupool_t*>(ctx), ptr, plug::number(stream)) ? 0 : 1;
  };
  std::strncpy(handler.name, "gpupool", sizeof handler.name - 1);
  return handler;
}

}  // namespace v0
}  // namespace gpupool

#endif  // GPUPOOL_MEM_HANDLER_HPP
