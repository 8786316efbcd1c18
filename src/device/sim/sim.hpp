// SPDX-License-Identifier: Apache-2.0
// The simulated device: the same semantics as a GPU with virtual memory management, in virtual time, or in
// that of the machine.
//
// GPUPOOL_SIM in the environment says how devices behave from their first use on, until sim_configure:
// "capacity=8GiB,data=0,price_scale=2,streams=strict,host=64GiB,time=real,integrated=1", each part optional;
// data is 1 for host memory (default) or 0 for addresses only; streams is any (default) or strict, where only
// numbers from gpupool_stream_create are streams; time is virtual (default) or real, where calls take as long
// as they cost; integrated=1 makes the host's memory the device's, as on small machines. A bad value makes
// every use of a device fail.
//
// A call that breaks a rule is counted (sim_faults), fails with GPUPOOL_ERROR_DRIVER and CUDA's number and
// message, and changes nothing. A kernel on a GPU would go wrong silently; here sim_work, copy and fill
// refuse the work at once: 700 for unusable memory, 719 for a race with another stream. Another device's
// memory is usable if its mapping gives this device access; copies need none. If the host runs out of memory,
// that is not a fault: the call fails with GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, and changes nothing but the
// time.
//
// Time passes only by the prices of calls (prices.hpp), by waiting, and by sim_advance. Stream 0 is like any
// other: it does not wait for the others.
//
// All devices of a process, with data or without, take addresses from one space of 2^47; with data they are
// real reservations, for which a thread sanitizer build has room for about 1 TiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/device.hpp"
#include "device/sim/devices.hpp"

namespace gpupool::internal {

/// Opens simulated device number `ordinal`. All who open the same number share one device: its capacity,
/// streams, clock and faults. Fails with INVALID_ARGUMENT for a number that does not exist.
Status open_sim(int32_t ordinal, std::unique_ptr<Device>& device);

// What gpupool_sim_* do; see gpupool.h.

/// Recreates the device: nothing allocated, time 0, no streams, no faults, no script. Fails with
/// INVALID_ARGUMENT while it is open.
Status sim_configure(int32_t ordinal, const gpupool_sim_config_t& config);
Status sim_script(int32_t ordinal, const char* script);
Status sim_work(int32_t ordinal, Stream stream, Address address, uint64_t size, uint64_t nanoseconds);
Status sim_advance(int32_t ordinal, uint64_t nanoseconds);
/// While a stream captures, these are faults: synchronize_stream of it, query and synchronize of an event
/// recorded in the capture, and a wait between inside and outside of it. With `alone`, so are capture_id,
/// record and wait from another thread, which on a GPU end the capture or the process if they meet the
/// beginning or the end of the capture.
Status sim_capture(int32_t ordinal, Stream stream, bool begin, bool alone = false);
/// Executes on `stream` what an ended capture recorded. If it fails midway, the earlier part is done.
Status sim_launch(int32_t ordinal, uint64_t capture, Stream stream);
/// Keeps the physical memory mapped at an address, as cuMemRetainAllocationHandle does, until called with
/// address 0.
Status sim_hold(int32_t ordinal, Address address);
Status sim_faults(int32_t ordinal, uint64_t& count, char* text, size_t capacity);

}  // namespace gpupool::internal
