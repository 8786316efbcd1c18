// SPDX-License-Identifier: Apache-2.0
// A block of a pool for as long as anybody needs it: Block, Slice and Transfer share it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "words.hpp"

namespace binding {

/// A block that goes once it is freed and the last call, slice and transfer have left it.
class OwnedBlock {
 public:
  /// For a caller who is inside the pool, and the stream.
  OwnedBlock(std::shared_ptr<Core> core, uint64_t size, StreamArgument stream, uint64_t alignment)
      : core_(std::move(core)), owner_(core_->owner_of(stream)), size_(size), stream_(stream.number) {
    if (stream.owner != nullptr) {
      owner_->enter_again();
    } else if (owner_) {
      owner_->enter();  // it came as a number
    }
    try {
      malloc_or_collect(
          [&] { return gpupool_malloc_aligned(core_->handle(), size, alignment, stream_, &address_); },
          [&] { (void)gpupool_free(core_->handle(), address_, stream_); });
    } catch (const Failure&) {
      if (owner_) owner_->leave();
      throw;
    }
    core_->enter_again();
    Keepers::began();
  }
  OwnedBlock(const OwnedBlock&) = delete;
  OwnedBlock& operator=(const OwnedBlock&) = delete;
  ~OwnedBlock() {
    gpupool_status_t status = GPUPOOL_SUCCESS;
    (void)end_as(End::kFreed, status);
  }

  /// The address on the device, for callers that are inside. 0 if the block has no bytes.
  gpupool_ptr_t address() const noexcept { return address_; }
  uint64_t size() const noexcept { return size_; }
  gpupool_stream_t stream() const noexcept { return stream_; }
  bool is_freed() const noexcept { return end_ != End::kNotYet; }
  const Core& core() const noexcept { return *core_; }

  /// Keeps the block until leave().
  void enter() {
    if (!gate_.enter()) refuse_freed();
  }
  /// As enter(), for a caller that is inside already.
  void enter_again() noexcept { gate_.enter_again(); }
  void leave() noexcept {
    if (gate_.leave()) (void)give_back();
  }

  void free() { free_as(End::kFreed); }
  void free(StreamArgument stream) {
    if (is_freed()) free_as(End::kFreed);
    if (stream.number == GPUPOOL_STREAM_UNKNOWN) return free_as(End::kFreedOnAllStreams);
    record_stream(stream);
    free_as(End::kFreed);
  }
  /// As free(), but does nothing if the block is already freed.
  void close() {
    gpupool_status_t status = GPUPOOL_SUCCESS;
    (void)end_as(End::kFreed, status);
    check(status);
  }
  gpupool_ptr_t release() {
    gpupool_status_t status = GPUPOOL_SUCCESS;
    if (!end_as(End::kReleased, status)) refuse_freed();
    return address_;
  }
  void record_stream(StreamArgument stream) {
    const Inside inside(*this);
    const StreamUse use(stream);
    check(gpupool_record_stream(core_->handle(), address_, use.number()));
  }

  // ---- work on its stream, for callers that are inside

  void queue_fill(uint64_t offset, uint64_t length, int32_t value) const {
    check(gpupool_fill(core_->handle(), address_ + offset, byte_of(value), length, queue()));
  }
  void queue_copy(gpupool_ptr_t destination, gpupool_ptr_t source, uint64_t length) const {
    check(gpupool_copy(core_->handle(), destination, source, length, queue()));
  }
  /// Works on a stream that was closed meanwhile, too: the block keeps it.
  void wait() const { ToTheEnd::wait(core_->handle(), owner_ ? owner_->number() : stream_); }

  [[noreturn]] static void refuse_freed() {
    refuse("the block has been freed", GPUPOOL_ERROR_UNKNOWN_POINTER);
  }

 private:
  enum class End { kNotYet, kFreed, kFreedOnAllStreams, kReleased };

  void free_as(End end) {
    gpupool_status_t status = GPUPOOL_SUCCESS;
    if (!end_as(end, status)) refuse("the block has been freed already", GPUPOOL_ERROR_UNKNOWN_POINTER);
    check(status);
  }
  /// Returns false if the block has ended before, in whatever way. The status is that of the free, unless
  /// somebody inside frees it later.
  bool end_as(End end, gpupool_status_t& status) noexcept {
    End expected = End::kNotYet;
    if (!end_.compare_exchange_strong(expected, end)) return false;
    if (gate_.close() == Gate::Close::kEmpty) status = give_back();
    return true;
  }
  /// Gives back the memory, unless it was released, and then what the block kept: its stream before its pool.
  gpupool_status_t give_back() noexcept {
    gpupool_status_t status = GPUPOOL_SUCCESS;
    if (end_ != End::kReleased) {
      status =
          gpupool_free(core_->handle(), address_, end_ == End::kFreed ? stream_ : GPUPOOL_STREAM_UNKNOWN);
    }
    Keepers::ended();
    if (owner_) owner_->leave();
    core_->leave();
    return status;
  }

  gpupool_stream_t queue() const { return owner_ ? owner_->queue() : stream_; }

  const std::shared_ptr<Core> core_;
  const std::shared_ptr<OwnedStream> owner_;
  gpupool_ptr_t address_ = 0;
  const uint64_t size_;
  const gpupool_stream_t stream_;
  std::atomic<End> end_{End::kNotYet};
  Gate gate_;
};

}  // namespace binding
