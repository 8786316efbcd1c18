// SPDX-License-Identifier: Apache-2.0
// The operations on pools and blocks, each with the result that the model predicts.
#include "fuzz/world.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gpupool::fuzz {
namespace {

constexpr uint64_t kSizeMax = uint64_t{1} << 46;

int32_t upstream_malloc(void* user, uint64_t size, gpupool_stream_t, gpupool_ptr_t* out) {
  auto& model = *static_cast<UpstreamModel*>(user);
  ++model.calls;
  if (model.refuse_every != 0 && model.calls % model.refuse_every == 0) return 7;
  const uint64_t address = model.next + (model.crooked && model.calls % 4 == 0 ? 256 : 0);
  model.next += (size + 4 * kMiB) / kMiB * kMiB;
  model.segments[address] = size;
  *out = address;
  return 0;
}

void upstream_free(void* user, gpupool_ptr_t address, uint64_t size, gpupool_stream_t) {
  auto& model = *static_cast<UpstreamModel*>(user);
  const auto found = model.segments.find(address);
  if (found == model.segments.end() || found->second != size) {
    model.good = false;
  } else {
    model.segments.erase(found);
  }
}

void change(Tracks& tracks, uint64_t requested, uint64_t allocated) {
  tracks.requested.add(requested);
  tracks.allocated.add(allocated);
  tracks.blocks.add(1);
}

void change_back(Tracks& tracks, uint64_t requested, uint64_t allocated) {
  tracks.requested.current -= requested;
  tracks.allocated.current -= allocated;
  --tracks.blocks.current;
}

Tracks& group_of(PoolModel& pool, uint64_t allocated) {
  return allocated <= kMiB ? pool.small : pool.large;
}

}  // namespace

/// Asked before a malloc fails: frees a block of the pool, up to three times.
int32_t on_shortage(void* user, gpupool_t* handle, uint64_t, uint32_t attempt) {
  auto& world = *static_cast<World*>(user);
  for (size_t i = 0; i < world.pools_.size(); ++i) {
    PoolModel& pool = world.at(i);
    if (pool.handle != handle || pool.live.empty() || attempt > 3) continue;
    const auto& [address, block] = *pool.live.begin();
    try {
      world.free(i, address, block.must_name.value_or(block.home));
    } catch (const Broken& broken) {
      world.broken_in_callback_ = broken.what();
      return 0;
    }
    return 1;
  }
  return 0;
}

World::World(const Setup& setup) : watched_(setup.watched), threads_(setup.threads) {
  gpupool_sim_config_t config{};
  config.struct_size = sizeof config;
  keeps_data_ = std::strstr(setup.debug, "poison") != nullptr;
  config.data = keeps_data_ ? 1 : 2;
  config.capacity_bytes = setup.capacity;
  config.price_scale = setup.price_scale;
  expect(gpupool_set_debug(setup.debug), {GPUPOOL_SUCCESS}, "set_debug");
  if (setup.debug[0] != 0) apart_ = 512;
  expect(gpupool_sim_configure(kDevice, &config), {GPUPOOL_SUCCESS}, "sim_configure");
  capacity_ = free_memory();
  streams_ = {0, 3, 4, 7, GPUPOOL_STREAM_UNKNOWN - 1};
}

/// After a broken promise: lets go of the device as well as that goes.
World::~World() {
  (void)gpupool_sim_script(kDevice, "");
  for (const gpupool_stream_t stream : capturing_) (void)gpupool_sim_capture(kDevice, stream, 0);
  for (const auto& pool : pools_) {
    for (const auto& [address, block] : pool->live) {
      (void)gpupool_free(pool->handle, address, GPUPOOL_STREAM_UNKNOWN);
    }
    if (!pool->destroyed) (void)gpupool_destroy(pool->handle);
  }
}

gpupool_ptr_t World::live_block(size_t pool, size_t number) const {
  return std::next(pools_[pool]->live.begin(), static_cast<ptrdiff_t>(number))->first;
}

