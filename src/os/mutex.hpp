// SPDX-License-Identifier: Apache-2.0
// A mutex that exists before any code runs. Elsewhere that is std::mutex; MinGW's needs code to be made.
#pragma once

#include <mutex>

namespace gpupool::internal::os {

#if defined(_WIN32)

class Mutex {
 public:
  constexpr Mutex() noexcept = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() noexcept;
  bool try_lock() noexcept;
  void unlock() noexcept;

 private:
  void* slim_ = nullptr;  // an SRWLOCK
};

#else

using Mutex = std::mutex;

#endif

}  // namespace gpupool::internal::os
