// SPDX-License-Identifier: Apache-2.0
// Opening a CUDA device: what it is, what it can do, which context to use.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/gpu_id.hpp"
#include "base/log.hpp"
#include "device/cuda/cuda.hpp"
#include "device/cuda/device.hpp"
#include "device/cuda/primary_context.hpp"
#include "os/host_memory.hpp"

namespace gpupool::internal {
namespace {

using cuda::CUcontext;
using cuda::CUDA_SUCCESS;
using cuda::CUdevice;
using cuda::CUresult;

// The granularity of the driver's own malloc, for devices without chunks.
constexpr uint64_t kSegmentGranularity = uint64_t{2} << 20;

Status read_attribute(const CudaDriver& driver, CUdevice device, cuda::CUdevice_attribute attribute,
                      int& value) {
  return cuda_status(driver.cuDeviceGetAttribute(&value, attribute, device),
                     "cuDeviceGetAttribute(%u, device %d)", static_cast<unsigned>(attribute), device);
}

Status read_identity(const CudaDriver& driver, CUdevice device, DeviceInfo& info) {
  info.backend = GPUPOOL_BACKEND_CUDA;
  info.backend_name = "cuda";
  info.ends_before_process = true;
  info.ordinal = device;
  CUresult result = driver.cuDeviceGetName(info.name, static_cast<int>(sizeof info.name), device);
  if (result != CUDA_SUCCESS) return cuda_status(result, "cuDeviceGetName(device %d)", device);
  result = driver.cuDriverGetVersion(&info.driver_version);
  if (result != CUDA_SUCCESS) return cuda_status(result, "cuDriverGetVersion");
  cuda::CUuuid uuid{};
  if (driver.cuDeviceGetUuid_v2 != nullptr && driver.cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS) {
    const auto id = gpu_id(uuid.bytes);
    static_assert(sizeof info.id >= id.size());
    std::memcpy(info.id, id.data(), id.size());
  }
  size_t total = 0;
  result = driver.cuDeviceTotalMem_v2(&total, device);
  if (result != CUDA_SUCCESS) return cuda_status(result, "cuDeviceTotalMem(device %d)", device);
  info.total = total;
  return kSuccess;
}

Status read_granularity(const CudaDriver& driver, const CudaDeviceSetup& setup, uint64_t& granularity) {
  const auto properties =
      cuda_chunk_properties(setup.info.ordinal, setup.shareable_chunks, setup.rdma_chunks);
  size_t minimum = 0;
  const CUresult result =
      driver.cuMemGetAllocationGranularity(&minimum, &properties, cuda::CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result != CUDA_SUCCESS) {
    return cuda_status(result, "cuMemGetAllocationGranularity(device %d)", setup.info.ordinal);
  }
  granularity = minimum;
  return kSuccess;
}

Status read_capabilities(const CudaDriver& driver, CudaDeviceSetup& setup) {
  int major = 0, minor = 0, integrated = 0, managed = 0, vmm = 0, shareable = 0, rdma = 0, same_pointer = 0;
  const std::pair<cuda::CUdevice_attribute, int*> attributes[] = {
      {cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
      {cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
      {cuda::CU_DEVICE_ATTRIBUTE_INTEGRATED, &integrated},
      {cuda::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, &managed},
      {cuda::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, &same_pointer},
      {cuda::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &vmm},
      {cuda::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, &shareable},
      {cuda::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, &rdma},
  };
  for (const auto& [attribute, value] : attributes) {
    if (const Status status = read_attribute(driver, setup.info.ordinal, attribute, *value);
        status != kSuccess) {
      return status;
    }
  }
  setup.info.compute_capability = major * 10 + minor;
  setup.shareable_chunks = shareable != 0;
  setup.rdma_chunks = rdma != 0;
  setup.maps_host_pages = same_pointer != 0 && integrated == 0;
  if (integrated != 0) {
    setup.info.capabilities |= GPUPOOL_CAPABILITY_INTEGRATED;
    os::HostMemory host;  // a container may have less than the machine
    if (os::read_host_memory(host)) setup.info.total = std::min(setup.info.total, host.total);
  }
  if (managed != 0) setup.info.capabilities |= GPUPOOL_CAPABILITY_MANAGED;
  if (rdma != 0) setup.info.capabilities |= GPUPOOL_CAPABILITY_RDMA;
  setup.info.granularity = kSegmentGranularity;
  if (vmm == 0) return kSuccess;
  setup.info.capabilities |= GPUPOOL_CAPABILITY_VMM;
  return kSuccess;
}

/// Whether the driver refuses to create a chunk of this kind, for any other reason than a lack of memory.
Status try_chunk(const CudaDriver& driver, const CudaDeviceSetup& setup, bool& is_refused) {
  const auto properties =
      cuda_chunk_properties(setup.info.ordinal, setup.shareable_chunks, setup.rdma_chunks);
  cuda::CUmemGenericAllocationHandle chunk = 0;
  CUresult result = driver.cuMemCreate(&chunk, setup.info.granularity, &properties, 0);
  is_refused = result == cuda::CUDA_ERROR_NOT_PERMITTED || result == cuda::CUDA_ERROR_NOT_SUPPORTED;
  if (result != CUDA_SUCCESS) return kSuccess;
  result = driver.cuMemRelease(chunk);
  return cuda_status(result, "cuMemRelease(device %d)", setup.info.ordinal);
}

/// Some containers and virtual GPUs forbid what the device claims to support. What chunks can be is found by
/// creating one: shareable, then not; without RDMA, shareable, then not. If no kind is allowed, the device
/// has segments only.
Status settle_chunks(const CudaDriver& driver, CudaDeviceSetup& setup) {
  if ((setup.info.capabilities & GPUPOOL_CAPABILITY_VMM) == 0) return kSuccess;
  const CudaScope scope(driver, setup.context, CaptureSafety::unsafe);
  if (scope.status() != kSuccess) return scope.status();
  const bool can_share = setup.shareable_chunks;
  for (;;) {
    bool is_refused = false;
    Status status = read_granularity(driver, setup, setup.info.granularity);
    if (status == kSuccess) status = try_chunk(driver, setup, is_refused);
    if (status != kSuccess || !is_refused) return status;
    if (setup.shareable_chunks) {
      setup.shareable_chunks = false;
    } else if (setup.rdma_chunks) {
      setup.shareable_chunks = can_share;
      setup.rdma_chunks = false;
      setup.info.capabilities &= ~uint32_t{GPUPOOL_CAPABILITY_RDMA};
    } else {
      break;
    }
  }
  setup.info.capabilities &= ~uint32_t{GPUPOOL_CAPABILITY_VMM};
  setup.info.granularity = kSegmentGranularity;
  log_line(GPUPOOL_LOG_WARNING, "CUDA device %d refuses to create chunks here: it has segments only",
           setup.info.ordinal);
  return kSuccess;
}

Status add_peers(const CudaDriver& driver, std::span<const int32_t> peers, CudaDeviceSetup& setup) {
  for (const int32_t peer : peers) {
    if (const Status status = check_peer(driver, setup.info.ordinal, peer); status != kSuccess) return status;
    const bool known =
        peer == setup.info.ordinal || std::ranges::find(setup.peers, peer) != setup.peers.end();
    if (!known) setup.peers.push_back(peer);
  }
  return kSuccess;
}

/// The caller's current context if it belongs to the device, else null.
Status find_current(const CudaDriver& driver, CUdevice device, CUcontext& context) {
  CUcontext current = nullptr;
  CUresult result = driver.cuCtxGetCurrent(&current);
  if (result != CUDA_SUCCESS) return cuda_status(result, "cuCtxGetCurrent");
  context = nullptr;
  if (current == nullptr) return kSuccess;
  CUdevice current_device = 0;
  result = driver.cuCtxGetDevice(&current_device);
  if (result != CUDA_SUCCESS) return cuda_status(result, "cuCtxGetDevice");
  if (current_device == device) context = current;
  return kSuccess;
}

/// If the primary context is used, it is retained for ever, because the code that made it current may release
/// it before the pool does. The caller must keep a context of its own; in that case the primary one is not
/// created, which would cost hundreds of MiB.
Status choose_context(const CudaDriver& driver, CUdevice device, CudaDeviceSetup& setup) {
  CUcontext current = nullptr;
  if (const Status status = find_current(driver, device, current); status != kSuccess) return status;
  setup.is_primary = current == nullptr;
  setup.context = current;
  const Status status = current == nullptr ? retain_primary(driver, device, setup.context)
                                           : retain_if_primary(driver, device, current, setup.is_primary);
  if (status != kSuccess || driver.cuCtxGetId == nullptr) return status;
  return cuda_status(driver.cuCtxGetId(setup.context, &setup.context_id), "cuCtxGetId");
}

Status count_devices(const CudaDriver& driver, int32_t& count) {
  int devices = 0;
  const CUresult result = driver.cuDeviceGetCount(&devices);
  if (result != CUDA_SUCCESS) return cuda_status(result, "cuDeviceGetCount");
  if (devices == 0) return fail(GPUPOOL_ERROR_UNAVAILABLE, "the CUDA driver sees no device");
  count = devices;
  return kSuccess;
}

}  // namespace

Status check_peer(const CudaDriver& driver, CUdevice device, CUdevice peer) {
  int32_t count = 0;
  if (const Status status = count_devices(driver, count); status != kSuccess) return status;
  if (peer < 0 || peer >= count) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "peer %d does not exist: there are %d CUDA devices", peer,
                count);
  }
  if (peer == device) return kSuccess;
  int can_access = 0;
  const CUresult result = driver.cuDeviceCanAccessPeer(&can_access, peer, device);
  if (result != CUDA_SUCCESS) return cuda_status(result, "cuDeviceCanAccessPeer(%d, %d)", peer, device);
  if (can_access != 0) return kSuccess;
  return fail(GPUPOOL_ERROR_UNSUPPORTED, "CUDA device %d cannot access the memory of device %d", peer,
              device);
}

Status cuda_device_count(int32_t& count) {
  const CudaDriver* driver = nullptr;
  if (const Status status = load_cuda_driver(driver); status != kSuccess) return status;
  return count_devices(*driver, count);
}

Status open_cuda(int32_t ordinal, std::span<const int32_t> peers, std::unique_ptr<Device>& device) {
  const CudaDriver* driver = nullptr;
  if (const Status status = load_cuda_driver(driver); status != kSuccess) return status;
  int32_t count = 0;
  if (const Status status = count_devices(*driver, count); status != kSuccess) return status;
  if (ordinal < 0 || ordinal >= count) {
    return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "CUDA device %d does not exist: there are %d", ordinal,
                count);
  }

  CudaDeviceSetup setup;
  Status status = read_identity(*driver, ordinal, setup.info);
  if (status == kSuccess) status = read_capabilities(*driver, setup);
  if (status == kSuccess) status = add_peers(*driver, peers, setup);
  if (status == kSuccess) status = choose_context(*driver, ordinal, setup);
  if (status == kSuccess) status = settle_chunks(*driver, setup);
  if (status != kSuccess) return status;
  setup.info.is_under_sanitizer = setup.info.annotates = ComputeSanitizer::is_present();
  device = std::make_unique<CudaDevice>(*driver, std::move(setup));
  return kSuccess;
}

}  // namespace gpupool::internal
