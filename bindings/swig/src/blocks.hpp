// SPDX-License-Identifier: Apache-2.0
// Stream and Block, what a Pool hands out: see objects.hpp. SWIG reads this file.
#pragma once

#include <string>

#include "words.hpp"

namespace binding {

/// A stream of the pool's own. It is closed with its pool at the latest. Keep the object while its number is
/// in use; a Block keeps its stream by itself.
class Stream {
 public:
  explicit Stream(const std::shared_ptr<Core>& core) : stream_(OwnedStream::create(core)) {}

  /// The number that everything else takes; on a GPU the CUstream.
  gpupool_stream_t id() const { return stream_->id(); }
  bool is_closed() const { return stream_->is_closed(); }
  /// Waits until the stream has done all work queued on it.
  void synchronize() const {
    const Inside inside(*stream_);
    check(gpupool_stream_synchronize(stream_->core().handle(), stream_->number()));
  }
  /// No more work is queued on it. It is released from its pool and destroyed once no call uses it and its
  /// live blocks, which stay valid, are freed. Never waits for the GPU.
  void close() { stream_->close(); }
  /// In words.
  std::string to_string() const { return describe_stream(*stream_); }

#ifndef SWIG
  operator StreamArgument() const {
    return StreamArgument(*stream_);
  }
#endif

 private:
  std::shared_ptr<OwnedStream> stream_;
};

/// A block that frees itself on its stream. It may outlive the pool's object, and its closing: then it still
/// can be read, written and freed, and the pool's memory goes with it. Calls that are inside keep it.
class Block {
 public:
  /// For a caller who is inside the pool, and the stream.
  Block(std::shared_ptr<Core> core, uint64_t size, StreamArgument stream, uint64_t alignment)
      : core_(std::move(core)), owner_(core_->owner_of(stream)), size_(size), stream_(stream.number) {
    if (stream.owner != nullptr) {
      owner_->enter_again();
    } else if (owner_) {
      owner_->enter();  // it came as a number
    }
    const gpupool_status_t status =
        gpupool_malloc_aligned(core_->handle(), size, alignment, stream_, &address_);
    if (status != GPUPOOL_SUCCESS) {
      // First the words, which the end of a stream may replace.
      const Failure failure = failure_of(status);
      if (owner_) owner_->leave();
      throw failure;
    }
    core_->enter_again();
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    gpupool_status_t status = GPUPOOL_SUCCESS;
    (void)end_as(End::kFreed, status);
  }

  /// On the device. 0 if the block has no bytes.
  gpupool_ptr_t address() const {
    if (is_freed()) refuse_freed();
    return address_;
  }
  /// Bytes that were asked for.
  uint64_t size() const { return size_; }
  /// The number of the stream that it was allocated for.
  gpupool_stream_t stream() const { return stream_; }
  bool is_freed() const { return end_ != End::kNotYet; }

  /// Frees it behind the work queued on its stream. Never waits for the GPU.
  void free() { free_as(End::kFreed); }
  /// The same behind the work queued on another stream as well; STREAM_UNKNOWN: on all streams.
  void free(StreamArgument stream) {
    if (is_freed()) free_as(End::kFreed);
    if (stream.number == GPUPOOL_STREAM_UNKNOWN) return free_as(End::kFreedOnAllStreams);
    record_stream(stream);
    free_as(End::kFreed);
  }
  /// As free(), but does nothing when it is freed.
  void close() {
    gpupool_status_t status = GPUPOOL_SUCCESS;
    (void)end_as(End::kFreed, status);
    check(status);
  }
  /// Gives the block up and returns its address, which Pool.free takes. No other thread may be using it.
  gpupool_ptr_t release() {
    gpupool_status_t status = GPUPOOL_SUCCESS;
    if (!end_as(End::kReleased, status)) refuse_freed();
    return address_;
  }

