// SPDX-License-Identifier: Apache-2.0
#include "pool/watch.hpp"

#include <memory>
#include <new>
#include <vector>

#include "pool/pool.hpp"
#include "pool/registry.hpp"

namespace gpupool::internal {
namespace {

/// Allocates only while a recording is on.
void watch_anew(const std::vector<std::shared_ptr<Pool>>& pools) {
  Watcher::begin_epoch();
  for (const auto& pool : pools) pool->watch_anew();
}

}  // namespace

Status start_recording(const char* path, uint32_t flags, uint32_t& number) {
  constexpr uint32_t kKnown = GPUPOOL_RECORD_NATIVE_STACKS | GPUPOOL_RECORD_LANGUAGE_STACKS;
  if ((flags & ~kKnown) != 0)
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "flags are 0x%x, but only 0x%x are known", flags, kKnown);
  const StackKinds stacks{(flags & GPUPOOL_RECORD_NATIVE_STACKS) != 0,
                          (flags & GPUPOOL_RECORD_LANGUAGE_STACKS) != 0};
  const auto change = Recorder::begin_change();
  const auto before = Registry::instance().all();
  if (const Status status = Recorder::start(path, stacks); status != kSuccess) return status;
  try {
    watch_anew(Registry::instance().all());  // new ones may have come
  } catch (const std::bad_alloc&) {
    Recorder::discard();
    watch_anew(before);
    throw;
  }
  number = Recorder::generation();
  return kSuccess;
}

// Pools are listed before anything changes, since nothing may need memory afterwards.

Status stop_recording(uint32_t number) {
  const auto change = Recorder::begin_change();
  if (number != kAnyRecording && number != Recorder::generation())
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "the process has ended the recording itself");
  const auto pools = Registry::instance().all();
  if (const Status status = Recorder::stop(); status != kSuccess) return status;
  watch_anew(pools);
  return kSuccess;
}

void sample_every(uint64_t bytes) {
  const auto pools = Registry::instance().all();
  set_sample_distance(bytes);
  watch_anew(pools);
}

}  // namespace gpupool::internal