// ---- pools

bool World::create(gpupool_config_t config, UpstreamModel upstream) {
  trace("create: mode %d, kind %d, flags %u, limit %llu, fraction %g, slack %g, max_chunk %llu", config.mode,
        config.kind, config.flags, Long{config.limit_bytes}, config.fraction, config.slack,
        Long{config.max_chunk_bytes});
  auto pool = std::make_unique<PoolModel>();
  // There is nothing at an upstream's addresses here.
  if (keeps_data_ && config.mode == GPUPOOL_MODE_UPSTREAM) config.mode = GPUPOOL_MODE_AUTO;
  // Its debug mode allocates.
  if (keeps_data_) expect(gpupool_sim_script(kDevice, ""), {GPUPOOL_SUCCESS}, "script");
  config.device = kDevice;
  config.backend = GPUPOOL_BACKEND_SIM;
  if (config.mode == GPUPOOL_MODE_UPSTREAM) {
    // Above the addresses of simulated devices.
    upstream.next = (uint64_t{1} << 47) + (++upstreams_ << 40);
    pool->upstream = std::make_unique<UpstreamModel>(std::move(upstream));
    config.upstream_malloc = upstream_malloc;
    config.upstream_free = upstream_free;
    config.upstream_user = pool->upstream.get();
  }
  expect(gpupool_create(&config, &pool->handle), {GPUPOOL_SUCCESS}, "create");
  pool->vmm = config.mode == GPUPOOL_MODE_AUTO || config.mode == GPUPOOL_MODE_VMM;
  pool->capture_aware = config.flags == GPUPOOL_FLAG_CAPTURE_AWARE;
  pool->limit = config.limit_bytes;
  if (config.fraction > 0) {
    const auto share = static_cast<uint64_t>(config.fraction * static_cast<double>(capacity_));
    pool->limit = pool->limit == 0 ? share : std::min(pool->limit, share);
  }
  pools_.push_back(std::move(pool));
  after();
  return true;
}

void World::destroy(size_t number) {
  trace("destroy(%zu)", number);
  PoolModel& pool = at(number);
  const gpupool_status_t status = gpupool_destroy(pool.handle);
  if (is_destroyed(pool, status)) return;
  expect(status, {GPUPOOL_SUCCESS}, "destroy");
  pool.destroyed = true;
  expect(gpupool_destroy(pool.handle), {GPUPOOL_ERROR_INVALID_ARGUMENT}, "second destroy");
  drop_gone_pools();
  after();
}

/// A destroyed pool refuses everything but frees.
bool World::is_destroyed(const PoolModel& pool, gpupool_status_t status) const {
  if (!pool.destroyed) return false;
  expect(status, {GPUPOOL_ERROR_INVALID_ARGUMENT}, "a call on a destroyed pool");
  return true;
}

void World::drop_gone_pools() {
  std::erase_if(pools_, [this](const auto& pool) {
    if (!pool->destroyed || !pool->live.empty()) return false;
    // A failure or a capture may keep it from going, until somebody needs what it has.
    const gpupool_status_t status = gpupool_free(pool->handle, 512, 0);
    if (is_calm()) {
      expect(status, {GPUPOOL_ERROR_INVALID_ARGUMENT}, "free in a pool that is gone");
    } else {
      expect(status, {GPUPOOL_ERROR_INVALID_ARGUMENT, GPUPOOL_ERROR_UNKNOWN_POINTER},
             "free in a pool that ends");
      leaked_ = true;
      // It may still call its upstream, whenever it ends.
      static std::vector<std::unique_ptr<UpstreamModel>> upstreams;
      if (pool->upstream != nullptr) upstreams.push_back(std::move(pool->upstream));
      return true;
    }
    if (pool->upstream != nullptr && !(pool->upstream->good && pool->upstream->segments.empty())) {
      broken("a pool that is gone kept %zu segments of its upstream, or gave wrong ones back",
             pool->upstream->segments.size());
    }
    return true;
  });
}

