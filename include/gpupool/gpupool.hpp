// SPDX-License-Identifier: Apache-2.0
// gpupool for C++20: owners that clean up after themselves, over the functions of gpupool.h.
//
//     gpupool::Pool pool({.fraction = 0.9});
//     gpupool::Stream stream(pool);
//     gpupool::Block block(pool, 1 << 20, stream);
//     ... queue work that uses block.ptr() on stream ...
//
// Everything is inline and calls only the C functions, so this header needs no library but libgpupool. A
// program may mix both: the C functions take handle() and ptr(). The words, and the rules for threads and
// streams, are those of gpupool.h.
//
// ERRORS are exceptions: every failed call throws gpupool::Error with its status, the driver's number and the
// library's explanation. Where there is no memory, it is a gpupool::OutOfMemory. Destructors never throw.
//
// LIFETIME. A Block may outlive its Pool: the pool goes away with its last block. A Stream must be destroyed
// before its Pool: declare it after the pool. Default-constructed and moved-from objects own nothing and may
// only be destroyed or assigned to.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpupool/gpupool.h"

namespace gpupool {

/// Keeps these names apart from the library's own when it is linked statically. Write gpupool::Pool.
inline namespace v0 {

/// A call that failed.
class Error : public std::runtime_error {
 public:
  Error(gpupool_status_t status, int32_t driver_code, const std::string& message)
      : std::runtime_error(message), status_(status), driver_code_(driver_code) {}

  gpupool_status_t status() const noexcept { return status_; }
  /// The driver's own number, or 0.
  int32_t driver_code() const noexcept { return driver_code_; }

 private:
  gpupool_status_t status_;
  int32_t driver_code_;
};

/// The device has no more memory, or the pool's limit forbids more. what() explains where the memory is.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// Throws if a C function failed, with the details of this thread's last failure; does nothing on success.
inline void check(gpupool_status_t status) {
  if (status == GPUPOOL_SUCCESS) [[likely]]
    return;
  gpupool_error_t details{};
  details.struct_size = sizeof details;
  std::string message = gpupool_status_name(status);
  if (gpupool_last_error(&details) == GPUPOOL_SUCCESS && details.status == status) {
    message.append(": ").append(details.message);
  }
  if (status == GPUPOOL_ERROR_OUT_OF_MEMORY || status == GPUPOOL_ERROR_OVER_LIMIT) {
    throw OutOfMemory(status, details.driver_code, message);
  }
  throw Error(status, details.driver_code, message);
}

enum class Backend : int32_t {
  automatic = GPUPOOL_BACKEND_AUTO,
  cuda = GPUPOOL_BACKEND_CUDA,
  sim = GPUPOOL_BACKEND_SIM,
  host = GPUPOOL_BACKEND_HOST,
};

enum class Mode : int32_t {
  automatic = GPUPOOL_MODE_AUTO,
  vmm = GPUPOOL_MODE_VMM,
  driver = GPUPOOL_MODE_DRIVER,
  upstream = GPUPOOL_MODE_UPSTREAM,
};

enum class Kind : int32_t {
  device = GPUPOOL_KIND_DEVICE,
  pinned = GPUPOOL_KIND_PINNED,
  managed = GPUPOOL_KIND_MANAGED,
};

/// How to create a pool. Name what differs from the defaults, as in Pool({.limit_bytes = 1 << 30}). The
/// fields are those of gpupool_config_t.
struct Config {
  int32_t device = 0;
  Backend backend = Backend::automatic;
  Mode mode = Mode::automatic;
  Kind kind = Kind::device;
  /// GPUPOOL_FLAG_CAPTURE_AWARE.
  bool capture_aware = false;
  /// Two limits; the smaller holds; 0: none.
  double fraction = 0;
  uint64_t limit_bytes = 0;
  double slack = 0;
  uint64_t max_chunk_bytes = 0;
  /// Only the constructor reads them.
  std::span<const int32_t> peers{};
  /// For Mode::upstream.
  gpupool_upstream_malloc_fn_t upstream_malloc = nullptr;
  gpupool_upstream_free_fn_t upstream_free = nullptr;
  void* upstream_user = nullptr;
  /// The group of processes to share the device with (see gpupool/share.hpp); "": none; std::nullopt: as
  /// GPUPOOL_SHARE says. This and what follows: since 0.2.
  std::optional<std::string> share{};
  uint64_t guaranteed_bytes = 0;
  uint64_t share_wait_ns = 0;
  int32_t priority = 0;
  /// 0: as GPUPOOL_IDLE says; -1: never.
  double idle_seconds = 0;

  /// The result points to this object's `peers` and `share`.
  [[nodiscard]] gpupool_config_t to_c() const noexcept {
    gpupool_config_t config{};
    config.struct_size = sizeof config;
    config.flags = capture_aware ? uint32_t{GPUPOOL_FLAG_CAPTURE_AWARE} : 0;
    config.device = device;
    config.backend = static_cast<int32_t>(backend);
    config.mode = static_cast<int32_t>(mode);
    config.kind = static_cast<int32_t>(kind);
    config.fraction = fraction;
    config.limit_bytes = limit_bytes;
    config.slack = slack;
    config.max_chunk_bytes = max_chunk_bytes;
    config.peers = peers.data();
    config.peer_count = static_cast<uint32_t>(peers.size());
    config.upstream_malloc = upstream_malloc;
    config.upstream_free = upstream_free;
    config.upstream_user = upstream_user;
    config.share = share ? share->c_str() : nullptr;
    config.guaranteed_bytes = guaranteed_bytes;
    config.share_wait_ns = share_wait_ns;
    config.priority = priority;
    config.idle_seconds = idle_seconds;
    return config;
  }
};

/// What happens to the contents of live blocks. All about sleep: since 0.2.
enum class SleepMode : int32_t { save = GPUPOOL_SLEEP_MODE_SAVE, drop = GPUPOOL_SLEEP_MODE_DROP };

/// Whether a pool is awake.
enum class SleepState : int32_t {
  awake = GPUPOOL_SLEEP_STATE_AWAKE,
  falling_asleep = GPUPOOL_SLEEP_STATE_FALLING_ASLEEP,
  asleep = GPUPOOL_SLEEP_STATE_ASLEEP,
  waking = GPUPOOL_SLEEP_STATE_WAKING,
};

/// How to sleep.
struct SleepOptions {
  SleepMode mode = SleepMode::save;
  bool sync_context = false;   // changes nothing: every sleep waits for the whole context
  bool hold_mallocs = false;   // mallocs wait until the pool wakes, instead of failing
  bool retain_backup = false;  // keep the host memory for the next sleep
  uint64_t target_bytes = 0;   // sleep() and sleep_tag(): only so much, of idle blocks; 0: all

  [[nodiscard]] gpupool_sleep_options_t to_c() const noexcept {
    gpupool_sleep_options_t options{};
    options.struct_size = sizeof options;
    options.mode = static_cast<int32_t>(mode);
    options.target_bytes = target_bytes;
    options.flags = (sync_context ? uint32_t{GPUPOOL_SLEEP_FLAG_SYNC_CONTEXT} : 0) |
                    (hold_mallocs ? uint32_t{GPUPOOL_SLEEP_FLAG_HOLD_MALLOCS} : 0) |
                    (retain_backup ? uint32_t{GPUPOOL_SLEEP_FLAG_RETAIN_BACKUP} : 0);
    return options;
  }
};

/// How to wake.
struct WakeOptions {
  uint64_t timeout_ns = 0;      // how long to wait for memory that others hold
  std::optional<uint8_t> fill;  // a byte for blocks that were dropped

  [[nodiscard]] gpupool_sleep_options_t to_c() const noexcept {
    gpupool_sleep_options_t options{};
    options.struct_size = sizeof options;
    options.flags = fill ? uint32_t{GPUPOOL_SLEEP_FLAG_FILL} : 0;
    options.fill = fill.value_or(0);
    options.timeout_ns = timeout_ns;
    return options;
  }
};

/// Calls one of the four functions that sleep and wake.
template <typename Function, typename What>
gpupool_sleep_result_t sleep_result(Function* function, What* what, const gpupool_sleep_options_t& options) {
  gpupool_sleep_result_t result{};
  result.struct_size = sizeof result;
  check(function(what, &options, &result));
  return result;
}

/// The text that write(text, capacity, out_length) writes, as gpupool_report does.
template <typename Write>
std::string text_of(Write write) {
  std::string text;
  size_t length = 0;
  // The text may grow before there is room for it.
  do {
    text.resize(length);
    // A string has room for the terminating zero behind its text.
    check(write(text.data(), text.size() + 1, &length));
  } while (length > text.size());
  text.resize(length);
  return text;
}

/// What is mapped and what is in it, sorted by address.
struct Snapshot {
  std::vector<gpupool_segment_t> segments;
  std::vector<gpupool_block_t> blocks;
};

/// Owns a pool, or borrows a default one.
class Pool {
 public:
  explicit Pool(const Config& config = {}) {
    const gpupool_config_t c_config = config.to_c();
    check(gpupool_create(&c_config, &handle_));
  }

  /// The one pool of a device that everything in this process shares. Destroying the result does not destroy
  /// it.
  [[nodiscard]] static Pool shared_default(int32_t device = 0) {
    gpupool_t* handle = nullptr;
    check(gpupool_default_pool(device, &handle));
    return Pool(handle, false);
  }

  /// A pool that shares this one's limit, for memory that must stay where it is; see gpupool_create_child.
  [[nodiscard]] Pool create_child() const {
    gpupool_t* handle = nullptr;
    check(gpupool_create_child(handle_, &handle));
    return Pool(handle, true);
  }

  Pool(Pool&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), owned_(other.owned_) {}
  Pool& operator=(Pool&& other) noexcept {
    Pool taken(std::move(other));
    std::swap(handle_, taken.handle_);
    std::swap(owned_, taken.owned_);
    return *this;
  }
  /// May wait for the GPU. With live blocks, the pool refuses new ones and goes away with its last one.
  ~Pool() {
    if (owned_) (void)gpupool_destroy(handle_);
  }

  /// For the C functions. This object still owns it.
  [[nodiscard]] gpupool_t* handle() const noexcept { return handle_; }

  // ---- memory, without an owner; Block is the same with one

  [[nodiscard]] gpupool_ptr_t allocate(uint64_t bytes, gpupool_stream_t stream = 0,
                                       uint64_t alignment = 512) {
    gpupool_ptr_t ptr = 0;
    check(gpupool_malloc_aligned(handle_, bytes, alignment, stream, &ptr));
    return ptr;
  }
  void deallocate(gpupool_ptr_t ptr, gpupool_stream_t stream = 0) {
    check(gpupool_free(handle_, ptr, stream));
  }
  void record_stream(gpupool_ptr_t ptr, gpupool_stream_t stream) {
    check(gpupool_record_stream(handle_, ptr, stream));
  }
  [[nodiscard]] gpupool_block_t block_info(gpupool_ptr_t ptr) const {
    gpupool_block_t block{};
    check(gpupool_block_info(handle_, ptr, &block, sizeof block));
    return block;
  }
  /// Call it before you destroy a stream of your own. A gpupool::Stream calls it by itself.
  void release_stream(gpupool_stream_t stream) { check(gpupool_release_stream(handle_, stream)); }
  /// Call it after each free on a stream that may end unannounced. The next malloc on the stream resumes it.
  void park_stream(gpupool_stream_t stream) { check(gpupool_park_stream(handle_, stream)); }
  /// The number of the capture under way on a stream; 0: none. Since 0.2.
  [[nodiscard]] uint64_t capture_id(gpupool_stream_t stream) const {
    uint64_t capture = 0;
    check(gpupool_capture_id(handle_, stream, &capture));
    return capture;
  }
  /// Call it when the graph of a capture will not run any more. Since 0.2.
  void release_capture(uint64_t capture) { check(gpupool_release_capture(handle_, capture)); }
  /// Call it before a capture begins, and with false after it has ended or failed, where threads that do not
  /// use a stream free on it. Calls count. Since 0.2.
  void announce_capture(bool begins) { check(gpupool_announce_capture(handle_, begins ? 1 : 0)); }
  /// Lets another device access all memory of the pool. Since 0.2.
  void enable_peer(int32_t device) { check(gpupool_enable_peer(handle_, device)); }
  /// Waits for every stream that the pool has seen.
  void synchronize() { check(gpupool_synchronize(handle_)); }

  // ---- work, queued on a stream: host memory must stay valid until the stream has passed

  void copy(gpupool_ptr_t destination, gpupool_ptr_t source, uint64_t bytes, gpupool_stream_t stream = 0) {
    check(gpupool_copy(handle_, destination, source, bytes, stream));
  }
  void fill(gpupool_ptr_t destination, uint8_t value, uint64_t bytes, gpupool_stream_t stream = 0) {
    check(gpupool_fill(handle_, destination, value, bytes, stream));
  }

  // ---- keeping memory, and giving it back

  /// Gives every cached chunk back to the driver; returns the bytes.
  uint64_t empty() {
    uint64_t released = 0;
    check(gpupool_empty(handle_, &released));
    return released;
  }
  uint64_t trim(uint64_t target_bytes) {
    uint64_t released = 0;
    check(gpupool_trim(handle_, target_bytes, &released));
    return released;
  }
  void reserve(uint64_t target_bytes, gpupool_stream_t stream = 0) {
    check(gpupool_reserve(handle_, target_bytes, stream));
  }
  void set_limit(uint64_t limit_bytes) { check(gpupool_set_limit(handle_, limit_bytes)); }
  void set_fraction(double fraction) { check(gpupool_set_fraction(handle_, fraction)); }

  /// The pool calls handler(bytes, attempt) before an allocation fails. The handler frees something and
  /// returns true to have it tried again. It is not copied: it must live as long as the pool. It must not
  /// throw.
  template <typename Handler>
  requires std::predicate<Handler&, uint64_t, uint32_t>
  void set_oom_handler(Handler& handler) {
    const void* user = std::addressof(handler);
    check(gpupool_set_oom_handler(handle_, call_handler<Handler>, const_cast<void*>(user)));
  }
  void clear_oom_handler() { check(gpupool_set_oom_handler(handle_, nullptr, nullptr)); }

  // ---- sleep: all memory goes back to the device, and the addresses stay. Since 0.2.

  /// With a target it gives back that much, and the pool stays awake.
  gpupool_sleep_result_t sleep(const SleepOptions& options = {}) {
    return sleep_result(gpupool_sleep, handle_, options.to_c());
  }
  /// Restores what was saved. If it fails, the pool stays asleep, whole.
  gpupool_sleep_result_t wake(const WakeOptions& options = {}) {
    return sleep_result(gpupool_wake, handle_, options.to_c());
  }
  /// Gives back the chunks that lie wholly inside one block; the pool stays awake.
  gpupool_sleep_result_t sleep_block(gpupool_ptr_t ptr, const SleepOptions& options = {}) {
    const gpupool_sleep_options_t c_options = options.to_c();
    gpupool_sleep_result_t result{};
    result.struct_size = sizeof result;
    check(gpupool_sleep_block(handle_, ptr, &c_options, &result));
    return result;
  }
  /// Brings back one block, of an awake pool or ahead of wake(), which brings the rest.
  gpupool_sleep_result_t wake_block(gpupool_ptr_t ptr, const WakeOptions& options = {}) {
    const gpupool_sleep_options_t c_options = options.to_c();
    gpupool_sleep_result_t result{};
    result.struct_size = sizeof result;
    check(gpupool_wake_block(handle_, ptr, &c_options, &result));
    return result;
  }
  /// Until the next wake(), others that are short may have the pool put to sleep: other pools of this
  /// process, and neighbours of the group.
  void allow_sleep(const SleepOptions& options = {}) {
    const gpupool_sleep_options_t c_options = options.to_c();
    check(gpupool_allow_sleep(handle_, &c_options));
  }
  /// Sleeps call hooks.before_release(ptr), which may refuse with false, and wakes hooks.after_map(ptr),
  /// which is false if it failed; ptr 0: all of the pool. The hooks are not copied: they must live as long as
  /// the pool, and must not throw.
  template <typename Hooks>
  requires requires(Hooks& hooks, gpupool_ptr_t ptr) {
    { hooks.before_release(ptr) } -> std::convertible_to<bool>;
    { hooks.after_map(ptr) } -> std::convertible_to<bool>;
  }
  void set_sleep_hooks(Hooks& hooks) {
    const void* user = std::addressof(hooks);
    check(gpupool_set_sleep_hooks(handle_, call_before<Hooks>, call_after<Hooks>, const_cast<void*>(user)));
  }
  void clear_sleep_hooks() { check(gpupool_set_sleep_hooks(handle_, nullptr, nullptr, nullptr)); }
  [[nodiscard]] SleepState sleep_state() const {
    gpupool_sleep_state_t state{};
    check(gpupool_sleep_state(handle_, &state));
    return static_cast<SleepState>(state);
  }
  /// The tag that sleep_tag() knows the pool by: at most 63 bytes.
  void set_name(const std::string& name) { check(gpupool_set_name(handle_, name.c_str())); }
  [[nodiscard]] std::string name() const;
  /// With `keep`, even a sleep that drops saves the block.
  void set_keep(gpupool_ptr_t ptr, bool keep) { check(gpupool_set_keep(handle_, ptr, keep ? 1 : 0)); }
  /// Gets page-locked host memory ahead of the first sleep, and keeps it; 0 gives it back.
  void prepare_backup(uint64_t bytes) { check(gpupool_prepare_backup(handle_, bytes)); }
  /// Saved contents from ptr on, while the pool sleeps. They lie in pieces; this is what is left of one.
  [[nodiscard]] std::span<const std::byte> backup(gpupool_ptr_t ptr) const {
    const void* data = nullptr;
    uint64_t bytes = 0;
    check(gpupool_backup(handle_, ptr, &data, &bytes));
    return {static_cast<const std::byte*>(data), bytes};
  }
  /// Copies saved contents from ptr on, which may be freed or woken meanwhile: then it fails.
  void read_backup(gpupool_ptr_t ptr, std::span<std::byte> to) const {
    if (!to.empty()) check(gpupool_read_backup(handle_, ptr, to.data(), to.size()));
  }

  // ---- watching

  [[nodiscard]] gpupool_stats_t stats() const {
    gpupool_stats_t stats{};
    stats.struct_size = sizeof stats;
    check(gpupool_stats(handle_, &stats));
    return stats;
  }
  void reset_peaks() { check(gpupool_reset_peaks(handle_)); }
  [[nodiscard]] Snapshot snapshot() const;
  /// Explains in words where the memory is.
  [[nodiscard]] std::string report() const;
  /// Who holds the live bytes, the largest first, estimated from samples. Since 0.2.
  [[nodiscard]] std::vector<gpupool_holder_t> holders() const;
  /// Checks every promise that the pool's records make to each other. Slow; for tests.
  void validate() const { check(gpupool_validate(handle_)); }

 private:
  Pool(gpupool_t* handle, bool owned) noexcept : handle_(handle), owned_(owned) {}

  template <typename Handler>
  static int32_t call_handler(void* handler, gpupool_t*, uint64_t bytes, uint32_t attempt) noexcept {
    return (*static_cast<Handler*>(handler))(bytes, attempt) ? 1 : 0;
  }
  template <typename Hooks>
  static int32_t call_before(void* hooks, gpupool_t*, gpupool_ptr_t ptr) noexcept {
    return static_cast<Hooks*>(hooks)->before_release(ptr) ? 1 : 0;
  }
  template <typename Hooks>
  static int32_t call_after(void* hooks, gpupool_t*, gpupool_ptr_t ptr) noexcept {
    return static_cast<Hooks*>(hooks)->after_map(ptr) ? 1 : 0;
  }

  gpupool_t* handle_ = nullptr;
  bool owned_ = true;
};

inline Snapshot Pool::snapshot() const {
  Snapshot all;
  size_t segments = 0;
  size_t blocks = 0;
  // Between counting and filling, other threads may add to the lists.
  do {
    all.segments.resize(segments);
    all.blocks.resize(blocks);
    check(gpupool_snapshot(handle_, all.segments.data(), sizeof(gpupool_segment_t), all.segments.size(),
                           &segments, all.blocks.data(), sizeof(gpupool_block_t), all.blocks.size(),
                           &blocks));
  } while (segments > all.segments.size() || blocks > all.blocks.size());
  all.segments.resize(segments);
  all.blocks.resize(blocks);
  return all;
}

inline std::string Pool::report() const {
  return text_of([&](char* text, size_t capacity, size_t* length) {
    return gpupool_report(handle_, text, capacity, length);
  });
}

inline std::string Pool::name() const {
  std::string text(64, '\0');
  size_t length = 0;
  check(gpupool_name(handle_, text.data(), text.size(), &length));
  text.resize(length);
  return text;
}

inline std::vector<gpupool_holder_t> Pool::holders() const {
  std::vector<gpupool_holder_t> all;
  size_t count = 0;
  do {
    all.resize(count);
    check(gpupool_holders(handle_, all.data(), sizeof(gpupool_holder_t), all.size(), &count));
  } while (count > all.size());
  all.resize(count);
  return all;
}

/// Owns a stream that the pool made. Converts to the number that everything else takes.
class Stream {
 public:
  Stream() = default;
  explicit Stream(Pool& pool) : pool_(pool.handle()) { check(gpupool_stream_create(pool_, &stream_)); }

  Stream(Stream&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), stream_(std::exchange(other.stream_, 0)) {}
  Stream& operator=(Stream&& other) noexcept {
    Stream taken(std::move(other));
    std::swap(pool_, taken.pool_);
    std::swap(stream_, taken.stream_);
    return *this;
  }
  /// Blocks of this stream stay valid.
  ~Stream() {
    if (pool_ != nullptr) (void)gpupool_stream_destroy(pool_, stream_);
  }

  operator gpupool_stream_t() const noexcept { return stream_; }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] gpupool_stream_t id() const noexcept { return stream_; }

  /// Waits until all work queued on it is done.
  void synchronize() const { check(gpupool_stream_synchronize(pool_, stream_)); }

 private:
  gpupool_t* pool_ = nullptr;
  gpupool_stream_t stream_ = 0;
};

/// Owns a block: remembers its pool and stream, and frees it on that stream.
class Block {
 public:
  Block() = default;
  Block(Pool& pool, uint64_t bytes, gpupool_stream_t stream = 0, uint64_t alignment = 512)
      : pool_(pool.handle()), ptr_(pool.allocate(bytes, stream, alignment)), size_(bytes), stream_(stream) {}

