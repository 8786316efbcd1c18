// SPDX-License-Identifier: Apache-2.0
#include "watch/journal.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string>

#include "watch/clock.hpp"
#include "watch/thread_id.hpp"

namespace gpupool::internal {
namespace {

constexpr uint64_t kMostBytes = uint64_t{16} << 30;
constexpr uint64_t kLeastBytes = uint64_t{16} << 20;
constexpr uint64_t kStep = uint64_t{1} << 20;

std::string path_of(const char* text) {
  std::string path = text;
  const std::string number = std::to_string(getpid());
  for (size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at + number.size())) {
    path.replace(at, 2, number);
  }
  return path;
}

uint64_t ticks_per_second(bool by_processor) noexcept {
  if (!by_processor) return 1'000'000'000;
  constexpr uint64_t kMeasure = 2'000'000;  // ns
  const uint64_t start = clock_ns();
  const uint64_t first = ticks(true);
  uint64_t now = start;
  while (now - start < kMeasure) now = clock_ns();
  return (ticks(true) - first) * 1'000'000'000 / (now - start);
}

/// As much of the command line as there is room for.
void read_command(char* text, size_t room) noexcept {
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  const ssize_t length = read(file, text, room - 1);
  close(file);
  text[std::max<ssize_t>(length, 0)] = '\0';
}

}  // namespace

Status Journal::create(const char* text, bool by_processor) {
  const std::string path = path_of(text);
  // An existing file is not touched, and O_EXCL follows no symbolic link.
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file_ < 0) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the recording \"%.200s\" cannot be made: %s", path.c_str(),
                std::strerror(errno));
  }
  if (const Status status = map(path.c_str()); status != kSuccess) {
    (void)unlink(path.c_str());
    return status;
  }
  JournalHeader& head = header();
  head.version = kJournalVersion;
  head.header_bytes = kJournalHeader;
  head.chunk_bytes = kJournalChunk;
  head.pid = static_cast<uint32_t>(getpid());
  head.tick_shift = kTickShift;
  head.ticks_per_second = ticks_per_second(by_processor);
  head.start_ticks = ticks(by_processor);
  head.start_monotonic_ns = clock_ns();
  head.start_realtime_ns = clock_ns(CLOCK_REALTIME);
  std::snprintf(head.library, sizeof head.library, "%d.%d.%d", GPUPOOL_VERSION_MAJOR, GPUPOOL_VERSION_MINOR,
                GPUPOOL_VERSION_PATCH);
  read_command(head.command, sizeof head.command);
  std::memcpy(head.magic, "GPUPOOL\1", sizeof head.magic);
  return kSuccess;
}

Status Journal::map(const char* path) {
  if (!grow_to(kJournalHeader)) {
    const int error = errno;
    ::close(file_);
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the recording \"%.200s\" gets no room: %s", path,
                std::strerror(error));
  }
  // Addresses cost nothing; a process with an address limit gets fewer.
  for (capacity_ = kMostBytes; capacity_ >= kLeastBytes; capacity_ /= 2) {
    void* base = mmap(nullptr, capacity_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
    if (base == MAP_FAILED) continue;
    base_ = static_cast<uint8_t*>(base);
    return kSuccess;
  }
  ::close(file_);
  return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "the recording \"%.200s\" cannot be mapped: %s", path,
              std::strerror(errno));
}

/// Allocates room on the disk. False if there is none, with errno.
bool Journal::grow_to(uint64_t bytes) noexcept {
  if (bytes <= bytes_.load(std::memory_order_acquire)) return true;
  const std::lock_guard lock(mutex_);
  const uint64_t has = bytes_.load(std::memory_order_relaxed);
  if (bytes <= has) return true;
  const uint64_t wanted = std::max(bytes, has == 0 ? 0 : has + kStep);
  const int error = posix_fallocate(file_, static_cast<off_t>(has), static_cast<off_t>(wanted - has));
  errno = error;
  if (error != 0) return false;
  bytes_.store(wanted, std::memory_order_release);
  return true;
}

uint8_t* Journal::claim_chunk(uint64_t now) noexcept {
  const int kept = errno;
  const uint64_t index = header().chunks.fetch_add(1, std::memory_order_relaxed);
  const uint64_t offset = kJournalHeader + index * kJournalChunk;
  const bool has_room = offset + kJournalChunk <= capacity_ && grow_to(offset + kJournalChunk);
  errno = kept;
  if (!has_room) return nullptr;
  auto& head = *reinterpret_cast<ChunkHeader*>(base_ + offset);
  head.thread = thread_id();
  head.first_ticks = now;
  (void)prctl(PR_GET_NAME, head.name);
  std::atomic_ref(head.magic).store(kChunkMagic, std::memory_order_release);
  return base_ + offset;
}

void Journal::close(uint64_t now) noexcept {
  const std::lock_guard lock(mutex_);
  JournalHeader& head = header();
  head.end_ticks.store(now);
  head.flags.store(kJournalEnded);
  const uint64_t used = kJournalHeader + head.chunks.load() * kJournalChunk;
  const bool is_detached = detach_memory();
  // Returns room allocated in advance to the disk; if that fails, zeros stay at the end.
  if (is_detached && used < bytes_.load()) (void)!ftruncate(file_, static_cast<off_t>(used));
  ::close(file_);
}

void Journal::discard(uint64_t now) noexcept {
  char link[32];
  char path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file_);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  path[std::max<ssize_t>(length, 0)] = '\0';
  if (length > 0) (void)unlink(path);
  close(now);
}

/// Replaces the file's mapping with anonymous memory. A thread that has not noticed the end writes there.
bool Journal::detach_memory() noexcept {
  return mmap(base_, capacity_, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

void Journal::abandon() noexcept {
  (void)detach_memory();
  ::close(file_);
}

}  // namespace gpupool::internal
