// SPDX-License-Identifier: Apache-2.0
// The objects of every language: Pool, Stream, Block, Snapshot. SWIG reads this file, so declarations are
// plain.
//
// A closed or freed object stays as an empty shell until the language collects it, so its use is an error and
// nothing worse, even while other threads are inside its calls. Closing twice does nothing. Every other
// method throws Failure.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "blocks.hpp"

namespace binding {

/// All mapped memory and its contents, sorted by address; not of one moment beside threads that allocate.
class Snapshot {
 public:
  explicit Snapshot(gpupool_t* pool) {
    size_t segments = 0;
    size_t blocks = 0;
    // Between counting and filling, other threads may add to the lists.
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

/// Who holds a pool's live bytes, largest first, estimated from samples. Since 0.2.
class Holders {
 public:
  explicit Holders(gpupool_t* pool) {
    size_t count = 0;
    do {
      holders_.resize(count);
      check(gpupool_holders(pool, holders_.data(), sizeof(gpupool_holder_t), holders_.size(), &count));
    } while (count > holders_.size());
    holders_.resize(count);
  }

  uint32_t count() const { return static_cast<uint32_t>(holders_.size()); }
  /// From 0.
  gpupool_holder_t holder(uint32_t index) const {
    if (index >= holders_.size()) refuse("there is no such holder");
    return holders_[index];
  }

 private:
  std::vector<gpupool_holder_t> holders_;
};

/// A pool of one device. Addresses and streams are numbers; a Block is an address that frees itself.
class Pool {
 public:
  /// With the defaults of Config.
  Pool() : Pool(create(default_config())) {}
  /// As the configuration says.
  explicit Pool(const gpupool_config_t& config) : Pool(create(config)) {}
  /// The same, in mode UPSTREAM: takes ownership of functions that the memory comes from, on any thread. They
  /// stay until the pool has given all of it back. Since 0.2.
  Pool(const gpupool_config_t& config, Upstream* upstream) : Pool(create(config, upstream)) {}
  /// "cuda:1", "sim", "2".
  explicit Pool(const std::string& device) : Pool(create(device, nullptr)) {}
  /// Limited to "8GiB", or to "40%" of the device.
  Pool(const std::string& device, const std::string& limit) : Pool(create(device, &limit)) {}

  /// The one pool of a device that everything in this process shares. Closing the result leaves the pool
  /// itself.
  static Pool* shared(int32_t device = 0) {
    gpupool_t* handle = nullptr;
    check(gpupool_default_pool(device, &handle));
    return new Pool(std::make_shared<Core>(handle, GPUPOOL_BACKEND_AUTO, Core::Kind::kDefault));
  }

  /// A pool that shares this one's limit, for memory that must stay where it is, such as a CUDA graph's:
  /// memory that it has mapped stays mapped and serves only the child, even while free, until the child
  /// itself is emptied, trimmed or closed. It inherits everything else from this pool, and may outlive it.
  /// Since 0.2.
  Pool* create_child() {
    const Call call(*core_);
    gpupool_t* handle = nullptr;
    check(gpupool_create_child(call.pool(), &handle));
    return new Pool(std::make_shared<Core>(handle, core_->backend(), Core::Kind::kChild));
  }

  /// Refuses calls from now on, closes the streams that it created, and gives the memory back; may wait for
  /// the GPU. Calls in progress finish as if it were open, and its live blocks stay valid: the memory goes
  /// with the last of them.
  void close() { core_->close(); }
  /// Whether it has been closed.
  bool is_closed() const { return core_->is_closed(); }

  // ---- memory by address: only you free it

  /// Returns the address of size bytes for work on stream. Size 0 gives 0.
  gpupool_ptr_t malloc(uint64_t size, StreamArgument stream = 0) {
    const Call call(*core_, stream);
    gpupool_ptr_t address = 0;
    malloc_or_collect([&] { return gpupool_malloc(call.pool(), size, call.stream(), &address); },
                      [&] { (void)gpupool_free(call.pool(), address, call.stream()); });
    return address;
  }
  /// The same, aligned to a power of two of up to 2 MiB.
  gpupool_ptr_t malloc_aligned(uint64_t size, uint64_t alignment, StreamArgument stream = 0) {
    const Call call(*core_, stream);
    gpupool_ptr_t address = 0;
    malloc_or_collect(
        [&] { return gpupool_malloc_aligned(call.pool(), size, alignment, call.stream(), &address); },
        [&] { (void)gpupool_free(call.pool(), address, call.stream()); });
    return address;
  }
  /// Frees behind the work queued on stream; STREAM_UNKNOWN: on all streams. Address 0 does nothing. Works on
  /// a closed pool too.
  void free(gpupool_ptr_t address, StreamArgument stream = 0) {
    const StreamUse use(stream);
    core_->free(address, use.number());
  }
  /// Tells the pool that a stream uses the block too. Call it before the block is freed.
  void record_stream(gpupool_ptr_t address, StreamArgument stream) {
    const Call call(*core_, stream);
    check(gpupool_record_stream(call.pool(), address, call.stream()));
  }
  /// Describes the block that contains the address.
  gpupool_block_t block_info(gpupool_ptr_t address) const {
    const Call call(*core_);
    gpupool_block_t info{};
    check(gpupool_block_info(call.pool(), address, &info, sizeof info));
    return info;
  }

  // ---- memory and streams that clean up after themselves

  /// A block of size bytes for work on stream, aligned to a power of two of up to 2 MiB.
  Block* allocate(uint64_t size, StreamArgument stream = 0, uint64_t alignment = 512) {
    const Call call(*core_, stream);
    return new Block(core_, size, stream, alignment);
  }
  /// A stream on the pool's device that does not synchronise with the legacy default stream.
  Stream* create_stream() {
    const Call call(*core_);
    return new Stream(core_);
  }

  // ---- streams

  /// Call it before you destroy a stream of your own. A Stream calls it by itself.
  void release_stream(StreamArgument stream) {
    const Call call(*core_, stream);
    check(gpupool_release_stream(call.pool(), call.stream()));
  }
  /// Call it after each free on a stream that may end unannounced; the next malloc on the stream resumes it.
  void park_stream(StreamArgument stream) {
    const Call call(*core_, stream);
    check(gpupool_park_stream(call.pool(), call.stream()));
  }
  /// Waits for every stream that the pool has seen.
  void synchronize() {
    const Call call(*core_);
    check(gpupool_synchronize(call.pool()));
  }
  /// Waits until the stream has done all work queued on it.
  void synchronize_stream(StreamArgument stream) {
    const Call call(*core_, stream);
    check(gpupool_stream_synchronize(call.pool(), call.stream()));
  }

  // ---- CUDA graphs, and other devices

  /// The number of the capture under way on stream; 0: none. Since 0.2.
  uint64_t capture_id(StreamArgument stream) const {
    const Call call(*core_, stream);
    uint64_t capture = 0;
    check(gpupool_capture_id(call.pool(), call.stream(), &capture));
    return capture;
  }
  /// Says that the graph of a capture will not run any more, so its memory is the pool's again. Since 0.2.
  void release_capture(uint64_t capture) {
    const Call call(*core_);
    check(gpupool_release_capture(call.pool(), capture));
  }
  /// Call it before a capture begins, and with false after it has ended or failed: in between no free touches
  /// its stream, whoever makes it. Calls count. Since 0.2.
  void announce_capture(bool begins) {
    const Call call(*core_);
    check(gpupool_announce_capture(call.pool(), begins ? 1 : 0));
  }
  /// Lets another device access all memory of this pool, what it has now and what it gets later. Since 0.2.
  void enable_peer(int32_t device) {
    const Call call(*core_);
    check(gpupool_enable_peer(call.pool(), device));
  }

  // ---- data

  /// Queues a copy on the device.
  void copy(gpupool_ptr_t destination, gpupool_ptr_t source, uint64_t size, StreamArgument stream = 0) {
    const Call call(*core_, stream);
    check(gpupool_copy(call.pool(), destination, source, size, call.stream()));
  }
  /// Queues a fill with a byte, 0 to 255.
  void fill(gpupool_ptr_t destination, int32_t value, uint64_t size, StreamArgument stream = 0) {
    const Call call(*core_, stream);
    check(gpupool_fill(call.pool(), destination, byte_of(value), size, call.stream()));
  }

  // ---- sleep: all memory goes back to the device, and the addresses stay. Since 0.2.

  /// Puts the pool to sleep. mode: a SleepMode; flags: bits of SleepFlag. With a target the pool stays awake
  /// and gives back that many bytes, or all there are: what is cached, then whole blocks, the idlest first.
  gpupool_sleep_result_t sleep(gpupool_sleep_mode_t mode = GPUPOOL_SLEEP_MODE_SAVE, uint32_t flags = 0,
                               uint64_t target = 0) {
    const Call call(*core_);
    const gpupool_sleep_options_t options = sleep_options(mode, flags, 0, 0, target);
    gpupool_sleep_result_t result = no_result();
    check(gpupool_sleep(call.pool(), &options, &result));
    return result;
  }
  /// Wakes the pool, with what was saved. Waits at most the timeout for memory that others hold. fill: a
  /// byte, with SleepFlag FILL.
  gpupool_sleep_result_t wake(uint64_t timeout_nanoseconds = 0, uint32_t flags = 0, int32_t fill = 0) {
    const Call call(*core_);
    const gpupool_sleep_options_t options =
        sleep_options(GPUPOOL_SLEEP_MODE_SAVE, flags, byte_of(fill), timeout_nanoseconds);
    gpupool_sleep_result_t result = no_result();
    check(gpupool_wake(call.pool(), &options, &result));
    return result;
  }
  /// Gives back the chunks that lie wholly inside the block at an address; the pool stays awake. As sleep.
  gpupool_sleep_result_t sleep_block(gpupool_ptr_t address,
                                     gpupool_sleep_mode_t mode = GPUPOOL_SLEEP_MODE_SAVE,
                                     uint32_t flags = 0) {
    const Call call(*core_);
    const gpupool_sleep_options_t options = sleep_options(mode, flags, 0, 0);
    gpupool_sleep_result_t result = no_result();
    check(gpupool_sleep_block(call.pool(), address, &options, &result));
    return result;
  }
  /// Brings back the block at an address, in an awake pool or ahead of wake, which brings the rest.
  gpupool_sleep_result_t wake_block(gpupool_ptr_t address, uint64_t timeout_nanoseconds = 0,
                                    uint32_t flags = 0, int32_t fill = 0) {
    const Call call(*core_);
    const gpupool_sleep_options_t options =
        sleep_options(GPUPOOL_SLEEP_MODE_SAVE, flags, byte_of(fill), timeout_nanoseconds);
    gpupool_sleep_result_t result = no_result();
    check(gpupool_wake_block(call.pool(), address, &options, &result));
    return result;
  }
  /// Until the next wake, others that are short may have the pool put to sleep, as sleep does: other pools of
  /// this process, and neighbours of the group. Use none of its memory before.
  void allow_sleep(gpupool_sleep_mode_t mode = GPUPOOL_SLEEP_MODE_SAVE, uint32_t flags = 0) {
    const Call call(*core_);
    const gpupool_sleep_options_t options = sleep_options(mode, flags, 0, 0);
    check(gpupool_allow_sleep(call.pool(), &options));
  }
  /// Whether it is awake, asleep, or between the two.
  gpupool_sleep_state_t sleep_state() const {
    const Call call(*core_);
    gpupool_sleep_state_t state{};
    check(gpupool_sleep_state(call.pool(), &state));
    return state;
  }
  /// The tag that sleep_tag knows the pool by: at most 63 bytes.
  void set_name(const std::string& name) {
    const Call call(*core_);
    check(gpupool_set_name(call.pool(), name.c_str()));
  }
  /// What set_name has set; empty if nothing.
  std::string name() const {
    const Call call(*core_);
    char text[64] = {};
    check(gpupool_name(call.pool(), text, sizeof text, nullptr));
    return text;
  }
  /// With `keep`, even a sleep that drops saves the block.
  void set_keep(gpupool_ptr_t address, bool keep) {
    const Call call(*core_);
    check(gpupool_set_keep(call.pool(), address, keep ? 1 : 0));
  }
  /// Lets other processes map the block at an address: gives a handle, a text for import_block of any
  /// process.
  std::string export_block(gpupool_ptr_t address) {
    const Call call(*core_);
    char handle[GPUPOOL_EXPORT_BYTES] = {};
    check(gpupool_export(call.pool(), address, handle, sizeof handle));
    return handle;
  }
  /// Maps a block of another process, by its handle. The result has its address here and its size; it is no
  /// block of this pool, and close_import ends it.
  gpupool_block_t import_block(const std::string& handle) {
    const Call call(*core_);
    gpupool_block_t block{};
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    check(gpupool_stats(call.pool(), &stats));
    check(gpupool_import(call.pool(), handle.c_str(), &block.address, &block.allocated_bytes));
    block.requested_bytes = block.allocated_bytes;
    block.state = GPUPOOL_BLOCK_LIVE;
    block.device = stats.device;
    return block;
  }
  /// Ends an import, by its address. The last one of a handle waits for all work of the device's context.
  void close_import(gpupool_ptr_t address) {
    const Call call(*core_);
    check(gpupool_import_close(call.pool(), address));
  }
  /// Asks the other processes of the pool's group to give back so many bytes, ahead of need.
  void share_request(uint64_t bytes, uint64_t timeout_ns) {
    const Call call(*core_);
    check(gpupool_share_request(call.pool(), bytes, timeout_ns));
  }
  /// Gets page-locked host memory ahead of the first sleep, and keeps it; 0 gives it back.
  void prepare_backup(uint64_t bytes) {
    const Call call(*core_);
    check(gpupool_prepare_backup(call.pool(), bytes));
  }

  /// Copies what was saved of the sleeping block at an address, which may point anywhere inside it. Without a
  /// length: up to the end of the block. Since 0.2.
  std::string read_backup(gpupool_ptr_t address) const {
    return read_backup(address, backup_length(address));
  }
  /// The same, length bytes.
  std::string read_backup(gpupool_ptr_t address, uint64_t length) const {
    if (length > backup_length(address))
      refuse_backup(address, length);  // before getting memory for the bytes
    check_holds(length);
    std::string bytes(length, '\0');
    read_backup_to(bytes.data(), length, address);
    return bytes;
  }
#ifndef SWIG
  /// The same, into the caller's memory.
  void read_backup_to(char* data, uint64_t length, gpupool_ptr_t address) const {
    if (length == 0) return;
    const Call call(*core_);
    check(gpupool_read_backup(call.pool(), address, data, length));
  }
  /// What is left of a block from an address on.
  uint64_t backup_length(gpupool_ptr_t address) const {
    const gpupool_block_t block = block_info(address);
    const uint64_t before = address - block.address;
    return block.requested_bytes - std::min(block.requested_bytes, before);
  }
#endif

  // ---- keeping memory, and giving it back

  /// Gives every cached chunk back to the driver; returns the bytes.
  uint64_t empty() {
    const Call call(*core_);
    uint64_t released = 0;
    check(gpupool_empty(call.pool(), &released));
    return released;
  }
  /// Gives cached chunks back until at most target bytes are reserved; returns the bytes given back.
  uint64_t trim(uint64_t target) {
    const Call call(*core_);
    uint64_t released = 0;
    check(gpupool_trim(call.pool(), target, &released));
    return released;
  }
  /// Gets memory from the driver until at least target bytes are reserved.
  void reserve(uint64_t target, StreamArgument stream = 0) {
    const Call call(*core_, stream);
    check(gpupool_reserve(call.pool(), target, call.stream()));
  }
  /// Limits reserved memory to a fraction of the device's, in (0, 1], in place of any other limit.
  void set_fraction(double fraction) {
    const Call call(*core_);
    check(gpupool_set_fraction(call.pool(), fraction));
  }
  /// Limits reserved memory, in place of any other limit; 0 takes the limit away.
  void set_limit(uint64_t bytes) {
    const Call call(*core_);
    check(gpupool_set_limit(call.pool(), bytes));
  }
  /// "8GiB", or "40%" of the device. Since 0.2.
  void set_limit(const std::string& limit) {
    gpupool_config_t config{};
    binding::set_limit(config, limit);
    return config.fraction != 0 ? set_fraction(config.fraction) : set_limit(config.limit_bytes);
  }
  /// Takes ownership of the handler; null: none. The pool keeps it until it is closed.
  void set_oom_handler(OomHandler* handler) {
    std::unique_ptr<OomHandler> owned(handler);
    const Call call(*core_);
    core_->set_oom_handler(std::move(owned));
  }
  /// Takes ownership of the hooks; null: none. before_release is called before memory goes, and may refuse;
  /// after_map once it is there again. Each gets the address of the block that sleeps or wakes alone, or 0.
  /// The pool keeps them until it is closed. Since 0.2.
  void set_sleep_hooks(SleepHook* before_release = nullptr, SleepHook* after_map = nullptr) {
    std::unique_ptr<SleepHook> before(before_release);
    std::unique_ptr<SleepHook> after(after_map);
    const Call call(*core_);
    core_->set_sleep_hooks(std::move(before), std::move(after));
  }

  // ---- watching

  /// Everything that the library counts for the pool.
  gpupool_stats_t stats() const {
    const Call call(*core_);
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    check(gpupool_stats(call.pool(), &stats));
    return stats;
  }
  /// Sets every peak to the current value.
  void reset_peaks() {
    const Call call(*core_);
    check(gpupool_reset_peaks(call.pool()));
  }
  /// What is mapped and what is in it now.
  Snapshot* snapshot() const {
    const Call call(*core_);
    return new Snapshot(call.pool());
  }
  /// Who holds the live bytes. Since 0.2.
  Holders* holders() const {
    const Call call(*core_);
    return new Holders(call.pool());
  }
  /// Explains in words where the memory is.
  std::string report() const {
    const Call call(*core_);
    std::string text;
    size_t length = 0;
    do {
      text.resize(length);
      // A string has room for the terminating zero behind its text.
      check(gpupool_report(call.pool(), text.data(), text.size() + 1, &length));
    } while (length > text.size());
    text.resize(length);
    return text;
  }
  /// Checks every promise that the pool's records make to each other. Slow; for tests.
  void validate() const {
    const Call call(*core_);
    check(gpupool_validate(call.pool()));
  }
  /// Looks at the blocks of a pool with debug modes, and waits until the GPU has done so.
  /// Returns how much damage was found since the pool was created. Since 0.2.
  uint64_t damage() const {
    const Call call(*core_);
    uint64_t count = 0;
    check(gpupool_check(call.pool(), &count, nullptr, 0));
    return count;
  }
  /// The same in words. Since 0.2.
  std::string damage_report() const {
    const Call call(*core_);
    std::string text(16384, '\0');
    check(gpupool_check(call.pool(), nullptr, text.data(), text.size()));
    text.resize(text.find('\0'));
    return text;
  }
  /// Sets what work may do with a block until its free. Only for blocks that share no chunk. Since 0.2.
  void protect(gpupool_ptr_t address, gpupool_access_t access) {
    const Call call(*core_);
    check(gpupool_protect(call.pool(), address, access));
  }
  /// In words: "pool on sim:0: 2 MiB of 64 MiB reserved, 1 block live".
  std::string to_string() const {
    try {
      const gpupool_stats_t stats = this->stats();
      return "pool on " + describe_device(core_->backend(), stats.device) + ": " + describe_stats(stats);
    } catch (const Failure&) {
      if (!is_closed()) throw;
      return "pool: closed";
    }
  }

 private:
  /// A call that is inside the pool, and uses a stream.
  class Call {
   public:
    explicit Call(Core& core, StreamArgument stream = 0)
        : inside_(core), pool_(core.handle()), use_(stream) {}
    gpupool_t* pool() const noexcept { return pool_; }
    gpupool_stream_t stream() const noexcept { return use_.number(); }

   private:
    Inside<Core> inside_;
    gpupool_t* pool_;
    StreamUse use_;
  };

  explicit Pool(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  static std::shared_ptr<Core> create(gpupool_config_t config, Upstream* upstream = nullptr) {
    std::unique_ptr<Upstream> owned(upstream);
    gpupool_t* handle = nullptr;
    if (upstream != nullptr) upstream->serve(config);
    check(gpupool_create(&config, &handle));
    auto core = std::make_shared<Core>(handle, static_cast<gpupool_backend_t>(config.backend),
                                       Core::Kind::kOwn, upstream);
    (void)owned.release();
    return core;
  }
  static std::shared_ptr<Core> create(const std::string& device, const std::string* limit) {
    gpupool_config_t config = default_config();
    set_device(config, device);
    if (limit != nullptr) binding::set_limit(config, *limit);
    return create(config);
  }

  [[noreturn]] static void refuse_backup(gpupool_ptr_t address, uint64_t length) {
    refuse(std::to_string(length) + " bytes from " + hexadecimal(address) +
           " on are more than the block has");
  }

  std::shared_ptr<Core> core_;
};

}  // namespace binding