  Block(Block&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        ptr_(std::exchange(other.ptr_, 0)),
        size_(std::exchange(other.size_, 0)),
        stream_(std::exchange(other.stream_, 0)) {}
  Block& operator=(Block&& other) noexcept {
    Block taken(std::move(other));
    std::swap(pool_, taken.pool_);
    std::swap(ptr_, taken.ptr_);
    std::swap(size_, taken.size_);
    std::swap(stream_, taken.stream_);
    return *this;
  }
  /// Frees the block on its stream: work queued there so far may still use it. Never waits for the GPU.
  ~Block() {
    if (ptr_ != 0) (void)gpupool_free(pool_, ptr_, stream_);
  }

  [[nodiscard]] gpupool_ptr_t ptr() const noexcept { return ptr_; }
  /// Bytes that were asked for.
  [[nodiscard]] uint64_t size() const noexcept { return size_; }
  [[nodiscard]] gpupool_stream_t stream() const noexcept { return stream_; }
  /// The pool's handle, for the C functions.
  [[nodiscard]] gpupool_t* pool() const noexcept { return pool_; }
  explicit operator bool() const noexcept { return ptr_ != 0; }

  /// Says that another stream uses the block too. Call it before the block goes.
  void record_stream(gpupool_stream_t stream) { check(gpupool_record_stream(pool_, ptr_, stream)); }

  /// Gives the block up: the caller frees it with Pool::deallocate.
  [[nodiscard]] gpupool_ptr_t release() noexcept {
    pool_ = nullptr;
    size_ = 0;
    stream_ = 0;
    return std::exchange(ptr_, 0);
  }

  /// Frees the block now, if there is one.
  void reset() { reset(stream_); }
  /// Frees the block now, behind the work of another stream too; GPUPOOL_STREAM_UNKNOWN: of all streams.
  void reset(gpupool_stream_t stream) {
    if (ptr_ == 0) return;
    gpupool_t* const pool = pool_;
    check(gpupool_free(pool, release(), stream));
  }

 private:
  gpupool_t* pool_ = nullptr;
  gpupool_ptr_t ptr_ = 0;
  uint64_t size_ = 0;
  gpupool_stream_t stream_ = 0;
};

/// std::span, std::vector, std::array, ...: contiguous elements that may be copied as bytes.
template <typename Range>
concept CopyableRange = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>;

/// Copies elements to the front of a block, on the block's stream, and waits for that stream.
/// Throws INVALID_ARGUMENT if the block is too small.
template <CopyableRange Range>
void copy_to_device(const Block& destination, const Range& source) {
  const auto bytes = std::as_bytes(std::span(source));
  if (bytes.empty()) return;
  if (bytes.size() > destination.size()) {
    throw Error(GPUPOOL_ERROR_INVALID_ARGUMENT, 0, "copy_to_device: the block is too small");
  }
  const auto from = static_cast<gpupool_ptr_t>(reinterpret_cast<uintptr_t>(bytes.data()));
  check(gpupool_copy(destination.pool(), destination.ptr(), from, bytes.size(), destination.stream()));
  check(gpupool_stream_synchronize(destination.pool(), destination.stream()));
}

/// Copies elements from the front of a block, on the block's stream, and waits for that stream.
/// Throws INVALID_ARGUMENT if the block is too small.
template <CopyableRange Range>
void copy_to_host(Range&& destination, const Block& source) {
  const auto bytes = std::as_writable_bytes(std::span(destination));
  if (bytes.empty()) return;
  if (bytes.size() > source.size()) {
    throw Error(GPUPOOL_ERROR_INVALID_ARGUMENT, 0, "copy_to_host: the block is too small");
  }
  const auto to = static_cast<gpupool_ptr_t>(reinterpret_cast<uintptr_t>(bytes.data()));
  check(gpupool_copy(source.pool(), to, source.ptr(), bytes.size(), source.stream()));
  check(gpupool_stream_synchronize(source.pool(), source.stream()));
}

/// Counts the devices of a backend.
[[nodiscard]] inline int32_t device_count(Backend backend = Backend::automatic) {
  int32_t count = 0;
  check(gpupool_device_count(static_cast<gpupool_backend_t>(backend), &count));
  return count;
}

[[nodiscard]] inline gpupool_device_info_t device_info(int32_t device = 0,
                                                       Backend backend = Backend::automatic) {
  gpupool_device_info_t info{};
  info.struct_size = sizeof info;
  check(gpupool_device_info(static_cast<gpupool_backend_t>(backend), device, &info));
  return info;
}

/// Puts to sleep all pools of this process that have this name (std::nullopt: any name): all of them, or
/// none; or, with a target, as much of them as that takes. Since 0.2.
inline gpupool_sleep_result_t sleep_tag(const std::optional<std::string>& tag,
                                        const SleepOptions& options = {}) {
  return sleep_result(gpupool_sleep_tag, tag ? tag->c_str() : nullptr, options.to_c());
}

/// Wakes these pools: all, or none. Since 0.2.
inline gpupool_sleep_result_t wake_tag(const std::optional<std::string>& tag,
                                       const WakeOptions& options = {}) {
  return sleep_result(gpupool_wake_tag, tag ? tag->c_str() : nullptr, options.to_c());
}

/// While it lives, its thread's allocations carry a name in reports and recordings. Tags nest, and end on the
/// thread that began them. Since 0.2.
class Tag {
 public:
  explicit Tag(const std::string& name) { check(gpupool_tag_push(name.c_str())); }
  Tag(const Tag&) = delete;
  Tag& operator=(const Tag&) = delete;
  ~Tag() { (void)gpupool_tag_pop(); }
};

/// Sets the least mean distance of samples in bytes; 0: no samples. Since 0.2.
inline void set_sampling(uint64_t bytes) {
  check(gpupool_set_sampling(bytes));
}

/// Records all pools to a new file, which the gpupool command reads; "FILE,last=512MiB" or "FILE,last=10min"
/// keeps the newest events. flags: bits of gpupool_record_flag_t. Since 0.2.
inline void record_start(const std::string& path, uint32_t flags = GPUPOOL_RECORD_NATIVE_STACKS) {
  check(gpupool_record_start(path.c_str(), flags));
}
inline void record_stop() {
  check(gpupool_record_stop());
}
/// Notes a moment in the recording, such as "step 12". Since 0.2.
inline void mark(const std::string& text) {
  check(gpupool_mark(text.c_str()));
}

/// While it lives, the waits of all threads ask a function whether to end: see gpupool_set_interrupt_check.
/// Throws if the process has had too many.
class InterruptCheck {
 public:
  explicit InterruptCheck(gpupool_interrupt_fn_t fn, void* user = nullptr) : fn_(fn), user_(user) {
    check(gpupool_set_interrupt_check(fn, user, 1));
  }
  InterruptCheck(const InterruptCheck&) = delete;
  InterruptCheck& operator=(const InterruptCheck&) = delete;
  ~InterruptCheck() { (void)gpupool_set_interrupt_check(fn_, user_, 0); }

