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

bool Journal::open_file(const char* path) noexcept {
  file_.number = _open(path, _O_RDWR | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT, _S_IREAD | _S_IWRITE);
  return file_.number >= 0;
}

Status Journal::map(const char* path) {
  capacity_ = kJournalMost;
  // The last step may go beyond.
  base_ = static_cast<uint8_t*>(VirtualAlloc(nullptr, capacity_ + kJournalStep, MEM_RESERVE, PAGE_NOACCESS));
  if (base_ != nullptr && grow_to(kJournalHeader)) return kSuccess;
  ::_close(file_.number);
  (void)DeleteFileA(path);
  return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "the recording \"%.200s\" gets no memory: error %lu", path,
              GetLastError());
}

bool Journal::take_room(uint64_t from, uint64_t bytes) noexcept {
  return VirtualAlloc(base_ + from, bytes, MEM_COMMIT, PAGE_READWRITE) != nullptr;
}

Journal::~Journal() {
  if (base_ != nullptr) (void)VirtualFree(base_, 0, MEM_RELEASE);
}

/// The memory stays: a thread that has not noticed the end writes there.
void Journal::close(uint64_t now) noexcept {
  const std::lock_guard lock(mutex_);
  std::atomic_ref(header().end_ticks).store(now);
  std::atomic_ref(header().flags).store(wire::recording::kEnded);
  const uint64_t used = std::min(kJournalHeader + begun_.load() * kJournalChunk, bytes_.load());
  for (uint64_t at = 0; at < used;) {
    const int count =
        _write(file_.number, base_ + at, static_cast<unsigned>(std::min(used - at, kJournalStep)));
    if (count <= 0) break;  // the disk is full: a reader takes what is there
    at += static_cast<uint64_t>(count);
  }
  ::_close(file_.number);
}

void Journal::discard(uint64_t now) noexcept {
  std::array<char, MAX_PATH> path{};
  const auto file = reinterpret_cast<HANDLE>(_get_osfhandle(file_.number));
  const DWORD length = GetFinalPathNameByHandleA(file, path.data(), static_cast<DWORD>(path.size()) - 1, 0);
  close(now);
  if (length != 0 && length < path.size()) (void)DeleteFileA(path.data());
}

void Journal::abandon() noexcept {}  // there is no fork

}  // namespace gpupool::internal
