// SPDX-License-Identifier: Apache-2.0
#include "frameworks/audit/group.hpp"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/gpu_id.hpp"
#include "frameworks/audit/functions.hpp"
#include "share/policy.hpp"
#include "share/region_linux.hpp"

namespace gpupool::audit {
namespace {

using share::Layout;
using share::Slot;

constexpr uint64_t kWaitNs = 50'000'000;

struct Group {
  std::array<char, 64> name;
  std::array<char, 4096> folder;
  bool is_folder_own;
  uint64_t limit;  // for an empty one; 0: none is asked for
};
constinit Group group{};

/// False: the text is longer.
template <size_t Size>
bool copy(const char* text, std::array<char, Size>& to) {
  return std::snprintf(to.data(), Size, "%s", text) < static_cast<int>(Size);
}

/// The region's names, for one device. Calls `use` with them.
template <typename Use>
auto with_spot(int device, Use use) {
  CUuuid uuid{};
  const auto ask = real.cuDeviceGetUuid_v2 != nullptr ? real.cuDeviceGetUuid_v2 : real.cuDeviceGetUuid;
  size_t total = 0;
  if (ask == nullptr || ask(&uuid, device) != CUDA_SUCCESS ||
      real.cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS)
    return internal::fail(GPUPOOL_ERROR_UNAVAILABLE, "device %d: the driver gives no UUID", device);
  const auto id = internal::gpu_id(uuid.bytes);
  std::array<char, 128> file{};
  std::array<char, 4352> path{};
  std::snprintf(file.data(), file.size(), "%s.%s", group.name.data(), id.data());
  std::snprintf(path.data(), path.size(), "%s/%s", group.folder.data(), file.data());
  return use(share::Spot{group.folder.data(), group.is_folder_own, file.data(), path.data(), id.data(), total,
                         group.limit});
}

/// UINT64_MAX: not known, since another device is current.
uint64_t free_bytes(int device) {
  int current = -1;
  size_t free = 0;
  size_t total = 0;
  if (real.cuCtxGetDevice(&current) != CUDA_SUCCESS || current != device) return UINT64_MAX;
  // The question would end a capture of the program's.
  unsigned mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  const auto exchange = real.cuThreadExchangeStreamCaptureMode;
  if (exchange != nullptr) (void)exchange(&mode);
  const int result = real.cuMemGetInfo_v2(&free, &total);
  if (exchange != nullptr) (void)exchange(&mode);
  return result == CUDA_SUCCESS ? free : UINT64_MAX;
}

const char* name_of_program() {
  const auto* const path = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (path == nullptr) return "?";
  const char* const slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

/// Whoever finds no place runs alone, as a pool does. A child that another thread forks while the file is
/// open keeps the place until it ends or starts a program.
internal::Status enter(int device, const share::Spot& spot) {
  share::File file;
  Layout* region = nullptr;
  internal::Status status = share::open_region(spot, true, file);
  if (status == internal::kSuccess) status = share::map_region(file, region);
  if (status != internal::kSuccess) return status;
  (void)share::refund_the_dead(*region, file, free_bytes(device));
  uint32_t slot = 0;
  const share::Resident self{name_of_program(), geteuid(), static_cast<uint64_t>(getpid())};
  if (!share::take_slot(*region, file, self, slot)) {
    share::unmap_region(region);
    return internal::fail(GPUPOOL_ERROR_UNAVAILABLE, "all places of %s are taken", spot.path);
  }
  share::set_limit_of_empty(*region, slot, group.limit);
  Ledger::get().device(device).account.begin_share(*region, slot);
  return internal::kSuccess;
}

void raise(share::Number& number, uint64_t to) {
  uint64_t seen = number.load();
  while (seen < to && !number.compare_exchange_weak(seen, to)) {
  }
}

}  // namespace

void read_group() noexcept {
  const char* const name = secure_getenv("GPUPOOL_RUN_SHARE");
  if (name == nullptr || *name == '\0') return;
  if (share::check_group("GPUPOOL_RUN_SHARE", name) != internal::kSuccess) return;
  const char* const folder = secure_getenv("GPUPOOL_SHARE_DIR");
  group.is_folder_own = folder == nullptr || *folder == '\0';
  std::snprintf(group.folder.data(), group.folder.size(), "/dev/shm/gpupool-%u", geteuid());
  shares = copy(name, group.name) && (group.is_folder_own || copy(folder, group.folder));
  if (const char* const limit = secure_getenv("GPUPOOL_RUN_SHARE_LIMIT"); limit != nullptr)
    (void)std::from_chars(limit, limit + std::strlen(limit), group.limit);
}

void join_first(int number) noexcept {
  std::atomic<Ledger::Joined>& joined = Ledger::get().device(number).joined;
  auto before = Ledger::Joined::no;
  if (joined.compare_exchange_strong(before, Ledger::Joined::soon)) {
    (void)with_spot(number, [&](const share::Spot& spot) { return enter(number, spot); });
    joined = Ledger::Joined::yes;
  }
  constexpr timespec kRest{0, 50'000};
  while (joined != Ledger::Joined::yes) nanosleep(&kRest, nullptr);  // another thread is at it
}

GroupWait::GroupWait(int device, uint64_t bytes) noexcept : device_(device), bytes_(bytes) {
  Account& account = Ledger::get().device(device).account;
  const uint64_t limit = account.limit();
  waits_ = account.share().region() != nullptr && account.used() <= limit && bytes <= limit - account.used();
  if (!waits_) return;
  until_ = share::now_ns() + kWaitNs;
  account.with_share([&](Share& own) { own.begin_wait(bytes_, until_); });
}

GroupWait::~GroupWait() {
  if (waits_) Ledger::get().device(device_).account.with_share([&](Share& own) { own.end_wait(bytes_); });
}

bool GroupWait::go_on() noexcept {
  if (!waits_ || is_last_ || share::now_ns() >= until_) return false;
  Layout& region = *Ledger::get().device(device_).account.share().region();
  const uint32_t seen = region.header.freed.load();
  const bool more_to_come = sweep(region);
  const bool asks = ask(region);
  if (!more_to_come && !asks) {
    is_last_ = true;  // what came meanwhile
  } else {
    share::wait_for(region.header.freed, seen, share::policy::kSweepNs);
  }
  return true;
}

/// True: memory of dead ones is still to come.
bool GroupWait::sweep(Layout& region) const noexcept {
  uint64_t limbo = 0;
  (void)with_spot(device_, [&](const share::Spot& spot) {
    share::File file;
    const internal::Status status = share::open_region(spot, false, file);
    // If another file has the name by now, its locks say nothing about this region.
    if (status == internal::kSuccess &&
        share::is_locked(file, Ledger::get().device(device_).account.share().slot()))
      limbo = share::refund_the_dead(region, file, free_bytes(device_));
    return status;
  });
  return limbo != 0;
}

/// Each once, for what it has beyond its guarantee, as much as is still wanted. True: one has yet to answer.
bool GroupWait::ask(Layout& region) noexcept {
  const uint32_t own = Ledger::get().device(device_).account.share().slot();
  bool is_expected = false;
  uint64_t left = bytes_;
  for (uint32_t slot = 0; slot < share::kSlots && left != 0; ++slot) {
    Slot& each = region.slots[slot];
    const uint64_t reserved = each.reserved.load();
    const uint64_t guaranteed = each.guaranteed.load();
    if (slot == own || each.pid.load() == 0 || reserved <= guaranteed) continue;
    const bool is_late = each.answered.load() != each.bell.load();
    if (asked_[slot] && !is_late) continue;
    const uint64_t part = std::min(left, reserved - guaranteed);
    left -= part;
    is_expected = true;
    if (asked_[slot]) continue;
    asked_[slot] = true;
    raise(each.asked, part);
    raise(each.asked_until, until_);
    each.asked_priority.store(region.slots[own].priority.load());
    each.asked_by_rich.store(share::beyond_share(region, own) > 0 ? 1 : 0);
    share::ring(each.bell);
  }
  return is_expected;
}

}  // namespace gpupool::audit
