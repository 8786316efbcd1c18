// SPDX-License-Identifier: Apache-2.0
// What a Pool, its Streams and its Blocks share, so that collectors may drop them in any order.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "failure.hpp"

namespace binding {

/// A function of the language that is asked before a malloc fails.
class OomHandler {
 public:
  virtual ~OomHandler() = default;
  /// Returns true to have the malloc tried again. On the thread of the malloc, which may be one that the
  /// language does not know: then the answer is false. What the function throws is kept until the malloc has
  /// failed, and is thrown by it.
  virtual bool ask(uint64_t size, uint32_t attempt) noexcept = 0;
};

class OwnedStream;

/// A pool's handle with what must go before it. Owns the handle, except that of a default pool.
class Core {
 public:
  Core(gpupool_t* handle, bool is_owned) : handle_(handle), is_owned_(is_owned) {}
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core() { (void)destroy(); }

  /// The core of a default pool is for ever, because other languages may ask its handler at any time.
  static std::shared_ptr<Core> of_default(gpupool_t* handle) {
    static auto& cores = *new std::map<gpupool_t*, std::shared_ptr<Core>>;
    static auto& mutex = *new std::mutex;
    const std::lock_guard lock(mutex);
    std::shared_ptr<Core>& core = cores[handle];
    if (!core) core = std::make_shared<Core>(handle, false);
    return core;
  }

  gpupool_t* handle() const noexcept { return handle_; }

  gpupool_stream_t create_stream() {
    const std::lock_guard lock(mutex_);
    if (is_destroyed_) refuse("the pool is closed");
    gpupool_stream_t stream = 0;
    check(gpupool_stream_create(handle_, &stream));
    streams_[stream];
    return stream;
  }

  /// Success if the pool has taken the stream with it.
  gpupool_status_t destroy_stream(gpupool_stream_t stream) {
    const std::lock_guard lock(mutex_);
    return streams_.erase(stream) == 0 ? GPUPOOL_SUCCESS : gpupool_stream_destroy(handle_, stream);
  }

  void remember(const std::shared_ptr<OwnedStream>& stream, gpupool_stream_t id) {
    const std::lock_guard lock(mutex_);
    streams_[id] = stream;
  }

  /// The owner of a stream, for those that use it; null if it is none of this pool's.
  std::shared_ptr<OwnedStream> owner_of(gpupool_stream_t stream) {
    if (stream == 0) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(stream);
    return found == streams_.end() ? nullptr : found->second.lock();
  }

  /// The handle may still be used: the library refuses it, but accepts the frees of live blocks.
  void close() {
    if (handlers_at_work_ != 0) refuse("a pool cannot be closed by its own out-of-memory handler");
    check(destroy());
  }

  void set_oom_handler(std::unique_ptr<OomHandler> handler) {
    const bool is_set = handler != nullptr;
    set_handler(std::move(handler));
    check(gpupool_set_oom_handler(handle_, is_set ? ask : nullptr, this));
  }

 private:
  /// The streams first: without the pool nothing could destroy them.
  gpupool_status_t destroy() {
    const std::lock_guard lock(mutex_);
    if (is_destroyed_ || !is_owned_) return GPUPOOL_SUCCESS;
    is_destroyed_ = true;
    for (const auto& stream : streams_) (void)gpupool_stream_destroy(handle_, stream.first);
    streams_.clear();
    const gpupool_status_t status = gpupool_destroy(handle_);
    set_handler(nullptr);
    return status;
  }

  void set_handler(std::shared_ptr<OomHandler> handler) {
    const std::lock_guard lock(handler_mutex_);
    handler_.swap(handler);
  }

  static int32_t ask(void* user, gpupool_t* /*pool*/, uint64_t size, uint32_t attempt) noexcept {
    auto* const core = static_cast<Core*>(user);
    std::shared_ptr<OomHandler> handler;
    {
      const std::lock_guard lock(core->handler_mutex_);
      handler = core->handler_;
    }
    if (!handler) return 0;
    ++core->handlers_at_work_;
    const bool is_worth_another_try = handler->ask(size, attempt);
    --core->handlers_at_work_;
    return is_worth_another_try ? 1 : 0;
  }

  gpupool_t* const handle_;
  const bool is_owned_;
  std::atomic<int> handlers_at_work_{0};
  std::mutex handler_mutex_;
  std::shared_ptr<OomHandler> handler_;
  std::mutex mutex_;
  std::map<gpupool_stream_t, std::weak_ptr<OwnedStream>> streams_;
  bool is_destroyed_ = false;
};

/// A stream that goes when nobody refers to it any more, or when it is closed.
class OwnedStream {
 public:
  explicit OwnedStream(std::shared_ptr<Core> core) : core_(std::move(core)), id_(core_->create_stream()) {}
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  ~OwnedStream() { (void)destroy(); }

  gpupool_t* pool() const noexcept { return core_->handle(); }
  bool is_closed() const noexcept { return is_closed_; }
  gpupool_stream_t id() const {
    if (is_closed_) refuse("the stream is closed");
    return id_;
  }
  gpupool_status_t destroy() {
    return is_closed_.exchange(true) ? GPUPOOL_SUCCESS : core_->destroy_stream(id_);
  }

 private:
  std::shared_ptr<Core> core_;
  gpupool_stream_t id_;
  std::atomic<bool> is_closed_{false};
};

}  // namespace binding
