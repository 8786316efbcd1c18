// SPDX-License-Identifier: Apache-2.0
// A CUDA device over the driver's function table. See device.hpp for the contract and cuda.hpp for how to
// open one.
#pragma once

#include <vector>

#include "base/no_copy.hpp"
#include "device/cuda/api.hpp"
#include "device/cuda/compute_sanitizer.hpp"
#include "device/cuda/host_pages.hpp"
#include "device/cuda/inspection.hpp"
#include "device/cuda/peer_access.hpp"
#include "device/cuda/scope.hpp"
#include "device/cuda/spare_events.hpp"
#include "device/device.hpp"

namespace gpupool::internal {

/// What open_cuda() found out about a device.
struct CudaDeviceSetup {
  DeviceInfo info;
  cuda::CUcontext context = nullptr;
  bool is_primary = false;            // the context
  unsigned long long context_id = 0;  // 0: the driver has no numbers
  /// Other devices that may use the memory, without duplicates.
  std::vector<cuda::CUdevice> peers;
  bool shareable_chunks = false;
  bool rdma_chunks = false;
  bool maps_host_pages = false;  // kernels may use the addresses of memory that is registered
};

/// How chunks of a device are created.
cuda::CUmemAllocationProp cuda_chunk_properties(cuda::CUdevice device, bool shareable, bool rdma) noexcept;

class CudaDevice final : public Device, NoCopy {
 public:
  CudaDevice(const CudaDriver& driver, CudaDeviceSetup setup);
  ~CudaDevice() override;

  const DeviceInfo& info() const noexcept override { return setup_.info; }
  Status free_memory(uint64_t& free) override;
  uint64_t now_ns() noexcept override;
  bool is_lost() noexcept override;

  Status reserve_addresses(uint64_t size, Address& base) override;
  Status release_addresses(Address base, uint64_t size) override;
  Status create_chunk(uint64_t size, ChunkHandle& chunk) override;
  Status release_chunk(ChunkHandle chunk) override;
  Status map(Address address, uint64_t size, ChunkHandle chunk) override;
  Status set_access(Address address, uint64_t size) override;
  Status protect(Address address, uint64_t size, Permission access) override;
  Status unmap(Address address, uint64_t size) override;

  Status export_chunk(ChunkHandle chunk, SharedChunk& shared) override;
  Status import_chunk(const SharedChunk& shared, uint64_t size, ChunkHandle& chunk) override;

  Status add_peer(int32_t peer, bool all) override;
  void remove_peer(int32_t peer) noexcept override;

  Status allocate(Kind kind, uint64_t size, Stream stream, Address& address) override;
  Status deallocate(Kind kind, Address address, uint64_t size, Stream stream) override;

  Status context_of(Stream stream, uint64_t& context) override;
  bool has_context(uint64_t context) override { return context == 0 || contexts_.find(context) != nullptr; }
  Status record(Stream stream, uint64_t context, Event& event) override;
  Status query(Event event, bool& passed) override;
  Status wait(Stream stream, Event event) override;
  Status synchronize(Event event) override;
  void recycle(Event event) noexcept override;
  Status synchronize_all(uint64_t context) override;
  Status is_capturing(Stream stream, bool& capturing) override;
  /// An invalidated capture, which has no number from the driver, is UINT64_MAX until it ends. The legacy
  /// default stream is never captured, but other streams' captures can make it unusable: the driver says
  /// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and asking does not end that capture.
  Status capture_id(Stream stream, uint64_t& id) override;

  Status create_stream(Stream& stream) override;
  Status destroy_stream(Stream stream) override;
  Status synchronize_stream(Stream stream) override;
  Status copy(Address destination, Address source, uint64_t size, Stream stream) override;
  Status fill(Address destination, uint8_t value, uint64_t size, Stream stream) override;
  Status fill_words(Address destination, uint32_t word, uint64_t size, Stream stream) override;

  Status host_memory(uint64_t& available) override;
  Status transfer(Address destination, Address source, uint64_t size, Stream stream) override;
  void name_asleep(Address, uint64_t, const char*) noexcept override {}
  Status begin_inspecting() override;
  Status inspect(std::span<const Look> looks, Address report, Stream stream) override;
  void annotate(Address address, uint64_t size, Accessibility accessibility) noexcept override {
    if (setup_.info.annotates) sanitizer_.annotate(address, size, accessibility);
  }

 private:
  CudaScope enter(CaptureSafety safety) const noexcept { return {driver_, setup_.context, safety}; }
  /// For giving back chunks and addresses, which belong to no context.
  CudaScope enter_to_release() const noexcept {
    return {driver_, lost_.load(std::memory_order_relaxed) ? nullptr : setup_.context, CaptureSafety::unsafe};
  }
  bool is_context_there() const noexcept;
  /// Waits for all work of a context.
  Status wait_for(cuda::CUcontext chosen);
  Status allocate_device(uint64_t size, Address& address);
  bool is_integrated() const noexcept {
    return (setup_.info.capabilities & GPUPOOL_CAPABILITY_INTEGRATED) != 0;
  }
  /// OUT_OF_MEMORY if memory of this kind is the host's, and the process cannot have so much of it.
  Status check_host(Kind kind, uint64_t size);

  const CudaDriver& driver_;
  const CudaDeviceSetup setup_;
  std::atomic<bool> lost_{false};
  PeerAccess peers_;
  OtherContexts contexts_;
  SpareEvents events_;
  HostPages host_pages_;
  CudaInspection inspection_;
  ComputeSanitizer sanitizer_;
};

}  // namespace gpupool::internal
