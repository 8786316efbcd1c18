// SPDX-License-Identifier: Apache-2.0
#include "frameworks/inject/calls.hpp"

#include <cstdio>
#include <unordered_map>

#include "frameworks/inject/cupti.hpp"
#include "os/stack.hpp"
#include "watch/frame_names.hpp"
#include "watch/stack.hpp"

namespace gpupool::inject {
namespace {

using namespace cupti;  // the names are CUPTI's own

// ---- who calls

enum class Caller : uint8_t { driver, gpupool, program };

Caller caller_of(void* frame) {
  const std::string module = internal::os::origin_of(static_cast<char*>(frame) - 1).module;
  if (internal::is_of_driver(module) || module.starts_with("libgpupool_inject")) return Caller::driver;
  if (module.starts_with("libgpupool")) return Caller::gpupool;
  // Where gpupool is a part of the program, as of one written in Go, only names tell.
  return internal::frame_names({frame}).starts_with("gpupool::") ? Caller::gpupool : Caller::program;
}

/// What is known besides the ledger. Never destroyed.
class Watch {
 public:
  Watch(Ledger& to, const DeviceFunctions& functions) : ledger(to), driver(functions) {}

  /// Whether the calling thread is in a pool of gpupool, or of any copy of it.
  bool is_in_gpupool() {
    internal::os::Stack stack;
    internal::os::take_frames(stack, false);
    for (size_t at = 0; at < stack.count; ++at)
      if (const Caller caller = look_up(stack.frames[at]); caller != Caller::driver)
        return caller == Caller::gpupool;
    return false;
  }

  void add_chunk(CUmemGenericAllocationHandle handle, int device) {
    const std::lock_guard lock(lock_);
    chunks_[handle] = device;
  }
  void remove_chunk(CUmemGenericAllocationHandle handle) {
    const std::lock_guard lock(lock_);
    chunks_.erase(handle);
  }
  /// The device of memory that the program made; below 0: it is not the program's, but imported or a pool's.
  int device_of(CUmemGenericAllocationHandle handle) {
    const std::lock_guard lock(lock_);
    const auto at = chunks_.find(handle);
    return at != chunks_.end() ? at->second : -1;
  }

  /// The ledger's pool, described.
  uint32_t pool_of(int device, MemoryKind kind) const {
    const uint32_t pool = Ledger::pool_of(device, kind);
    if (!ledger.knows(pool)) ledger.describe(pool, words_of(driver, device));
    return pool;
  }

  Ledger& ledger;
  const DeviceFunctions driver;

 private:
  Caller look_up(void* frame) {
    {
      const std::lock_guard lock(lock_);
      if (const auto at = callers_.find(frame); at != callers_.end()) return at->second;
    }
    const Caller found = caller_of(frame);  // the loader's locks come first
    const std::lock_guard lock(lock_);
    return callers_.emplace(frame, found).first->second;
  }

  internal::os::Mutex lock_;
  std::unordered_map<void*, Caller> callers_;  // by return address
  std::unordered_map<CUmemGenericAllocationHandle, int> chunks_;
};

// ---- what a call means

/// What is freed is told before the driver has it, and what is given when it is there.
class Call {
 public:
  Call(Watch& watch, CUpti_CallbackId id, const CUpti_CallbackData& data)
      : watch_(watch), id_(id), data_(data), is_exit_(data.callbackSite == CUPTI_API_EXIT) {}

  bool has_given() const { return is_exit_ && result() == CUDA_SUCCESS; }

  template <typename Pointer>
  void take(MemoryKind kind, const Pointer* address, uint64_t bytes, CUstream stream = nullptr) const {
    if (!is_exit_ || !is_of_program()) return;
    int device = 0;
    if (watch_.driver.cuCtxGetDevice(&device) != CUDA_SUCCESS) return;
    const uint32_t pool = watch_.pool_of(device, kind);
    if (!has_given()) return watch_.ledger.refuse(pool, bytes);
    watch_.ledger.take((uint64_t)*address, {bytes, number_of(stream), data_.context, pool, stack()});
  }

  void give(uint64_t address) const {
    if (!is_exit_) watch_.ledger.give(address);
  }

  void create(const cuMemCreate_params& call) const {
    if (!is_exit_ || call.prop == nullptr || call.prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !is_of_program())
      return;
    const int device = call.prop->location.id;
    if (!has_given()) return watch_.ledger.refuse(watch_.pool_of(device, MemoryKind::device), call.size);
    watch_.add_chunk(*call.handle, device);
  }

  void release(const cuMemRelease_params& call) const {
    if (!is_exit_) watch_.remove_chunk(call.handle);
  }