// ---- blocks

gpupool_ptr_t World::malloc(size_t number, uint64_t size, uint64_t alignment, gpupool_stream_t stream) {
  PoolModel& pool = at(number);
  gpupool_ptr_t address = 1;
  const gpupool_status_t status = gpupool_malloc_aligned(pool.handle, size, alignment, stream, &address);
  trace("0x%llx = malloc(%zu, %llu, %llu, 0x%llx): %s", Long{address}, number, Long{size}, Long{alignment},
        Long{stream}, gpupool_status_name(status));
  if (broken_in_callback_) broken("in the out-of-memory handler: %s", broken_in_callback_->c_str());
  if (status != GPUPOOL_SUCCESS && address != 0) broken("a failed malloc wrote a pointer");
  const bool valid = alignment <= 2 * kMiB;
  if (is_destroyed(pool, status)) return 0;
  if (!valid || (size != 0 && stream == GPUPOOL_STREAM_UNKNOWN)) {
    expect(status, {GPUPOOL_ERROR_INVALID_ARGUMENT}, "malloc of what cannot be");
  } else if (size > kSizeMax) {
    expect(status, {GPUPOOL_ERROR_OUT_OF_MEMORY}, "malloc of more than any device has");
  } else if (size == 0) {
    expect(status, {GPUPOOL_SUCCESS}, "malloc of 0 bytes");
    if (address != 0) broken("malloc of 0 bytes gave 0x%llx", Long{address});
  } else if (status == GPUPOOL_SUCCESS) {
    note_new_block(pool, address, size + apart_, alignment, stream);
  } else {
    check_shortage(pool, status);
    check_nothing_to_be_had(pool, size + apart_, alignment);
  }
  after();
  return address;
}

void World::note_new_block(PoolModel& pool, gpupool_ptr_t address, uint64_t size, uint64_t alignment,
                           gpupool_stream_t stream) {
  const uint64_t allocated = (size + 511) / 512 * 512;
  if (address % std::max<uint64_t>(alignment, 512) != 0) {
    broken("0x%llx is not aligned to %llu", Long{address}, Long{alignment});
  }
  for (const auto& other : pools_) {
    const auto after = other->live.lower_bound(address);
    const bool hits_next = after != other->live.end() && after->first < address + allocated;
    const bool hits_previous = after != other->live.begin() &&
                               std::prev(after)->first + std::prev(after)->second.allocated > address;
    if (hits_next || hits_previous) {
      broken("0x%llx, %llu bytes, overlaps a live block", Long{address}, Long{allocated});
    }
  }
  BlockModel block;
  block.requested = size;
  block.allocated = allocated;
  block.home = stream;
  block.last_user = stream;  // earlier work of the stream may have used this memory
  pool.live.emplace(address, std::move(block));
  ++pool.mallocs;
  change(group_of(pool, allocated), size, allocated);
  change(pool.all, size, allocated);
}

void World::note_freed(PoolModel& pool, gpupool_ptr_t address) {
  const auto found = pool.live.find(address);
  const BlockModel& block = found->second;
  change_back(group_of(pool, block.allocated), block.requested, block.allocated);
  change_back(pool.all, block.requested, block.allocated);
  pool.live.erase(found);
}

void World::free(size_t number, gpupool_ptr_t address, gpupool_stream_t stream) {
  trace("free(%zu, 0x%llx, 0x%llx)", number, Long{address}, Long{stream});
  PoolModel& pool = at(number);
  const BlockModel& block = pool.live.at(address);
  if (block.must_name) stream = *block.must_name;
  const gpupool_status_t status = gpupool_free(pool.handle, address, stream);
  // Only a capture-aware pool must ask the driver, and may be refused the answer.
  if (pool.capture_aware && is_scripted(status)) return after();
  expect(status, {GPUPOOL_SUCCESS}, "free of a live block");
  note_freed(pool, address);
  drop_gone_pools();
  after();
}

