// SPDX-License-Identifier: Apache-2.0
#include "frameworks/inject/device_words.hpp"

#include <array>

#include "base/gpu_id.hpp"

namespace gpupool::inject {

DeviceWords words_of(const DeviceFunctions& driver, int device) {
  DeviceWords words;
  std::array<char, 256> name{};
  if (driver.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device) == CUDA_SUCCESS)
    words.name = name.data();
  size_t total = 0;
  if (driver.cuDeviceTotalMem_v2(&total, device) == CUDA_SUCCESS) words.total = total;
  CUuuid uuid{};
  if (driver.cuDeviceGetUuid_v2 == nullptr || driver.cuDeviceGetUuid_v2(&uuid, device) != CUDA_SUCCESS)
    return words;
  words.id = internal::gpu_id(uuid.bytes).data();
  return words;
}

}  // namespace gpupool::inject
