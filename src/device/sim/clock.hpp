// SPDX-License-Identifier: Apache-2.0
// Time on a simulated device, and the count of rules broken on it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <thread>

#include "base/status.hpp"

namespace gpupool::internal {

inline constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

/// time + duration, or the last moment before kNever.
constexpr uint64_t later(uint64_t time, uint64_t duration) noexcept {
  return duration >= kNever - time ? kNever - 1 : time + duration;
}

/// The host's clock in nanoseconds. Advanced under the device's lock; read without it. Its time is virtual,
/// or that of the machine: then calls take as long as their prices say, also beside those of other processes.
class SimClock {
 public:
  explicit SimClock(double price_scale, bool is_real = false)
      : price_scale_(price_scale), is_real_(is_real) {}

  bool is_real() const noexcept { return is_real_; }
  uint64_t now() const noexcept { return is_real_ ? elapsed() : now_.load(std::memory_order_relaxed); }
  void advance(uint64_t nanoseconds) noexcept { advance_to(later(now(), nanoseconds)); }
  void advance_to(uint64_t time) noexcept {
    if (is_real_) return wait_until(time);
    now_.store(std::max(now(), time), std::memory_order_relaxed);
  }

  /// Advances by the price of a driver call. Fractions of a nanosecond add up.
  void charge(double nanoseconds) noexcept {
    carry_ += nanoseconds * price_scale_;
    const auto whole = static_cast<uint64_t>(carry_);
    carry_ -= static_cast<double>(whole);
    advance(whole);
  }

 private:
  using Machine = std::chrono::steady_clock;
  using Nanoseconds = std::chrono::nanoseconds;

  uint64_t elapsed() const noexcept {
    return static_cast<uint64_t>(std::chrono::duration_cast<Nanoseconds>(Machine::now() - began_).count());
  }
  /// Like a driver's calls, short waits keep the processor.
  void wait_until(uint64_t time) const noexcept {
    constexpr uint64_t kLate = 200'000;  // a sleep may end so late
    for (uint64_t at = now(); at < time; at = now()) {
      if (time - at > kLate) std::this_thread::sleep_for(Nanoseconds(time - at - kLate));
    }
  }

  std::atomic<uint64_t> now_ = 0;
  double price_scale_;
  double carry_ = 0;
  bool is_real_;
  Machine::time_point began_ = Machine::now();
};

/// Broken rules: how many, and a description of the last one.
class SimFaults {
 public:
  /// Counts a fault and fails the call with the driver's number for it.
  [[gnu::format(printf, 3, 4), gnu::cold]] Status refuse(int32_t driver_code, const char* format,
                                                         ...) noexcept {
    ++count_;
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(last_, sizeof last_, format, arguments);
    va_end(arguments);
    return fail_driver(GPUPOOL_ERROR_DRIVER, driver_code, "simulated device: %s", last_);
  }

  uint64_t count() const noexcept { return count_; }
  const char* last() const noexcept { return last_; }

 private:
  uint64_t count_ = 0;
  char last_[512] = {};
};

/// CUDA's numbers for what the simulated driver refuses.
namespace driver_code {
inline constexpr int32_t kInvalidValue = 1;
inline constexpr int32_t kOutOfMemory = 2;
inline constexpr int32_t kInvalidHandle = 400;
inline constexpr int32_t kIllegalState = 401;
inline constexpr int32_t kIllegalAddress = 700;
inline constexpr int32_t kLaunchFailed = 719;
inline constexpr int32_t kNotSupported = 801;
inline constexpr int32_t kCaptureUnsupported = 900;
inline constexpr int32_t kUnknown = 999;
}  // namespace driver_code

}  // namespace gpupool::internal