void World::free_refused(size_t number, gpupool_ptr_t address, gpupool_stream_t stream) {
  trace("free_refused(%zu, 0x%llx, 0x%llx)", number, Long{address}, Long{stream});
  PoolModel& pool = at(number);
  if (address == 0 || pool.live.contains(address)) return;
  const uint64_t streams = pool.destroyed ? 0 : read_stats(pool).streams;
  const gpupool_status_t status = gpupool_free(pool.handle, address, stream);
  if (!(pool.capture_aware && is_scripted(status))) {
    expect(status, {GPUPOOL_ERROR_UNKNOWN_POINTER}, "free of what is not a live block");
  }
  if (!pool.destroyed && read_stats(pool).streams != streams) broken("a refused free added a stream");
  after();
}

void World::block_info(size_t number, gpupool_ptr_t address) {
  PoolModel& pool = at(number);
  gpupool_block_t info{};
  const gpupool_status_t status = gpupool_block_info(pool.handle, address, &info, sizeof info);
  if (is_destroyed(pool, status)) return;
  auto found = pool.live.upper_bound(address);
  if (found == pool.live.begin() || (--found)->first + found->second.allocated <= address) {
    return expect(status, {GPUPOOL_ERROR_UNKNOWN_POINTER}, "block_info of no live block");
  }
  expect(status, {GPUPOOL_SUCCESS}, "block_info");
  const BlockModel& block = found->second;
  if (info.address != found->first || info.requested_bytes != block.requested ||
      info.allocated_bytes != block.allocated ||
      (info.stream != block.home && !(block.orphan && info.stream == GPUPOOL_STREAM_UNKNOWN)) ||
      info.state != GPUPOOL_BLOCK_LIVE || info.device != kDevice) {
    broken("block_info differs from what was allocated");
  }
}

// ---- keeping memory, and giving it back

void World::empty(size_t number) {
  trace("empty(%zu)", number);
  PoolModel& pool = at(number);
  const uint64_t before = pool.destroyed ? 0 : read_stats(pool).all.reserved_bytes.current;
  uint64_t released = 1;
  const gpupool_status_t status = gpupool_empty(pool.handle, &released);
  if (is_destroyed(pool, status)) return;
  if (!is_scripted(status)) expect(status, {GPUPOOL_SUCCESS}, "empty");
  if (status != GPUPOOL_SUCCESS && released != 0) broken("a failed empty said that it released something");
  if (status == GPUPOOL_SUCCESS && before - released != read_stats(pool).all.reserved_bytes.current)
    broken("empty lied about what it released");
  if (status == GPUPOOL_SUCCESS) check_given_back(pool, 0);
  after();
}

void World::trim(size_t number, uint64_t target) {
  trace("trim(%zu, %llu)", number, Long{target});
  PoolModel& pool = at(number);
  const gpupool_status_t status = gpupool_trim(pool.handle, target, nullptr);
  if (is_destroyed(pool, status)) return;
  if (!is_scripted(status)) expect(status, {GPUPOOL_SUCCESS}, "trim");
  if (status == GPUPOOL_SUCCESS) check_given_back(pool, target);
  after();
}

void World::reserve(size_t number, uint64_t target, gpupool_stream_t stream) {
  trace("reserve(%zu, %llu, 0x%llx)", number, Long{target}, Long{stream});
  PoolModel& pool = at(number);
  const gpupool_status_t status = gpupool_reserve(pool.handle, target, stream);
  if (is_destroyed(pool, status)) return;
  if (target > kSizeMax) {
    expect(status, {GPUPOOL_ERROR_OUT_OF_MEMORY}, "reserve of what no device has");
  } else if (stream == GPUPOOL_STREAM_UNKNOWN) {
    expect(status, {GPUPOOL_ERROR_INVALID_ARGUMENT}, "reserve on no stream");
  } else if (status != GPUPOOL_SUCCESS) {
    check_shortage(pool, status);
  } else if (read_stats(pool).all.reserved_bytes.current < target) {
    broken("reserve succeeded with less than %llu bytes", Long{target});
  }
  after();
}