 private:
  gpupool_interrupt_fn_t fn_;
  void* user_;
};

/// Sends log lines up to a level to a function, or to standard error without one, for the whole process.
inline void set_log(gpupool_log_level_t level, gpupool_log_fn_t fn = nullptr, void* user = nullptr) {
  check(gpupool_set_log(fn, user, level));
}

/// A size in words, as bytes or, for "40%", as a share of the device. Since 0.2.
struct Size {
  uint64_t bytes = 0;
  double share = 0;
};
[[nodiscard]] inline Size parse_size(const std::string& text) {
  Size size;
  check(gpupool_parse_size(text.c_str(), &size.bytes, &size.share));
  return size;
}

/// A device in words: "cuda:1", "sim". Since 0.2.
struct DeviceName {
  Backend backend = Backend::automatic;
  int32_t device = 0;
};
[[nodiscard]] inline DeviceName parse_device(const std::string& text) {
  gpupool_backend_t backend{};
  DeviceName name;
  check(gpupool_parse_device(text.c_str(), &backend, &name.device));
  name.backend = static_cast<Backend>(backend);
  return name;
}

/// The version of the loaded library: major * 10000 + minor * 100 + patch.
[[nodiscard]] inline uint32_t version() noexcept {
  return gpupool_version();
}
[[nodiscard]] inline std::string version_string() {
  return gpupool_version_string();
}
/// Bits of gpupool_feature_t.
[[nodiscard]] inline uint64_t features() noexcept {
  return gpupool_features();
}

}  // namespace v0
}  // namespace gpupool
