// SPDX-License-Identifier: Apache-2.0
// The simulated device for C++20: see "the simulated device" in gpupool.h. Since 0.2.
//
//     gpupool::sim::configure(0, {.capacity_bytes = 8u << 30});
//     gpupool::Pool pool({.backend = gpupool::Backend::sim});
//
// Errors are exceptions, as in gpupool.hpp.
#pragma once

#include <cstdint>
#include <string>

#include "gpupool/gpupool.hpp"

namespace gpupool {
inline namespace v0 {
namespace sim {

/// How a simulated device behaves, while no pool uses it. 0 leaves what the environment or the default says.
struct Config {
  uint32_t data = 0;  // 1: memory has contents; 2: addresses only
  uint64_t capacity_bytes = 0;
  double price_scale = 0;
  uint32_t streams = 0;  // 1: any number is a stream; 2: only those that were created
  uint64_t host_bytes = 0;
};

inline void configure(int32_t device, const Config& wanted = {}) {
  gpupool_sim_config_t config{};
  config.struct_size = sizeof config;
  config.data = wanted.data;
  config.capacity_bytes = wanted.capacity_bytes;
  config.price_scale = wanted.price_scale;
  config.streams = wanted.streams;
  config.host_bytes = wanted.host_bytes;
  check(gpupool_sim_configure(device, &config));
}

/// Makes calls of the simulated driver fail: "CALL:NUMBER[=ERROR]" with commas; "" ends all failures.
inline void script(int32_t device, const std::string& text) {
  check(gpupool_sim_script(device, text.c_str()));
}

/// Queues work of so much virtual time on a stream. It reads and writes size bytes at ptr.
inline void work(int32_t device, gpupool_stream_t stream, gpupool_ptr_t ptr, uint64_t size,
                 uint64_t nanoseconds) {
  check(gpupool_sim_work(device, stream, ptr, size, nanoseconds));
}

/// Lets virtual time pass.
inline void advance(int32_t device, uint64_t nanoseconds) {
  check(gpupool_sim_advance(device, nanoseconds));
}

/// Begins or ends a capture on a stream.
inline void capture(int32_t device, gpupool_stream_t stream, bool begin) {
  check(gpupool_sim_capture(device, stream, begin ? 1 : 0));
}

/// Queues on a stream what an ended capture recorded.
inline void launch(int32_t device, uint64_t capture, gpupool_stream_t stream) {
  check(gpupool_sim_launch(device, capture, stream));
}

/// Lets somebody else hold the memory that is mapped at ptr, as NCCL does; 0 ends all holds.
inline void hold(int32_t device, gpupool_ptr_t ptr) {
  check(gpupool_sim_hold(device, ptr));
}

/// How often a rule of the device was broken so far.
struct Faults {
  uint64_t count = 0;
  std::string last;  // in words; empty if there was none
};
[[nodiscard]] inline Faults faults(int32_t device) {
  Faults found;
  found.last.resize(512);
  check(gpupool_sim_faults(device, &found.count, found.last.data(), found.last.size()));
  found.last.resize(found.last.find('\0'));
  return found;
}

}  // namespace sim
}  // namespace v0
}  // namespace gpupool
