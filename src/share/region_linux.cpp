// SPDX-License-Identifier: Apache-2.0
#include "share/region_linux.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "os/files.hpp"

namespace gpupool::internal::share {

Status unusable(const Spot& place, const char* what) {
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "%s %s", place.path, what);
}

Status failed(const Spot& place, const char* call) {
  const int error = errno;
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "%s: %s: %s", place.path, call, std::strerror(error));
}

namespace {

/// The slots' bytes in the file, only for locks: far behind its end.
constexpr off_t kLocks = off_t{1} << 30;

/// A folder in which nobody else can replace our files.
Status open_folder(const Spot& place, bool makes, File& folder) {
  const bool is_own = place.is_folder_own;
  if (is_own && makes && mkdir(place.folder, 0700) != 0 && errno != EEXIST) return failed(place, "mkdir");
  folder = File(open(place.folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return failed(place, "opening the folder");
  struct stat found {};
  if (fstat(folder.get(), &found) != 0) return failed(place, "fstat of the folder");
  if (is_own && (found.st_uid != geteuid() || (found.st_mode & 077) != 0)) {
    return unusable(place, "is in a folder that others than this user may use");
  }
  if (!is_own && (found.st_mode & S_IWOTH) != 0 && (found.st_mode & S_ISVTX) == 0) {
    return unusable(place, "is in a folder that everybody may write to");
  }
  return kSuccess;
}

/// Creates a whole region under its name in one step, so that nobody ever sees part of one. The file of the
/// second to arrive is never named.
Status make_region(const Spot& place, const File& folder) {
  if (!os::may_be_as_large(kRegionBytes)) return unusable(place, "is larger than RLIMIT_FSIZE allows");
  const File file(openat(folder.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) return failed(place, "making it");
  if (!os::allocate_room(file.get(), 0, kRegionBytes)) return failed(place, "room for it");
  Header header{};
  write_header(place, header);
  if (pwrite(file.get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) {
    return failed(place, "writing it");
  }
  char self[64];
  std::snprintf(self, sizeof self, "/proc/self/fd/%d", file.get());
  if (linkat(AT_FDCWD, self, folder.get(), place.file, AT_SYMLINK_FOLLOW) != 0 && errno != EEXIST) {
    return failed(place, "naming it");
  }
  return kSuccess;
}

Status check_header(const Spot& place, const Header& header) {
  const wire::region::Begin& begin = header.begin;
  constexpr wire::region::Begin kRight;
  if (std::memcmp(begin.magic, kRight.magic, sizeof begin.magic) != 0)
    return unusable(place, "is no region of gpupool");
  if (begin.major != kRight.major) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "%s has layout %u, and this version of gpupool knows %u",
                place.path, begin.major, kRight.major);
  }
  if (begin.header_bytes != kRight.header_bytes || begin.slot_bytes != kRight.slot_bytes ||
      begin.slot_count != kRight.slot_count || begin.region_bytes != kRight.region_bytes) {
    return unusable(place, "has another layout than its version says");
  }
  if (std::strncmp(begin.device, place.device, sizeof begin.device) != 0) {
    return unusable(place, "is of another device");
  }
  return kSuccess;
}

/// Whether a file of a folder belongs to this user alone.
Status check_owner(const Spot& place, const File& file) {
  struct stat found {};
  if (fstat(file.get(), &found) != 0) return failed(place, "fstat");
  if (!S_ISREG(found.st_mode)) return unusable(place, "is no file");
  if (found.st_uid != geteuid()) return unusable(place, "belongs to another user");
  if ((found.st_mode & 077) != 0) return unusable(place, "may be used by others than this user");
  return kSuccess;
}

bool set_lock(const File& file, short type, int command, uint32_t slot, struct flock& lock) noexcept {
  lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = kLocks + static_cast<off_t>(slot);
  lock.l_len = 1;
  return fcntl(file.get(), command, &lock) == 0;
}

}  // namespace

void write_header(const Spot& place, Header& header) noexcept {
  header.begin.device_bytes = place.device_bytes;
  header.begin.created = time(nullptr);
  std::snprintf(header.begin.device, sizeof header.begin.device, "%s", place.device);
  const uint64_t limit = place.limit != 0 ? place.limit : place.device_bytes;
  header.limit.store(std::min(limit / kUnitBytes, kMostUnits));
}

Status check_contents(const Spot& place, const File& file) {
  struct stat found {};
  if (fstat(file.get(), &found) != 0) return failed(place, "fstat");
  if (found.st_size != static_cast<off_t>(kRegionBytes)) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "%s has %lld bytes, not %zu", place.path,
                static_cast<long long>(found.st_size), kRegionBytes);
  }
  Header header{};
  if (pread(file.get(), static_cast<void*>(&header), sizeof header, 0) !=
      static_cast<ssize_t>(sizeof header)) {
    return failed(place, "reading it");
  }
  return check_header(place, header);
}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status open_region(const Spot& place, bool makes, File& file) {
  File folder;
  if (const Status status = open_folder(place, makes, folder); status != kSuccess) return status;
  constexpr int kHow = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  File found(openat(folder.get(), place.file, kHow));
  if (!found && errno == ENOENT && makes) {
    if (const Status status = make_region(place, folder); status != kSuccess) return status;
    found = File(openat(folder.get(), place.file, kHow));
  }
  if (!found) return failed(place, "opening it");
  if (const Status status = check_owner(place, found); status != kSuccess) return status;
  if (const Status status = check_contents(place, found); status != kSuccess) return status;
  file = std::move(found);
  return kSuccess;
}

Status map_region(const File& file, Layout*& layout) {
  void* const mapped = mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "mapping the region of a group: %s", std::strerror(errno));
  }
  if (madvise(mapped, kRegionBytes, MADV_DONTFORK) != 0) {
    const int error = errno;
    munmap(mapped, kRegionBytes);
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "keeping the region of a group from children: %s",
                std::strerror(error));
  }
  layout = static_cast<Layout*>(mapped);
  return kSuccess;
}

void unmap_region(Layout* layout) noexcept {
  munmap(layout, kRegionBytes);
}

bool lock_slot(const File& file, uint32_t slot) noexcept {
  struct flock lock {};
  return set_lock(file, F_WRLCK, F_OFD_SETLK, slot, lock);
}

void unlock_slot(const File& file, uint32_t slot) noexcept {
  struct flock lock {};
  (void)set_lock(file, F_UNLCK, F_OFD_SETLK, slot, lock);
}

bool is_locked(const File& file, uint32_t slot) noexcept {
  struct flock lock {};
  return !set_lock(file, F_WRLCK, F_OFD_GETLK, slot, lock) || lock.l_type != F_UNLCK;
}

uint64_t now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void wait_for(Bell& bell, uint32_t seen, uint64_t nanoseconds) noexcept {
  timespec time{};
  time.tv_sec = static_cast<time_t>(nanoseconds / 1'000'000'000);
  time.tv_nsec = static_cast<long>(nanoseconds % 1'000'000'000);
  // Not a private futex: other processes use the word too.
  syscall(SYS_futex, &bell, FUTEX_WAIT, seen, nanoseconds == ~uint64_t{0} ? nullptr : &time, nullptr, 0);
}

void ring(Bell& bell) noexcept {
  bell.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace gpupool::internal::share
