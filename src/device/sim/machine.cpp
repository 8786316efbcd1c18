// SPDX-License-Identifier: Apache-2.0
#include "device/sim/machine.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "device/sim/prices.hpp"

namespace gpupool::internal {
namespace {

using Long = unsigned long long;  // for printf

void* host_pointer(Address address) noexcept {
  return reinterpret_cast<void*>(address);
}

uint64_t transfer_time(uint64_t size) noexcept {
  return (size + sim_prices::kBytesPerNanosecond - 1) / sim_prices::kBytesPerNanosecond;
}

SimMachine* owner_of(const SimMachines& all, Address address, uint64_t size) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const SimMachine* machine) {
    return machine != nullptr && machine->memory.has_any_of(address, size);
  });
  return found == all.end() ? nullptr : *found;
}

/// Whether these can be host addresses: no device has any of them.
bool is_on_host(const SimMachines& all, Address address, uint64_t size) {
  return size != 0 && size <= kNever - address && owner_of(all, address, size) == nullptr;
}

const char* name_of(SimWork::Kind kind) noexcept {
  switch (kind) {
    case SimWork::Kind::kernel: return "work";
    case SimWork::Kind::fill: return "fill";
    case SimWork::Kind::copy: return "copy";
    case SimWork::Kind::transfer: return "transfer";
    case SimWork::Kind::look: return "look";
  }
  return "";
}

bool is_copy(const SimWork& work) noexcept {
  return work.kind == SimWork::Kind::copy || work.kind == SimWork::Kind::transfer;
}

/// Fills with a repeated word; if its bytes are equal, from any address on.
void fill_bytes(void* to, uint32_t word, uint64_t size) noexcept {
  if (word == (word & 0xff) * 0x01010101U) {
    std::memset(to, static_cast<int>(word & 0xff), size);
    return;
  }
  auto* at = static_cast<unsigned char*>(to);
  for (uint64_t i = 0; i + sizeof word <= size; i += sizeof word) std::memcpy(at + i, &word, sizeof word);
}

}  // namespace

SimMachine::SimMachine(int32_t ordinal, const SimSettings& settings, SimAddressSpace& addresses)
    : clock(settings.price_scale, settings.real_time),
      streams(ordinal, settings.strict_streams, clock, faults),
      memory(ordinal, settings, settings.data ? make_host_backing() : make_address_backing(addresses),
             faults) {
  info.backend = GPUPOOL_BACKEND_SIM;
  info.backend_name = "sim";
  info.ordinal = ordinal;
  info.capabilities = GPUPOOL_CAPABILITY_VMM | GPUPOOL_CAPABILITY_MANAGED;
  if (settings.is_integrated) info.capabilities |= GPUPOOL_CAPABILITY_INTEGRATED;
  info.total = settings.capacity;
  info.granularity = kSimGranularity;
  info.compute_capability = 90;
  info.keeps_data = settings.data;
  info.annotates = true;
  std::snprintf(info.name, sizeof info.name, "gpupool simulated device");
}

// ---- work for streams

Status SimMachine::work(const SimMachines& all, Stream stream, Address address, uint64_t size,
                        uint64_t nanoseconds) {
  SimWork work;
  work.destination = address;
  work.size = size;
  work.nanoseconds = nanoseconds;
  return run(all, {stream, 0}, {&work, 1});
}

Status SimMachine::fill(const SimMachines& all, Address destination, uint32_t word, uint64_t size,
                        Stream stream, bool is_own) {
  SimWork work;
  work.kind = SimWork::Kind::fill;
  work.is_own = is_own;
  work.word = word;
  work.destination = destination;
  work.size = size;
  work.nanoseconds = transfer_time(size);
  return run(all, {stream, 0}, {&work, 1});
}

Status SimMachine::copy(const SimMachines& all, Address destination, Address source, uint64_t size,
                        Stream stream) {
  SimWork work;
  work.kind = SimWork::Kind::copy;
  work.to_host = is_on_host(all, destination, size);
  work.from_host = is_on_host(all, source, size);
  work.destination = destination;
  work.source = source;
  work.size = size;
  work.nanoseconds = transfer_time(size);
  return run(all, {stream, 0}, {&work, 1});
}

/// For the pool's own work, which belongs to no graph.
Status SimMachine::find_for_pool(const char* what, Stream stream, SimStream*& queue) {
  if (const Status status = streams.find(what, stream, queue); status != kSuccess) return status;
  if (queue->capture == 0) return kSuccess;
  return faults.refuse(driver_code::kCaptureUnsupported, "%s on stream %#llx, which is capturing", what,
                       Long{stream});
}

Status SimMachine::transfer(const SimMachines& all, Address destination, Address source, uint64_t size,
                            Stream stream) {
  SimStream* queue = nullptr;
  if (const Status status = find_for_pool("transfer", stream, queue); status != kSuccess) return status;
  uint64_t& bus = bus_until[memory.is_pinned(destination) ? 0 : 1];
  const uint64_t busy_until = queue->busy_until;
  queue->busy_until = std::max(busy_until, bus);
  SimWork work;
  work.kind = SimWork::Kind::transfer;
  work.is_own = true;
  work.destination = destination;
  work.source = source;
  work.size = size;
  work.nanoseconds = (size + sim_prices::kBusBytesPerNanosecond - 1) / sim_prices::kBusBytesPerNanosecond;
  const Status status = run(all, {stream, 0}, {&work, 1});
  if (status == kSuccess) {
    bus = queue->busy_until;
  } else {
    queue->busy_until = busy_until;
  }
  return status;
}

