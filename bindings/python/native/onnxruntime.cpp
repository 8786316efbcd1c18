// SPDX-License-Identifier: Apache-2.0
// What ONNX Runtime calls by address, as its options gpu_external_alloc, gpu_external_free and
// gpu_external_empty_cache name them: see glue.h. It passes neither the device nor the stream, so each device
// has functions of its own.
#include <gpupool/gpupool.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

extern "C" {
#include "glue.h"
}

namespace {

/// The stream of our own on each device; 0: none yet.
std::array<std::atomic<gpupool_stream_t>, GPUPOOL_PY_ORT_DEVICES> own_streams{};

gpupool_status_t find(int device, gpupool_t** pool, gpupool_stream_t* stream) {
  const gpupool_status_t status = gpupool_default_pool(device, pool);
  if (status != GPUPOOL_SUCCESS) return status;
  auto& own = own_streams[static_cast<std::size_t>(device)];
  *stream = own.load();
  if (*stream != 0) return GPUPOOL_SUCCESS;
  gpupool_stream_t created = 0;
  const gpupool_status_t outcome = gpupool_stream_create(*pool, &created);
  if (outcome != GPUPOOL_SUCCESS) return outcome;
  if (own.compare_exchange_strong(*stream, created)) {
    *stream = created;
  } else {  // another thread was faster
    (void)gpupool_stream_destroy(*pool, created);
  }
  return GPUPOOL_SUCCESS;
}

/// ONNX Runtime looks at what malloc returns, and part of it is built without exceptions: a shortage is null.
template <int Device, bool IsOrdered>
void* allocate(std::size_t size) {
  gpupool_t* pool = nullptr;
  gpupool_stream_t stream = 0;
  gpupool_ptr_t address = 0;
  if (find(Device, &pool, &stream) != GPUPOOL_SUCCESS) return nullptr;
  if (gpupool_malloc(pool, size, stream, &address) != GPUPOOL_SUCCESS) return nullptr;
  if (!IsOrdered && gpupool_stream_synchronize(pool, stream) != GPUPOOL_SUCCESS) {
    (void)gpupool_free(pool, address, stream);
    return nullptr;
  }
  return reinterpret_cast<void*>(address);
}

/// Where ONNX Runtime computes on streams that nobody knows, it waits for the device, as cudaFree does.
template <int Device, bool IsOrdered>
void release(void* ptr) {
  gpupool_t* pool = nullptr;
  gpupool_stream_t stream = 0;
  if (ptr == nullptr || find(Device, &pool, &stream) != GPUPOOL_SUCCESS) return;
  if (!IsOrdered) (void)gpupool_synchronize(pool);
  (void)gpupool_free(pool, reinterpret_cast<gpupool_ptr_t>(ptr), stream);
}

/// ONNX Runtime calls this after each weight that it frees. The pool decides itself what it keeps.
void empty() {}

using Row = std::array<std::uintptr_t, 3>;

template <int Device, bool IsOrdered>
Row row() {
  return {reinterpret_cast<std::uintptr_t>(&allocate<Device, IsOrdered>),
          reinterpret_cast<std::uintptr_t>(&release<Device, IsOrdered>),
          reinterpret_cast<std::uintptr_t>(&empty)};
}

template <bool IsOrdered, int... Device>
Row of(int device, std::integer_sequence<int, Device...>) {
  static const std::array<Row, sizeof...(Device)> rows{row<Device, IsOrdered>()...};
  return rows[static_cast<std::size_t>(device)];
}

}  // namespace

extern "C" {

int gpupool_py_ort_functions(int device, int is_ordered, uintptr_t* out_functions) {
  if (device < 0 || device >= GPUPOOL_PY_ORT_DEVICES) return 0;
  constexpr std::make_integer_sequence<int, GPUPOOL_PY_ORT_DEVICES> devices;
  const Row functions = is_ordered != 0 ? of<true>(device, devices) : of<false>(device, devices);
  for (std::size_t i = 0; i < functions.size(); ++i) out_functions[i] = functions[i];
  return 1;
}

gpupool_status_t gpupool_py_ort_stream(int device, gpupool_stream_t* out_stream) {
  gpupool_t* pool = nullptr;
  return find(device, &pool, out_stream);
}

}  // extern "C"
