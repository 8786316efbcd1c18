// SPDX-License-Identifier: Apache-2.0
// The objects of every language: Pool, Stream, Block, Snapshot. SWIG reads this file, so declarations are
// plain.
//
// An object that was closed or freed stays as an empty shell until the language collects it, so that its use
// is an error and nothing worse. Closing twice does nothing. Every other method throws Failure.
#pragma once

#include <string>
#include <vector>

#include "core.hpp"

namespace binding {

/// A stream of the pool's own. It goes with its pool at the latest. Keep the object while its number is in
/// use; a Block keeps its stream by itself.
class Stream {
 public:
  explicit Stream(const std::shared_ptr<Core>& core) : stream_(std::make_shared<OwnedStream>(core)) {
    core->remember(stream_, stream_->id());
  }

  /// The number that everything else takes; on a GPU the CUstream.
  gpupool_stream_t id() const { return stream_->id(); }
  bool is_closed() const { return stream_->is_closed(); }
  /// Waits until the stream has done all work queued on it.
  void synchronize() const { check(gpupool_stream_synchronize(stream_->pool(), id())); }
  /// Releases the stream from its pool and destroys it. Its live blocks stay valid.
  void close() { check(stream_->destroy()); }

 private:
  std::shared_ptr<OwnedStream> stream_;
};

/// A block that frees itself on its stream. It may outlive the pool's object.
class Block {
 public:
  Block(std::shared_ptr<Core> core, uint64_t size, gpupool_stream_t stream, uint64_t alignment)
      : core_(std::move(core)), stream_owner_(core_->owner_of(stream)), size_(size), stream_(stream) {
    check(gpupool_malloc_aligned(core_->handle(), size, alignment, stream, &address_));
  }
  ~Block() {
    if (!is_freed_.exchange(true)) (void)gpupool_free(core_->handle(), address_, stream_);
  }

  gpupool_ptr_t address() const {
    if (is_freed_) refuse("the block is freed");
    return address_;
  }
  /// Bytes that were asked for.
  uint64_t size() const { return size_; }
  /// The stream it was allocated for.
  gpupool_stream_t stream() const { return stream_; }
  bool is_freed() const { return is_freed_; }

  /// Frees it behind the work queued on its stream, or on another; STREAM_UNKNOWN: on all streams.
  void free() { free(stream_); }
  void free(gpupool_stream_t stream) {
    if (is_freed_.exchange(true)) refuse("the block is freed already", GPUPOOL_ERROR_UNKNOWN_POINTER);
    check(gpupool_free(core_->handle(), address_, stream));
  }
  /// As free(), but does nothing when it is freed.
  void close() {
    if (!is_freed_.exchange(true)) check(gpupool_free(core_->handle(), address_, stream_));
  }
  /// Gives the block up and returns its address, which Pool.free takes.
  gpupool_ptr_t release() {
    if (is_freed_.exchange(true)) refuse("the block is freed");
    return address_;
  }

  /// Says that another stream uses the block too. Call it before the block goes.
  void record_stream(gpupool_stream_t stream) const {
    check(gpupool_record_stream(core_->handle(), address(), stream));
  }
  /// Queues a fill of the whole block on its stream.
  void fill(uint8_t value) const {
    check(gpupool_fill(core_->handle(), address(), value, size_, open_stream()));
  }
  /// Copies bytes into the block, from offset on, behind the work on its stream, and waits.
  void write(const char* data, size_t length, uint64_t offset = 0) const {
    copy(at(offset, length), reinterpret_cast<uintptr_t>(data), length);
  }
  /// Copies bytes out of the block behind the work on its stream, and waits. Without a length: up to the end.
  std::string read() const { return read(0); }
  std::string read(uint64_t offset) const { return read(offset, offset > size_ ? 0 : size_ - offset); }
  std::string read(uint64_t offset, uint64_t length) const {
    const gpupool_ptr_t from = at(offset, length);
    std::string bytes(length, '\0');
    copy(reinterpret_cast<uintptr_t>(bytes.data()), from, length);
    return bytes;
  }

