// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/tags.hpp"

#include <gpupool/torch.h>
#include <pthread.h>

#include <cstring>
#include <stdexcept>
#include <utility>

#include "frameworks/torch/failures.hpp"

namespace gpupool::torch {
namespace {

constexpr size_t kLongestName = 63;  // of a pool

/// As TorchPools: created at load time, never destroyed.
Tags* const lasting_tags = [] {
  Tags* tags = new Tags;
  Tags::watch_fork();
  return tags;
}();

gpupool_stream_t number_of(void* stream) {
  return reinterpret_cast<gpupool_stream_t>(stream);
}

std::string last_words() {
  gpupool_error_t error{};
  error.struct_size = sizeof error;
  (void)gpupool_last_error(&error);
  return std::string("gpupool: ") + error.message;
}

// PyTorch calls an allocator's functions without an argument that could name the tag. So each tag, in each of
// its two variants, has its own functions, in tables built at compile time.

/// For PyTorch only null means a shortage: it then empties its cache and tries again.
template <size_t kEntry>
void* alloc(size_t size, int device, void* stream) {
  if (size == 0) return nullptr;
  gpupool_ptr_t ptr = 0;
  const gpupool_status_t status =
      lasting_tags->malloc(kEntry / 2, kEntry % 2 != 0, size, device, stream, ptr);
  if (status != GPUPOOL_SUCCESS && !is_shortage(status))
    loudly([] { throw std::runtime_error(last_words()); });
  return reinterpret_cast<void*>(ptr);
}

template <size_t kNumber>
void release(void* ptr, size_t, int device, void* stream) {
  if (ptr != nullptr) lasting_tags->free(kNumber, reinterpret_cast<gpupool_ptr_t>(ptr), device, stream);
}

template <size_t... kEntries>
constexpr std::array<gpupool_torch_alloc_fn_t, sizeof...(kEntries)> all_allocs(
    std::index_sequence<kEntries...>) {
  return {&alloc<kEntries>...};
}

template <size_t... kNumbers>
constexpr std::array<gpupool_torch_free_fn_t, sizeof...(kNumbers)> all_frees(
    std::index_sequence<kNumbers...>) {
  return {&release<kNumbers>...};
}

constexpr auto kAllocs = all_allocs(std::make_index_sequence<2 * kTags>());
constexpr auto kFrees = all_frees(std::make_index_sequence<kTags>());

}  // namespace

Tags& Tags::instance() noexcept {
  return *lasting_tags;
}

void Tags::watch_fork() noexcept {
  pthread_atfork([] { lasting_tags->mutex_.lock(); }, [] { lasting_tags->mutex_.unlock(); },
                 [] { lasting_tags->mutex_.unlock(); });
}

gpupool_status_t Tags::find(const char* name, size_t& number) {
  const size_t length = name != nullptr ? strnlen(name, kLongestName + 1) : 0;
  if (length == 0 || length > kLongestName) return GPUPOOL_ERROR_INVALID_ARGUMENT;
  const std::lock_guard lock(mutex_);
  const size_t count = count_.load(std::memory_order_relaxed);
  for (number = 0; number < count; ++number) {
    if (tags_[number].name == name) return GPUPOOL_SUCCESS;
  }
  if (count == kTags) return GPUPOOL_ERROR_UNAVAILABLE;
  tags_[count].name.assign(name, length);
  count_.store(count + 1, std::memory_order_release);
  return GPUPOOL_SUCCESS;
}

gpupool_status_t Tags::use(size_t number, int device, gpupool_t*& pool) {
  gpupool_t* shared = nullptr;
  if (const gpupool_status_t status = TorchPools::instance().default_pool(device, shared);
      status != GPUPOOL_SUCCESS)
    return status;
  std::atomic<gpupool_t*>& place = tags_[number].pools[static_cast<size_t>(device)];
  pool = place.load(std::memory_order_acquire);
  if (pool != nullptr) return GPUPOOL_SUCCESS;
  const std::lock_guard lock(mutex_);
  pool = place.load(std::memory_order_relaxed);
  if (pool != nullptr) return GPUPOOL_SUCCESS;
  gpupool_t* child = nullptr;
  if (const gpupool_status_t status = gpupool_create_child(shared, &child); status != GPUPOOL_SUCCESS)
    return status;
  if (const gpupool_status_t status = gpupool_set_name(child, tags_[number].name.c_str());
      status != GPUPOOL_SUCCESS) {
    (void)gpupool_destroy(child);
    return status;
  }
  place.store(pool = child, std::memory_order_release);
  return GPUPOOL_SUCCESS;
}

bool Tags::leaves_margin(uint64_t size, int device) const noexcept {
  const uint64_t margin = margin_.load(std::memory_order_relaxed);
  gpupool_device_info_t info{};
  info.struct_size = sizeof info;
  return margin == 0 || gpupool_device_info(GPUPOOL_BACKEND_AUTO, device, &info) != GPUPOOL_SUCCESS ||
         info.free_bytes >= size + margin;
}

gpupool_status_t Tags::malloc(size_t number, bool keep, uint64_t size, int device, void* stream,
                              gpupool_ptr_t& ptr) {
  TorchPools::instance().settle();
  if (!leaves_margin(size, device)) return GPUPOOL_ERROR_OUT_OF_MEMORY;
  gpupool_t* pool = nullptr;
  if (const gpupool_status_t status = use(number, device, pool); status != GPUPOOL_SUCCESS) return status;
  const gpupool_status_t status = gpupool_malloc(pool, size, number_of(stream), &ptr);
  if (status != GPUPOOL_SUCCESS || !keep) return status;
  const gpupool_status_t kept = gpupool_set_keep(pool, ptr, 1);
  if (kept != GPUPOOL_SUCCESS) release(pool, std::exchange(ptr, 0), stream);
  return kept;
}

void Tags::free(size_t number, gpupool_ptr_t ptr, int device, void* stream) noexcept {
  if (device < 0 || device >= kDevices) return;
  gpupool_t* pool = tags_[number].pools[static_cast<size_t>(device)].load(std::memory_order_acquire);
  if (pool != nullptr) release(pool, ptr, stream);
}

void Tags::release(gpupool_t* pool, gpupool_ptr_t ptr, void* stream) noexcept {
  gpupool_status_t status = gpupool_free(pool, ptr, number_of(stream));
  if (status == GPUPOOL_SUCCESS) {
    ptr = 0;
    status = gpupool_empty(pool, nullptr);
  }
  if (status == GPUPOOL_ERROR_HOST_OUT_OF_MEMORY)
    TorchPools::instance().owe({pool, ptr, number_of(stream), true});
}

size_t Tags::list(const char* name, gpupool_t** pools, size_t capacity) {
  size_t listed = 0;
  const std::lock_guard lock(mutex_);
  for (size_t number = 0; number < count_.load(std::memory_order_relaxed); ++number) {
    if (name != nullptr && tags_[number].name != name) continue;
    for (const auto& each : tags_[number].pools) {
      gpupool_t* pool = each.load(std::memory_order_relaxed);
      if (pool == nullptr) continue;
      if (listed < capacity) pools[listed] = pool;
      ++listed;
    }
  }
  return listed;
}

uint64_t Tags::asleep_bytes(int device) const noexcept {
  uint64_t bytes = 0;
  if (device < 0 || device >= kDevices) return bytes;
  for (size_t number = 0; number < count_.load(std::memory_order_acquire); ++number) {
    gpupool_t* pool = tags_[number].pools[static_cast<size_t>(device)].load(std::memory_order_acquire);
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    if (pool != nullptr && gpupool_stats(pool, &stats) == GPUPOOL_SUCCESS) bytes += stats.asleep_bytes;
  }
  return bytes;
}

}  // namespace gpupool::torch

using gpupool::torch::Tags;

extern "C" {

gpupool_status_t gpupool_torch_tag(const char* tag, int keep, gpupool_torch_alloc_fn_t* alloc,
                                   gpupool_torch_free_fn_t* free) {
  *alloc = nullptr;
  *free = nullptr;
  size_t number = 0;
  try {
    const gpupool_status_t status = Tags::instance().find(tag, number);
    if (status != GPUPOOL_SUCCESS) return status;
  } catch (const std::bad_alloc&) {
    return GPUPOOL_ERROR_HOST_OUT_OF_MEMORY;
  }
  *alloc = gpupool::torch::kAllocs[2 * number + (keep != 0 ? 1 : 0)];
  *free = gpupool::torch::kFrees[number];
  return GPUPOOL_SUCCESS;
}

size_t gpupool_torch_tag_pools(const char* tag, gpupool_t** pools, size_t capacity) {
  return Tags::instance().list(tag, pools, capacity);
}

void gpupool_torch_tag_margin(uint64_t bytes) {
  Tags::instance().set_margin(bytes);
}

uint64_t gpupool_torch_asleep_bytes(int device) {
  return Tags::instance().asleep_bytes(device);
}
}
