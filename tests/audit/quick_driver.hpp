// SPDX-License-Identifier: Apache-2.0
// What the stand-in of quick_driver.cpp knows.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <mutex>
#include <unordered_map>

#include "frameworks/audit/functions.hpp"

namespace quick_driver {

using namespace gpupool::audit;

inline constexpr int kInvalidValue = 1;
inline constexpr int kNotInitialized = 3;
inline constexpr int kInvalidDevice = 101;
inline constexpr int kInvalidContext = 201;
inline constexpr int kNotFound = 500;
inline constexpr int kDevices = 2;
inline constexpr uint64_t kCapacity = uint64_t{64} << 30;
inline constexpr uint64_t kGranule = uint64_t{32} << 20;  // by which pools grow
inline constexpr uint64_t kPitch = 512;

struct Context {
  int device;
  bool is_primary;
};

struct Pool {
  int device;
  uint64_t live = 0;
  uint64_t reserved = 0;
  bool is_destroyed = false;  // and goes with the last of its memory
};

struct Given {
  int device;
  uint64_t bytes;
  Context* context = nullptr;
  Pool* pool = nullptr;
  uint64_t holders = 1;  // of a chunk: handles and mappings
};

struct Stream {
  Context* context;
  bool is_captured = false;
  uint64_t captured = 0;
};

struct Device {
  std::atomic<uint64_t> used{0};
  std::atomic<uint64_t> peak{0};
  Context primary{};
  int references = 0;
  Pool pool{};  // by default
  Pool* chosen = nullptr;
  uint64_t graphs = 0;
};

struct Driver {
  std::mutex lock;
  std::atomic<bool> is_begun{false};
  std::atomic<bool> is_forked{false};  // from a process in which it had begun: nothing works here
  Device devices[kDevices];
  std::unordered_map<uint64_t, Given> given;      // by address, or handle of an array
  std::unordered_map<uint64_t, Given> chunks;     // by handle
  std::unordered_map<uint64_t, uint64_t> mapped;  // address to handle
  uint64_t next = uint64_t{1} << 40;
  std::map<uintptr_t, uint64_t> requests;  // for functions, by who makes them
};

Driver& driver();

inline constinit thread_local Context* current = nullptr;

using Guard = std::lock_guard<std::mutex>;

/// What the driver says before it looks at anything else: it has not begun, an address is missing, it has no
/// such device. 0: go on.
int judge(std::initializer_list<const void*> needed, int device = 0);

/// With the lock.
bool charge(int device, uint64_t bytes);
uint64_t place(uint64_t bytes);
void hold(Pool& pool, uint64_t bytes);
void end_if_unused(Pool& pool);
/// Without it.
int take_back(uint64_t address);

template <typename Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

int give(uint64_t bytes, uint64_t* address);

}  // namespace quick_driver
