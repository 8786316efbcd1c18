// SPDX-License-Identifier: Apache-2.0
// Blocks, limits, and watching a pool.
#include <algorithm>
#include <cinttypes>

#include "abi/call.hpp"
#include "abi/options.hpp"
#include "abi/structs.hpp"
#include "base/parse.hpp"
#include "pool/process/family.hpp"

using namespace gpupool::internal;       // NOLINT: the C functions are a thin layer over these
using namespace gpupool::internal::abi;  // NOLINT

// Named as the library's own, since malloc_aligned is on the stacks of mallocs wherever it is not inlined.
namespace gpupool::internal {
namespace {

inline Status malloc_aligned(gpupool_t* pool, uint64_t size, uint64_t alignment, gpupool_stream_t stream,
                             gpupool_ptr_t* out_ptr) noexcept {
  if (out_ptr == nullptr) [[unlikely]]
    return refuse_null("out_ptr");
  *out_ptr = 0;
  return on_pool(pool, [&](Pool& self) { return self.malloc(size, alignment, stream, *out_ptr); });
}

/// Runs release(pool, released) and writes the number if the caller wants it.
template <typename Function>
Status run_release(gpupool_t* pool, uint64_t* out_released, Function release) noexcept {
  if (out_released != nullptr) *out_released = 0;
  if (pool != nullptr && pool->copy == Registry::copy_mark() &&
      pool->life.load(std::memory_order_acquire) == Life::exiting) {
    return kSuccess;  // the driver takes everything back by itself
  }
  return on_pool(pool, [&](Pool& self) {
    uint64_t released = 0;
    const Status status = release(self, released);
    if (status == kSuccess && out_released != nullptr) *out_released = released;
    return status;
  });
}

/// The environment is asked again, so that whoever has changed it need only set the limit anew.
Status set_limit(Pool& pool, uint64_t limit) {
  Ceiling ceiling;
  const Status status = find_ceiling(pool.device().info(), pool.options().kind, ceiling);
  return status == kSuccess ? pool.set_limit(limit, ceiling) : status;
}

/// Whether statistics can be read: those of live pools and of inherited ones.
bool can_watch(const gpupool_t* pool) noexcept {
  if (pool == nullptr || pool->copy != Registry::copy_mark()) return false;
  const Life life = pool->life.load(std::memory_order_acquire);
  return life == Life::live || life == Life::forked || life == Life::exiting || life == Life::lost;
}

}  // namespace
}  // namespace gpupool::internal

extern "C" {

gpupool_status_t gpupool_malloc(gpupool_t* pool, uint64_t size, gpupool_stream_t stream,
                                gpupool_ptr_t* out_ptr) {
  return malloc_aligned(pool, size, kUnit, stream, out_ptr);
}

gpupool_status_t gpupool_malloc_aligned(gpupool_t* pool, uint64_t size, uint64_t alignment,
                                        gpupool_stream_t stream, gpupool_ptr_t* out_ptr) {
  if (!is_power_of_two(alignment) || alignment > kAlignmentMax) {
    if (out_ptr != nullptr) *out_ptr = 0;
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "alignment is %" PRIu64 ", not a power of two of up to 2 MiB",
                alignment);
  }
  return malloc_aligned(pool, size, std::max(alignment, kUnit), stream, out_ptr);
}

gpupool_status_t gpupool_malloc_behind(gpupool_t* pool, uint64_t size, gpupool_ptr_t behind,
                                       gpupool_stream_t stream, gpupool_ptr_t* out_ptr) {
  if (out_ptr == nullptr) return refuse_null("out_ptr");
  *out_ptr = 0;
  return on_pool(pool, [&](Pool& self) { return self.malloc_behind(size, behind, stream, *out_ptr); });
}

gpupool_status_t gpupool_count_parts(gpupool_t* pool, int32_t what, int32_t change, int32_t is_small,
                                     uint64_t blocks, uint64_t bytes, uint64_t requested_bytes) {
  if (what != 0 && what != GPUPOOL_BLOCK_LIVE && what != GPUPOOL_BLOCK_PENDING)
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "what is %d, not 0, GPUPOOL_BLOCK_LIVE or _PENDING", what);
  if (change != 1 && change != -1)
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "change is %d, not 1 or -1", change);
  const SizeGroup group = is_small != 0 ? SizeGroup::small : SizeGroup::large;
  const Amounts parts{requested_bytes, bytes, blocks};
  return on_pool(pool, [&](Pool& self) { return self.count_parts(what, group, parts, change); });
}

gpupool_status_t gpupool_free(gpupool_t* pool, gpupool_ptr_t ptr, gpupool_stream_t stream) {
  if (!is_live(pool)) [[unlikely]]
    return free_late(pool, ptr, stream);
  return guarded([&] { return pool->pool->free(ptr, stream); });
}

gpupool_status_t gpupool_record_stream(gpupool_t* pool, gpupool_ptr_t ptr, gpupool_stream_t stream) {
  return call(pool, &Pool::record_stream, ptr, stream);
}

