// SPDX-License-Identifier: Apache-2.0
#include "device/sim/shared.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/defer.hpp"
#include "os/files.hpp"

namespace gpupool::internal {
namespace {

constexpr uint32_t kProcesses = 1024;
constexpr size_t kBytes = kProcesses * sizeof(uint64_t);
constexpr size_t kNameMax = 48;

bool lock_of(int file, uint32_t slot, int command, short type, struct flock& lock) noexcept {
  lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(kBytes + slot);
  lock.l_len = 1;
  return fcntl(file, command, &lock) == 0;
}

bool is_alive(int file, uint32_t slot) noexcept {
  struct flock lock {};
  return !lock_of(file, slot, F_OFD_GETLK, F_WRLCK, lock) || lock.l_type != F_UNLCK;
}

bool is_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= kNameMax && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

Status failed(const std::string& path, const char* call) {
  return fail(GPUPOOL_ERROR_UNAVAILABLE, "GPUPOOL_SIM_SHARED: %s of %s: %s", call, path.c_str(),
              std::strerror(errno));
}

}  // namespace

std::string sim_shared_name(int32_t ordinal) {
  const char* const name = std::getenv("GPUPOOL_SIM_SHARED");
  const std::string middle = name == nullptr || *name == '\0' ? "" : std::string(name) + "-";
  return "sim-" + middle + std::to_string(ordinal);
}

Status SimShared::open(int32_t ordinal, std::unique_ptr<SimShared>& shared) {
  const char* const name = std::getenv("GPUPOOL_SIM_SHARED");
  if (name == nullptr || *name == '\0') return kSuccess;
  if (!is_name(name)) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                "GPUPOOL_SIM_SHARED is \"%.64s\", not 1 to %zu letters, digits, '-' and '_'", name, kNameMax);
  }
  std::string path = "/dev/shm/gpupool-" + std::to_string(geteuid()) + "." + sim_shared_name(ordinal);
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return failed(path, "open");
  const Defer close_it([&] { close(file); });
  struct stat found {};
  if (fstat(file, &found) != 0) return failed(path, "fstat");
  if (found.st_uid != geteuid() || !S_ISREG(found.st_mode)) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "GPUPOOL_SIM_SHARED: %s is not this user's file", path.c_str());
  }
  if (!os::allocate_room(file, 0, kBytes)) return failed(path, "posix_fallocate");
  void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return failed(path, "mmap");
  // The mapping keeps the lock when the descriptor is closed, and a child does not have the mapping.
  madvise(mapped, kBytes, MADV_DONTFORK);
  auto* const charged = static_cast<std::atomic<uint64_t>*>(mapped);
  struct flock lock {};
  uint32_t slot = 0;
  while (slot < kProcesses && !lock_of(file, slot, F_OFD_SETLK, F_WRLCK, lock)) ++slot;
  if (slot == kProcesses) {
    munmap(mapped, kBytes);
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "GPUPOOL_SIM_SHARED: %u processes share %s", kProcesses,
                path.c_str());
  }
  charged[slot].store(0);
  shared.reset(new SimShared(std::move(path), charged, slot));
  return kSuccess;
}

SimShared::~SimShared() {
  if (charged_ == nullptr) return;
  charged_[slot_].store(0);
  munmap(static_cast<void*>(charged_), kBytes);
}

bool SimShared::charge(uint64_t bytes, uint64_t capacity) noexcept {
  if (charged_ == nullptr) return true;
  charged_[slot_].fetch_add(bytes);
  if (used() <= capacity) return true;
  charged_[slot_].fetch_sub(bytes);
  return false;
}

void SimShared::refund(uint64_t bytes) noexcept {
  if (charged_ != nullptr) charged_[slot_].fetch_sub(bytes);
}

uint64_t SimShared::used() const noexcept {
  if (charged_ == nullptr) return 0;
  uint64_t sum = charged_[slot_].load();
  int file = -1;
  for (uint32_t slot = 0; slot < kProcesses; ++slot) {
    const uint64_t bytes = slot == slot_ ? 0 : charged_[slot].load();
    if (bytes == 0) continue;
    // Opened again, so that its own lock does not hide others'.
    if (file < 0) file = ::open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0 || is_alive(file, slot)) sum += bytes;
  }
  if (file >= 0) close(file);
  return sum;
}

}  // namespace gpupool::internal