Status SimMachine::inspect(const SimMachines& all, std::span<const Look> looks, Address report,
                           Stream stream) {
  SimStream* queue = nullptr;
  if (const Status status = find_for_pool("look", stream, queue); status != kSuccess) return status;
  std::vector<SimWork> works;
  for (const Look& look : looks) {
    SimWork& work = works.emplace_back();
    work.kind = SimWork::Kind::look;
    work.is_own = true;
    work.word = look.word;
    work.source = look.address;
    work.size = look.size;
    work.block = look.block;
    work.report = static_cast<DamageReport*>(host_pointer(report));
  }
  works.front().nanoseconds = sim_prices::kInspection;
  return run(all, {stream, 0}, works);
}

Status SimMachine::launch(const SimMachines& all, uint64_t capture, Stream stream) {
  std::span<const SimWork> works;
  if (const Status status = streams.find_graph(capture, works); status != kSuccess) return status;
  return run(all, {stream, capture}, works);
}

/// Queues work behind what the stream has, and executes it at once.
Status SimMachine::run(const SimMachines& all, const Caller& caller, std::span<const SimWork> works) {
  SimStream* stream = nullptr;
  const char* const what = caller.capture != 0 ? "launch" : name_of(works.front().kind);
  if (const Status status = streams.find(what, caller.stream, stream); status != kSuccess) return status;
  uint64_t end = std::max(clock.now(), stream->busy_until);
  std::vector<Step> steps;
  for (const SimWork& work : works) {
    Step step{&work, end, later(end, work.nanoseconds), {}};
    if (const Status status = plan(all, caller, step); status != kSuccess) return status;
    end = step.end;
    steps.push_back(std::move(step));
  }
  if (stream->capture != 0) {
    streams.keep(*stream, works);
    return kSuccess;
  }
  std::vector<SimAccesses::Access> accesses;
  for (const Step& step : steps) {
    if (const Status status = check_races(caller, step); status != kSuccess) return status;
    add_accesses(caller.stream, step, accesses);
  }
  SimAccesses::Records records = memory.accesses().with(accesses, clock.now());
  for (const Step& step : steps) {
    if (const Status status = execute(step); status != kSuccess) return status;
  }
  memory.accesses().replace(accesses, std::move(records));
  for (const Step& step : steps) {
    for (const Touch& touch : step.touches) {
      uint64_t& used_until = touch.part.extent->used_until[static_cast<size_t>(info.ordinal)];
      used_until = std::max(used_until, step.end);
    }
  }
  streams.queue(*stream, end);
  return kSuccess;
}

// ---- what work may touch

/// Finds the memory that a step touches, and refuses a step that must not touch it.
Status SimMachine::plan(const SimMachines& all, const Caller& caller, Step& step) {
  const SimWork& work = *step.work;
  const bool reads = is_copy(work) || work.kind == SimWork::Kind::look;
  if (work.kind == SimWork::Kind::copy && !memory.backing().has_data()) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "simulated device: copy needs a device with data");
  }
  if (work.size == 0) return kSuccess;
  if (!work.to_host && work.kind != SimWork::Kind::look) {
    const Status status = touch(all, caller, work.destination, true, step);
    if (status != kSuccess) return status;
  }
  if (!reads || work.from_host) return kSuccess;
  return touch(all, caller, work.source, false, step);
}

