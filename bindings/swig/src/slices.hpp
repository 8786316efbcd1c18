// SPDX-License-Identifier: Apache-2.0
// Slice and Transfer, what a Block hands out: see objects.hpp. SWIG reads this file.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "staging.hpp"

namespace binding {

#ifndef SWIG
/// Keeps a block for longer than a call.
class Hold {
 public:
  explicit Hold(std::shared_ptr<OwnedBlock> block) : block_(std::move(block)) { block_->enter(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() { block_->leave(); }
  OwnedBlock& block() const noexcept { return *block_; }

 private:
  const std::shared_ptr<OwnedBlock> block_;
};
#endif

/// A copy that may be under way. It keeps what it reads and writes: a block that is freed meanwhile goes when
/// the copy is done; bytes of the language were copied before it began. Dropping it waits. Since 0.2.
class Transfer {
 public:
#ifndef SWIG
  /// Takes the block whose stream the copy is queued on, another block that it reads, and memory on the host;
  /// all but the first may be null.
  Transfer(std::shared_ptr<Hold> block, std::shared_ptr<Hold> source, std::unique_ptr<Staging> staging)
      : block_(std::move(block)), source_(std::move(source)), staging_(std::move(staging)) {}
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() {
    try {
      finish();
    } catch (const Failure&) {
      // The driver failed: it has ended, or its device is lost, so it copies nothing any more.
    }
  }
#endif

  /// Whether somebody has waited for it.
  bool is_done() const {
    const std::lock_guard lock(mutex_);
    return block_ == nullptr;
  }
  /// Waits until it is done.
  void finish() {
    const std::lock_guard lock(mutex_);
    if (!block_) return;
    // Whether or not the wait succeeds, nothing is left to do but let go.
    const std::shared_ptr<Hold> block = std::exchange(block_, nullptr);
    const std::shared_ptr<Hold> source = std::exchange(source_, nullptr);
    block->block().wait();
  }
  /// As finish().
  void close() {
    finish();
  }
  /// Waits, and gives the bytes that were copied out of the block.
  std::string read() {
    finish();
    const std::lock_guard lock(mutex_);
    if (!staging_ || !staging_->is_read()) refuse("this transfer brings no bytes to the host");
    return std::string(staging_->data(), staging_->size());
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Hold> block_;
  std::shared_ptr<Hold> source_;
  std::unique_ptr<Staging> staging_;
};

/// A part of a block, with everything that can be done with its bytes. It keeps the block: a freed block goes
/// when its last slice is closed or dropped. Since 0.2.
class Slice {
 public:
#ifndef SWIG
  Slice(std::shared_ptr<Hold> hold, uint64_t offset, uint64_t size)
      : hold_(std::move(hold)), offset_(offset), size_(size) {}
#endif

  /// The address on the device.
  gpupool_ptr_t address() const {
    return open()->block().address() + offset_;
  }
  /// Where in the block it begins.
  uint64_t offset() const {
    return offset_;
  }
  /// The size in bytes.
  uint64_t size() const {
    return size_;
  }
  /// Whether it has been closed.
  bool is_closed() const {
    return kept() == nullptr;
  }
  /// Lets go of the block.
  void close() {
    std::shared_ptr<Hold> hold;
    const std::lock_guard lock(mutex_);
    hold.swap(hold_);
  }

  /// Queues a fill with a byte, 0 to 255, on the block's stream.
  void fill(int32_t value) {
    const auto hold = open();
    hold->block().queue_fill(offset_, size_, value);
  }
  /// Copies bytes into it, from offset on, behind the work on the block's stream, and waits.
  void write(const char* data, size_t length, uint64_t offset = 0) {
    const auto hold = open();
    const gpupool_ptr_t to = at(*hold, offset, length);
    if (length == 0) return;
    hold->block().queue_copy(to, reinterpret_cast<uintptr_t>(data), length);
    hold->block().wait();
  }
  /// Copies bytes out of it behind the work on the block's stream, and waits. Without a length: up to the
  /// end.
  std::string read() {
    return read(0);
  }
  /// The same from offset on.
  std::string read(uint64_t offset) {
    return read(offset, rest(offset));
  }
  /// The same, length bytes from offset on.
  std::string read(uint64_t offset, uint64_t length) {
    (void)at(*open(), offset, length);  // before getting memory for the bytes
    check_holds(length);
    std::string bytes(length, '\0');
    read_to(bytes.data(), length, offset);
    return bytes;
  }
  /// Begins to copy bytes into it. They are copied on the host first, and may change at once.
  Transfer* write_async(const char* data, size_t length, uint64_t offset = 0) {
    auto hold = open();
    const gpupool_ptr_t to = at(*hold, offset, length);
    auto staging = Staging::holding(hold->block().core(), data, length);
    if (length != 0) hold->block().queue_copy(to, staging->address(), length);
    return new Transfer(std::move(hold), nullptr, std::move(staging));
  }
  /// Begins to copy bytes out of it: the transfer's read() gives them. Without a length: up to the end.
  Transfer* read_async() {
    return read_async(0);
  }
  /// The same from offset on.
  Transfer* read_async(uint64_t offset) {
    return read_async(offset, rest(offset));
  }
  /// The same, length bytes from offset on.
  Transfer* read_async(uint64_t offset, uint64_t length) {
    auto hold = open();
    const gpupool_ptr_t from = at(*hold, offset, length);
    check_holds(length);
    auto staging = Staging::to_read(hold->block().core(), length);
    if (length != 0) hold->block().queue_copy(staging->address(), from, length);
    return new Transfer(std::move(hold), nullptr, std::move(staging));
  }
  /// Begins to copy another slice, of any pool, into it from offset on, on this block's stream. The work that
  /// fills the other slice must come first: on the same stream, or waited for.
  Transfer* copy_from(const Slice& source, uint64_t offset = 0) {
    auto hold = open();
    auto theirs = source.open();
    const gpupool_ptr_t to = at(*hold, offset, source.size());
    if (source.size() != 0)
      hold->block().queue_copy(to, theirs->block().address() + source.offset(), source.size());
    return new Transfer(std::move(hold), std::move(theirs), nullptr);
  }
  /// A part of it.
  Slice* slice(uint64_t offset, uint64_t length) const {
    auto hold = open();
    (void)at(*hold, offset, length);
    return new Slice(std::move(hold), offset_ + offset, length);
  }
  /// In words.
  std::string to_string() const {
    const auto hold = kept();
    if (!hold) return "slice of " + bytes_in_words(size_) + ": closed";
    return "slice of " + bytes_in_words(size_) + " at " + hexadecimal(hold->block().address() + offset_);
  }

#ifndef SWIG
  /// As read(), into the caller's memory.
  void read_to(char* data, uint64_t length, uint64_t offset) {
    const auto hold = open();
    const gpupool_ptr_t from = at(*hold, offset, length);
    if (length == 0) return;
    hold->block().queue_copy(reinterpret_cast<uintptr_t>(data), from, length);
    hold->block().wait();
  }
#endif

 private:
  std::shared_ptr<Hold> kept() const {
    const std::lock_guard lock(mutex_);
    return hold_;
  }
  std::shared_ptr<Hold> open() const {
    auto hold = kept();
    if (!hold) refuse("the slice is closed");
    return hold;
  }
  uint64_t rest(uint64_t offset) const {
    return offset > size_ ? 0 : size_ - offset;
  }
  gpupool_ptr_t at(const Hold& hold, uint64_t offset, uint64_t length) const {
    if (offset > size_ || length > size_ - offset) {
      refuse(std::to_string(length) + " bytes at offset " + std::to_string(offset) +
             " are not inside a block of " + std::to_string(size_) + (size_ == 1 ? " byte" : " bytes"));
    }
    return hold.block().address() + offset_ + offset;
  }

  mutable std::mutex mutex_;
  std::shared_ptr<Hold> hold_;
  const uint64_t offset_;
  const uint64_t size_;
};

}  // namespace binding