  void map(const cuMemMap_params& call) const {
    const int device = has_given() ? watch_.device_of(call.handle) : -1;
    if (device < 0) return;
    watch_.ledger.take(call.ptr,
                       {call.size, 0, nullptr, watch_.pool_of(device, MemoryKind::device), stack()});
  }

  void unmap(const cuMemUnmap_params& call) const {
    if (!is_exit_) watch_.ledger.give_mappings(call.ptr, call.size);
  }

 private:
  int result() const { return *static_cast<const int*>(data_.functionReturnValue); }
  /// A call that has given memory, or found none; not one of gpupool's.
  bool is_of_program() const {
    return (result() == CUDA_SUCCESS || result() == CUDA_ERROR_OUT_OF_MEMORY) && !watch_.is_in_gpupool();
  }
  internal::StackId stack() const {
    return watch_.ledger.has_stacks() ? internal::take_stack({true, false}) : 0;
  }
  /// The default stream has two numbers, as the caller was compiled.
  uint64_t number_of(CUstream stream) const {
    constexpr uint64_t kStreamOfThread = 2;
    const bool is_of_thread = id_ == CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync_ptsz ||
                              id_ == CUPTI_DRIVER_TRACE_CBID_cuMemAllocFromPoolAsync_ptsz;
    return stream == nullptr && is_of_thread ? kStreamOfThread : reinterpret_cast<uintptr_t>(stream);
  }

  Watch& watch_;
  const CUpti_CallbackId id_;
  const CUpti_CallbackData& data_;
  const bool is_exit_;
};

// By the types of their arguments.
void on(const Call& call, const cuMemAlloc_v2_params& with) {
  call.take(MemoryKind::device, with.dptr, with.bytesize);
}
void on(const Call& call, const cuMemAllocPitch_v2_params& with) {
  call.take(MemoryKind::device, with.dptr,
            (call.has_given() ? *with.pPitch : with.WidthInBytes) * with.Height);
}
void on(const Call& call, const cuMemAllocManaged_params& with) {
  call.take(MemoryKind::managed, with.dptr, with.bytesize);
}
void on(const Call& call, const cuMemAllocHost_v2_params& with) {
  call.take(MemoryKind::pinned, with.pp, with.bytesize);
}
void on(const Call& call, const cuMemHostAlloc_params& with) {
  call.take(MemoryKind::pinned, with.pp, with.bytesize);
}
void on(const Call& call, const cuMemAllocAsync_params& with) {
  call.take(MemoryKind::device, with.dptr, with.bytesize, with.hStream);
}
void on(const Call& call, const cuMemAllocFromPoolAsync_params& with) {
  call.take(MemoryKind::device, with.dptr, with.bytesize, with.hStream);
}
void on(const Call& call, const cuMemFree_v2_params& with) {
  call.give(with.dptr);
}
void on(const Call& call, const cuMemFreeHost_params& with) {
  call.give(reinterpret_cast<uintptr_t>(with.p));
}
void on(const Call& call, const cuMemFreeAsync_params& with) {
  call.give(with.dptr);
}
void on(const Call& call, const cuMemCreate_params& with) {
  call.create(with);
}
void on(const Call& call, const cuMemRelease_params& with) {
  call.release(with);
}
void on(const Call& call, const cuMemMap_params& with) {
  call.map(with);
}
void on(const Call& call, const cuMemUnmap_params& with) {
  call.unmap(with);
}

/// CUPTI calls this, on the thread of the call.
void on_callback(void* user, unsigned domain, CUpti_CallbackId id, const void* data) noexcept {
  Watch& watch = *static_cast<Watch*>(user);
  if (watch.ledger.is_over()) return;
  try {
    if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
      if (id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING)
        watch.ledger.end_context(static_cast<const CUpti_ResourceData*>(data)->context);
      return;
    }
    if (domain != CUPTI_CB_DOMAIN_DRIVER_API) return;
    const auto& of_call = *static_cast<const CUpti_CallbackData*>(data);
    const Call call(watch, id, of_call);
    switch (id) {
#define GPUPOOL_CASE(name, number, arguments) \
  case number: return on(call, *static_cast<const arguments##_params*>(of_call.functionParams));
      GPUPOOL_WATCHED_FUNCTIONS(GPUPOOL_CASE)
#undef GPUPOOL_CASE
      default: return;
    }
  } catch (const std::bad_alloc&) {
    // The program goes on; what it has just been given is in no recording.
    (void)std::fputs("gpupool record: the host has no memory to record an allocation\n", stderr);
  }
}

}  // namespace

std::string watch_calls(Ledger& ledger, const DeviceFunctions& driver) {
  return subscribe(on_callback, new Watch(ledger, driver));
}

}  // namespace gpupool::inject
