// SPDX-License-Identifier: Apache-2.0
// The operations on streams, each with the result that the model predicts.
#include <algorithm>

#include "fuzz/world.hpp"

namespace gpupool::fuzz {
namespace {

constexpr size_t kMaxStreams = 10;

}  // namespace

/// Waits on the host for a stream; false if that cannot be done now.
bool World::wait_for(const PoolModel& pool, gpupool_stream_t stream) {
  if (is_capturing(stream) || pool.destroyed) return false;
  const gpupool_status_t status = gpupool_stream_synchronize(pool.handle, stream);
  if (scripted_ && status != GPUPOOL_SUCCESS) return false;
  expect(status, {GPUPOOL_SUCCESS}, "stream_synchronize");
  return true;
}

/// Tells the pool of a use by another stream, now or by what the free will name.
bool World::may_use(PoolModel& pool, size_t number, gpupool_ptr_t address, gpupool_stream_t stream,
                    bool record) {
  BlockModel& block = pool.live.at(address);
  if ((stream == block.home && !block.orphan) || block.recorded.contains(stream)) return true;
  if (!record && stream != block.home && block.must_name.value_or(stream) == stream) {
    block.must_name = stream;
    return true;
  }
  if (pool.destroyed) return false;
  record_stream(number, address, stream);
  return block.recorded.contains(stream);
}

void World::use(size_t number, gpupool_ptr_t address, gpupool_stream_t stream, uint64_t nanoseconds,
                bool record) {
  trace("use(%zu, 0x%llx, 0x%llx, %llu, %d)", number, Long{address}, Long{stream}, Long{nanoseconds}, record);
  PoolModel& pool = at(number);
  BlockModel& block = pool.live.at(address);
  if (pool.upstream != nullptr) return;  // its addresses mean nothing to the device
  if (!is_capturing(stream)) {
    if (!may_use(pool, number, address, stream, record)) return;
    if (block.last_user && *block.last_user != stream && !wait_for(pool, *block.last_user)) return;
    block.last_user = stream;
  }
  expect(gpupool_sim_work(kDevice, stream, address, block.requested - apart_, nanoseconds), {GPUPOOL_SUCCESS},
         "work on a live block");
  after();
}

void World::record_stream(size_t number, gpupool_ptr_t address, gpupool_stream_t stream) {
  trace("record_stream(%zu, 0x%llx, 0x%llx)", number, Long{address}, Long{stream});
  PoolModel& pool = at(number);
  BlockModel& block = pool.live.at(address);
  const gpupool_status_t status = gpupool_record_stream(pool.handle, address, stream);
  if (is_destroyed(pool, status)) return;
  if (pool.capture_aware && is_scripted(status)) return after();
  expect(status, {GPUPOOL_SUCCESS}, "record_stream");
  block.recorded.insert(stream);
  after();
}

/// Whether a pool that was told that a stream ends, or may end, took that in.
bool World::lets_go(gpupool_stream_t stream, gpupool_status_t status, const char* what) const {
  if (is_scripted(status) || (is_capturing(stream) && status == GPUPOOL_ERROR_INVALID_ARGUMENT)) return false;
  expect(status, {GPUPOOL_SUCCESS}, what);
  return true;
}

/// The pool looks at the stream's later work only where a call names it.
void World::forget_stream(PoolModel& pool, gpupool_stream_t stream) {
  for (auto& [address, block] : pool.live) {
    block.orphan = block.orphan || block.home == stream;
    block.recorded.erase(stream);
  }
}

void World::release_stream(size_t number, gpupool_stream_t stream) {
  trace("release_stream(%zu, 0x%llx)", number, Long{stream});
  PoolModel& pool = at(number);
  const gpupool_status_t status = gpupool_release_stream(pool.handle, stream);
  if (is_destroyed(pool, status)) return;
  if (lets_go(stream, status, "release_stream")) forget_stream(pool, stream);
  after();
}

void World::park_stream(size_t number, gpupool_stream_t stream) {
  trace("park_stream(%zu, 0x%llx)", number, Long{stream});
  PoolModel& pool = at(number);
  const gpupool_status_t status = gpupool_park_stream(pool.handle, stream);
  if (is_destroyed(pool, status)) return;
  if (lets_go(stream, status, "park_stream")) forget_stream(pool, stream);
  after();
}

void World::work(gpupool_stream_t stream, uint64_t nanoseconds) {
  trace("work(0x%llx, %llu)", Long{stream}, Long{nanoseconds});
  expect(gpupool_sim_work(kDevice, stream, 0, 0, nanoseconds), {GPUPOOL_SUCCESS}, "work");
  after();
}

void World::advance(uint64_t nanoseconds) {
  trace("advance(%llu)", Long{nanoseconds});
  expect(gpupool_sim_advance(kDevice, nanoseconds), {GPUPOOL_SUCCESS}, "advance");
  after();
}

void World::capture(gpupool_stream_t stream) {
  trace("capture(0x%llx)", Long{stream});
  if (stream == 0) return;
  const bool begin = !is_capturing(stream);
  expect(gpupool_sim_capture(kDevice, stream, begin ? 1 : 0), {GPUPOOL_SUCCESS}, "capture");
  if (begin) {
    capturing_.insert(stream);
    captured_ = true;
  } else {
    capturing_.erase(stream);
  }
  after();
}

void World::stream_create() {
  if (pools_.empty() || pools_[0]->destroyed || streams_.size() == kMaxStreams) return;
  gpupool_stream_t stream = 0;
  expect(gpupool_stream_create(pools_[0]->handle, &stream), {GPUPOOL_SUCCESS}, "stream_create");
  streams_.push_back(stream);
  created_.insert(stream);
  after();
}

/// Destroyed pools that still have blocks cannot be told, so that then no stream is destroyed.
void World::stream_destroy(gpupool_stream_t stream) {
  trace("stream_destroy(0x%llx)", Long{stream});
  const bool all_live =
      std::all_of(pools_.begin(), pools_.end(), [](const auto& pool) { return !pool->destroyed; });
  if (!created_.contains(stream) || is_capturing(stream) || pools_.empty() || !all_live || scripted_) return;
  // A pool may be told that a stream ends, or that it may end at any time: then nothing may name it again.
  for (size_t i = 0; i < pools_.size(); ++i) {
    const auto& live = pools_[i]->live;
    const bool is_named =
        std::any_of(live.begin(), live.end(), [&](const auto& each) { return each.second.home == stream; });
    if (is_named) {
      release_stream(i, stream);
    } else {
      park_stream(i, stream);
    }
  }
  expect(gpupool_stream_destroy(pools_[0]->handle, stream), {GPUPOOL_SUCCESS}, "stream_destroy");
  std::erase(streams_, stream);
  created_.erase(stream);
  for (const auto& pool : pools_) {
    for (auto& [address, block] : pool->live) {
      if (block.last_user == stream) block.last_user.reset();
      if (block.must_name == stream) block.must_name.reset();
    }
  }
  after();
}

void World::synchronize(size_t number) {
  trace("synchronize(%zu)", number);
  PoolModel& pool = at(number);
  const gpupool_status_t status = gpupool_synchronize(pool.handle);
  if (is_destroyed(pool, status)) return;
  if (!is_scripted(status)) expect(status, {GPUPOOL_SUCCESS}, "synchronize");
  after();
}

}  // namespace gpupool::fuzz
