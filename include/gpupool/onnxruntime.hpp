// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pool as ONNX Runtime's device memory, for C and C++. Include onnxruntime_c_api.h of 1.16 or later first.
///
///     gpupool::OnnxRuntimeAllocator memory(Ort::GetApi(), 0);        // the default pool of device 0
///     memory.put_into(env);
///     options.AddConfigEntry("session.use_env_allocators", "1");
///
/// Needs C++17. All inline over the C functions. Since 0.2.
#ifndef GPUPOOL_ONNXRUNTIME_HPP
#define GPUPOOL_ONNXRUNTIME_HPP

#include <gpupool/plug.hpp>

#ifndef ORT_API_VERSION
#error "include onnxruntime_c_api.h, or onnxruntime_cxx_api.h, before gpupool/onnxruntime.hpp"
#endif

#include <atomic>
#include <string>

namespace gpupool {
inline namespace v0 {

/// Hands out memory of a pool to all sessions of an environment that have "session.use_env_allocators". It
/// must live as long as these sessions, and end before the environment. Any thread may call.
///
/// ONNX Runtime from 1.23 on names the stream that a block is for: then nothing waits. Where it names none,
/// memory is any stream's at once and a free waits for the device (plug::AnyStream). A failed allocation is
/// ONNX Runtime's own error.
class OnnxRuntimeAllocator : public OrtAllocator {
 public:
  /// The default pool of a device, for ONNX Runtime's memory "Cuda" there. Throws std::runtime_error.
  OnnxRuntimeAllocator(const OrtApi& api, int device)
      : OnnxRuntimeAllocator(api, plug::default_pool(device), "Cuda", device) {}

  /// A pool, which must outlive it, for the memory that ONNX Runtime calls name on this device.
  OnnxRuntimeAllocator(const OrtApi& api, gpupool_t* pool, const char* name, int device)
      : OrtAllocator{}, api_(api), any_(pool) {
    check(api_.CreateMemoryInfo(name, OrtDeviceAllocator, device, OrtMemTypeDefault, &info_));
    version = ORT_API_VERSION;
    Alloc = [](OrtAllocator* self, size_t size) { return of(self).any_.allocate(size); };
    Free = [](OrtAllocator* self, void* ptr) { of(self).release(ptr); };
    Info = [](const OrtAllocator* self) -> const OrtMemoryInfo* { return of(self).info_; };
#if ORT_API_VERSION >= 18
    Reserve = Alloc;
#endif
#if ORT_API_VERSION >= 23
    GetStats = [](const OrtAllocator* self, OrtKeyValuePairs** out) noexcept {
      return of(self).statistics(out);
    };
    AllocOnStream = [](OrtAllocator* self, size_t size, OrtSyncStream* stream) {
      return of(self).allocate_on(stream, size);
    };
#endif
  }
  OnnxRuntimeAllocator(const OnnxRuntimeAllocator&) = delete;
  OnnxRuntimeAllocator& operator=(const OnnxRuntimeAllocator&) = delete;
  ~OnnxRuntimeAllocator() {
    if (env_ != nullptr) drop(api_.UnregisterAllocator(env_, info_));
    api_.ReleaseMemoryInfo(info_);
  }

  /// Registers it (RegisterAllocator). Throws std::runtime_error.
  void put_into(OrtEnv* env) {
    check(api_.RegisterAllocator(env, this));
    env_ = env;
  }

 private:
  static OnnxRuntimeAllocator& of(OrtAllocator* self) noexcept {
    return static_cast<OnnxRuntimeAllocator&>(*self);
  }
  static const OnnxRuntimeAllocator& of(const OrtAllocator* self) noexcept {
    return static_cast<const OnnxRuntimeAllocator&>(*self);
  }

  void drop(OrtStatus* status) const noexcept {
    if (status != nullptr) api_.ReleaseStatus(status);
  }
  void check(OrtStatus* status) const {
    if (status == nullptr) return;
    const std::string text = api_.GetErrorMessage(status);
    drop(status);
    throw std::runtime_error("ONNX Runtime refused gpupool: " + text);
  }

  /// A block that was allocated on a stream is freed in its order as long as that is the only one; with
  /// several, in the order of all, for any of them may have read it.
  void release(void* ptr) noexcept {
    const auto address = reinterpret_cast<gpupool_ptr_t>(ptr);
    gpupool_block_t block{};
    const bool is_known = gpupool_block_info(any_.pool(), address, &block, sizeof block) == GPUPOOL_SUCCESS;
    if (!is_known || block.stream == any_.stream()) {
      (void)any_.release(ptr);
    } else {
      (void)gpupool_free(any_.pool(), address, only_.load());
    }
  }

#if ORT_API_VERSION >= 23
  void* allocate_on(OrtSyncStream* stream, size_t size) noexcept {
    if (stream == nullptr) return any_.allocate(size);
    const gpupool_stream_t wanted = plug::number(static_cast<char*>(api_.SyncStream_GetHandle(stream)));
    gpupool_stream_t only = kNone;
    if (!only_.compare_exchange_strong(only, wanted) && only != wanted) only_ = GPUPOOL_STREAM_UNKNOWN;
    return plug::allocate(any_.pool(), size, wanted);
  }

  OrtStatus* statistics(OrtKeyValuePairs** out) const noexcept {
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    (void)gpupool_stats(any_.pool(), &stats);
    api_.CreateKeyValuePairs(out);
    const auto add = [&](const char* name, std::uint64_t value) {
      api_.AddKeyValuePair(*out, name, std::to_string(value).c_str());
    };
    if (stats.limit_bytes != 0) add("Limit", stats.limit_bytes);
    add("InUse", stats.all.allocated_bytes.current);
    add("TotalAllocated", stats.all.reserved_bytes.current);
    add("MaxInUse", stats.all.allocated_bytes.peak);
    return nullptr;
  }
#endif

  /// No stream has this number.
  static constexpr gpupool_stream_t kNone = GPUPOOL_STREAM_UNKNOWN - 1;

  const OrtApi& api_;
  plug::AnyStream any_;
  OrtMemoryInfo* info_ = nullptr;
  OrtEnv* env_ = nullptr;
  /// The one stream that has blocks; kNone: none has; GPUPOOL_STREAM_UNKNOWN: several have.
  std::atomic<gpupool_stream_t> only_{kNone};
};

}  // namespace v0
}  // namespace gpupool

#endif  // GPUPOOL_ONNXRUNTIME_HPP
