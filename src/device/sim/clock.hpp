// SPDX-License-Identifier: Apache-2.0
// Virtual time of a simulated device, and the count of rules broken on it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <limits>

#include "base/status.hpp"

namespace gpupool::internal {

inline constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

/// time + duration, or the last moment before kNever.
constexpr uint64_t later(uint64_t time, uint64_t duration) noexcept {
  return duration >= kNever - time ? kNever - 1 : time + duration;
}

/// The host's clock in nanoseconds. Advanced under the device's lock; read without it.
class SimClock {
 public:
  explicit SimClock(double price_scale) : price_scale_(price_scale) {}

  uint64_t now() const noexcept { return now_.load(std::memory_order_relaxed); }
  void advance(uint64_t nanoseconds) noexcept { set(later(now(), nanoseconds)); }
  void advance_to(uint64_t time) noexcept { set(std::max(now(), time)); }

  /// Advances by the price of a driver call. Fractions of a nanosecond add up.
  void charge(double nanoseconds) noexcept {
    carry_ += nanoseconds * price_scale_;
    const auto whole = static_cast<uint64_t>(carry_);
    carry_ -= static_cast<double>(whole);
    advance(whole);
  }

 private:
  void set(uint64_t time) noexcept { now_.store(time, std::memory_order_relaxed); }

  std::atomic<uint64_t> now_ = 0;
  double price_scale_;
  double carry_ = 0;
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
