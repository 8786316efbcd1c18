// SPDX-License-Identifier: Apache-2.0
// What a device is that only has a malloc of its own: all that needs virtual memory is refused. A pool on it
// is in mode driver or upstream, and calls none of this.
#pragma once

#include "device/device.hpp"

namespace gpupool::internal {

class DeviceWithoutMappings : public Device {
 public:
  Status reserve_addresses(uint64_t, Address&) final { return refuse(); }
  Status release_addresses(Address, uint64_t) final { return refuse(); }
  Status create_chunk(uint64_t, ChunkHandle&) final { return refuse(); }
  Status release_chunk(ChunkHandle) final { return refuse(); }
  Status map(Address, uint64_t, ChunkHandle) final { return refuse(); }
  Status set_access(Address, uint64_t) final { return refuse(); }
  Status protect(Address, uint64_t, Permission) final { return refuse(); }
  Status unmap(Address, uint64_t) final { return refuse(); }
  Status export_chunk(ChunkHandle, SharedChunk&) final { return refuse(); }
  Status import_chunk(const SharedChunk&, uint64_t, ChunkHandle&) final { return refuse(); }
  void name_asleep(Address, uint64_t, const char*) noexcept final {}
  void annotate(Address, uint64_t, Accessibility) noexcept override {}

 private:
  static Status refuse() noexcept {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "this memory has no virtual memory management");
  }
};

}  // namespace gpupool::internal
