// SPDX-License-Identifier: Apache-2.0
#include "device/sim/shared.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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
constexpr off_t kFirstLock = kProcesses * sizeof(uint64_t);
constexpr size_t kNameMax = 48;

bool lock_of(int file, uint32_t slot, int command, short type, struct flock& lock) noexcept {
  lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = kFirstLock + static_cast<off_t>(slot);
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

/// Bytes by slot.
struct SimShared::Table {
  std::array<std::atomic<uint64_t>, kProcesses> held;
  std::array<std::atomic<uint64_t>, kProcesses> wanted;  // announced, and neither granted nor refused yet
};

std::string sim_shared_name(int32_t ordinal) {
  const char* const name = std::getenv("GPUPOOL_SIM_SHARED");
  const std::string middle = name == nullptr || *name == '\0' ? "" : std::string(name) + "-";
  return "sim-" + middle + std::to_string(ordinal);
}

std::string sim_shared_path(int32_t ordinal) {
  return "/dev/shm/gpupool-" + std::to_string(geteuid()) + "." + sim_shared_name(ordinal);
}

Status SimShared::open(int32_t ordinal, std::unique_ptr<SimShared>& shared) {
  const char* const name = std::getenv("GPUPOOL_SIM_SHARED");
  if (name == nullptr || *name == '\0') return kSuccess;
  if (!is_name(name)) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT,
                "GPUPOOL_SIM_SHARED is \"%.64s\", not 1 to %zu letters, digits, '-' and '_'", name, kNameMax);
  }
  std::string path = sim_shared_path(ordinal);
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return failed(path, "open");
  const Defer close_it([&] { close(file); });
  struct stat found {};
  if (fstat(file, &found) != 0) return failed(path, "fstat");
  if (found.st_uid != geteuid() || !S_ISREG(found.st_mode)) {
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "GPUPOOL_SIM_SHARED: %s is not this user's file", path.c_str());
  }
  if (!os::allocate_room(file, 0, sizeof(Table))) return failed(path, "posix_fallocate");
  void* const mapped = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return failed(path, "mmap");
  // The mapping keeps the lock when the descriptor is closed, and a child does not have the mapping.
  madvise(mapped, sizeof(Table), MADV_DONTFORK);
  auto* const table = static_cast<Table*>(mapped);
  struct flock lock {};
  uint32_t slot = 0;
  while (slot < kProcesses && !lock_of(file, slot, F_OFD_SETLK, F_WRLCK, lock)) ++slot;
  if (slot == kProcesses) {
    munmap(mapped, sizeof(Table));
    return fail(GPUPOOL_ERROR_UNAVAILABLE, "GPUPOOL_SIM_SHARED: %u processes share %s", kProcesses,
                path.c_str());
  }
  table->held[slot].store(0);
  table->wanted[slot].store(0);
  shared.reset(new SimShared(std::move(path), table, slot));
  return kSuccess;
}

SimShared::~SimShared() {
  if (table_ == nullptr) return;
  table_->held[slot_].store(0);
  munmap(static_cast<void*>(table_), sizeof(Table));
}

bool SimShared::charge(uint64_t bytes, uint64_t capacity) noexcept {
  if (table_ == nullptr) return true;
  table_->wanted[slot_].store(bytes);
  const bool is_granted = sum(true) <= capacity;
  // At no moment does neither count.
  if (is_granted) table_->held[slot_].fetch_add(bytes);
  table_->wanted[slot_].store(0);
  return is_granted;
}

void SimShared::refund(uint64_t bytes) noexcept {
  if (table_ != nullptr) table_->held[slot_].fetch_sub(bytes);
}

uint64_t SimShared::used() const noexcept {
  return table_ == nullptr ? 0 : sum(false);
}

uint64_t SimShared::sum(bool counts_wanted) const noexcept {
  uint64_t sum = 0;
  int file = -1;
  for (uint32_t slot = 0; slot < kProcesses; ++slot) {
    // Wanted first: what turns from wanted into held meanwhile counts at least once.
    uint64_t bytes = counts_wanted ? table_->wanted[slot].load() : 0;
    bytes += table_->held[slot].load();
    if (bytes == 0) continue;
    // Opened again, so that its own lock does not hide others'.
    if (slot != slot_ && file < 0) file = ::open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (slot == slot_ || file < 0 || is_alive(file, slot)) sum += bytes;
  }
  if (file >= 0) close(file);
  return sum;
}

}  // namespace gpupool::internal
