// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pool's memory, registered with NCCL, that sleeps and wakes with the pool. Include nccl.h of 2.19 or
/// later first.
///
///     gpupool::NcclMemory memory(gpupool::plug::default_pool(0), comm);
///     void* buffer = memory.allocate(64 << 20);
///     void* window = memory.allocate_window(64 << 20);
///
/// The first is registered by ncclCommRegister, so that collectives need no copy of it; the second, with NCCL
/// 2.27, on all GPUs of comm at once.
///
/// Needs C++17. All inline over the C functions. Since 0.2.
#ifndef GPUPOOL_NCCL_HPP
#define GPUPOOL_NCCL_HPP

#include <gpupool/plug.hpp>

#ifndef NCCL_VERSION_CODE
#error "include nccl.h before gpupool/nccl.hpp"
#endif

#include <cstddef>
#include <map>

namespace gpupool {
inline namespace v0 {

/// Registered buffers of one pool and one communicator; both must outlive it. Not for several threads at
/// once, as the communicator, and that includes the pool's sleep and wake.
///
/// NCCL holds the memory of a registered buffer, so it sets the pool's hooks (gpupool_set_sleep_hooks):
/// before a sleep it ends the registrations and suspends the communicator, whose own memory goes back too
/// (NCCL 2.29.7); a wake undoes both. Each process of the communicator must do the same at the same time:
/// windows are registered together. A block with a window does not sleep alone.
class NcclMemory {
 public:
  /// Throws std::runtime_error.
  NcclMemory(gpupool_t* pool, ncclComm_t comm) : pool_(pool), comm_(comm) {
    if (gpupool_set_sleep_hooks(pool, before_release, after_map, this) != GPUPOOL_SUCCESS)
      throw std::runtime_error(plug::last_error());
  }
  NcclMemory(const NcclMemory&) = delete;
  NcclMemory& operator=(const NcclMemory&) = delete;
  /// Frees what is left, for which no collective may still be under way.
  ~NcclMemory() {
    (void)gpupool_set_sleep_hooks(pool_, nullptr, nullptr, nullptr);
    while (!buffers_.empty()) (void)release(buffers_.begin()->first, 0);
  }

  /// Memory for work on a stream, registered with ncclCommRegister. Null if there is none, or NCCL refuses
  /// it.
  void* allocate(std::size_t size, gpupool_stream_t stream = 0) { return add(size, stream, kNoWindow); }

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  /// The same with a window (ncclCommWindowRegister), for which all processes of the communicator must ask.
  void* allocate_window(std::size_t size, int flags = NCCL_WIN_COLL_SYMMETRIC, gpupool_stream_t stream = 0) {
    return add(size, stream, flags);
  }
  /// Null: it has none. Another one after a sleep.
  ncclWindow_t window(void* buffer) const {
    const auto found = buffers_.find(buffer);
    return found == buffers_.end() ? nullptr : found->second.window;
  }
#endif

  /// Ends the registration, and frees in the order of the stream that the last collective was on. False: it
  /// is none of these buffers, or NCCL keeps it.
  bool release(void* buffer, gpupool_stream_t stream) {
    const auto found = buffers_.find(buffer);
    if (found == buffers_.end() || !deregister(found->second)) return false;
    buffers_.erase(found);
    return plug::release(pool_, buffer, stream);
  }

 private:
  static constexpr int kNoWindow = -1;
  static constexpr std::uint64_t kAlignment = 4096;  // NCCL_WIN_REQUIRED_ALIGNMENT

  struct Buffer {
    void* address;
    std::size_t size;
    int flags;  // of its window
    bool is_registered = false;
    void* handle = nullptr;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    ncclWindow_t window = nullptr;
#endif
  };

  void* add(std::size_t size, gpupool_stream_t stream, int flags) {
    void* address = plug::allocate(pool_, size, stream, kAlignment);
    if (address == nullptr) return nullptr;
    Buffer buffer{address, size, flags};
    if (!enlist(buffer)) {
      (void)plug::release(pool_, address, stream);
      return nullptr;
    }
    buffers_.emplace(address, buffer);
    return address;
  }

  bool enlist(Buffer& buffer) {
    if (buffer.is_registered) return true;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    if (buffer.flags != kNoWindow)
      buffer.is_registered = ncclCommWindowRegister(comm_, buffer.address, buffer.size, &buffer.window,
                                                    buffer.flags) == ncclSuccess;
    else
#endif
      buffer.is_registered =
          ncclCommRegister(comm_, buffer.address, buffer.size, &buffer.handle) == ncclSuccess;
    return buffer.is_registered;
  }

  bool deregister(Buffer& buffer) {
    if (!buffer.is_registered) return true;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    if (buffer.flags != kNoWindow)
      buffer.is_registered = ncclCommWindowDeregister(comm_, buffer.window) != ncclSuccess;
    else
#endif
      buffer.is_registered = ncclCommDeregister(comm_, buffer.handle) != ncclSuccess;
    return !buffer.is_registered;
  }

  /// ptr 0: all.
  bool end(gpupool_ptr_t ptr) {
    for (auto& [address, buffer] : buffers_) {
      if (ptr != 0 && reinterpret_cast<gpupool_ptr_t>(address) != ptr) continue;
      if ((ptr != 0 && buffer.flags != kNoWindow) || !deregister(buffer)) return false;
    }
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 7)
    if (ptr == 0) {
      if (ncclCommSuspend(comm_, NCCL_SUSPEND_MEM) != ncclSuccess) return false;
      is_suspended_ = true;
    }
#endif
    return true;
  }

  bool renew(gpupool_ptr_t ptr) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 7)
    if (is_suspended_ && ncclCommResume(comm_) != ncclSuccess) return false;
    is_suspended_ = false;
#endif
    for (auto& [address, buffer] : buffers_)
      if ((ptr == 0 || reinterpret_cast<gpupool_ptr_t>(address) == ptr) && !enlist(buffer)) return false;
    return true;
  }

  static int32_t before_release(void* user, gpupool_t*, gpupool_ptr_t ptr) {
    auto& self = *static_cast<NcclMemory*>(user);
    if (self.end(ptr)) return 1;
    (void)self.renew(ptr);  // the pool stays awake
    return 0;
  }

  static int32_t after_map(void* user, gpupool_t*, gpupool_ptr_t ptr) {
    return static_cast<NcclMemory*>(user)->renew(ptr) ? 1 : 0;
  }

  gpupool_t* pool_;
  ncclComm_t comm_;
  std::map<void*, Buffer> buffers_;
  bool is_suspended_ = false;
};

}  // namespace v0
}  // namespace gpupool

#endif  // GPUPOOL_NCCL_HPP