/// Kernels need access, which the owner of the memory gives to each device. Copies do not: the copy engine
/// reaches the memory of both devices, as with cuMemcpyPeerAsync. Whether cuMemcpyAsync does is not
/// documented: see docs/inside/devices.md.
Status SimMachine::touch(const SimMachines& all, const Caller& caller, Address address, bool writes,
                         Step& step) {
  const SimWork& work = *step.work;
  char what[64];
  if (caller.capture == 0) {
    std::snprintf(what, sizeof what, "%s", name_of(work.kind));
  } else {
    std::snprintf(what, sizeof what, "%s of capture %llu", name_of(work.kind), Long{caller.capture});
  }
  SimMachine* const owner = owner_of(all, address, work.size);
  std::vector<SimMemory::ExtentPart> parts;
  if (owner == nullptr || !owner->memory.resolve(address, work.size, parts)) {
    const std::string sleeper = owner != nullptr ? owner->memory.sleepers().name_of(address, work.size) : "";
    return faults.refuse(driver_code::kIllegalAddress,
                         "unmapped address: %s on stream %#llx touches %#llx, %llu bytes%s", what,
                         Long{caller.stream}, Long{address}, Long{work.size}, sleeper.c_str());
  }
  if (work.kind == SimWork::Kind::copy && !owner->memory.backing().has_data()) {
    return fail(GPUPOOL_ERROR_UNSUPPORTED, "simulated device: copy needs device %d to be one with data",
                owner->info.ordinal);
  }
  const SimDeviceSet self = sim_device_set(info.ordinal);
  for (const SimMemory::ExtentPart& part : parts) {
    if (!is_copy(work) && (part.extent->accessors & self) == 0) {
      return faults.refuse(driver_code::kIllegalAddress,
                           "no access: %s on stream %#llx of device %d touches %#llx, %llu bytes of device "
                           "%d, which gives it none",
                           what, Long{caller.stream}, info.ordinal, Long{address}, Long{work.size},
                           owner->info.ordinal);
    }
    if (writes && part.extent->is_read_only) {
      return faults.refuse(driver_code::kIllegalAddress,
                           "read-only address: %s on stream %#llx writes to %#llx, %llu bytes", what,
                           Long{caller.stream}, Long{address}, Long{work.size});
    }
    step.touches.push_back({owner, part, writes});
  }
  const auto closed = work.is_own ? std::nullopt : owner->memory.closed().first_in(address, work.size);
  if (!closed) return kSuccess;
  return faults.refuse(
      driver_code::kIllegalAddress,
      "outside of blocks: %s on stream %#llx touches %#llx, %llu bytes, of which %#llx is in no "
      "live block",
      what, Long{caller.stream}, Long{address}, Long{work.size}, Long{*closed});
}

/// Only streams of one device can race, because the clocks of two devices cannot be compared.
Status SimMachine::check_races(const Caller& caller, const Step& step) {
  for (const auto& [owner, part, writes] : step.touches) {
    if (owner != this) continue;
    const auto other = memory.accesses().conflict(part.offset, part.size, caller.stream, step.start, writes);
    if (!other) continue;
    return faults.refuse(driver_code::kLaunchFailed,
                         "race: %s on stream %#llx from %llu ns touches %#llx, %llu bytes, which stream "
                         "%#llx uses until %llu ns",
                         name_of(step.work->kind), Long{caller.stream}, Long{step.start},
                         Long{writes ? step.work->destination : step.work->source}, Long{step.work->size},
                         Long{other->stream}, Long{other->end});
  }
  return kSuccess;
}

void SimMachine::add_accesses(Stream stream, const Step& step,
                              std::vector<SimAccesses::Access>& accesses) const {
  for (const auto& [owner, part, writes] : step.touches) {
    if (owner == this) accesses.push_back({part.offset, part.size, {stream, step.end}, writes});
  }
}

// ---- executing work

Status SimMachine::execute(const Step& step) {
  const SimWork& work = *step.work;
  if (work.size == 0) return kSuccess;
  if (work.kind == SimWork::Kind::copy) return move_bytes(step);
  SimMemory& target = step.touches.front().owner->memory;
  if (work.kind == SimWork::Kind::look) {
    if (!memory.backing().has_data()) return kSuccess;
    const ClosedMemory::Leave from(target.closed(), work.source, work.size);
    const Look look{work.source, static_cast<uint32_t>(work.size), work.word, work.block};
    do_look(look, static_cast<const uint8_t*>(host_pointer(work.source)), *work.report);
    return kSuccess;
  }
  if (work.kind == SimWork::Kind::kernel) {
    target.closed().written(work.destination, work.size);
    return kSuccess;
  }
  const ClosedMemory::Leave to(target.closed(), work.destination, work.size);
  if (work.kind == SimWork::Kind::transfer) {
    if (!memory.backing().has_data()) return kSuccess;
    const ClosedMemory::Leave from(step.touches.back().owner->memory.closed(), work.source, work.size);
    return move_bytes(step);
  }
  if (target.backing().has_data()) fill_bytes(host_pointer(work.destination), work.word, work.size);
  return kSuccess;
}

/// Moves the bytes of a copy. Addresses that are not on the host have been checked.
Status SimMachine::move_bytes(const Step& step) {
  const SimWork& work = *step.work;
  if (!work.to_host && !work.from_host) {
    // AddressSanitizer's memmove goes byte by byte.
    const bool is_apart =
        std::max(work.destination, work.source) - std::min(work.destination, work.source) >= work.size;
    (is_apart ? std::memcpy : std::memmove)(host_pointer(work.destination), host_pointer(work.source),
                                            work.size);
    return kSuccess;
  }
  if (work.to_host && work.from_host) return copy_over_host(work.destination, work.source, work.size);
  Address host = work.to_host ? work.destination : work.source;
  for (const auto& [owner, part, writes] : step.touches) {
    SimBacking& backing = owner->memory.backing();
    const bool done = work.to_host ? backing.read(host, part.offset, part.size)
                                   : backing.write(part.offset, host, part.size);
    if (!done) {
      return faults.refuse(driver_code::kIllegalAddress, "unmapped address: copy touches %#llx of the host",
                           Long{host});
    }
    host += part.size;
  }
  if (work.from_host) step.touches.front().owner->memory.closed().written(work.destination, work.size);
  return kSuccess;
}

/// Copies from host to host through temporary physical memory, so that the kernel checks both addresses.
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

}  // namespace gpupool::internal
