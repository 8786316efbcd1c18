// SPDX-License-Identifier: Apache-2.0
// What a recording holds, on every system.
#include "watch/journal.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "os/process.hpp"
#include "os/thread.hpp"
#include "watch/clock.hpp"

namespace gpupool::internal {
namespace {

/// Measured once: a ring makes many files.
uint64_t ticks_per_second(bool by_processor) noexcept {
  static constinit std::atomic<uint64_t> known{0};
  if (!by_processor) return 1'000'000'000;
  if (known.load() != 0) return known.load();
  constexpr uint64_t kMeasure = 2'000'000;  // ns
  const uint64_t start = clock_ns();
  const uint64_t first = ticks(true);
  uint64_t now = start;
  while (now - start < kMeasure) now = clock_ns();
  known.store((ticks(true) - first) * 1'000'000'000 / (now - start));
  return known.load();
}

}  // namespace

Status Journal::create(const char* path, bool by_processor) {
  if (!open_file(path)) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the recording \"%.200s\" cannot be made: %s", path,
                std::strerror(errno));
  }
  if (const Status status = map(path); status != kSuccess) return status;
  JournalHeader& head = header();
  head.version = wire::recording::kVersion;
  head.header_bytes = kJournalHeader;
  head.chunk_bytes = kJournalChunk;
  head.pid = static_cast<uint32_t>(os::process_id());
  head.tick_shift = kTickShift;
  head.ticks_per_second = ticks_per_second(by_processor);
  head.start_ticks = ticks(by_processor);
  head.start_monotonic_ns = clock_ns();
  head.start_realtime_ns = clock_ns(CLOCK_REALTIME);
  std::snprintf(head.library, sizeof head.library, "%d.%d.%d", GPUPOOL_VERSION_MAJOR, GPUPOOL_VERSION_MINOR,
                GPUPOOL_VERSION_PATCH);
  os::read_command_line(head.command, sizeof head.command);
  (void)wire::recording::kMagic.copy(head.magic, sizeof head.magic);
  return kSuccess;
}

/// Grows by a step at least, or by as much as there is room for. False if there is no room, with errno.
bool Journal::grow_to(uint64_t bytes) noexcept {
  if (bytes <= bytes_.load(std::memory_order_acquire)) return true;
  const std::lock_guard lock(mutex_);
  const uint64_t has = bytes_.load(std::memory_order_relaxed);
  if (bytes <= has) return true;
  uint64_t wanted = std::max(bytes, std::min(has == 0 ? 0 : has + kJournalStep, kJournalMost));
  if (!take_room(has, wanted - has)) {
    wanted = bytes;
    if (!take_room(has, wanted - has)) return false;
  }
  bytes_.store(wanted, std::memory_order_release);
  return true;
}

uint8_t* Journal::claim_chunk(uint64_t now) noexcept {
  const int kept = errno;
  // Counted only where there is room: what a full disk refuses leaves no gap behind it.
  uint64_t index = begun_.load(std::memory_order_relaxed);
  uint64_t offset = 0;
  bool has_room = false;
  do {
    offset = kJournalHeader + index * kJournalChunk;
    has_room = offset + kJournalChunk <= capacity_ && grow_to(offset + kJournalChunk);
  } while (has_room && !begun_.compare_exchange_weak(index, index + 1, std::memory_order_relaxed));
  errno = kept;
  if (!has_room) return nullptr;
  auto& head = *reinterpret_cast<ChunkHeader*>(base_ + offset);
  head.thread = os::thread_id();
  head.first_ticks = now;
  os::read_thread_name(head.name, sizeof head.name);
  std::atomic_ref(head.magic).store(wire::recording::kChunkMagic, std::memory_order_release);
  // Last, so that a killed process leaves no file that lacks a chunk.
  std::atomic_ref(header().chunks).fetch_add(1, std::memory_order_release);
  return base_ + offset;
}

void Journal::end_chunk(uint8_t* chunk, const uint8_t* end) noexcept {
  auto& head = *reinterpret_cast<ChunkHeader*>(chunk);
  const auto used = static_cast<uint32_t>(end - (chunk + sizeof head));
  head.checksum = wire::recording::checksum_of(chunk, kJournalChunk, used);
  std::atomic_ref(head.used).store(used, std::memory_order_release);
}

}  // namespace gpupool::internal
