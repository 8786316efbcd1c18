// SPDX-License-Identifier: Apache-2.0
// How a pool begins and ends, and its calls but malloc and free: each takes the lock and asks a room.
#include <algorithm>
#include <cinttypes>
#include <utility>

#include "base/defer.hpp"
#include "pool/handle.hpp"
#include "pool/memory/blocks.hpp"
#include "pool/memory/chunk_source.hpp"
#include "pool/memory/segment_source.hpp"
#include "pool/observe/audit.hpp"
#include "pool/observe/explanation.hpp"
#include "pool/observe/holders.hpp"
#include "pool/observe/snapshot.hpp"
#include "pool/pool.hpp"

namespace gpupool::internal {
namespace {

std::unique_ptr<Source> make_source(PoolState& pool) {
  if (pool.options.vmm) return std::make_unique<ChunkSource>(pool);
  return std::make_unique<SegmentSource>(pool);
}

}  // namespace

Pool::Pool(std::unique_ptr<Device> device, const Options& options, std::unique_ptr<Helpers> helpers)
    : Pool(helpers, std::shared_ptr<Device>(std::move(device)), options) {}

Pool::Pool(Pool& parent, std::unique_ptr<Helpers> helpers)
    : Pool(helpers, PoolState::Child{}, parent.state_) {}

template <typename... Arguments>
Pool::Pool(std::unique_ptr<Helpers>& helpers, Arguments&&... arguments)
    : state_(std::forward<Arguments>(arguments)...),
      helpers_(std::move(helpers)),
      source_(make_source(state_)),
      debugger_(state_.options.debug.any()
                    ? std::make_unique<Debugger>(state_, slow_malloc_, slow_free_, reclaimer_, watcher_)
                    : nullptr),
      sleeper_(state_, {*source_, reclaimer_, capacity_, exports_, protections_, *helpers_, oom_handler_,
                        debugger_.get()}) {
  reclaimer_.set_keepers(debugger_.get(), &sleeper_.keeper());
  if (state_.options.debug.slows()) slow_malloc_.keep_no_lanes();
  state_.onlooker = &display_;
}

/// Nothing is left to release: try_to_end() did that, or the driver has gone with the memory.
Pool::~Pool() = default;

Status Pool::check(uint64_t& count, std::string& text) {
  count = 0;
  return debugger_ != nullptr ? debugger_->check(count, text) : kSuccess;
}

/// After fork the driver must not be asked: statistics stay as they were.
bool Pool::is_usable() const noexcept {
  return state_.where != nullptr && state_.life() != Life::forked;
}

bool Pool::is_live() const noexcept {
  return state_.life() == Life::live;
}

void Pool::share(std::unique_ptr<GroupLimit> group) noexcept {
  state_.group.limit = group.get();
  state_.ledger.budget().shared()->join(std::move(group));
}

void Pool::set_handle(gpupool_t* handle) noexcept {
  state_.handle = handle;
  state_.id = handle->id;
  state_.where = &handle->life;
}

// ---- the other calls

Status Pool::record_stream(Address address, Stream stream) {
  StreamUser user(stream);
  if (const Status status = check_stream(user); status != kSuccess) return status;
  if (address == 0) return kSuccess;
  const Lock lock = enter();
  return slow_free_.record_stream(address, user);
}

Status Pool::export_block(Address address, std::string& handle) {
  Lock lock = enter();
  if (const Status status = state_.gate.admit(lock); status != kSuccess) return status;
  if (const Status status = sleeper_.check_awake(address); status != kSuccess) return status;
  return exports_.add(address, handle);
}

Status Pool::retire_stream(StreamUser user, bool for_good) {
  if (const Status status = check_stream(user); status != kSuccess) return status;
  Lock lock = enter();
  return reclaimer_.retire_stream(lock, user, for_good);
}

Status Pool::set_oom_handler(gpupool_oom_fn_t fn, void* user) {
  const Lock lock = state_.look();
  oom_handler_.set(fn, user);
  return kSuccess;
}

Status Pool::block_info(Address address, gpupool_block_t& block) {
  const Lock lock = state_.look();
  return internal::block_info(state_, address, block);
}

Status Pool::set_limit(uint64_t asked, const Ceiling& ceiling) {
  const Status status = capacity_.set_limit(asked, ceiling);
  state_.show_again();
  return status;
}

Status Pool::request_from_group(uint64_t bytes, uint64_t wait_ns) {
  Lock lock = enter();
  return internal::request_from_group(lock, state_, bytes, wait_ns);
}

Status Pool::synchronize() {
  look_for_idle_pools(state_.device.raw());
  Lock lock = enter();
  const Status status = reclaimer_.wait_for_streams(lock, "synchronize", Reclaimer::Extent::everything);
  reclaimer_.settle_all_pending(lock);
  source_->settle();
  return status;
}

bool Pool::release_if_idle(uint64_t most) {
  {
    const Lock lock = state_.look();
    if (!idle_.is_due()) return false;
  }
  if (capacity_.release_unasked(most, "idle") != 0) return true;
  idle_.begin_anew();
  return false;
}

/// Its user waits for a stream, so what was freed there by now has passed.
Status Pool::synchronize_stream(Stream stream) {
  StreamUser user(stream);
  if (const Status status = check_stream(user); status != kSuccess) return status;
  StreamOrder* order = nullptr;
  uint64_t epoch = 0;
  {
    const Lock lock = state_.look();
    order = state_.streams.order_of(user);
    if (order != nullptr) epoch = order->close_epoch();
  }
  if (const Status status = state_.device.raw().synchronize_stream(user.stream()); status != kSuccess)
    return status;
  if (order == nullptr) return kSuccess;
  const Lock lock = state_.look();
  if (order->stream() == user.stream() && !order->is_retired()) order->pass(epoch);
  return kSuccess;
}

Status Pool::capture_id(Stream stream, uint64_t& capture) {
  StreamUser user(stream);
  if (const Status status = check_stream(user); status != kSuccess) return status;
  uint64_t found = 0;
  if (const Status status = state_.device.capture_id(user, found); status != kSuccess) return status;
  capture = found == kCaptureElsewhere ? 0 : found;
  return kSuccess;
}

Status Pool::release_capture(uint64_t capture) {
  if (capture == 0) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "0 is the number of no capture");
  const Lock lock = enter();
  if (const Status status = state_.captures.release(capture); status != kSuccess) return status;
  source_->lower();
  state_.log.say("capture %" PRIu64 " is released", capture);
  return kSuccess;
}