 private:
  gpupool_ptr_t at(uint64_t offset, uint64_t length) const {
    if (offset > size_ || length > size_ - offset) refuse("the range is not inside the block");
    return address() + offset;
  }
  void copy(gpupool_ptr_t destination, gpupool_ptr_t source, uint64_t length) const {
    if (length == 0) return;
    check(gpupool_copy(core_->handle(), destination, source, length, open_stream()));
    check(gpupool_stream_synchronize(core_->handle(), stream_));
  }
  gpupool_stream_t open_stream() const { return stream_owner_ ? stream_owner_->id() : stream_; }

  std::shared_ptr<Core> core_;
  std::shared_ptr<OwnedStream> stream_owner_;
  gpupool_ptr_t address_ = 0;
  uint64_t size_;
  gpupool_stream_t stream_;
  std::atomic<bool> is_freed_{false};
};

/// What was mapped and what was in it at one moment, sorted by address.
class Snapshot {
 public:
  explicit Snapshot(gpupool_t* pool) {
    size_t segments = 0;
    size_t blocks = 0;
    // Other threads may add to the lists between asking for the counts and for the contents.
    do {
      segments_.resize(segments);
      blocks_.resize(blocks);
      check(gpupool_snapshot(pool, segments_.data(), sizeof(gpupool_segment_t), segments_.size(), &segments,
                             blocks_.data(), sizeof(gpupool_block_t), blocks_.size(), &blocks));
    } while (segments > segments_.size() || blocks > blocks_.size());
    segments_.resize(segments);
    blocks_.resize(blocks);
  }

  uint32_t segment_count() const { return static_cast<uint32_t>(segments_.size()); }
  /// From 0.
  gpupool_segment_t segment(uint32_t index) const { return element(segments_, index); }
  uint32_t block_count() const { return static_cast<uint32_t>(blocks_.size()); }
  gpupool_block_t block(uint32_t index) const { return element(blocks_, index); }

 private:
  template <class T>
  static T element(const std::vector<T>& list, uint32_t index) {
    if (index >= list.size()) refuse("there is no such element in the snapshot");
    return list[index];
  }

  std::vector<gpupool_segment_t> segments_;
  std::vector<gpupool_block_t> blocks_;
};

/// A pool of one device. Addresses and streams are numbers; a Block is an address that frees itself.
class Pool {
 public:
  Pool() : Pool(create(nullptr)) {}
  explicit Pool(const gpupool_config_t& config) : Pool(create(&config)) {}

  /// The one pool of a device that everything in this process shares. Closing the result leaves it.
  static Pool* shared(int32_t device = 0) {
    gpupool_t* handle = nullptr;
    check(gpupool_default_pool(device, &handle));
    return new Pool(Core::of_default(handle));
  }

  /// Gives the memory back, and destroys the streams that it made; may wait for the GPU. Live blocks stay
  /// valid, and the pool's memory goes with the last of them. No other thread may be inside a call.
  void close() {
    if (handle_ == nullptr) return;
    core_->close();
    handle_ = nullptr;
  }
  bool is_closed() const { return handle_ == nullptr; }

  // ---- memory by its address: nobody frees it but you

  /// Returns the address of size bytes for work on stream. Size 0 gives 0.
  gpupool_ptr_t malloc(uint64_t size, gpupool_stream_t stream = 0) {
    gpupool_ptr_t address = 0;
    check(gpupool_malloc(handle(), size, stream, &address));
    return address;
  }
  /// The same, aligned to a power of two of up to 2 MiB.
  gpupool_ptr_t malloc_aligned(uint64_t size, uint64_t alignment, gpupool_stream_t stream = 0) {
    gpupool_ptr_t address = 0;
    check(gpupool_malloc_aligned(handle(), size, alignment, stream, &address));
    return address;
  }
  /// Frees behind the work queued on stream; STREAM_UNKNOWN: on all streams. Address 0 does nothing.
  void free(gpupool_ptr_t address, gpupool_stream_t stream = 0) {
    check(gpupool_free(handle(), address, stream));
  }
  void record_stream(gpupool_ptr_t address, gpupool_stream_t stream) {
    check(gpupool_record_stream(handle(), address, stream));
  }
  /// Describes the block that contains the address.
  gpupool_block_t block_info(gpupool_ptr_t address) const {
    gpupool_block_t info{};
    check(gpupool_block_info(handle(), address, &info, sizeof info));
    return info;
  }

