// SPDX-License-Identifier: Apache-2.0
// The host's memory as a device: for tests that want real contents, and for machines without a GPU.
//
// One device, number 0, with no virtual memory: pools on it are in mode driver, and an address is a pointer.
// Streams are only names, because work is done when the call that queues it returns; so nothing ever waits.
// Nothing here keeps one stream's work from another thread's: that is the caller's, as on a GPU.
#pragma once

#include <memory>
#include <span>

#include "device/device.hpp"

namespace gpupool::internal {

/// 1. UNAVAILABLE where the system does not say how much memory a process can have (all but Linux).
Status count_hosts(int32_t& count);

/// Opens it. INVALID_ARGUMENT for peers other than itself.
Status open_host(int32_t ordinal, std::span<const int32_t> peers, std::unique_ptr<Device>& device);

}  // namespace gpupool::internal