  /// Says that another stream uses the block too. Call it before the block goes.
  void record_stream(StreamArgument stream) {
    const Inside inside(*this);
    const StreamUse use(stream);
    check(gpupool_record_stream(core_->handle(), address_, use.number()));
  }
  /// Queues a fill of the whole block with a byte, 0 to 255, on its stream.
  void fill(int32_t value) {
    const Inside inside(*this);
    check(gpupool_fill(core_->handle(), address_, byte_of(value), size_, queue()));
  }
  /// Copies bytes into the block, from offset on, behind the work on its stream, and waits.
  void write(const char* data, size_t length, uint64_t offset = 0) {
    const Inside inside(*this);
    copy(at(offset, length), reinterpret_cast<uintptr_t>(data), length);
  }
  /// Copies bytes out of the block behind the work on its stream, and waits. Without a length: up to the end.
  std::string read() { return read(0); }
  std::string read(uint64_t offset) { return read(offset, offset > size_ ? 0 : size_ - offset); }
  std::string read(uint64_t offset, uint64_t length) {
    const Inside inside(*this);
    const gpupool_ptr_t from = at(offset, length);
    std::string bytes(length, '\0');
    copy(reinterpret_cast<uintptr_t>(bytes.data()), from, length);
    return bytes;
  }
  /// In words.
  std::string to_string() const { return describe_block(size_, address_, stream_, is_freed()); }

#ifndef SWIG
  /// Keeps the block until leave().
  void enter() {
    if (!gate_.enter()) refuse_freed();
  }
  void leave() noexcept {
    if (gate_.leave()) (void)give_back();
  }
#endif

 private:
  enum class End { kNotYet, kFreed, kFreedOnAllStreams, kReleased };

  [[noreturn]] static void refuse_freed() {
    refuse("the block has been freed", GPUPOOL_ERROR_UNKNOWN_POINTER);
  }
  void free_as(End end) {
    gpupool_status_t status = GPUPOOL_SUCCESS;
    if (!end_as(end, status)) refuse("the block has been freed already", GPUPOOL_ERROR_UNKNOWN_POINTER);
    check(status);
  }
  /// False: it has ended before, in whatever way. The status is that of the free, unless somebody inside does
  /// it later.
  bool end_as(End end, gpupool_status_t& status) noexcept {
    End expected = End::kNotYet;
    if (!end_.compare_exchange_strong(expected, end)) return false;
    if (gate_.close() == Gate::Close::kEmpty) status = give_back();
    return true;
  }
  /// The memory, unless it was released, and then what the block kept: its stream before its pool.
  gpupool_status_t give_back() noexcept {
    gpupool_status_t status = GPUPOOL_SUCCESS;
    if (end_ != End::kReleased) {
      status =
          gpupool_free(core_->handle(), address_, end_ == End::kFreed ? stream_ : GPUPOOL_STREAM_UNKNOWN);
    }
    if (owner_) owner_->leave();
    core_->leave();
    return status;
  }

  gpupool_ptr_t at(uint64_t offset, uint64_t length) const {
    if (offset > size_ || length > size_ - offset) {
      refuse(std::to_string(length) + " bytes at offset " + std::to_string(offset) +
             " are not inside a block of " + bytes_in_words(size_));
    }
    return address_ + offset;
  }
  void copy(gpupool_ptr_t destination, gpupool_ptr_t source, uint64_t length) const {
    if (length == 0) return;
    const gpupool_stream_t stream = queue();
    check(gpupool_copy(core_->handle(), destination, source, length, stream));
    check(gpupool_stream_synchronize(core_->handle(), stream));
  }
  gpupool_stream_t queue() const {
    return owner_ ? owner_->queue() : stream_;
  }

  const std::shared_ptr<Core> core_;
  const std::shared_ptr<OwnedStream> owner_;
  gpupool_ptr_t address_ = 0;
  const uint64_t size_;
  const gpupool_stream_t stream_;
  std::atomic<End> end_{End::kNotYet};
  Gate gate_;
};

}  // namespace binding
