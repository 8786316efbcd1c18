// SPDX-License-Identifier: Apache-2.0
// NVIDIA's compute-sanitizer, which runs a program and checks what its kernels and copies touch. It knows the
// driver's allocations; where the blocks in them are, a pool in debug mode annotate tells it, through NVTX's
// extension for memory. Only the parts of that interface which are used here are declared, so building needs
// no part of CUDA.
#pragma once

#include <map>
#include <mutex>

#include "device/device.hpp"

namespace gpupool::internal {

/// Tells the tool about one device's memory.
class ComputeSanitizer {
 public:
  /// Whether this process runs under the tool, and the tool takes what NVTX says. Loads the tool's library if
  /// it is not there yet: call it once the driver is initialised. The answer stays. Throws std::bad_alloc.
  static bool is_present();

  /// See Device::annotate. Call it only if is_present(). The tool checks accesses when they happen: what was
  /// queued must be done before memory is closed. If the host has no memory for the records, more stays open.
  void annotate(Address address, uint64_t size, Accessibility accessibility) noexcept;

 private:
  struct Heap {
    uint64_t size = 0;
    void* handle = nullptr;
  };

  bool contains(Address address) const noexcept;
  void begin_heap(Address address, uint64_t size);
  void end_heap(std::map<Address, Heap>::iterator heap) noexcept;
  void open(Address address, uint64_t size);
  void close(Address address, uint64_t size);
  void close_one(std::map<Address, uint64_t>::iterator region) noexcept;

  std::mutex mutex_;
  std::map<Address, Heap> heaps_;        // memory that the pool got from the driver
  std::map<Address, uint64_t> regions_;  // the parts of it that may be touched: apart from each other
};

}  // namespace gpupool::internal
