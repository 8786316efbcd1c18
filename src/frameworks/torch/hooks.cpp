// SPDX-License-Identifier: Apache-2.0
// The functions that PyTorch calls through function pointers. C++ types and exceptions may cross them, where
// torch.h says so.
#include <gpupool/torch.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

#include "frameworks/torch/failures.hpp"
#include "frameworks/torch/pools.hpp"

using namespace gpupool::torch;  // NOLINT: the C functions are a thin layer over these

namespace {

TorchPools& pools() {
  return TorchPools::instance();
}

MempoolId number(gpupool_torch_mempool_t id) {
  return {id.first, id.second};
}

gpupool_ptr_t address(const void* ptr) {
  return reinterpret_cast<gpupool_ptr_t>(ptr);
}

/// As PyTorch writes sizes.
std::string in_units(uint64_t bytes) {
  constexpr std::array<const char*, 4> kUnits = {"bytes", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  auto amount = static_cast<double>(bytes);
  for (; amount >= 1024 && unit + 1 < kUnits.size(); ++unit) amount /= 1024;
  std::array<char, 64> text{};
  (void)std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.2f %s", amount, kUnits[unit]);
  return text.data();
}

/// PyTorch's own message for invalid sizes.
constexpr uint64_t kExabyte = uint64_t{1} << 60;

std::string shortage(size_t size, int device, const char* report) {
  std::string text = "CUDA out of memory. Tried to allocate " +
                     (size < kExabyte ? in_units(size) : std::string("more than 1EB memory")) + ". GPU " +
                     std::to_string(device);
  gpupool_device_info_t info{};
  info.struct_size = sizeof info;
  if (gpupool_device_info(GPUPOOL_BACKEND_AUTO, device, &info) == GPUPOOL_SUCCESS) {
    text += " has a total capacity of " + in_units(info.total_bytes) + " of which " +
            in_units(info.free_bytes) + " is free";
  }
  return text + ".\ngpupool: " + report;
}

/// The calling thread's last failure in the library, or in here, where only host memory can run out.
thread_local bool is_host_short = false;

gpupool_error_t last_error() {
  gpupool_error_t error{};
  error.struct_size = sizeof error;
  (void)gpupool_last_error(&error);
  if (is_host_short) {
    error.status = GPUPOOL_ERROR_HOST_OUT_OF_MEMORY;
    (void)std::snprintf(error.message, sizeof error.message, "the host has no memory for the pools' records");
  }
  return error;
}

/// Describes why the last call failed, and whether memory ran out.
std::string explain(size_t size, int device, bool& is_short) {
  const gpupool_error_t record = last_error();
  is_short = is_shortage(record.status);
  return is_short ? shortage(size, device, record.message) : std::string("gpupool: ") + record.message;
}

/// For functions that do not throw: an exception becomes a status.
template <typename Function>
gpupool_status_t safely(Function function) noexcept {
  is_host_short = false;
  try {
    return function();
  } catch (const std::bad_alloc&) {
    is_host_short = true;
    return GPUPOOL_ERROR_HOST_OUT_OF_MEMORY;
  }
}

/// `about`: the setting that was refused, if the message does not name it.
void check(gpupool_status_t status, const char* about = "") {
  if (status != GPUPOOL_SUCCESS)
    throw std::runtime_error(std::string("gpupool: ") + about + last_error().message);
}

void set_fraction(double fraction, int device) {
  if (!(fraction >= 0 && fraction <= 1)) {
    throw std::runtime_error("gpupool: the fraction is " + std::to_string(fraction) + ", and can be 0 to 1");
  }
  gpupool_device_info_t info{};
  info.struct_size = sizeof info;
  check(gpupool_device_info(GPUPOOL_BACKEND_AUTO, device, &info));
  const auto limit = static_cast<uint64_t>(fraction * static_cast<double>(info.total_bytes));
  check(pools().set_limit(device, std::max(limit, uint64_t{1})));
}

/// Empty if it is not set.
std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

void check_size(const std::string& name, const std::string& text, const gpupool_device_info_t& info) {
  if (text.empty()) return;
  uint64_t bytes = 0;
  double share = 0;
  check(gpupool_parse_size(text.c_str(), &bytes, &share), (name + ": ").c_str());
  if (bytes > info.total_bytes) {
    throw std::runtime_error("gpupool: " + name + " is " + std::to_string(bytes) + " bytes, more than the " +
                             std::to_string(info.total_bytes) + " of " + info.name);
  }
}

void check_environment() {
  gpupool_device_info_t info{};
  info.struct_size = sizeof info;
  check(gpupool_device_info(GPUPOOL_BACKEND_AUTO, 0, &info));
  if (info.backend != GPUPOOL_BACKEND_CUDA) {
    throw std::runtime_error(
        "gpupool serves the simulated device here, whose memory no GPU can use: take "
        "GPUPOOL_BACKEND=sim out of the environment");
  }
  check_size("GPUPOOL_LIMIT", variable("GPUPOOL_LIMIT"), info);
  std::istringstream parts(variable("GPUPOOL_CAP"));
  for (std::string part; std::getline(parts, part, ',');) {
    if (part != "auto") check_size("GPUPOOL_CAP", part, info);
  }
}

}  // namespace

extern "C" {

void* gpupool_torch_alloc(size_t size, int device, void* stream) {
  gpupool_ptr_t ptr = 0;
  const gpupool_status_t status = safely([&] { return pools().malloc(size, device, stream, ptr); });
  return status == GPUPOOL_SUCCESS ? reinterpret_cast<void*>(ptr) : nullptr;
}

void* gpupool_torch_alloc_or_throw(size_t size, int device, void* stream) {
  void* ptr = gpupool_torch_alloc(size, device, stream);
  if (ptr == nullptr && size != 0) [[unlikely]] {
    bool is_short = false;
    loudly([&] { throw std::runtime_error(explain(size, device, is_short)); });
  }
  return ptr;
}

void gpupool_torch_free(void* ptr, size_t, int device, void* stream) {
  if (ptr != nullptr) (void)safely([&] { return pools().free(address(ptr), device, stream); });
}

int gpupool_torch_explain(size_t size, int device, char* text, size_t capacity) {
  const gpupool_error_t record = last_error();
  bool is_short = is_shortage(record.status);
  if (capacity == 0) return is_short ? 1 : 0;
  try {
    const std::string words = explain(size, device, is_short);
    const size_t length = std::min(words.size(), capacity - 1);
    std::memcpy(text, words.data(), length);
    text[length] = '\0';
  } catch (const std::bad_alloc&) {
    const char* start = is_short ? "CUDA out of memory. " : "";
    (void)std::snprintf(text, capacity, "%sgpupool: %s", start, record.message);
  }
  return is_short ? 1 : 0;
}

void gpupool_torch_record_stream(void* ptr, void* stream) {
  const gpupool_status_t status = pools().on_owner([&](gpupool_t* pool) {
    return gpupool_record_stream(pool, address(ptr), reinterpret_cast<gpupool_stream_t>(stream));
  });
  if (status == GPUPOOL_ERROR_HOST_OUT_OF_MEMORY) loudly([&] { check(status); });
}

void gpupool_torch_reset(void) {
  pools().empty_all();
}

void gpupool_torch_memory_fraction(double fraction, int device) {
  loudly([&] { set_fraction(fraction, device); });
}

void gpupool_torch_init(int device_count) {
  if (device_count != 0) loudly([] { check_environment(); });
}

void* gpupool_torch_base_alloc(void* ptr, size_t* size) {
  gpupool_block_t block{};
  const gpupool_status_t status = pools().on_owner(
      [&](gpupool_t* pool) { return gpupool_block_info(pool, address(ptr), &block, sizeof block); });
  if (size != nullptr) *size = status == GPUPOOL_SUCCESS ? block.allocated_bytes : 0;
  return status == GPUPOOL_SUCCESS ? reinterpret_cast<void*>(block.address) : ptr;
}

void gpupool_torch_begin_allocate_to_pool(int device, gpupool_torch_mempool_t id, const void* filter) {
  const auto* accepts = static_cast<const StreamFilter*>(filter);
  loudly([&] { check(pools().begin(device, number(id), accepts != nullptr ? *accepts : StreamFilter())); });
}

void gpupool_torch_end_allocate_to_pool(int device, gpupool_torch_mempool_t id) {
  pools().end(device, number(id));
}

void gpupool_torch_release_pool(int device, gpupool_torch_mempool_t id) {
  pools().release(device, number(id));
}

void gpupool_torch_retain_pool(int device, gpupool_torch_mempool_t id) {
  loudly([&] { check(pools().retain(device, number(id))); });
}

int gpupool_torch_pool_use_count(int device, gpupool_torch_mempool_t id) {
  return pools().use_count(device, number(id));
}

size_t gpupool_torch_pools(int device, gpupool_t** found, gpupool_torch_mempool_t* ids, size_t capacity) {
  size_t count = 0;
  (void)pools().any_of(device, [&](MempoolId id, gpupool_t* pool) {
    if (count < capacity) {
      found[count] = pool;
      if (ids != nullptr) ids[count] = {id.first, id.second};
    }
    ++count;
    return false;
  });
  return count;
}

uint64_t gpupool_torch_limit(int device) {
  return pools().limit(device);
}

}  // extern "C"
