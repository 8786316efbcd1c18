// SPDX-License-Identifier: Apache-2.0
// Stream and Block, what a Pool hands out: see objects.hpp. SWIG reads this file.
#pragma once

#include <string>

#include "slices.hpp"

namespace binding {

/// A stream that the pool created. It is closed with its pool at the latest. Keep the object while its number
/// is in use; a Block keeps its stream by itself.
class Stream {
 public:
  explicit Stream(const std::shared_ptr<Core>& core) : stream_(OwnedStream::create(core)) {}

  /// The number that other functions take; on a GPU the CUstream.
  gpupool_stream_t id() const { return stream_->id(); }
  /// Whether it has been closed.
  bool is_closed() const { return stream_->is_closed(); }
  /// Waits until the stream has done all work queued on it.
  void synchronize() const {
    const Inside inside(*stream_);
    check(gpupool_stream_synchronize(stream_->core().handle(), stream_->number()));
  }
  /// The program queues no more work on it. It is released from its pool and destroyed once no call uses it
  /// and its live blocks, which stay valid, are freed. Never waits for the GPU.
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

/// A block that frees itself on its stream. It may outlive the pool's object and its closing: then it can
/// still be read, written and freed, and the pool's memory goes with it. Calls in progress keep it.
class Block {
 public:
#ifndef SWIG
  /// For a caller that is inside the pool and the stream.
  Block(std::shared_ptr<Core> core, uint64_t size, StreamArgument stream, uint64_t alignment)
      : block_(std::make_shared<OwnedBlock>(std::move(core), size, stream, alignment)) {}
#endif

  /// The address on the device. 0 if the block has no bytes.
  gpupool_ptr_t address() const {
    if (is_freed()) OwnedBlock::refuse_freed();
    return block_->address();
  }
  /// The requested size in bytes.
  uint64_t size() const {
    return block_->size();
  }
  /// The number of the stream that it was allocated for.
  gpupool_stream_t stream() const {
    return block_->stream();
  }
  /// Whether it has been freed.
  bool is_freed() const {
    return block_->is_freed();
  }

  /// Frees it behind the work queued on its stream. Never waits for the GPU.
  void free() {
    block_->free();
  }
  /// As free(), but also behind the work queued on another stream; STREAM_UNKNOWN: on all streams.
  void free(StreamArgument stream) {
    block_->free(stream);
  }
  /// As free(), but does nothing if the block is already freed.
  void close() {
    block_->close();
  }
  /// Gives the block up and returns its address, which Pool.free takes. No other thread may be using it.
  gpupool_ptr_t release() {
    return block_->release();
  }
  /// Tells the pool that another stream uses the block too. Call it before the block is freed.
  void record_stream(StreamArgument stream) {
    block_->record_stream(stream);
  }

  /// Queues a fill of the whole block with a byte, 0 to 255, on its stream.
  void fill(int32_t value) {
    all().fill(value);
  }
  /// Copies bytes into the block, from offset on, after the work on its stream, and waits.
  void write(const char* data, size_t length, uint64_t offset = 0) {
    all().write(data, length, offset);
  }
  /// Copies bytes out of the block behind the work on its stream, and waits. Without a length: up to the end.
  std::string read() {
    return all().read();
  }
  /// The same from offset on.
  std::string read(uint64_t offset) {
    return all().read(offset);
  }
  /// The same, length bytes from offset on.
  std::string read(uint64_t offset, uint64_t length) {
    return all().read(offset, length);
  }
  /// Begins to copy bytes into the block. They are copied on the host first, and may change at once. Since
  /// 0.2.
  Transfer* write_async(const char* data, size_t length, uint64_t offset = 0) {
    return all().write_async(data, length, offset);
  }
  /// Begins to copy bytes out of the block: the transfer's read() gives them. Without a length: up to the
  /// end. Since 0.2.
  Transfer* read_async() {
    return all().read_async();
  }
  /// The same from offset on.
  Transfer* read_async(uint64_t offset) {
    return all().read_async(offset);
  }
  /// The same, length bytes from offset on.
  Transfer* read_async(uint64_t offset, uint64_t length) {
    return all().read_async(offset, length);
  }
  /// Begins to copy another block, of any pool, into this one from offset on, on this block's stream. The
  /// work that fills the other block must come first: on the same stream, or waited for. Since 0.2.
  Transfer* copy_from(const Block& source, uint64_t offset = 0) {
    return all().copy_from(source.all(), offset);
  }
  /// The same with a part of a block. Since 0.2.
  Transfer* copy_from(const Slice& source, uint64_t offset = 0) {
    return all().copy_from(source, offset);
  }
  /// A part of it, which keeps the block. Since 0.2.
  Slice* slice(uint64_t offset, uint64_t length) const {
    return all().slice(offset, length);
  }
  /// In words.
  std::string to_string() const {
    return describe_block(size(), block_->address(), stream(), is_freed());
  }

#ifndef SWIG
  /// As read(), into the caller's memory.
  void read_to(char* data, uint64_t length, uint64_t offset) {
    all().read_to(data, length, offset);
  }
#endif

 private:
  Slice all() const {
    return Slice(std::make_shared<Hold>(block_), 0, block_->size());
  }

  const std::shared_ptr<OwnedBlock> block_;
};

}  // namespace binding