  // ---- memory and streams that clean up after themselves

  Block* allocate(uint64_t size, gpupool_stream_t stream = 0, uint64_t alignment = 512) {
    (void)handle();
    return new Block(core_, size, stream, alignment);
  }
  Stream* create_stream() {
    (void)handle();
    return new Stream(core_);
  }

  // ---- streams by their number

  /// Call it before a stream of yours is destroyed. A Stream does it by itself.
  void release_stream(gpupool_stream_t stream) { check(gpupool_release_stream(handle(), stream)); }
  /// Call it after each free on a stream whose end nobody announces; the next malloc takes it up again.
  void park_stream(gpupool_stream_t stream) { check(gpupool_park_stream(handle(), stream)); }
  /// Waits for every stream that the pool has seen.
  void synchronize() { check(gpupool_synchronize(handle())); }
  void synchronize_stream(gpupool_stream_t stream) { check(gpupool_stream_synchronize(handle(), stream)); }

  // ---- data

  /// Queues a copy on the device.
  void copy(gpupool_ptr_t destination, gpupool_ptr_t source, uint64_t size, gpupool_stream_t stream = 0) {
    check(gpupool_copy(handle(), destination, source, size, stream));
  }
  /// Queues a fill.
  void fill(gpupool_ptr_t destination, uint8_t value, uint64_t size, gpupool_stream_t stream = 0) {
    check(gpupool_fill(handle(), destination, value, size, stream));
  }

  // ---- keeping memory, and giving it back

  /// Gives every cached chunk back to the driver; returns the bytes.
  uint64_t empty() {
    uint64_t released = 0;
    check(gpupool_empty(handle(), &released));
    return released;
  }
  /// Gives cached chunks back until at most target bytes are reserved; returns the bytes given back.
  uint64_t trim(uint64_t target) {
    uint64_t released = 0;
    check(gpupool_trim(handle(), target, &released));
    return released;
  }
  /// Gets memory from the driver until at least target bytes are reserved.
  void reserve(uint64_t target, gpupool_stream_t stream = 0) {
    check(gpupool_reserve(handle(), target, stream));
  }
  void set_fraction(double fraction) { check(gpupool_set_fraction(handle(), fraction)); }
  /// 0 takes the limit away.
  void set_limit(uint64_t bytes) { check(gpupool_set_limit(handle(), bytes)); }
  /// Takes the handler over; null: none. The pool keeps it until it is closed.
  void set_oom_handler(OomHandler* handler) {
    std::unique_ptr<OomHandler> owned(handler);
    (void)this->handle();
    core_->set_oom_handler(std::move(owned));
  }

  // ---- watching

  gpupool_stats_t stats() const {
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    check(gpupool_stats(handle(), &stats));
    return stats;
  }
  /// Sets every peak to the current value.
  void reset_peaks() { check(gpupool_reset_peaks(handle())); }
  Snapshot* snapshot() const { return new Snapshot(handle()); }
  /// Explains in words where the memory is.
  std::string report() const {
    std::string text;
    size_t length = 0;
    do {
      text.resize(length);
      // The terminating zero has room behind the text.
      check(gpupool_report(handle(), text.data(), text.size() + 1, &length));
    } while (length > text.size());
    text.resize(length);
    return text;
  }
  /// Checks every promise that the pool's records make to each other. Slow; for tests.
  void validate() const { check(gpupool_validate(handle())); }

 private:
  explicit Pool(std::shared_ptr<Core> core) : core_(std::move(core)), handle_(core_->handle()) {}

  static std::shared_ptr<Core> create(const gpupool_config_t* config) {
    gpupool_t* handle = nullptr;
    check(gpupool_create(config, &handle));
    return std::make_shared<Core>(handle, true);
  }

  gpupool_t* handle() const {
    gpupool_t* const handle = handle_.load(std::memory_order_relaxed);
    if (handle == nullptr) [[unlikely]]
      refuse("the pool is closed");
    return handle;
  }

  std::shared_ptr<Core> core_;
  std::atomic<gpupool_t*> handle_;
};

}  // namespace binding
