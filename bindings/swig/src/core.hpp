// SPDX-License-Identifier: Apache-2.0
// State that a Pool, its Streams and its Blocks share, so that other threads may use them while they are
// closed, and collectors may drop them in any order.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "collector.hpp"
#include "gate.hpp"
#include "handler.hpp"
#include "upstream.hpp"

namespace binding {

class OwnedStream;

/// A stream as an argument: a number, or a Stream of ours. Plain data, so that a language may leave its
/// wrapper by longjmp.
struct StreamArgument {
  StreamArgument(gpupool_stream_t stream = 0) : number(stream) {}
  explicit StreamArgument(OwnedStream& stream);

  gpupool_stream_t number;
  OwnedStream* owner = nullptr;
};

/// A pool of pinned memory on the host, beside a pool: see staging.hpp.
struct PinnedPool {
  explicit PinnedPool(gpupool_t* pool) : handle(pool) {}
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;
  ~PinnedPool() { (void)gpupool_destroy(handle); }

  gpupool_t* const handle;
};

/// A pool's handle, which must not be destroyed while anything needs it: a call in progress, a live Block, a
/// Stream not yet destroyed. The last of them destroys the pool once it is closed. A default pool is never
/// destroyed, because it belongs to the process.
class Core {
 public:
  enum class Kind { kOwn, kChild, kDefault };

  /// Takes the upstream over, if there is one, from now on.
  Core(gpupool_t* handle, gpupool_backend_t backend, Kind kind, Upstream* upstream = nullptr)
      : handle_(handle),
        backend_(backend),
        kind_(kind),
        upstream_(upstream),
        handler_(kind == Kind::kDefault ? HandlerSlot::of_default(handle) : std::make_shared<HandlerSlot>()) {
    if (kind_ == Kind::kChild) Keepers::began();
  }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core() {
    if (gate_.close() == Gate::Close::kEmpty) end();
  }

  gpupool_t* handle() const noexcept { return handle_; }
  /// As requested; it may be GPUPOOL_BACKEND_AUTO.
  gpupool_backend_t backend() const noexcept { return backend_; }
  bool is_closed() const noexcept { return gate_.is_closed(); }

  /// Keeps the pool until leave().
  void enter() {
    if (!gate_.enter()) [[unlikely]]
      refuse("the pool is closed");
  }
  /// As enter(), for a caller that is inside already, on behalf of something that outlives the call.
  void enter_again() noexcept { gate_.enter_again(); }
  void leave() noexcept {
    if (gate_.leave()) [[unlikely]]
      end();
  }

  /// Refuses calls from now on and closes the pool's streams. Closing twice does nothing.
  void close();

  /// Works on closed pools too, until the last of their blocks is freed.
  void free(gpupool_ptr_t address, gpupool_stream_t stream) {
    if (gate_.enter()) {
      const gpupool_status_t status = gpupool_free(handle_, address, stream);
      leave();
      return check(status);
    }
    const std::lock_guard lock(mutex_);
    const gpupool_status_t status = gpupool_free(handle_, address, stream);
    if (status == GPUPOOL_ERROR_INVALID_ARGUMENT && is_ended_) refuse("the pool is closed");
    check(status);
  }

  /// The pool is created on first use; null if there can be none.
  std::shared_ptr<PinnedPool> pinned_pool() const {
    const std::lock_guard lock(pinned_mutex_);
    if (!pinned_) {
      gpupool_config_t config{};
      gpupool_stats_t stats{};
      stats.struct_size = sizeof stats;
      gpupool_t* handle = nullptr;
      if (gpupool_stats(handle_, &stats) != GPUPOOL_SUCCESS ||
          gpupool_config_init(&config, sizeof config) != GPUPOOL_SUCCESS)
        return nullptr;
      config.backend = backend_;
      config.device = stats.device;
      config.kind = GPUPOOL_KIND_PINNED;
      config.fraction = 0;
      config.limit_bytes = 0;
      if (gpupool_create(&config, &handle) != GPUPOOL_SUCCESS) return nullptr;
      pinned_ = std::make_shared<PinnedPool>(handle);
    }
    return pinned_;
  }

  void set_oom_handler(std::unique_ptr<OomHandler> handler) { handler_->set(handle_, std::move(handler)); }

  void set_sleep_hooks(std::unique_ptr<SleepHook> before, std::unique_ptr<SleepHook> after) {
    handler_->set_hooks(handle_, std::move(before), std::move(after));
  }

  /// The owner of a stream; null if none is known.
  std::shared_ptr<OwnedStream> owner_of(const StreamArgument& stream);

  /// Returns false if the pool was closed meanwhile.
  bool remember(const std::shared_ptr<OwnedStream>& stream, gpupool_stream_t id) {
    const std::lock_guard lock(mutex_);
    if (is_closed()) return false;
    streams_[id] = stream;
    return true;
  }
  /// Call it before the stream is destroyed: afterwards another one may get its number.
  void forget(gpupool_stream_t id) noexcept {
    const std::lock_guard lock(mutex_);
    streams_.erase(id);
  }

 private:
  /// No call is inside, and none will be, except late frees.
  void end() noexcept {
    const std::lock_guard lock(mutex_);
    if (kind_ == Kind::kDefault) return;
    is_ended_ = true;
    status_ = gpupool_destroy(handle_);
    if (kind_ == Kind::kChild) Keepers::ended();
    handler_->drop();
    if (upstream_ != nullptr) upstream_->leave();
  }

