// SPDX-License-Identifier: Apache-2.0
#include "frameworks/audit/coverage.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>

#include "frameworks/audit/functions.hpp"
#include "frameworks/audit/line.hpp"
#include "frameworks/audit/nvml.hpp"
#include "frameworks/audit/pools.hpp"
#include "frameworks/audit/symbols.hpp"

namespace gpupool::audit {
namespace {

using AtExit = int(void (*)(void*), void*, void*);

constinit AtExit* at_exit = nullptr;
constinit std::atomic<bool> is_exit_watched{false};

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
  if (cap != UINT64_MAX) line.add(" of %llu, %llu refused", Bytes{cap}, Bytes{account.refusals()});
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

}  // namespace

void begin_libc(const link_map& object) noexcept {
  find_function(object, "__cxa_atexit", at_exit);
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
