// SPDX-License-Identifier: Apache-2.0
// The simulated device: the same semantics as a GPU with virtual memory management, in virtual time.
//
// GPUPOOL_SIM in the environment says how devices behave from their first use on, until sim_configure:
// "capacity=8GiB,data=0,price_scale=2,streams=strict,host=64GiB", each part optional; data is 1 for memory of
// the host (default) or 0 for addresses only; streams is any (default) or strict, where numbers that no
// gpupool_stream_create gave are no streams. A value that is not understood makes every use of a device fail.
//
// Rules that are broken are counted (sim_faults), and the call fails with GPUPOOL_ERROR_DRIVER, CUDA's number
// and words, and changes nothing. A kernel on a GPU would go wrong silently; here sim_work, copy and fill
// refuse the work at once: 700 for memory that is not usable, 719 for a race with another stream. Memory of
// another device is usable where its mapping gives this device access; copies need none. The host running out
// of memory is no fault: the call fails with GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, and changes nothing but the
// time.
//
// Time passes only by the prices of calls (prices.hpp), by waiting, and by sim_advance. Stream 0 is one
// like the others: it does not wait for them.
//
// Addresses come out of one space of 2^47 for all devices of a process, whether with data or without; with
// data they are real reservations, of which a thread sanitizer's build has room for about 1 TiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/device.hpp"
#include "device/sim/devices.hpp"

namespace gpupool::internal {

/// Opens simulated device number `ordinal`. All that open the same number share one device: its capacity,
/// streams, clock and faults. Fails with INVALID_ARGUMENT for a number that does not exist.
Status open_sim(int32_t ordinal, std::unique_ptr<Device>& device);

// What gpupool_sim_* do; see gpupool.h.

/// Makes the device anew: nothing allocated, time 0, no streams, no faults, no script. Fails with
/// INVALID_ARGUMENT while it is open.
Status sim_configure(int32_t ordinal, const gpupool_sim_config_t& config);
Status sim_script(int32_t ordinal, const char* script);
Status sim_work(int32_t ordinal, Stream stream, Address address, uint64_t size, uint64_t nanoseconds);
Status sim_advance(int32_t ordinal, uint64_t nanoseconds);
/// While a stream captures, these are faults: query_stream and synchronize_stream of it, query and
/// synchronize of an event recorded in the capture, and a wait between inside and outside of it.
Status sim_capture(int32_t ordinal, Stream stream, bool begin);
/// Does on `stream` what an ended capture recorded. One that fails while it runs has done what comes before.
Status sim_launch(int32_t ordinal, uint64_t capture, Stream stream);
/// Keeps the physical memory that is mapped at an address, as cuMemRetainAllocationHandle does, until it is
/// called with address 0.
Status sim_hold(int32_t ordinal, Address address);
Status sim_faults(int32_t ordinal, uint64_t& count, char* text, size_t capacity);

/// From now on a child of fork has new devices, and a copy of its own of the memory in which it inherited
/// blocks. To be called once, before anything else watches fork whose locks are held while a device is
/// called.
void sim_watch_fork() noexcept;

}  // namespace gpupool::internal
