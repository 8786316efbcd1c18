// SPDX-License-Identifier: Apache-2.0
#include "pool/process/registry.hpp"

#include <cinttypes>

#include "base/log.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"
#include "pool/pool.hpp"
#include "pool/sleep/wake_queue.hpp"
#include "share/member.hpp"
#include "watch/control.hpp"

namespace gpupool::internal {
namespace {

constinit std::atomic<void (*)() noexcept> after_fork_hook{nullptr};

void close_cache(uint64_t pool_id, ThreadCache* cache) noexcept {
  if (const auto pool = Registry::instance().find(pool_id)) pool->close_cache(cache);
}

}  // namespace

// Handles and the lock outlive every static object of every program.
static constinit Lasting<Registry> the_registry;

void set_after_fork_hook(void (*hook)() noexcept) noexcept {
  after_fork_hook.store(hook);
}

Registry& Registry::instance() noexcept {
  return the_registry.value;
}

void Registry::watch_fork() noexcept {
  os::watch_fork(before_fork, after_fork_in_parent, after_fork_in_child);
}

gpupool_t* Registry::add(std::shared_ptr<Pool> pool) {
  auto handle = std::make_unique<gpupool_t>();
  handle->copy = copy_mark();
  handle->pool = pool.get();
  handle->owner = std::move(pool);
  ThreadSlots::set_return(close_cache);
  const std::lock_guard lock(mutex_);
  if (handles_ == nullptr) handles_ = std::make_unique<std::vector<gpupool_t*>>();
  handles_->push_back(handle.get());
  handle->id = handles_->size();
  live_.push_back(handle.get());
  handle->pool->set_handle(handle.get());
  handle->pool->display().show_in(shown::open_slot());
  return handle.release();
}

void Registry::end_if_empty(gpupool_t& handle) {
  std::shared_ptr<Pool> pool = find(handle.id);
  if (pool == nullptr) return;
  if (!pool->try_to_end()) {
    some_left_.store(true, std::memory_order_relaxed);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    handle.life.store(Life::gone, std::memory_order_release);
    handle.pool = nullptr;
    live_.remove(&handle);
    wire::stats::Slot* const slot = pool->display().slot();
    pool->display().show_in(nullptr);
    shown::close_slot(slot);
    handle.owner.reset();
  }
  pool.reset();
  if (log_enabled(GPUPOOL_LOG_INFO)) log_line(GPUPOOL_LOG_INFO, "pool %" PRIu64 " has ended", handle.id);
}

void Registry::end_those_left() {
  if (!some_left_.exchange(false, std::memory_order_relaxed)) return;
  const KeepError keep_error;
  for (gpupool_t* left = next_left(0); left != nullptr; left = next_left(left->id)) end_if_empty(*left);
}

/// The first destroyed pool behind a number that is not gone; null: there is none.
gpupool_t* Registry::next_left(uint64_t id) noexcept {
  gpupool_t* next = nullptr;
  const std::lock_guard lock(mutex_);
  for_each_live([&](gpupool_t& handle) {
    const bool is_left = handle.life.load(std::memory_order_acquire) == Life::destroyed;
    if (is_left && handle.id > id && (next == nullptr || handle.id < next->id)) next = &handle;
  });
  return next;
}

std::shared_ptr<Pool> Registry::find(uint64_t id) noexcept {
  const std::lock_guard lock(mutex_);
  return handles_ != nullptr && id - 1 < handles_->size() ? (*handles_)[id - 1]->owner : nullptr;
}

std::vector<std::shared_ptr<Pool>> Registry::all() {
  std::vector<std::shared_ptr<Pool>> pools;
  const std::lock_guard lock(mutex_);
  pools.reserve(live_.count());
  for_each_live([&](const gpupool_t& handle) { pools.push_back(handle.owner); });
  return pools;
}

void Registry::mark_exiting() noexcept {
  const std::lock_guard lock(mutex_);
  for_each_live([](gpupool_t& handle) {
    if (handle.owner->device().info().ends_before_process) {
      handle.life.store(Life::exiting, std::memory_order_release);
    }
  });
}

void Registry::find_lost() {
  for (const std::shared_ptr<Pool>& pool : all()) {
    if (!pool->is_usable() || !pool->device().is_lost()) continue;
    Life live = Life::live;
    if (!pool->handle()->life.compare_exchange_strong(live, Life::lost)) continue;
    log_line(GPUPOOL_LOG_ERROR, "pool %" PRIu64 " has lost its memory: its context was reset or destroyed",
             pool->id());
  }
}

// Every lock of the library is taken around fork, from when the library is loaded, so that the child finds
// whole records behind open locks: it can read statistics of the pools it inherited, and is refused
// everything else.

void Registry::before_fork() noexcept {
  Registry& registry = instance();
  Recorder::lock_changes();
  registry.mutex_.lock();
  registry.for_each_live([](gpupool_t& handle) { handle.owner->lock_all(); });
  share::members_mutex.lock();
  lock_log();
  lock_tags();
  lock_stacks();
  Recorder::lock();
  control::lock();
}

void Registry::after_fork_in_parent() noexcept {
  Registry& registry = instance();
  control::unlock();
  Recorder::unlock();
  unlock_stacks();
  unlock_tags();
  unlock_log();
  share::members_mutex.unlock();
  registry.for_each_live([](gpupool_t& handle) { handle.owner->unlock_all(); });
  registry.mutex_.unlock();
  Recorder::unlock_changes();
}

void Registry::after_fork_in_child() noexcept {
  Registry& registry = instance();
  os::forget_thread_id();
  control::forget();
  control::unlock();
  Recorder::unlock();
  unlock_stacks();
  unlock_tags();
  unlock_log();
  share::forget_members();
  share::members_mutex.unlock();
  ThreadSlots::forget_all();
  WakePlace::forget_all();
  Recorder::forget();
  shown::forget_page();
  registry.for_each_live([](gpupool_t& handle) {
    handle.life.store(Life::forked, std::memory_order_release);
    handle.owner->display().forget_slot();
    handle.owner->forget_handoffs();
    handle.owner->unlock_all();
  });
  if (auto hook = after_fork_hook.load()) hook();
  registry.mutex_.unlock();
  Recorder::unlock_changes();
}

}  // namespace gpupool::internal
