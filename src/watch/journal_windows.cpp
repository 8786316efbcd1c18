// SPDX-License-Identifier: Apache-2.0
// A file that is mapped has its size until nobody maps it, and threads may write for ever. So what is
// recorded stays in memory, and goes into the file at the recording's end: a process that is killed before
// leaves an empty file.
#define WIN32_LEAN_AND_MEAN
#include <fcntl.h>
#include <io.h>
#include <sys/stat.h>
#include <windows.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "watch/journal.hpp"

namespace gpupool::internal {
namespace {

constexpr uint64_t kMostBytes = uint64_t{16} << 30;
constexpr uint64_t kStep = uint64_t{1} << 20;

}  // namespace

bool Journal::open_file(const char* path) noexcept {
  file_ = _open(path, _O_RDWR | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT, _S_IREAD | _S_IWRITE);
  return file_ >= 0;
}

Status Journal::map(const char* path) {
  capacity_ = kMostBytes;
  base_ = static_cast<uint8_t*>(VirtualAlloc(nullptr, capacity_, MEM_RESERVE, PAGE_NOACCESS));
  if (base_ != nullptr && grow_to(kJournalHeader)) return kSuccess;
  ::_close(file_);
  (void)DeleteFileA(path);
  return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "the recording \"%.200s\" gets no memory: error %lu", path,
              GetLastError());
}

bool Journal::grow_to(uint64_t bytes) noexcept {
  if (bytes <= bytes_.load(std::memory_order_acquire)) return true;
  const std::lock_guard lock(mutex_);
  const uint64_t has = bytes_.load(std::memory_order_relaxed);
  if (bytes <= has) return true;
  const uint64_t wanted = std::min(std::max(bytes, has == 0 ? 0 : has + kStep), capacity_);
  if (VirtualAlloc(base_ + has, wanted - has, MEM_COMMIT, PAGE_READWRITE) == nullptr) return false;
  bytes_.store(wanted, std::memory_order_release);
  return true;
}

/// The memory stays: a thread that has not noticed the end writes there.
void Journal::close(uint64_t now) noexcept {
  const std::lock_guard lock(mutex_);
  JournalHeader& head = header();
  head.end_ticks.store(now);
  head.flags.store(kJournalEnded);
  const uint64_t used = std::min(kJournalHeader + head.chunks.load() * kJournalChunk, bytes_.load());
  for (uint64_t at = 0; at < used;) {
    const int count = _write(file_, base_ + at, static_cast<unsigned>(std::min(used - at, kStep)));
    if (count <= 0) break;  // the disk is full: a reader takes what is there
    at += static_cast<uint64_t>(count);
  }
  ::_close(file_);
}

void Journal::discard(uint64_t now) noexcept {
  std::array<char, MAX_PATH> path{};
  const auto file = reinterpret_cast<HANDLE>(_get_osfhandle(file_));
  const DWORD length = GetFinalPathNameByHandleA(file, path.data(), static_cast<DWORD>(path.size()) - 1, 0);
  close(now);
  if (length != 0 && length < path.size()) (void)DeleteFileA(path.data());
}

void Journal::abandon() noexcept {}  // there is no fork

}  // namespace gpupool::internal