int Pool::explain(Address address, std::string& text) {
  Explanation explanation(address);
  {
    const Lock lock = enter();
    explanation.find(state_.space, debugger_.get());
  }
  return explanation.tell(state_.id, state_.device.info(), sampler_, text);
}

void Pool::stats(gpupool_stats_t& stats) {
  if (is_live()) look_for_idle_pools(state_.device.raw());
  const Lock lock = enter();
  if (is_usable()) reclaimer_.settle_pending();
  statistics_.read(stats);
}

void Pool::snapshot(std::vector<gpupool_segment_t>& segments, std::vector<gpupool_block_t>& blocks) {
  Snapshot snapshot(state_.space, state_.streams, state_.device.info().ordinal);
  {
    Lock lock = enter();
    while (snapshot.step()) lock.give_way();
  }
  segments = snapshot.segments();
  blocks = snapshot.blocks();
}

std::string Pool::report() {
  constexpr size_t kNamed = 10;
  const std::string most = largest_holders(sampler_, kNamed);
  const Lock lock = enter();
  return report_.text() + (most.empty() ? "" : "\n" + most);
}

Status Pool::validate() {
  const Lock lock = enter();
  return Audit(state_, exports_, sleeper_).run();
}

// ---- the end

/// Lets a destroyed pool end. False while blocks are live, while a call on it is inside a function of the
/// user's, for all threads but one, and while a capturing stream or a failing driver keeps memory from going;
/// after that it may be tried again. Until then the pool touches no stream that it could let go of, since its
/// owner may destroy them.
bool Pool::try_to_end() {
  const interrupts::Off off;
  Lock lock = enter();
  if (state_.mutex.callbacks() != 0) return false;
  sleeper_.end_allowance(lock);
  reclaimer_.drain_all(lock);
  if (is_ending_ || state_.caches.live().blocks != 0) return false;
  is_ending_ = true;
  // No graph of this pool runs any more.
  state_.captures.end();
  sleeper_.end(lock);
  if (debugger_ != nullptr) debugger_->end(lock);
  exports_.end();
  (void)reclaimer_.settle_exports(true);
  imports_.end(lock);
  source_->end(lock);
  // Nobody comes back to a pool that is gone, so what the driver refuses is tried twice more here. Once the
  // driver itself has gone, its memory goes with the process.
  for (int tries = 0; tries < 3 && state_.ledger.used() != 0; ++tries) {
    (void)reclaimer_.wait_for_streams(lock, "the pool's end", Reclaimer::Extent::freed);
    reclaimer_.settle_all_pending(lock);
    source_->end(lock);
  }
  is_ending_ = (state_.ledger.used() == 0 && imports_.empty()) || !is_usable();
  if (!is_ending_) state_.streams.retire_all();
  return is_ending_;
}

void Pool::lock_all() noexcept {
  state_.mutex.lock();
  state_.caches.lock_all();
  sampler_.lock();
}

void Pool::unlock_all() noexcept {
  sampler_.unlock();
  state_.caches.unlock_all();
  state_.mutex.unlock();
}

}  // namespace gpupool::internal
