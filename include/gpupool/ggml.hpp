// SPDX-License-Identifier: Apache-2.0
/// @file
/// Buffers of ggml (llama.cpp, whisper.cpp) in a pool: weights and the KV cache. Include ggml-backend-impl.h,
/// of ggml's sources, first: a program that has buffer types of its own needs it.
///
///     gpupool::GgmlBufferType memory(device, gpupool::plug::default_pool(0));        // device: a
///     ggml_backend_dev_t ggml_backend_alloc_ctx_tensors_from_buft(ctx, memory.type());
///
/// Needs C++17. All inline over the C functions. Since 0.2.
#ifndef GPUPOOL_GGML_HPP
#define GPUPOOL_GGML_HPP

#include <gpupool/plug.hpp>

#ifndef GGML_BACKEND_API_VERSION
#error "include ggml-backend-impl.h before gpupool/ggml.hpp"
#endif

namespace gpupool {
inline namespace v0 {

/// A buffer type of a device of ggml with memory of a pool. For the device's backend it is the device's own
/// type, with the same name, alignment and padding, so its kernels accept the tensors. It must outlive its
/// buffers. Any thread may call. What a backend allocates for itself, as scratch, stays its own.
///
/// Copies to and from the host, and the end of a buffer, wait for the device. A shortage is a null buffer, as
/// ggml's own.
class GgmlBufferType {
 public:
  /// The pool must be of the same device, and outlive it. Throws std::runtime_error.
  GgmlBufferType(ggml_backend_dev_t device, gpupool_t* pool)
      : memory_(pool), own_(ggml_backend_dev_buffer_type(device)) {
    type_.iface = own_->iface;
    type_.iface.alloc_buffer = [](ggml_backend_buffer_type_t type, std::size_t size) {
      return of(type).buffer(size);
    };
    type_.device = device;
    type_.context = own_->context;
  }
  GgmlBufferType(const GgmlBufferType&) = delete;
  GgmlBufferType& operator=(const GgmlBufferType&) = delete;

  /// For ggml_backend_alloc_ctx_tensors_from_buft, ggml_gallocr_new, and llama.cpp's tensor_buft_overrides.
  ggml_backend_buffer_type_t type() noexcept { return &type_; }

 private:
  static GgmlBufferType& of(ggml_backend_buffer_type_t type) noexcept {
    return *reinterpret_cast<GgmlBufferType*>(type);  // its first member
  }
  static GgmlBufferType& of(ggml_backend_buffer_t buffer) noexcept { return of(buffer->buft); }

  static gpupool_ptr_t address(const void* ptr) noexcept { return reinterpret_cast<gpupool_ptr_t>(ptr); }
  static gpupool_ptr_t address(const ggml_tensor* tensor, std::size_t offset) noexcept {
    return address(tensor->data) + offset;
  }

  /// Work of other streams comes before the copy, and the copy before what the caller does next.
  void copy(gpupool_ptr_t to, gpupool_ptr_t from, std::size_t size) noexcept {
    (void)gpupool_synchronize(memory_.pool());
    (void)gpupool_copy(memory_.pool(), to, from, size, memory_.stream());
    (void)gpupool_stream_synchronize(memory_.pool(), memory_.stream());
  }
  void fill(gpupool_ptr_t to, std::uint8_t value, std::size_t size) noexcept {
    (void)gpupool_synchronize(memory_.pool());
    (void)gpupool_fill(memory_.pool(), to, value, size, memory_.stream());
    (void)gpupool_stream_synchronize(memory_.pool(), memory_.stream());
  }

  ggml_backend_buffer_t buffer(std::size_t size) {
    void* data = memory_.allocate(size, ggml_backend_buft_get_alignment(own_));
    if (data == nullptr && size != 0) return nullptr;
    ggml_backend_buffer_i calls{};
    calls.free_buffer = [](ggml_backend_buffer_t buffer) {
      (void)of(buffer).memory_.release(buffer->context);
    };
    calls.get_base = [](ggml_backend_buffer_t buffer) { return buffer->context; };
    calls.init_tensor = [](ggml_backend_buffer_t buffer, ggml_tensor* tensor) {
      return of(buffer).clear_padding(tensor);
    };
    calls.memset_tensor = [](ggml_backend_buffer_t buffer, ggml_tensor* tensor, std::uint8_t value,
                             std::size_t offset,
                             std::size_t bytes) { of(buffer).fill(address(tensor, offset), value, bytes); };
    calls.set_tensor = [](ggml_backend_buffer_t buffer, ggml_tensor* tensor, const void* data,
                          std::size_t offset, std::size_t bytes) {
      of(buffer).copy(address(tensor, offset), address(data), bytes);
    };
    calls.get_tensor = [](ggml_backend_buffer_t buffer, const ggml_tensor* tensor, void* data,
                          std::size_t offset, std::size_t bytes) {
      of(buffer).copy(address(data), address(tensor, offset), bytes);
    };
    calls.clear = [](ggml_backend_buffer_t buffer, std::uint8_t value) {
      of(buffer).fill(address(buffer->context), value, buffer->size);
    };
    return ggml_backend_buffer_init(&type_, calls, data, size);
  }

  /// Backends read what they have asked to lie behind a tensor.
  ggml_status clear_padding(ggml_tensor* tensor) noexcept {
    if (tensor->view_src != nullptr) return GGML_STATUS_SUCCESS;
    const std::size_t size = ggml_nbytes(tensor);
    const std::size_t padded = ggml_backend_buft_get_alloc_size(own_, tensor);
    if (padded > size) fill(address(tensor, size), 0, padded - size);
    return GGML_STATUS_SUCCESS;
  }

  ggml_backend_buffer_type type_{};
  plug::AnyStream memory_;
  ggml_backend_buffer_type_t own_;
};

}  // namespace v0
}  // namespace gpupool

#endif  // GPUPOOL_GGML_HPP