void World::set_limit(size_t number, uint64_t limit) {
  trace("set_limit(%zu, %llu)", number, Long{limit});
  PoolModel& pool = at(number);
  const gpupool_status_t status = gpupool_set_limit(pool.handle, limit);
  if (is_destroyed(pool, status)) return;
  if (status == GPUPOOL_SUCCESS) {
    pool.limit = limit == ~uint64_t{0} ? 0 : limit;  // as good as none, and said to be none
  } else if (!is_scripted(status)) {
    expect(status, {GPUPOOL_ERROR_OVER_LIMIT}, "set_limit");
    if (is_calm() && pool.live.empty()) broken("set_limit was refused with no live block");
  }
  check_stats(pool);
  after();
}

void World::set_fraction(size_t number, double fraction) {
  trace("set_fraction(%zu, %g)", number, fraction);
  PoolModel& pool = at(number);
  if (fraction > 0 && fraction <= 1) {
    // The same as a limit, but for the unit.
    const auto limit = static_cast<uint64_t>(fraction * static_cast<double>(capacity_));
    const gpupool_status_t status = gpupool_set_fraction(pool.handle, fraction);
    if (is_destroyed(pool, status)) return;
    if (status == GPUPOOL_SUCCESS) pool.limit = limit;
    check_stats(pool);
  } else {
    expect(gpupool_set_fraction(pool.handle, fraction), {GPUPOOL_ERROR_INVALID_ARGUMENT}, "set_fraction");
  }
  after();
}

void World::set_handler(size_t number, bool on) {
  trace("set_handler(%zu, %d)", number, on);
  PoolModel& pool = at(number);
  const gpupool_status_t status = gpupool_set_oom_handler(pool.handle, on ? on_shortage : nullptr, this);
  if (is_destroyed(pool, status)) return;
  expect(status, {GPUPOOL_SUCCESS}, "set_oom_handler");
}

void World::reset_peaks(size_t number) {
  PoolModel& pool = at(number);
  if (is_destroyed(pool, gpupool_reset_peaks(pool.handle))) return;
  for (Tracks* tracks : {&pool.small, &pool.large, &pool.all}) {
    for (Track* track : {&tracks->requested, &tracks->allocated, &tracks->blocks})
      track->peak = track->current;
  }
  check_stats(pool);
  after();
}

void World::report(size_t number) {
  PoolModel& pool = at(number);
  char text[64];
  size_t length = 0;
  const gpupool_status_t status = gpupool_report(pool.handle, text, sizeof text, &length);
  if (is_destroyed(pool, status)) return;
  expect(status, {GPUPOOL_SUCCESS}, "report");
  if (length < sizeof text || text[sizeof text - 1] != '\0') broken("report is too short, or has no end");
  after();
}

void World::script(const std::string& text) {
  trace("script(\"%s\")", text.c_str());
  expect(gpupool_sim_script(kDevice, text.c_str()), {GPUPOOL_SUCCESS}, "sim_script");
  scripted_ = !text.empty();
}

void World::finish() {
  script("");
  while (!capturing_.empty()) capture(*capturing_.begin());
  while (!pools_.empty()) {
    PoolModel& pool = at(0);
    const bool destroyed = pool.destroyed;
    for (size_t left = pool.live.size(); left > 0; --left) {
      const auto& [address, block] = *pool.live.begin();
      free(0, address, block.home);
    }
    if (destroyed) continue;  // and gone with its last block
    stats(0);
    snapshot(0);
    empty(0);
    destroy(0);
  }
  if (!leaked_ && free_memory() != capacity_) broken("memory is left on the device");
}

}  // namespace gpupool::fuzz