gpupool_status_t gpupool_block_info(gpupool_t* pool, gpupool_ptr_t ptr, gpupool_block_t* block,
                                    size_t block_size) {
  if (block == nullptr) return refuse_null("block");
  if (const Status status = check_size(block_size, "block_size"); status != kSuccess) return status;
  std::memset(static_cast<void*>(block), 0, block_size);
  return on_pool(pool, [&](Pool& self) {
    gpupool_block_t found{};
    const Status status = self.block_info(ptr, found);
    if (status == kSuccess) write_element(found, block, block_size);
    return status;
  });
}

gpupool_status_t gpupool_release_stream(gpupool_t* pool, gpupool_stream_t stream) {
  return call(pool, &Pool::release_stream, stream);
}

gpupool_status_t gpupool_park_stream(gpupool_t* pool, gpupool_stream_t stream) {
  return call(pool, &Pool::park_stream, stream);
}

gpupool_status_t gpupool_capture_id(gpupool_t* pool, gpupool_stream_t stream, uint64_t* out_capture) {
  return call(pool, &Pool::capture_id, stream, Out{out_capture, "out_capture"});
}

gpupool_status_t gpupool_release_capture(gpupool_t* pool, uint64_t capture) {
  return call(pool, &Pool::release_capture, capture);
}

gpupool_status_t gpupool_announce_capture(gpupool_t* pool, int32_t begins) {
  return call(pool, &announce_capture, begins != 0);
}

gpupool_status_t gpupool_enable_peer(gpupool_t* pool, int32_t peer) {
  return call(pool, &enable_peer, peer);
}

gpupool_status_t gpupool_synchronize(gpupool_t* pool) {
  return call(pool, &Pool::synchronize);
}

gpupool_status_t gpupool_empty(gpupool_t* pool, uint64_t* out_released_bytes) {
  return run_release(pool, out_released_bytes,
                     [](Pool& self, uint64_t& released) { return self.empty(released); });
}

gpupool_status_t gpupool_trim(gpupool_t* pool, uint64_t target_bytes, uint64_t* out_released_bytes) {
  return run_release(pool, out_released_bytes,
                     [&](Pool& self, uint64_t& released) { return self.trim(target_bytes, released); });
}

gpupool_status_t gpupool_reserve(gpupool_t* pool, uint64_t target_bytes, gpupool_stream_t stream) {
  return call(pool, &Pool::reserve, target_bytes, stream);
}

gpupool_status_t gpupool_set_fraction(gpupool_t* pool, double fraction) {
  return on_pool(pool, [&](Pool& self) -> Status {
    uint64_t limit = 0;
    const Status status = bytes_of_share(fraction, self.device().info().total, limit);
    return status == kSuccess ? set_limit(self, limit) : status;
  });
}

gpupool_status_t gpupool_set_limit(gpupool_t* pool, uint64_t limit_bytes) {
  return call(pool, &set_limit, limit_bytes == 0 ? Budget::kNone : limit_bytes);
}

gpupool_status_t gpupool_set_oom_handler(gpupool_t* pool, gpupool_oom_fn_t fn, void* user) {
  return call(pool, &Pool::set_oom_handler, fn, user);
}

gpupool_status_t gpupool_stats(gpupool_t* pool, gpupool_stats_t* stats) {
  if (stats == nullptr) return refuse_null("stats");
  if (const Status status = check_size(stats->struct_size, "stats->struct_size"); status != kSuccess)
    return status;
  if (!can_watch(pool)) return refuse(pool);
  return guarded([&] {
    gpupool_stats_t whole{};
    whole.struct_size = sizeof whole;
    pool->pool->stats(whole);
    write_struct(whole, stats);
    return kSuccess;
  });
}

gpupool_status_t gpupool_reset_peaks(gpupool_t* pool) {
  return call(pool, &Pool::reset_peaks);
}

gpupool_status_t gpupool_snapshot(gpupool_t* pool, gpupool_segment_t* segments, size_t segment_size,
                                  size_t segment_capacity, size_t* out_segment_count, gpupool_block_t* blocks,
                                  size_t block_size, size_t block_capacity, size_t* out_block_count) {
  if (out_segment_count == nullptr) return refuse_null("out_segment_count");
  if (out_block_count == nullptr) return refuse_null("out_block_count");
  *out_segment_count = *out_block_count = 0;
  if (segment_capacity != 0 && segments == nullptr) return refuse_null("segments");
  if (block_capacity != 0 && blocks == nullptr) return refuse_null("blocks");
  if (const Status status = check_size(segment_size, "segment_size"); status != kSuccess) return status;
  if (const Status status = check_size(block_size, "block_size"); status != kSuccess) return status;
  return on_pool(pool, [&](Pool& self) {
    std::vector<gpupool_segment_t> all_segments;
    std::vector<gpupool_block_t> all_blocks;
    self.snapshot(all_segments, all_blocks);
    write_list(all_segments, segments, segment_size, segment_capacity);
    write_list(all_blocks, blocks, block_size, block_capacity);
    *out_segment_count = all_segments.size();
    *out_block_count = all_blocks.size();
    return kSuccess;
  });
}

gpupool_status_t gpupool_report(gpupool_t* pool, char* text, size_t capacity, size_t* out_length) {
  if (const Status status = expect_text(text, capacity, out_length); status != kSuccess) return status;
  return on_pool(pool, [&](Pool& self) { return give_text(self.report(), text, capacity, out_length); });
}

gpupool_status_t gpupool_validate(gpupool_t* pool) {
  return call(pool, &Pool::validate);
}

}  // extern "C"