  gpupool_t* const handle_;
  const gpupool_backend_t backend_;
  const Kind kind_;
  Upstream* const upstream_;
  const std::shared_ptr<HandlerSlot> handler_;
  mutable std::mutex pinned_mutex_;
  mutable std::shared_ptr<PinnedPool> pinned_;
  Gate gate_;
  std::mutex mutex_;
  std::map<gpupool_stream_t, std::weak_ptr<OwnedStream>> streams_;
  bool is_ended_ = false;
  gpupool_status_t status_ = GPUPOOL_SUCCESS;  // of destroying
};

/// A stream that is destroyed when it is closed and the last call and the last live block have left it, or
/// when nothing refers to it any more.
class OwnedStream : public std::enable_shared_from_this<OwnedStream> {
 public:
  /// For a caller who is inside the pool.
  static std::shared_ptr<OwnedStream> create(const std::shared_ptr<Core>& core) {
    auto stream = std::make_shared<OwnedStream>(core);
    if (!core->remember(stream, stream->id_)) refuse("the pool is closed");
    return stream;
  }

  explicit OwnedStream(const std::shared_ptr<Core>& core) : core_(core) {
    check(gpupool_stream_create(core_->handle(), &id_));
    core_->enter_again();
  }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  ~OwnedStream() {
    if (gate_.close() == Gate::Close::kEmpty) (void)end();
  }

  const Core& core() const noexcept { return *core_; }
  /// For an open stream, or for callers that are inside.
  gpupool_stream_t number() const noexcept { return id_; }
  gpupool_stream_t id() const {
    if (is_closed()) refuse("the stream is closed");
    return id_;
  }
  bool is_closed() const noexcept { return gate_.is_closed(); }

  /// Keeps the stream until leave().
  void enter() {
    if (!try_enter()) refuse("the stream is closed");
  }
  bool try_enter() noexcept { return gate_.enter(); }
  /// For callers that are already inside, and may be joined by others even after the close.
  void enter_again() noexcept { gate_.enter_again(); }
  void leave() noexcept {
    if (gate_.leave()) (void)end();
  }

  void close() {
    if (gate_.close() == Gate::Close::kEmpty) check(end());
  }
  void close_with_pool() noexcept {
    if (!is_closed()) went_with_pool_ = true;
    if (gate_.close() == Gate::Close::kEmpty) (void)end();
  }

  /// The stream for work on one of its live blocks. Blocks of a closed pool stay usable; closing the stream
  /// itself means that there is no more work.
  gpupool_stream_t queue() const {
    if (is_closed() && !went_with_pool_) refuse("the stream is closed");
    return id_;
  }

 private:
  gpupool_status_t end() noexcept {
    core_->forget(id_);
    const gpupool_status_t status = gpupool_stream_destroy(core_->handle(), id_);
    core_->leave();
    return status;
  }

  const std::shared_ptr<Core> core_;
  gpupool_stream_t id_ = 0;
  Gate gate_;
  std::atomic<bool> went_with_pool_{false};
};

inline void Core::close() {
  std::vector<std::shared_ptr<OwnedStream>> streams;
  Gate::Close closed{};
  {
    // Both under one lock, so that a closed pool remembers no stream.
    const std::lock_guard lock(mutex_);
    closed = gate_.close();
    if (closed == Gate::Close::kAlready) return;
    for (const auto& [id, stream] : streams_) {
      if (auto owner = stream.lock()) streams.push_back(std::move(owner));
    }
  }
  // A stream is inside the pool, so the last stream may be the one that ends it.
  for (const auto& stream : streams) stream->close_with_pool();
  if (closed == Gate::Close::kEmpty) end();
  const std::lock_guard lock(mutex_);
  check(status_);
}

inline StreamArgument::StreamArgument(OwnedStream& stream) : number(stream.number()), owner(&stream) {}

inline std::shared_ptr<OwnedStream> Core::owner_of(const StreamArgument& stream) {
  if (stream.owner != nullptr) return stream.owner->shared_from_this();
  if (stream.number == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream.number);
  return found == streams_.end() ? nullptr : found->second.lock();
}

/// A stream while a call uses it. It keeps one of our streams from being destroyed meanwhile.
class StreamUse {
 public:
  explicit StreamUse(const StreamArgument& stream) : stream_(stream) {
    if (stream_.owner == nullptr || stream_.owner->try_enter()) return;
    // The caller has entered the pool; a pool that closes meanwhile closes its streams too.
    refuse(stream_.owner->core().is_closed() ? "the pool is closed" : "the stream is closed");
  }
  StreamUse(const StreamUse&) = delete;
  StreamUse& operator=(const StreamUse&) = delete;
  ~StreamUse() {
    if (stream_.owner != nullptr) stream_.owner->leave();
  }

  gpupool_stream_t number() const noexcept { return stream_.number; }

 private:
  const StreamArgument stream_;
};

#ifndef SWIG
inline gpupool_sleep_options_t sleep_options(gpupool_sleep_mode_t mode, uint32_t flags, uint32_t fill,
                                             uint64_t timeout_nanoseconds, uint64_t target = 0) {
  gpupool_sleep_options_t options{};
  options.struct_size = sizeof options;
  options.mode = mode;
  options.flags = flags;
  options.fill = fill;
  options.timeout_ns = timeout_nanoseconds;
  options.target_bytes = target;
  return options;
}

inline gpupool_sleep_result_t no_result() {
  gpupool_sleep_result_t result{};
  result.struct_size = sizeof result;
  return result;
}
#endif

}  // namespace binding
