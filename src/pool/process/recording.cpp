// SPDX-License-Identifier: Apache-2.0
#include "pool/process/recording.hpp"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "pool/pool.hpp"
#include "pool/process/registry.hpp"

namespace gpupool::internal {
namespace {

/// The number of the recording under way, as its starter knows it: a ring's later parts have others. Read and
/// written within a change.
constinit uint32_t begun_number = 0;

/// Allocates only while a recording is on.
void watch_anew(const std::vector<std::shared_ptr<Pool>>& pools) {
  Watcher::begin_epoch();
  for (const auto& pool : pools) pool->watch_anew();
}

/// Within a change. New pools wait meanwhile, since marks that stayed would be taken for those of the next
/// recording.
void end() noexcept {
  Recorder::end();
  Watcher::begin_epoch();
  Registry::instance().for_each([](Pool& pool) { pool.watch_anew(); });
}

/// Within a change.
Status begin(Plan plan) {
  if (const Status status = Recorder::start(std::move(plan)); status != kSuccess) return status;
  try {
    watch_anew(Registry::instance().all());
  } catch (const std::bad_alloc&) {
    end();
    Recorder::discard();
    throw;
  }
  Recorder::begin_count();
  return kSuccess;
}

/// A ring's file makes way for the next one, unless another thread is at it.
Status take_turn() noexcept {
  const auto change = Recorder::try_change();
  if (!change.owns_lock() || !Recorder::is_part_due()) return kSuccess;
  try {
    end();
    Plan plan;
    const Status status = Recorder::close_part(plan);
    return status == kSuccess ? begin(std::move(plan)) : status;
  } catch (const std::bad_alloc&) {
    return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "the host has no memory for what is live");
  }
}

void turn_recording() noexcept {
  const KeepError keep_error;
  // The log's receiver may call the library, so it is told once the change is over.
  if (take_turn() != kSuccess)
    log_line(GPUPOOL_LOG_ERROR, "the recording has ended: %s", last_error().message);
}

}  // namespace

Status start_recording(const char* text, uint32_t flags, uint32_t& number) {
  constexpr uint32_t kKnown = GPUPOOL_RECORD_NATIVE_STACKS | GPUPOOL_RECORD_LANGUAGE_STACKS;
  if ((flags & ~kKnown) != 0)
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "flags are 0x%x, but only 0x%x are known", flags, kKnown);
  Plan plan;
  if (const Status status = read_plan(text, plan); status != kSuccess) return status;
  const auto change = Recorder::begin_change();
  if (Recorder::is_on()) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "a recording is under way already");
  if (Recorder::generation() == 0) avoid_earlier(plan);
  if (const Status status = check_is_free(plan); status != kSuccess) return status;
  Recorder::prepare(
      {(flags & GPUPOOL_RECORD_NATIVE_STACKS) != 0, (flags & GPUPOOL_RECORD_LANGUAGE_STACKS) != 0},
      turn_recording);
  if (const Status status = begin(std::move(plan)); status != kSuccess) return status;
  number = begun_number = Recorder::generation();
  return kSuccess;
}

Status stop_recording(uint32_t number) noexcept {
  const auto change = Recorder::begin_change();
  if (number != kAnyRecording && (number != begun_number || !Recorder::is_on()))
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "the process has ended the recording itself");
  if (!Recorder::is_on()) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "no recording is under way");
  end();
  Recorder::close();
  return kSuccess;
}

void end_recording_at_exit() noexcept {
  static constinit std::atomic<bool> is_asked_for{false};
  if (is_asked_for.exchange(true)) return;
  (void)std::atexit([] {
    if (Recorder::is_on()) (void)stop_recording();
  });
}

void sample_every(uint64_t bytes) {
  // A recording that ends meanwhile would find marks that it thinks gone.
  const auto change = Recorder::begin_change();
  const auto pools = Registry::instance().all();
  set_sample_distance(bytes);
  watch_anew(pools);
}

}  // namespace gpupool::internal
