// SPDX-License-Identifier: Apache-2.0
// What a Pool, its Streams and its Blocks share, so that they may be closed under other threads, and
// collectors may drop them in any order.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "failure.hpp"
#include "gate.hpp"
#include "handler.hpp"

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

/// A pool's handle, which must not be destroyed while anything needs it: a call that is inside, a Block that
/// is live, a Stream that is not destroyed yet. The last of them destroys the pool once it is closed. A
/// default pool is never destroyed, it belongs to the process.
class Core {
 public:
  Core(gpupool_t* handle, gpupool_backend_t backend, bool is_default)
      : handle_(handle),
        backend_(backend),
        is_default_(is_default),
        handler_(is_default ? HandlerSlot::of_default(handle) : std::make_shared<HandlerSlot>()) {}
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core() {
    if (gate_.close() == Gate::Close::kEmpty) end();
  }

  gpupool_t* handle() const noexcept { return handle_; }
  /// As it was asked for; it may be GPUPOOL_BACKEND_AUTO.
  gpupool_backend_t backend() const noexcept { return backend_; }
  bool is_closed() const noexcept { return gate_.is_closed(); }

  /// Keeps the pool until leave().
  void enter() {
    if (!gate_.enter()) [[unlikely]]
      refuse("the pool is closed");
  }
  /// The same for somebody who is inside, on behalf of what outlives the call.
  void enter_again() noexcept { gate_.enter_again(); }
  void leave() noexcept {
    if (gate_.leave()) [[unlikely]]
      end();
  }

  /// Refuses calls from now on and closes the pool's streams. Closing twice does nothing.
  void close();

  /// Works on closed pools as well, until the last of their blocks is freed.
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

  void set_oom_handler(std::unique_ptr<OomHandler> handler) { handler_->set(handle_, std::move(handler)); }

  /// The owner of a stream; null if nobody knows one.
  std::shared_ptr<OwnedStream> owner_of(const StreamArgument& stream);

  /// False: the pool was closed meanwhile.
  bool remember(const std::shared_ptr<OwnedStream>& stream, gpupool_stream_t id) {
    const std::lock_guard lock(mutex_);
    if (is_closed()) return false;
    streams_[id] = stream;
    return true;
  }
  /// Before the stream is destroyed, after which another one may get its number.
  void forget(gpupool_stream_t id) noexcept {
    const std::lock_guard lock(mutex_);
    streams_.erase(id);
  }

 private:
  /// Nobody is inside, and nobody will be, but late frees.
  void end() noexcept {
    const std::lock_guard lock(mutex_);
    if (is_default_) return;
    is_ended_ = true;
    status_ = gpupool_destroy(handle_);
    handler_->drop();
  }

  gpupool_t* const handle_;
  const gpupool_backend_t backend_;
  const bool is_default_;
  const std::shared_ptr<HandlerSlot> handler_;
  Gate gate_;
  std::mutex mutex_;
  std::map<gpupool_stream_t, std::weak_ptr<OwnedStream>> streams_;
  bool is_ended_ = false;
  gpupool_status_t status_ = GPUPOOL_SUCCESS;  // of destroying
};

/// A stream that is destroyed when it is closed and the last call and the last live block have left it, or
/// when nobody refers to it any more.
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
  /// Of an open stream, or for those that are inside.
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
  /// For who is inside already, and may have company after the close as well.
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

  /// Where work on one of its live blocks is queued. A pool that is closed leaves its blocks usable; who
  /// closes the stream itself has said that there is no more work.
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
    // Both at once, so that no stream is remembered by a closed pool.
    const std::lock_guard lock(mutex_);
    closed = gate_.close();
    if (closed == Gate::Close::kAlready) return;
    for (const auto& [id, stream] : streams_) {
      if (auto owner = stream.lock()) streams.push_back(std::move(owner));
    }
  }
  // A stream is inside the pool, so that the last of them may be who ends it.
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

/// A stream while a call uses it: one of ours is not destroyed meanwhile.
class StreamUse {
 public:
  explicit StreamUse(const StreamArgument& stream) : stream_(stream) {
    if (stream_.owner == nullptr || stream_.owner->try_enter()) return;
    // The caller came into the pool; a pool that closes meanwhile takes its streams along.
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
                                             uint64_t timeout_nanoseconds) {
  gpupool_sleep_options_t options{};
  options.struct_size = sizeof options;
  options.mode = mode;
  options.flags = flags;
  options.fill = fill;
  options.timeout_ns = timeout_nanoseconds;
  return options;
}

inline gpupool_sleep_result_t no_result() {
  gpupool_sleep_result_t result{};
  result.struct_size = sizeof result;
  return result;
}
#endif

}  // namespace binding
