// SPDX-License-Identifier: Apache-2.0
#include "frameworks/audit/coverage.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "frameworks/audit/functions.hpp"
#include "frameworks/audit/group.hpp"
#include "frameworks/audit/line.hpp"
#include "frameworks/audit/nvml.hpp"
#include "frameworks/audit/pools.hpp"
#include "frameworks/audit/symbols.hpp"

namespace gpupool::audit {
namespace {

using AtExit = int(void (*)(void*), void*, void*);

constinit AtExit* at_exit = nullptr;
constinit std::atomic<bool> is_exit_watched{false};
constinit pid_t program_pid = 0;

struct Place {
  Lmid_t space;
  const char* path;
};
constinit Place driver_place{};

/// The driver hands out pages of this size, so less is no door that was missed.
constexpr uint64_t kPage = uint64_t{2} << 20;

using Bytes = unsigned long long;

void add_coverage(Line& line, int number) {
  Ledger::Device& device = Ledger::get().device(number);
  const uint64_t now = bytes_by_nvml(number);
  const uint64_t before = device.before.load(std::memory_order_relaxed);
  if (now == UINT64_MAX || before == UINT64_MAX) {
    line.add("; NVML does not say whether this is all");
    return;
  }
  const uint64_t known = before + device.account.used() + device.account.managed();
  if (now > known + kPage) line.add("; not covered: %llu bytes", Bytes{now - known});
}

void report(int number) {
  settle_pools(number);
  const Account& account = Ledger::get().device(number).account;
  Line line;
  line.add("gpupool run: device %d: at most %llu bytes", number, Bytes{account.peak()});
  if (cap != UINT64_MAX) line.add(" of %llu", Bytes{cap});
  if (is_limited()) line.add(", %llu refused", Bytes{account.refusals()});
  const char* comma = "; given in all: ";
  for (size_t kind = 0; kind < kKinds; ++kind) {
    if (account.given(kind) == 0) continue;
    line.add("%s%s %llu", comma, kKindNames[kind], Bytes{account.given(kind)});
    comma = ", ";
  }
  add_coverage(line, number);
  line.write();
}

/// The program goes on, since the cap is of what comes on top; but who counts on it for the whole is
/// mistaken.
void say_context(int number, uint64_t bytes) {
  Line line;
  line.add("gpupool run: device %d: a cap of %llu bytes is less than what the context takes, %llu bytes, ",
           number, Bytes{cap}, Bytes{bytes});
  line.add("which it does not count");
  line.write();
}

/// Before the driver ends itself, which has begun earlier. In a forked child there is nothing to report.
void report_all(void*) {
  Ledger::get().for_each_seen(report);
}

/// A link of /proc/self/fd to the device that every process with memory of CUDA's has open, and hardly one
/// without: NVML and graphics do not need it. In a container its folder may be another one's.
bool is_compute_device(int folder, const char* name) {
  std::array<char, 256> path{};
  const ssize_t size = readlinkat(folder, name, path.data(), path.size());
  return size > 0 && std::string_view(path.data(), static_cast<size_t>(size)).ends_with("/dev/nvidia-uvm");
}

/// By the system call, since opendir calls malloc, and glibc has a function for it only since 2.30.
bool has_compute_device() {
  const int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  alignas(dirent64) std::array<char, 4096> entries{};
  bool is_found = false;
  long size = 0;
  while (!is_found && (size = syscall(SYS_getdents64, folder, entries.data(), entries.size())) > 0) {
    for (long at = 0; at < size && !is_found;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(entries.data() + at);
      is_found = is_compute_device(folder, entry->d_name);
      at += entry->d_reclen;
    }
  }
  close(folder);
  return is_found;
}

/// Registered first, so it runs after what the program and its libraries have registered, the driver too. A
/// forked child has its parent's open files, and no memory on a GPU.
void report_unseen(void*) {
  bool is_seen = false;
  Ledger::get().for_each_seen([&](int) { is_seen = true; });
  if (is_seen || getpid() != program_pid || !has_compute_device()) return;
  const uint64_t bytes = bytes_by_nvml();
  Line line;
  line.add("gpupool run: no hooked call gave memory");
  if (bytes != UINT64_MAX)
    line.add("; not covered: %llu bytes", Bytes{bytes});
  else
    line.add(", though a GPU is open; NVML does not say what the process has");
  line.write();
}

}  // namespace

void begin_libc(const link_map& object) noexcept {
  find_function(object, "__cxa_atexit", at_exit);
}

void begin_program() noexcept {
  program_pid = getpid();
  if (at_exit != nullptr) (void)at_exit(report_unseen, nullptr, nullptr);
}

void begin_driver(const link_map& object, Lmid_t space) noexcept {
  driver_place = {space, object.l_name};
}

void keep_driver() noexcept {
  (void)dlmopen(driver_place.space, driver_place.path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

bool see_device_first(int number) noexcept {
  int count = 0;
  if (real.cuDeviceGetCount(&count) != CUDA_SUCCESS || number >= count) return false;
  Ledger::Device& device = Ledger::get().device(number);
  keep_driver();
  find_default_pools(std::min(count, Ledger::kMostDevices));  // by each thread that comes here at once
  join(number);
  if (!Ledger::get().see(number)) return true;
  const uint64_t now = bytes_by_nvml(number);
  const uint64_t by_others = std::min(now, device.account.used());  // threads, meanwhile
  const uint64_t before = now == UINT64_MAX ? now : now - by_others;
  device.before = before;
  if (now != UINT64_MAX && before > cap) say_context(number, before);
  if (at_exit != nullptr && !is_exit_watched.exchange(true)) (void)at_exit(report_all, nullptr, nullptr);
  return true;
}

}  // namespace gpupool::audit
