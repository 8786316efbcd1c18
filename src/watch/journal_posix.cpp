// SPDX-License-Identifier: Apache-2.0
#include "watch/journal.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/bits.hpp"
#include "os/files.hpp"

namespace gpupool::internal {
namespace {

constexpr uint64_t kLeastBytes = uint64_t{16} << 20;

/// Maps memory where other threads may be writing. The system replaces it at once: a store goes to the old
/// page or the new one, both of which are there, and nobody reads the new ones. The thread sanitizer takes
/// mmap() for a write to all of it by this thread, with which those stores would race; it does not see the
/// system call.
bool replace_memory(void* base, uint64_t bytes) noexcept {
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
#if defined(__SANITIZE_THREAD__)
  return syscall(SYS_mmap, base, bytes, kAccess, kFlags, -1, off_t{0}) >= 0;
#else
  return mmap(base, bytes, kAccess, kFlags, -1, 0) != MAP_FAILED;
#endif
}

}  // namespace

/// An existing file is not touched, and O_EXCL follows no symbolic link.
bool Journal::open_file(const char* path) noexcept {
  const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (os::keep_file(file, file_)) return true;
  const int cause = errno;
  if (file >= 0) (void)unlink(path);
  errno = cause;
  return false;
}

Status Journal::map(const char* path) {
  if (!grow_to(kJournalHeader)) {
    const int error = errno;
    os::close_kept(file_);
    (void)unlink(path);
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "the recording \"%.200s\" gets no room: %s", path,
                std::strerror(error));
  }
  // Addresses cost nothing; a process with an address limit gets fewer.
  for (capacity_ = kJournalMost; capacity_ >= kLeastBytes; capacity_ /= 2) {
    void* base =
        mmap(nullptr, capacity_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_.number, 0);
    if (base == MAP_FAILED) continue;
    base_ = static_cast<uint8_t*>(base);
    return kSuccess;
  }
  const int error = errno;
  os::close_kept(file_);
  (void)unlink(path);
  return fail(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, "the recording \"%.200s\" cannot be mapped: %s", path,
              std::strerror(error));
}

/// On the disk. A program that closes all descriptors may have a file of its own under the number: neither
/// takes that room nor is cut at the recording's end. Then this one has no more room.
bool Journal::take_room(uint64_t from, uint64_t bytes) noexcept {
  return os::is_kept(file_) && os::allocate_room(file_.number, from, bytes);
}

void Journal::close(uint64_t now) noexcept {
  const std::lock_guard lock(mutex_);
  std::atomic_ref(header().end_ticks).store(now);
  std::atomic_ref(header().flags).store(wire::recording::kEnded);
  const uint64_t used = kJournalHeader + begun_.load() * kJournalChunk;
  const bool is_detached = detach_memory();
  // Returns room allocated in advance to the disk; if that fails, zeros stay at the end.
  if (is_detached && used < bytes_.load() && os::is_kept(file_))
    (void)!ftruncate(file_.number, static_cast<off_t>(used));
  os::close_kept(file_);  // A thread that still wants room gets none of the file that has this number next.
}

void Journal::discard(uint64_t now) noexcept {
  char path[PATH_MAX];
  if (os::is_kept(file_) && os::path_of(file_.number, path, sizeof path)) (void)unlink(path);
  close(now);
}

/// What is left of the addresses when the file has ended, and grows no more.
uint64_t Journal::kept_bytes() const noexcept {
  return std::min(align_up(bytes_.load(), static_cast<uint64_t>(sysconf(_SC_PAGESIZE))), capacity_);
}

Journal::~Journal() {
  if (base_ != nullptr) (void)munmap(base_, kept_bytes());
}

/// Replaces the file's mapping with anonymous memory. A thread that has not noticed the end writes there.
/// None comes to what lies behind, and the program may need the addresses.
bool Journal::detach_memory() noexcept {
  const uint64_t kept = kept_bytes();
  if (kept < capacity_) (void)munmap(base_ + kept, capacity_ - kept);
  return replace_memory(base_, kept);
}

/// No other thread is here.
void Journal::abandon() noexcept {
  (void)munmap(base_, capacity_);
  base_ = nullptr;
  os::close_kept(file_);
}

}  // namespace gpupool::internal
