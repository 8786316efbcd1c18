// SPDX-License-Identifier: Apache-2.0
#include "frameworks/inject/device_words.hpp"

#include <array>
#include <cstdio>

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
  words.id = "GPU";
  for (size_t at = 0; at < sizeof uuid.bytes; ++at) {
    char text[4];
    const char* const dash = at == 0 || at == 4 || at == 6 || at == 8 || at == 10 ? "-" : "";
    std::snprintf(text, sizeof text, "%s%02x", dash, static_cast<unsigned char>(uuid.bytes[at]));
    words.id += text;
  }
  return words;
}

}  // namespace gpupool::inject
