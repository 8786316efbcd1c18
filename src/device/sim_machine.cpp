// SPDX-License-Identifier: Apache-2.0
#include "device/sim_machine.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <vector>

#include "device/sim_prices.hpp"

namespace gpupool {
namespace {

using Long = unsigned long long;  // for printf

void* pointer(Address address) noexcept {
  return reinterpret_cast<void*>(address);
}

uint64_t transfer_time(uint64_t size) noexcept {
  return (size + sim_prices::kBytesPerNanosecond - 1) / sim_prices::kBytesPerNanosecond;
}

}  // namespace

SimMachine::SimMachine(int32_t ordinal, const SimSettings& settings, SimAddressSpace& addresses)
    : clock(settings.price_scale),
      streams(clock, faults),
      memory(settings.capacity, settings.data ? make_host_backing() : make_address_backing(addresses),
             faults) {
  info.backend = GPUPOOL_BACKEND_SIM;
  info.ordinal = ordinal;
  info.capabilities = GPUPOOL_CAPABILITY_VMM | GPUPOOL_CAPABILITY_MANAGED;
  info.total = settings.capacity;
  info.granularity = kSimGranularity;
  info.compute_capability = 90;
  std::snprintf(info.name, sizeof info.name, "gpupool simulated device");
  memory.share_allocations(uint64_t{1} << ordinal);
}

Status SimMachine::queue(const char* what, Stream stream, std::span<const Access> accesses,
                         uint64_t nanoseconds, const std::function<Status()>& execute) {
  SimStream* state = nullptr;
  if (const Status status = streams.find(what, stream, state); status != kSuccess) return status;
  std::vector<std::vector<SimMemory::Piece>> pieces(accesses.size());
  for (size_t i = 0; i < accesses.size(); ++i) {
    if (memory.resolve(accesses[i].address, accesses[i].size, pieces[i])) continue;
    return faults.refuse(driver_code::kIllegalAddress,
                         "unmapped address: %s on stream %#llx touches %#llx, %llu bytes", what, Long{stream},
                         Long{accesses[i].address}, Long{accesses[i].size});
  }
  if (state->capture != 0) return kSuccess;

  const uint64_t start = std::max(clock.now(), state->busy_until);
  const uint64_t end = later(start, nanoseconds);
  for (size_t i = 0; i < accesses.size(); ++i) {
    for (const SimMemory::Piece& piece : pieces[i]) {
      const auto other =
          memory.accesses().conflict(piece.offset, piece.size, stream, start, accesses[i].writes);
      if (!other) continue;
      return faults.refuse(driver_code::kLaunchFailed,
                           "race: %s on stream %#llx from %llu ns touches %#llx, %llu bytes, which stream "
                           "%#llx uses until %llu ns",
                           what, Long{stream}, Long{start}, Long{accesses[i].address}, Long{accesses[i].size},
                           Long{other->stream}, Long{other->end});
    }
  }
  if (const Status status = execute(); status != kSuccess) return status;
  for (size_t i = 0; i < accesses.size(); ++i) {
    for (const SimMemory::Piece& piece : pieces[i]) {
      memory.accesses().note(piece.offset, piece.size, {stream, end}, accesses[i].writes, clock.now());
      piece.extent->used_until = std::max(piece.extent->used_until, end);
    }
  }
  streams.queue(*state, end);
  return kSuccess;
}

Status SimMachine::work(Stream stream, Address address, uint64_t size, uint64_t nanoseconds) {
  const Access access{address, size, true};
  return queue("work", stream, std::span(&access, size != 0 ? 1 : 0), nanoseconds, [] { return kSuccess; });
}

Status SimMachine::fill(Address destination, uint8_t value, uint64_t size, Stream stream) {
  const Access access{destination, size, true};
  return queue("fill", stream, std::span(&access, size != 0 ? 1 : 0), transfer_time(size), [&] {
    if (memory.backing().has_data() && size != 0) std::memset(pointer(destination), value, size);
    return kSuccess;
  });
}

Status SimMachine::copy(Address destination, Address source, uint64_t size, Stream stream) {
  if (!memory.backing().has_data()) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "simulated device: copy needs a device with data");
  }
  const bool to_host = memory.is_foreign(destination, size);
  const bool from_host = memory.is_foreign(source, size);
  std::vector<Access> accesses;
  if (!to_host && size != 0) accesses.push_back({destination, size, true});
  if (!from_host && size != 0) accesses.push_back({source, size, false});
  return queue("copy", stream, accesses, transfer_time(size),
               [&] { return transfer(destination, to_host, source, from_host, size); });
}

/// Moves the bytes. What is not on the host has been checked.
Status SimMachine::transfer(Address destination, bool to_host, Address source, bool from_host,
                            uint64_t size) {
  if (size == 0) return kSuccess;
  if (!to_host && !from_host) {
    std::memmove(pointer(destination), pointer(source), size);
    return kSuccess;
  }
  if (to_host && from_host) return copy_over_host(destination, source, size);
  std::vector<SimMemory::Piece> pieces;
  memory.resolve(to_host ? source : destination, size, pieces);
  Address host = to_host ? destination : source;
  for (const SimMemory::Piece& piece : pieces) {
    const bool done = to_host ? memory.backing().read(host, piece.offset, piece.size)
                              : memory.backing().write(piece.offset, host, piece.size);
    if (!done) {
      return faults.refuse(driver_code::kIllegalAddress, "unmapped address: copy touches %#llx of the host",
                           Long{host});
    }
    host += piece.size;
  }
  return kSuccess;
}

/// From host to host by way of physical memory made for it, so that the kernel checks both addresses.
Status SimMachine::copy_over_host(Address destination, Address source, uint64_t size) {
  SimBacking& backing = memory.backing();
  uint64_t offset = 0;
  if (const Status status = backing.create(size, offset); status != kSuccess) return status;
  const bool done = backing.write(offset, source, size) && backing.read(destination, offset, size);
  backing.discard(offset, size);
  if (done) return kSuccess;
  return faults.refuse(driver_code::kIllegalAddress, "unmapped address: copy from %#llx to %#llx of the host",
                       Long{source}, Long{destination});
}

}  // namespace gpupool
