// SPDX-License-Identifier: Apache-2.0
#include "pool/sleep/backup.hpp"
#include "pool/memory/retention.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cinttypes>
#include <mutex>
#include <thread>

#include "base/reserve.hpp"
#include "core/size.hpp"
#include "os/thread.hpp"

namespace gpupool::internal {

/// Buffers that are page-locked by the calling thread and helpers, each taking the next one.
class Backup::PageLocking {
 public:
  PageLocking(MeteredDevice& device, std::vector<Buffer>& buffers) noexcept
      : device_(device), buffers_(buffers) {}

  /// Ends early if a buffer fails or the call is interrupted. Buffers without an address then were not had.
  Status run() {
    interrupts::Patience patience(GPUPOOL_WAIT_GPU);  // it takes as long as the copies
    if (patience.is_over()) return interrupts::give_up();
    const size_t most = std::min<size_t>({kThreads, std::thread::hardware_concurrency(), buffers_.size()});
    std::array<os::HelperThread, kThreads - 1> helpers;
    size_t count = 0;
    while (count + 1 < most && helpers[count].start("gpupool-pages", &PageLocking::help, this)) ++count;
    bool is_over = false;
    while (!is_over && lock_one()) is_over = patience.is_over();
    if (is_over) next_.store(buffers_.size());
    for (size_t i = 0; i < count; ++i) helpers[i].join();
    if (is_over) return interrupts::give_up();
    if (status_ != kSuccess) last_error() = error_;
    return status_;
  }

 private:
  /// More are hardly faster: the kernel clears the pages, at the speed of the memory.
  static constexpr size_t kThreads = 8;

  static void* help(void* self) {
    while (static_cast<PageLocking*>(self)->lock_one()) continue;
    return nullptr;
  }

  bool lock_one() {
    const size_t at = next_.fetch_add(1);
    if (at >= buffers_.size()) return false;
    const Status status = device_.allocate(Kind::pinned, buffers_[at].size, 0, buffers_[at].address);
    if (status == kSuccess) return true;
    next_.store(buffers_.size());
    const std::lock_guard lock(mutex_);
    status_ = status;
    error_ = last_error();
    return false;
  }

  MeteredDevice& device_;
  std::vector<Buffer>& buffers_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;  // guards what failed
  Status status_ = kSuccess;
  ErrorRecord error_;
};

Status Backup::reserve(Lock& lock, uint64_t bytes) {
  if (bytes <= capacity_) return kSuccess;
  const uint64_t before = capacity_;
  Status status = check_host(align_up(bytes - before, kGranule));
  if (status == kSuccess) status = add(lock, bytes - before);
  if (status == kSuccess) return kSuccess;
  if (interrupts::has_given_up()) return status;  // to free it would wait for the device
  const KeepError keep_error;
  (void)shrink(lock, before);
  return status;
}

Status Backup::check_host(uint64_t bytes) {
  uint64_t available = 0;
  // If nothing is known of the host's memory, the driver's own answer must do.
  if (device_.raw().host_memory(available) != kSuccess || bytes <= available / 4 * 3) return kSuccess;
  return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY,
              "sleep would have to page-lock %" PRIu64 " bytes of the host, which has %" PRIu64
              " available: a quarter of that stays free",
              bytes, available);
}

Status Backup::add(Lock& lock, uint64_t bytes) {
  std::vector<Buffer> wanted(bytes / kBuffer + (bytes % kBuffer != 0 ? 1 : 0));
  reserve_more(buffers_, wanted.size());
  for (Buffer& buffer : wanted) buffer.size = kBuffer;
  if (bytes % kBuffer != 0) wanted.back().size = align_up(bytes % kBuffer, kGranule);
  PageLocking locking(device_, wanted);
  const Status status = lock.give_up_for([&] { return locking.run(); });
  for (Buffer& buffer : wanted) {
    if (buffer.address == 0) continue;
    buffer.offset = capacity_;
    capacity_ += buffer.size;
    buffers_.push_back(buffer);
  }
  if (status != GPUPOOL_ERROR_OUT_OF_MEMORY) return status;
  return fail_driver(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, last_error().driver_code,
                     "the host cannot page-lock all of %" PRIu64 " bytes", bytes);
}

Status Backup::shrink(Lock& lock, uint64_t bytes) {
  while (!buffers_.empty() && buffers_.back().offset >= bytes) {
    const Buffer buffer = buffers_.back();
    const Status status = lock.give_up_for([&] {
      return device_.deallocate(Retention::of_unused(), Kind::pinned, buffer.address, buffer.size, 0);
    });
    if (status != kSuccess) return status;
    buffers_.pop_back();
    capacity_ -= buffer.size;
  }
  return kSuccess;
}

Address Backup::at(uint64_t offset, uint64_t& bytes) const noexcept {
  const auto after =
      std::upper_bound(buffers_.begin(), buffers_.end(), offset,
                       [](uint64_t wanted, const Buffer& buffer) { return wanted < buffer.offset; });
  const Buffer& buffer = *std::prev(after);
  const uint64_t into = offset - buffer.offset;
  bytes = buffer.size - into;
  return buffer.address + into;
}

}  // namespace gpupool::internal
