// SPDX-License-Identifier: Apache-2.0
// The CUDA device over the stand-in driver: memory, order, streams, and every driver call failing once.
#include <cstring>
#include <functional>
#include <set>
#include <thread>

#include "cuda_fixture.hpp"
#include "os/host_memory.hpp"

namespace gpupool::internal {
namespace {

using CudaDeviceTest = CudaTest;

TEST_F(CudaDeviceTest, DescribesTheDevice) {
  EXPECT_EQ(device_->info().backend, GPUPOOL_BACKEND_CUDA);
  EXPECT_EQ(device_->info().ordinal, 0);
  EXPECT_STREQ(device_->info().name, "Stand-in GPU 0");
  EXPECT_EQ(device_->info().total, uint64_t{8} << 30);
  EXPECT_EQ(device_->info().granularity, kGranule);
  EXPECT_EQ(device_->info().driver_version, 13000);
  EXPECT_EQ(device_->info().compute_capability, 90);
  EXPECT_EQ(device_->info().capabilities,
            uint32_t{GPUPOOL_CAPABILITY_VMM | GPUPOOL_CAPABILITY_RDMA | GPUPOOL_CAPABILITY_MANAGED});
}

TEST_F(CudaDeviceTest, DescribesADeviceThatCanDoLittle) {
  fake_.set_attribute(1, cuda::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
  fake_.set_attribute(1, cuda::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0);
  fake_.set_attribute(1, cuda::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0);
  fake_.set_attribute(1, cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 6);
  const auto old = open(1);
  ASSERT_NE(old, nullptr) << last_message();
  EXPECT_EQ(old->info().capabilities, 0u);
  EXPECT_EQ(old->info().granularity, kGranule);
  EXPECT_EQ(old->info().compute_capability, 60);
  EXPECT_EQ(old->info().ordinal, 1);
}

TEST_F(CudaDeviceTest, RefusesDevicesThatDoNotExist) {
  int32_t count = 0;
  EXPECT_EQ(cuda_device_count(count), kSuccess);
  EXPECT_EQ(count, 2);
  std::unique_ptr<Device> device;
  EXPECT_EQ(open_cuda(2, {}, device), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_message(), "CUDA device 2 does not exist: there are 2");
  EXPECT_EQ(open_cuda(-1, {}, device), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(device, nullptr);
}

TEST_F(CudaDeviceTest, ChecksPeers) {
  std::unique_ptr<Device> device;
  EXPECT_EQ(open_cuda(0, std::vector<int32_t>{2}, device), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(open_cuda(0, std::vector<int32_t>{-1}, device), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(open_cuda(0, std::vector<int32_t>{0}, device), kSuccess);  // itself: as on the simulated device
  device.reset();
  fake_.set_peer_access(0, 1, 0);  // the other direction, which does not matter
  EXPECT_EQ(open_cuda(0, std::vector<int32_t>{1}, device), kSuccess);
  device.reset();
  fake_.set_peer_access(1, 0, 0);
  EXPECT_EQ(open_cuda(0, std::vector<int32_t>{1}, device), GPUPOOL_ERROR_UNSUPPORTED);
  EXPECT_EQ(last_message(), "CUDA device 1 cannot access the memory of device 0");
  EXPECT_EQ(device, nullptr);
}

TEST_F(CudaDeviceTest, MemoryIsAccessibleToPeers) {
  const Mapped own = map_granule(*device_);
  EXPECT_EQ(fake_.seen().access_devices, 1u);
  unmap_granule(*device_, own);
  const auto shared = open(0, {1, 1});  // named twice: granted once
  ASSERT_NE(shared, nullptr);
  const uint64_t calls = fake_.calls("cuMemSetAccess");
  const Mapped both = map_granule(*shared);
  EXPECT_EQ(fake_.seen().access_devices, 3u);
  EXPECT_EQ(fake_.calls("cuMemSetAccess"), calls + 1);
  unmap_granule(*shared, both);
}

TEST_F(CudaDeviceTest, PeersComeToALivingDevice) {
  const Mapped before = map_granule(*device_);
  EXPECT_EQ(device_->add_peer(2, false), GPUPOOL_ERROR_INVALID_ARGUMENT);
  ASSERT_EQ(device_->add_peer(1, false), kSuccess) << last_message();
  ASSERT_EQ(device_->add_peer(1, false), kSuccess) << last_message();
  ASSERT_EQ(device_->set_access(before.address, kGranule), kSuccess);
  EXPECT_EQ(fake_.seen().access_devices, 3u);
  const Mapped after = map_granule(*device_);
  EXPECT_EQ(fake_.seen().access_devices, 3u);
  device_->remove_peer(1);
  ASSERT_EQ(device_->set_access(before.address, kGranule), kSuccess);
  EXPECT_EQ(fake_.seen().access_devices, 1u);
  ASSERT_EQ(device_->protect(before.address, kGranule, Permission::read), kSuccess);
  EXPECT_EQ(fake_.seen().access_devices, 1u) << "a removed peer may not even read";
  unmap_granule(*device_, before);
  unmap_granule(*device_, after);
  const uint64_t calls = fake_.calls("cuCtxEnablePeerAccess");
  ASSERT_EQ(device_->add_peer(1, true), kSuccess) << last_message();
  EXPECT_EQ(fake_.calls("cuCtxEnablePeerAccess"), calls + 1) << "for what cuMemAlloc has given already";
}

TEST_F(CudaDeviceTest, PeersAreEnabledForTheDriversMallocOnce) {
  const uint64_t calls = fake_.calls("cuCtxEnablePeerAccess");
  for (int round = 0; round < 2; ++round) {  // the second device finds it enabled already
    const auto shared = open(0, {1});
    for (int block = 0; block < 2; ++block) {
      Address address = 0;
      ASSERT_EQ(shared->allocate(Kind::device, kMiB, 0, address), kSuccess) << last_message();
      EXPECT_EQ(fake_.calls("cuCtxEnablePeerAccess"), calls + 1 + static_cast<uint64_t>(round));
      EXPECT_EQ(shared->deallocate(Kind::device, address, kMiB, 0), kSuccess);
    }
  }
}

TEST_F(CudaDeviceTest, OneChunkAtTwoAddressesIsOneMemory) {
  const Mapped first = map_granule(*device_);
  Address second = 0;
  ASSERT_EQ(device_->reserve_addresses(kGranule, second), kSuccess);
  ASSERT_EQ(device_->map(second, kGranule, first.chunk), kSuccess);
  unsigned char bytes[16] = {};
  const auto host = reinterpret_cast<Address>(bytes);
  EXPECT_EQ(device_->copy(host, second, sizeof bytes, 0), GPUPOOL_ERROR_DRIVER);  // no access set
  EXPECT_EQ(last_error().driver_code, 700);
  ASSERT_EQ(device_->set_access(second, kGranule), kSuccess);
  EXPECT_EQ(device_->fill(first.address + 512, 0xab, 8, 0), kSuccess);
  EXPECT_EQ(device_->copy(host, second + 512, sizeof bytes, 0), kSuccess);
  EXPECT_EQ(bytes[7], 0xab);
  EXPECT_EQ(bytes[8], 0);
  EXPECT_EQ(device_->unmap(second, kGranule), kSuccess);
  EXPECT_EQ(device_->release_addresses(second, kGranule), kSuccess);
  unmap_granule(*device_, first);
}

TEST_F(CudaDeviceTest, NeighbouringMappingsAreTakenAwayInOneCall) {
  Address base = 0;
  ChunkHandle chunk = 0;
  ASSERT_EQ(device_->reserve_addresses(4 * kGranule, base), kSuccess);
  ASSERT_EQ(device_->create_chunk(2 * kGranule, chunk), kSuccess);
  ASSERT_EQ(device_->map(base, 2 * kGranule, chunk), kSuccess);
  ASSERT_EQ(device_->map(base + 2 * kGranule, 2 * kGranule, chunk), kSuccess);
  EXPECT_EQ(device_->set_access(base, 4 * kGranule), kSuccess);
  EXPECT_EQ(device_->unmap(base, kGranule), GPUPOOL_ERROR_DRIVER);  // half a mapping
  EXPECT_EQ(device_->unmap(base, 4 * kGranule), kSuccess);
  EXPECT_EQ(device_->map(base, kGranule, chunk), GPUPOOL_ERROR_DRIVER);  // half a chunk
  EXPECT_EQ(last_error().driver_code, 801);
  EXPECT_EQ(device_->release_chunk(chunk), kSuccess);
  EXPECT_EQ(device_->release_addresses(base, 4 * kGranule), kSuccess);
}

TEST_F(CudaDeviceTest, ChunksCanBeSharedAndReachedByRdma) {
  unmap_granule(*device_, map_granule(*device_));
  EXPECT_EQ(fake_.seen().chunk_handle_type, cuda::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  EXPECT_EQ(fake_.seen().chunk_rdma, 1u);
  fake_.set_attribute(1, cuda::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0);
  fake_.set_attribute(1, cuda::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0);
  const auto plain = open(1);
  unmap_granule(*plain, map_granule(*plain));
  EXPECT_EQ(fake_.seen().chunk_handle_type, cuda::CU_MEM_HANDLE_TYPE_NONE);
  EXPECT_EQ(fake_.seen().chunk_rdma, 0u);
}

TEST_F(CudaDeviceTest, ChunksAreOfAKindThatTheDriverAllows) {
  struct Kind {
    int refused;
    uint32_t handle_type;
    uint32_t rdma;
  };
  for (const auto code : {cuda::CUDA_ERROR_NOT_SUPPORTED, cuda::CUDA_ERROR_NOT_PERMITTED}) {
    for (const Kind& kind : {Kind{0, cuda::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1},
                             Kind{1, cuda::CU_MEM_HANDLE_TYPE_NONE, 1},
                             Kind{2, cuda::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0},
                             Kind{3, cuda::CU_MEM_HANDLE_TYPE_NONE, 0}}) {
      SCOPED_TRACE(kind.refused);
      for (int number = 1; number <= kind.refused; ++number)
        fake_.fail("cuMemCreate", static_cast<uint64_t>(number), code);
      const auto device = open();
      fake_.reset();
      ASSERT_NE(device, nullptr) << last_message();
      unmap_granule(*device, map_granule(*device));
      EXPECT_EQ(fake_.seen().chunk_handle_type, kind.handle_type);
      EXPECT_EQ(fake_.seen().chunk_rdma, kind.rdma);
      EXPECT_EQ((device->info().capabilities & GPUPOOL_CAPABILITY_RDMA) != 0, kind.rdma != 0);
      EXPECT_TRUE(device->info().capabilities & GPUPOOL_CAPABILITY_VMM);
    }
  }
}

TEST_F(CudaDeviceTest, ADriverThatAllowsNoChunksLeavesSegments) {
  fake_.fail("cuMemCreate", 0, cuda::CUDA_ERROR_NOT_SUPPORTED);
  const auto device = open();
  ASSERT_NE(device, nullptr) << last_message();
  EXPECT_FALSE(device->info().capabilities & (GPUPOOL_CAPABILITY_VMM | GPUPOOL_CAPABILITY_RDMA));
  Address segment = 0;
  ASSERT_EQ(device->allocate(Kind::device, kGranule, 0, segment), kSuccess) << last_message();
  EXPECT_EQ(device->deallocate(Kind::device, segment, kGranule, 0), kSuccess);
}

TEST_F(CudaDeviceTest, AFullDeviceIsNoRefusal) {
  fake_.fail("cuMemCreate", 0, cuda::CUDA_ERROR_OUT_OF_MEMORY);
  const auto device = open();
  ASSERT_NE(device, nullptr) << last_message();
  EXPECT_TRUE(device->info().capabilities & GPUPOOL_CAPABILITY_VMM);
  EXPECT_TRUE(device->info().capabilities & GPUPOOL_CAPABILITY_RDMA);
}

TEST_F(CudaDeviceTest, MemoryOfTheHostEndsWhereTheProcessMayHaveNoMore) {
  constexpr uint64_t kTooMuch = 64 * kTiB;
  const uint64_t calls = fake_.calls("cuMemHostAlloc");
  Address block = 0;
  EXPECT_EQ(device_->allocate(Kind::pinned, kTooMuch, 0, block), GPUPOOL_ERROR_OUT_OF_MEMORY);
  EXPECT_NE(last_message().find("available for this process"), std::string::npos) << last_message();
  EXPECT_EQ(fake_.calls("cuMemHostAlloc"), calls) << "the driver was asked";
}

TEST_F(CudaDeviceTest, AnIntegratedDeviceHasTheHostsMemory) {
  os::HostMemory host;
  ASSERT_TRUE(os::read_host_memory(host));
  EXPECT_FALSE(device_->info().capabilities & GPUPOOL_CAPABILITY_INTEGRATED);
  fake_.set_capacity(1, 64 * kTiB);
  fake_.set_attribute(1, cuda::CU_DEVICE_ATTRIBUTE_INTEGRATED, 1);
  const auto device = open(1);
  ASSERT_NE(device, nullptr) << last_message();
  EXPECT_TRUE(device->info().capabilities & GPUPOOL_CAPABILITY_INTEGRATED);
  EXPECT_EQ(device->info().total, host.total);
  uint64_t free = 0;
  ASSERT_EQ(device->free_memory(free), kSuccess);
  EXPECT_LE(free, host.total);
  const uint64_t calls = fake_.calls("cuMemCreate") + fake_.calls("cuMemAlloc_v2");
  ChunkHandle chunk = 0;
  EXPECT_EQ(device->create_chunk(32 * kTiB, chunk), GPUPOOL_ERROR_OUT_OF_MEMORY);
  Address segment = 0;
  EXPECT_EQ(device->allocate(Kind::device, 32 * kTiB, 0, segment), GPUPOOL_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(fake_.calls("cuMemCreate") + fake_.calls("cuMemAlloc_v2"), calls);
  unmap_granule(*device, map_granule(*device));
}

TEST_F(CudaDeviceTest, ABusyDeviceIsUnavailable) {
  fake_.fail("cuDevicePrimaryCtxRetain", 0, cuda::CUDA_ERROR_DEVICE_UNAVAILABLE);
  std::unique_ptr<Device> device;
  EXPECT_EQ(open_cuda(1, {}, device), GPUPOOL_ERROR_UNAVAILABLE);
  EXPECT_EQ(last_error().driver_code, 46);
  EXPECT_NE(last_message().find("device 1 is busy: another process uses it exclusively"), std::string::npos);
}

TEST_F(CudaDeviceTest, OutOfMemoryIsItsOwnStatusAndSaysWhat) {
  fake_.set_capacity(0, 32 * kMiB);
  ChunkHandle chunk = 0;
  ASSERT_EQ(device_->create_chunk(32 * kMiB, chunk), kSuccess);
  uint64_t free = 1;
  EXPECT_EQ(device_->free_memory(free), kSuccess);
  EXPECT_EQ(free, 0u);
  ChunkHandle more = 0;
  EXPECT_EQ(device_->create_chunk(32 * kMiB, more), GPUPOOL_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(last_error().driver_code, 2);
  EXPECT_EQ(last_message(), "cuMemCreate(size 33554432): 2 CUDA_ERROR_OUT_OF_MEMORY: out of memory");
  EXPECT_EQ(device_->release_chunk(chunk), kSuccess);
  EXPECT_EQ(device_->free_memory(free), kSuccess);
  EXPECT_EQ(free, 32 * kMiB);
}

TEST_F(CudaDeviceTest, AllocatesEveryKind) {
  for (const Kind kind : {Kind::device, Kind::pinned, Kind::managed}) {
    Address address = 0;
    ASSERT_EQ(device_->allocate(kind, kMiB, 0, address), kSuccess) << last_message();
    EXPECT_EQ(fake_.live().allocations, 1u);
    EXPECT_EQ(device_->fill(address, 1, kMiB, 0), kSuccess);
    const Kind other = kind == Kind::pinned ? Kind::device : Kind::pinned;
    EXPECT_EQ(device_->deallocate(other, address, kMiB, 0), GPUPOOL_ERROR_DRIVER);
    EXPECT_EQ(device_->deallocate(kind, address, kMiB, 0), kSuccess);
  }
  EXPECT_EQ(fake_.seen().host_flags, cuda::kMemHostAllocPortable | cuda::kMemHostAllocDeviceMap);
  EXPECT_EQ(fake_.seen().managed_flags, cuda::CU_MEM_ATTACH_GLOBAL);
}

TEST_F(CudaDeviceTest, LargePinnedMemoryIsMappedAndThenRegistered) {
  constexpr uint64_t kSize = 36 * kMiB;
  const uint64_t calls = fake_.calls("cuMemHostAlloc");
  const uint64_t registered = fake_.calls("cuMemHostRegister_v2");
  Address address = 0;
  ASSERT_EQ(device_->allocate(Kind::pinned, kSize, 0, address), kSuccess) << last_message();
  EXPECT_EQ(fake_.calls("cuMemHostRegister_v2"), registered + 1);
  EXPECT_EQ(fake_.seen().register_flags, cuda::kMemHostRegisterPortable | cuda::kMemHostRegisterDeviceMap);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(address);
  EXPECT_EQ(bytes[0] + bytes[kSize - 1], 0);
  EXPECT_EQ(device_->fill(address, 5, kSize, 0), kSuccess);
  EXPECT_EQ(bytes[0] + bytes[kSize - 1], 10);
  fake_.fail("cuMemHostUnregister", 1, cuda::CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(device_->deallocate(Kind::pinned, address, kSize, 0), GPUPOOL_ERROR_DRIVER);
  EXPECT_EQ(bytes[0], 5) << "it is still there";
  EXPECT_EQ(device_->deallocate(Kind::pinned, address, kSize, 0), kSuccess) << last_message();
  EXPECT_EQ(fake_.calls("cuMemHostAlloc"), calls);
}

TEST_F(CudaDeviceTest, WherePagesCannotBeRegisteredTheDriverAllocatesThem) {
  constexpr uint64_t kSize = 36 * kMiB;
  fake_.set_attribute(1, cuda::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0);
  const auto other = open(1);
  fake_.fail("cuMemHostRegister_v2", 1, cuda::CUDA_ERROR_NOT_PERMITTED);
  for (Device* device : {device_.get(), other.get()}) {
    const uint64_t calls = fake_.calls("cuMemHostAlloc");
    Address address = 0;
    ASSERT_EQ(device->allocate(Kind::pinned, kSize, 0, address), kSuccess) << last_message();
    EXPECT_EQ(fake_.calls("cuMemHostAlloc"), calls + 1);
    EXPECT_EQ(device->deallocate(Kind::pinned, address, kSize, 0), kSuccess) << last_message();
  }
}

TEST_F(CudaDeviceTest, EventsFollowTheirStream) {
  Stream stream = 0;
  Stream other = 0;
  ASSERT_EQ(device_->create_stream(stream), kSuccess);
  ASSERT_EQ(device_->create_stream(other), kSuccess);
  EXPECT_EQ(fake_.seen().stream_flags, cuda::CU_STREAM_NON_BLOCKING);
  fake_.hold(stream);
  Event event = 0;
  ASSERT_EQ(device_->record(stream, 0, event), kSuccess);
  EXPECT_EQ(fake_.seen().event_flags, cuda::CU_EVENT_DISABLE_TIMING);
  bool passed = true;
  EXPECT_EQ(device_->query(event, passed), kSuccess);
  EXPECT_FALSE(passed);

  unsigned char byte = 0;
  EXPECT_EQ(device_->wait(other, event), kSuccess);
  EXPECT_EQ(device_->fill(reinterpret_cast<Address>(&byte), 5, 1, other), kSuccess);
  EXPECT_EQ(byte, 0) << "the other stream did not wait";

  std::thread releaser([&] { fake_.release(stream); });
  EXPECT_EQ(device_->synchronize(event), kSuccess);
  EXPECT_EQ(device_->query(event, passed), kSuccess);
  EXPECT_TRUE(passed);
  EXPECT_EQ(device_->synchronize_stream(other), kSuccess);
  EXPECT_EQ(byte, 5);
  releaser.join();
  device_->recycle(event);
  EXPECT_EQ(device_->destroy_stream(stream), kSuccess);
  EXPECT_EQ(device_->destroy_stream(other), kSuccess);
  EXPECT_EQ(device_->destroy_stream(other), GPUPOOL_ERROR_DRIVER);
}

TEST_F(CudaDeviceTest, EventsAreReused) {
  const uint64_t created = fake_.calls("cuEventCreate");
  std::vector<Event> events(40);
  for (int round = 0; round < 3; ++round) {
    for (Event& event : events) ASSERT_EQ(device_->record(0, 0, event), kSuccess);
    EXPECT_EQ(std::set<Event>(events.begin(), events.end()).size(), events.size()) << "one was given twice";
    for (const Event event : events) device_->recycle(event);
  }
  EXPECT_EQ(fake_.calls("cuEventCreate"), created + events.size());
  EXPECT_EQ(fake_.live().events, events.size());
  fake_.fail("cuEventRecord", 1, cuda::CUDA_ERROR_INVALID_HANDLE);
  Event event = 0;
  EXPECT_EQ(device_->record(0, 0, event), GPUPOOL_ERROR_DRIVER);
  for (Event& taken : events) ASSERT_EQ(device_->record(0, 0, taken), kSuccess);
  EXPECT_EQ(fake_.live().events, events.size()) << "the failed record lost its event";
  for (const Event taken : events) device_->recycle(taken);
}

TEST_F(CudaDeviceTest, EventsAreSharedByThreads) {
  const auto work = [this] {
    for (int i = 0; i < 500; ++i) {
      Event event = 0;
      bool passed = false;
      ASSERT_EQ(device_->record(0, 0, event), kSuccess);
      ASSERT_EQ(device_->query(event, passed), kSuccess);
      ASSERT_TRUE(passed);
      device_->recycle(event);
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_LE(fake_.live().events, 2u);
}

TEST_F(CudaDeviceTest, SpecialStreamsAreTheDriversOwn) {
  for (const Stream stream : {Stream{0}, Stream{cuda::kStreamLegacy}, Stream{cuda::kStreamPerThread}}) {
    bool capturing = true;
    uint64_t capture = 1;
    EXPECT_EQ(device_->is_capturing(stream, capturing), kSuccess);
    EXPECT_FALSE(capturing);
    EXPECT_EQ(device_->capture_id(stream, capture), kSuccess);
    EXPECT_EQ(capture, 0u);
    EXPECT_EQ(device_->synchronize_stream(stream), kSuccess);
  }
}

/// A call of the device, and the driver function whose failure it must report.
struct Case {
  const char* function;
  std::function<Status(Device&)> call;
};

TEST_F(CudaDeviceTest, EveryFailureKeepsItsNumberAndName) {
  const Mapped mapped = map_granule(*device_);
  Address range = 0;
  ChunkHandle chunk = 0;
  Address block = 0;
  Event event = 0;
  Stream stream = 0;
  ASSERT_EQ(device_->reserve_addresses(kGranule, range), kSuccess);
  ASSERT_EQ(device_->create_chunk(kGranule, chunk), kSuccess);
  ASSERT_EQ(device_->allocate(Kind::device, 512, 0, block), kSuccess);
  ASSERT_EQ(device_->record(0, 0, event), kSuccess);
  ASSERT_EQ(device_->create_stream(stream), kSuccess);

  // What a failed call must leave as it is.
  constexpr uint64_t kUntouched = 77;
  uint64_t out = kUntouched;
  uintptr_t out_stream = kUntouched;
  bool out_flag = true;
  const Case cases[] = {
      {"cuMemGetInfo_v2", [&](Device& d) { return d.free_memory(out); }},
      {"cuMemAddressReserve", [&](Device& d) { return d.reserve_addresses(kGranule, out); }},
      {"cuMemAddressFree", [&](Device& d) { return d.release_addresses(range, kGranule); }},
      {"cuMemCreate", [&](Device& d) { return d.create_chunk(kGranule, out); }},
      {"cuMemRelease", [&](Device& d) { return d.release_chunk(chunk); }},
      {"cuMemMap", [&](Device& d) { return d.map(range, kGranule, chunk); }},
      {"cuMemSetAccess", [&](Device& d) { return d.set_access(mapped.address, kGranule); }},
      {"cuMemUnmap", [&](Device& d) { return d.unmap(mapped.address, kGranule); }},
      {"cuMemAlloc_v2", [&](Device& d) { return d.allocate(Kind::device, 512, 0, out); }},
      {"cuMemHostAlloc", [&](Device& d) { return d.allocate(Kind::pinned, 512, 0, out); }},
      {"cuMemAllocManaged", [&](Device& d) { return d.allocate(Kind::managed, 512, 0, out); }},
      {"cuMemFree_v2", [&](Device& d) { return d.deallocate(Kind::device, block, 512, 0); }},
      {"cuMemFreeHost", [&](Device& d) { return d.deallocate(Kind::pinned, block, 512, 0); }},
      {"cuEventCreate", [&](Device& d) { return d.record(0, 0, out); }},
      {"cuEventRecord", [&](Device& d) { return d.record(0, 0, out); }},
      {"cuEventQuery", [&](Device& d) { return d.query(event, out_flag); }},
      {"cuEventSynchronize", [&](Device& d) { return d.synchronize(event); }},
      {"cuStreamWaitEvent", [&](Device& d) { return d.wait(stream, event); }},
      {"cuStreamIsCapturing", [&](Device& d) { return d.is_capturing(stream, out_flag); }},
      {"cuStreamIsCapturing", [&](Device& d) { return d.capture_id(stream, out); }},
      {"cuStreamGetCtx", [&](Device& d) { return d.context_of(stream, out); }},
      {"cuMemHostRegister_v2", [&](Device& d) { return d.synchronize_all(0); }},
      {"cuMemHostUnregister", [&](Device& d) { return d.synchronize_all(0); }},
      {"cuStreamCreate", [&](Device& d) { return d.create_stream(out_stream); }},
      {"cuStreamDestroy_v2", [&](Device& d) { return d.destroy_stream(stream); }},
      {"cuStreamSynchronize", [&](Device& d) { return d.synchronize_stream(stream); }},
      {"cuMemcpyAsync", [&](Device& d) { return d.copy(block, mapped.address, 512, stream); }},
      {"cuMemsetD8Async", [&](Device& d) { return d.fill(block, 0, 512, stream); }},
      {"cuMemsetD32Async", [&](Device& d) { return d.fill_words(block, 0, 512, stream); }},
      {"cuModuleLoadData", [&](Device& d) { return d.begin_inspecting(); }},
      {"cuModuleGetFunction", [&](Device& d) { return d.begin_inspecting(); }},
      {"cuLaunchKernel",
       [&](Device& d) {
         if (const Status status = d.begin_inspecting(); status != kSuccess) return status;
         const Look look{mapped.address, 512, 0, 1};
         return d.inspect({&look, 1}, 0, stream);
       }},
      {"cuCtxGetCurrent", [&](Device& d) { return d.free_memory(out); }},
      {"cuCtxPushCurrent_v2", [&](Device& d) { return d.free_memory(out); }},
      {"cuThreadExchangeStreamCaptureMode", [&](Device& d) { return d.free_memory(out); }},
  };
  const FakeCudaLive before = fake_.live();
  for (const Case& failing : cases) {
    SCOPED_TRACE(failing.function);
    fake_.fail(failing.function, 1, cuda::CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(failing.call(*device_), GPUPOOL_ERROR_DRIVER);
    EXPECT_EQ(last_error().driver_code, 101);
    std::string name = failing.function;
    if (name.ends_with("_v2")) name.resize(name.size() - 3);
    EXPECT_EQ(last_message().substr(0, name.size()), name);
    EXPECT_TRUE(last_message().ends_with(": 101 CUDA_ERROR_INVALID_DEVICE: invalid device ordinal"))
        << last_message();
    EXPECT_EQ(fake_.context_depth(), 0);
    EXPECT_EQ(fake_.capture_mode(), cuda::CU_STREAM_CAPTURE_MODE_GLOBAL);
    fake_.reset();
  }
  EXPECT_EQ(out, kUntouched);
  EXPECT_EQ(out_stream, kUntouched);
  EXPECT_TRUE(out_flag);
  FakeCudaLive after = fake_.live();
  --after.events;   // the failed record's, kept to be used again
  --after.modules;  // the device's, until its end
  EXPECT_EQ(std::memcmp(&before, &after, sizeof before), 0) << "a failed call left something behind";

  device_->recycle(event);
  EXPECT_EQ(device_->destroy_stream(stream), kSuccess);
  EXPECT_EQ(device_->deallocate(Kind::device, block, 512, 0), kSuccess);
  EXPECT_EQ(device_->release_chunk(chunk), kSuccess);
  EXPECT_EQ(device_->release_addresses(range, kGranule), kSuccess);
  unmap_granule(*device_, mapped);
}

TEST_F(CudaDeviceTest, ErrorsThatTheDriverCannotNameAreReported) {
  fake_.fail("cuMemCreate", 1, 12345);
  ChunkHandle chunk = 0;
  EXPECT_EQ(device_->create_chunk(kGranule, chunk), GPUPOOL_ERROR_DRIVER);
  EXPECT_EQ(last_message(), "cuMemCreate(size 2097152): 12345 unknown error: no description");
}

TEST_F(CudaDeviceTest, OpeningReportsEveryFailure) {
  for (const char* function : {"cuDeviceGetCount", "cuDeviceGetName", "cuDriverGetVersion",
                               "cuDeviceTotalMem_v2", "cuDeviceGetAttribute", "cuMemGetAllocationGranularity",
                               "cuDeviceCanAccessPeer", "cuCtxGetCurrent", "cuDevicePrimaryCtxRetain"}) {
    SCOPED_TRACE(function);
    fake_.fail(function, 1, cuda::CUDA_ERROR_INVALID_DEVICE);
    std::unique_ptr<Device> device;
    EXPECT_EQ(open_cuda(0, std::vector<int32_t>{1}, device), GPUPOOL_ERROR_DRIVER);
    EXPECT_EQ(device, nullptr);
    EXPECT_EQ(last_error().driver_code, 101);
    fake_.reset();
  }
}

}  // namespace
}  // namespace gpupool::internal
