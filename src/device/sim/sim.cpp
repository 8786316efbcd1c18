// SPDX-License-Identifier: Apache-2.0
// The entry to a simulated device: takes its lock, charges the price of the call, consults the script, and
// delegates to the part that does the work.
#include "device/sim/sim.hpp"

#include <mutex>
#include <utility>

#include "base/interrupts.hpp"
#include "base/no_copy.hpp"
#include "device/sim/prices.hpp"
#include "device/sim/registry.hpp"

namespace gpupool::internal {
namespace {

namespace price = sim_prices;

class SimDevice final : public Device, NoCopy {
 public:
  /// The state's lock is held.
  explicit SimDevice(SimState& state) : state_(state), machine_(*state.machine) { ++state_.open; }
  ~SimDevice() override {
    const std::lock_guard lock(state_.mutex);
    --state_.open;
  }

  const DeviceInfo& info() const noexcept override { return machine_.info; }
  uint64_t now_ns() noexcept override { return machine_.clock.now(); }

  Status free_memory(uint64_t& free) override {
    const std::lock_guard lock(state_.mutex);
    machine_.clock.charge(price::kMemoryInfo);
    free = machine_.memory.capacity().free();
    return kSuccess;
  }

  // ---- virtual memory

  Status reserve_addresses(uint64_t size, Address& base) override {
    return call(Call::address, price::kAddress,
                [&] { return machine_.memory.reserve_addresses(size, base); });
  }
  Status release_addresses(Address base, uint64_t size) override {
    return call(Call::address, price::kAddress,
                [&] { return machine_.memory.release_addresses(base, size); });
  }
  Status create_chunk(uint64_t size, ChunkHandle& chunk) override {
    return call(Call::create, price::at(price::kCreate, size),
                [&] { return machine_.memory.chunks().create(size, chunk); });
  }
  Status release_chunk(ChunkHandle chunk) override {
    return call(Call::release, price::at(price::kRelease, size_of(chunk)),
                [&] { return machine_.memory.chunks().release(chunk); });
  }
  Status map(Address address, uint64_t size, ChunkHandle chunk) override {
    return call(Call::map, price::at(price::kMap, size),
                [&] { return machine_.memory.map(address, size, chunk); });
  }
  Status set_access(Address address, uint64_t size) override {
    return call(Call::set_access, price_of_mappings(price::kSetAccess, address, size),
                [&] { return machine_.memory.set_access(address, size, accessors_); });
  }
  Status protect(Address address, uint64_t size, Permission access) override {
    return call(Call::set_access, price_of_mappings(price::kSetAccess, address, size),
                [&] { return machine_.memory.protect(address, size, access, accessors_); });
  }
  Status unmap(Address address, uint64_t size) override {
    return call_among_all(
        Call::unmap, price_of_mappings(price::kUnmap, address, size),
        [&](const AllSims& all) { return machine_.memory.unmap(address, size, all.now()); });
  }

  // ---- memory between processes

  Status export_chunk(ChunkHandle chunk, SharedChunk& shared) override {
    return call(Call::share, price::kShare,
                [&] { return machine_.memory.chunks().export_chunk(chunk, shared); });
  }
  Status import_chunk(const SharedChunk& shared, uint64_t size, ChunkHandle& chunk) override {
    return call(Call::share, price::kShare,
                [&] { return machine_.memory.chunks().import_chunk(shared, size, chunk); });
  }

  // ---- peers

  Status add_peer(int32_t peer, bool all) override {
    if (peer < 0 || peer >= kSimDeviceCount) {
      return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "peer %d does not exist: there are %d simulated devices",
                  peer, kSimDeviceCount);
    }
    const std::lock_guard lock(state_.mutex);
    accessors_ |= sim_device_set(peer);
    if (all) machine_.memory.share_allocations(accessors_);
    return kSuccess;
  }
  void remove_peer(int32_t peer) noexcept override {
    const std::lock_guard lock(state_.mutex);
    if (peer != machine_.info.ordinal) accessors_ &= ~sim_device_set(peer);
  }

  // ---- the driver's own malloc

  Status allocate(Kind kind, uint64_t size, Stream, Address& address) override {
    const double pinning = kind == Kind::pinned ? price::kPinByte * static_cast<double>(size) : 0;
    return call(Call::malloc, price::at(price::kMallocPair, size) * price::kMallocShare + pinning, [&] {
      machine_.memory.share_allocations(accessors_);
      return machine_.memory.allocate(kind, size, address);
    });
  }
  /// Waits for all streams, as cudaFree does.
  Status deallocate(Kind kind, Address address, uint64_t size, Stream) override {
    const double cost = price::at(price::kMallocPair, size) * (1 - price::kMallocShare);
    return call_among_all(Call::free, cost, [&](const AllSims& all) {
      const Status status = machine_.memory.deallocate(kind, address, size, all.now());
      if (status == kSuccess) machine_.streams.synchronize_all();
      return status;
    });
  }

  // ---- order

  // Streams and events of another device are in that device's time; a context is a device's number plus one.

  Status context_of(Stream stream, uint64_t& context) override {
    const uint64_t found = context_of_stream(stream);
    return call(Call::query, price::kStreamState, [&] {
      context = found;
      return kSuccess;
    });
  }
  Status record(Stream stream, uint64_t context, Event& event) override {
    const auto record = [&](SimStreams& streams) { return streams.record(stream, event); };
    return on_streams(Call::event_record, price::kEventRecord, context, record);
  }
  Status query(Event event, bool& passed) override {
    const auto query = [&](SimStreams& streams) { return streams.query(event, passed); };
    return on_streams(Call::query, price::kEventQuery, context_of_event(event), query);
  }
  Status wait(Stream stream, Event event) override {
    const uint64_t context = context_of_event(event);
    if (context == 0) {
      return call(Call::stream_wait, price::kStreamWait,
                  [&] { return machine_.streams.wait(stream, event); });
    }
    uint64_t nanoseconds = 0;
    const auto ask = [&](SimStreams& streams) { return streams.remaining(event, nanoseconds); };
    const Status status = on_streams(Call::stream_wait, price::kStreamWait, context, ask);
    if (status != kSuccess) return status;
    const std::lock_guard lock(state_.mutex);
    return sim_attempt([&] { return machine_.streams.wait_for_other(stream, nanoseconds); });
  }
  Status synchronize(Event event) override {
    const uint64_t context = context_of_event(event);
    const auto synchronize = [&](SimStreams& streams) { return streams.synchronize(event); };
    if (context != 0) return on_streams(Call::host_wait, price::kEventQuery, context, synchronize);
    return wait_until_passed(
        price::kEventQuery, [&] { return machine_.streams.synchronize(event); },
        [&](bool& passed) { return machine_.streams.query(event, passed); });
  }
  void recycle(Event event) noexcept override {
    const uint64_t context = context_of_event(event);
    if (context == 0) {
      const std::lock_guard lock(state_.mutex);
      return machine_.streams.recycle(event);
    }
    const AllSims all;
    if (SimMachine* const other = all.machines()[context - 1]) other->streams.recycle(event);
  }
  Status synchronize_all(uint64_t context) override {
    const auto synchronize = [](SimStreams& streams) {
      streams.synchronize_all();
      return kSuccess;
    };
    const double cost = price::at(price::kMallocPair, 0);
    if (context != 0) return on_streams(Call::host_wait, cost, context, synchronize);
    return wait_until_passed(
        cost, [&] { return synchronize(machine_.streams); },
        [&](bool& passed) {
          passed = machine_.streams.are_all_idle();
          return kSuccess;
        });
  }
  Status is_capturing(Stream stream, bool& capturing) override {
    const auto ask = [&](SimStreams& streams) { return streams.is_capturing(stream, capturing); };
    return on_streams(Call::query, price::kStreamState, context_of_stream(stream), ask);
  }
  Status capture_id(Stream stream, uint64_t& id) override {
    return call(Call::query, price::kStreamQuery, [&] { return machine_.streams.capture_id(stream, id); });
  }

  // ---- streams and data

  Status create_stream(Stream& stream) override {
    return call(Call::stream, 0, [&] { return machine_.streams.create(stream); });
  }
  Status destroy_stream(Stream stream) override {
    return call(Call::stream, 0, [&] { return machine_.streams.destroy(stream); });
  }
  Status synchronize_stream(Stream stream) override {
    return wait_until_passed(
        price::kStreamQuery, [&] { return machine_.streams.synchronize_stream(stream); },
        [&](bool& passed) { return machine_.streams.is_idle(stream, passed); });
  }
  Status copy(Address destination, Address source, uint64_t size, Stream stream) override {
    return among_all(
        [&](const AllSims& all) { return machine_.copy(all.machines(), destination, source, size, stream); });
  }
  Status fill(Address destination, uint8_t value, uint64_t size, Stream stream) override {
    return among_all([&](const AllSims& all) {
      return machine_.fill(all.machines(), destination, value * 0x01010101U, size, stream, false);
    });
  }
  Status fill_words(Address destination, uint32_t word, uint64_t size, Stream stream) override {
    return call_among_all(Call::copy, price::kTransfer, [&](const AllSims& all) {
      return machine_.fill(all.machines(), destination, word, size, stream, true);
    });
  }

  // ---- sleep

  Status host_memory(uint64_t& available) override {
    const std::lock_guard lock(state_.mutex);
    available = machine_.memory.capacity().host_free();
    return kSuccess;
  }
  Status transfer(Address destination, Address source, uint64_t size, Stream stream) override {
    return call_among_all(Call::copy, price::kTransfer, [&](const AllSims& all) {
      return machine_.transfer(all.machines(), destination, source, size, stream);
    });
  }
  void name_asleep(Address address, uint64_t size, const char* pool) noexcept override {
    const std::lock_guard lock(state_.mutex);
    machine_.memory.sleepers().name(address, size, pool);
  }
  Status begin_inspecting() override { return kSuccess; }
  Status inspect(std::span<const Look> looks, Address report, Stream stream) override {
    return call_among_all(Call::copy, price::kTransfer, [&](const AllSims& all) {
      return machine_.inspect(all.machines(), looks, report, stream);
    });
  }
  void annotate(Address address, uint64_t size, Accessibility accessibility) noexcept override {
    const std::lock_guard lock(state_.mutex);
    machine_.memory.closed().annotate(address, size, accessibility);
  }

 private:
  template <class Action>
  Status call(Call kind, double cost, Action&& action) {
    const std::lock_guard lock(state_.mutex);
    if (const Status status = machine_.enter(kind, cost); status != kSuccess) return status;
    return sim_attempt(action);
  }
  /// A call that other devices matter to.
  template <class Action>
  Status call_among_all(Call kind, double cost, Action&& action) {
    return among_all([&](const AllSims& all) -> Status {
      if (const Status status = machine_.enter(kind, cost); status != kSuccess) return status;
      return action(all);
    });
  }
  template <class Action>
  static Status among_all(Action&& action) {
    return sim_attempt([&]() -> Status {
      const AllSims all;
      return action(all);
    });
  }

  bool is_own(size_t device) const noexcept { return device == static_cast<size_t>(machine_.info.ordinal); }
  uint64_t context_of_event(Event event) const noexcept {
    const size_t device = machine_.streams.device_of(event);
    return is_own(device) ? 0 : device + 1;
  }
  /// Numbers that no device has created are this device's.
  uint64_t context_of_stream(Stream stream) const {
    const size_t device = machine_.streams.device_of(stream);
    if (is_own(device)) return 0;
    const AllSims all;
    const SimMachine* const other = all.machines()[device];
    return other != nullptr && other->streams.has_created(stream) ? device + 1 : 0;
  }

  /// A call of this device about streams of a context.
  template <class Action>
  Status on_streams(Call kind, double cost, uint64_t context, Action&& action) {
    if (context == 0) return call(kind, cost, [&] { return action(machine_.streams); });
    return call_among_all(kind, cost, [&](const AllSims& all) -> Status {
      SimMachine* const other = all.machines()[context - 1];
      if (other == nullptr) return fail(GPUPOOL_ERROR_INVALID_ARGUMENT, "simulated device: no such device");
      return action(other->streams);
    });
  }

  /// A wait of the host. In the machine's time it may be long: then it can be interrupted, and holds no lock.
  template <class Synchronize, class Query>
  Status wait_until_passed(double cost, Synchronize&& synchronize, Query&& query) {
    if (!machine_.clock.is_real() || !interrupts::are_possible())
      return call(Call::host_wait, cost, synchronize);
    const Status entered = call(Call::host_wait, cost, [] { return kSuccess; });
    if (entered != kSuccess) return entered;
    return interrupts::look_until_passed(GPUPOOL_WAIT_GPU, [&](bool& passed) {
      const std::lock_guard lock(state_.mutex);
      return query(passed);
    });
  }

  uint64_t size_of(ChunkHandle chunk) const {
    const std::lock_guard lock(state_.mutex);
    return machine_.memory.chunks().size_of(chunk);
  }
  /// Charged for each mapping that the range covers.
  template <size_t kCount>
  double price_of_mappings(const price::Point (&points)[kCount], Address address, uint64_t size) const {
    const std::lock_guard lock(state_.mutex);
    double sum = 0;
    machine_.memory.for_each_mapping(address, size,
                                     [&](uint64_t mapped) { sum += price::at(points, mapped); });
    return sum;
  }

  SimState& state_;
  SimMachine& machine_;
  SimDeviceSet accessors_ = sim_device_set(machine_.info.ordinal);  // whom mappings are made usable for
};

}  // namespace

Status open_sim(int32_t ordinal, std::unique_ptr<Device>& device) {
  std::unique_ptr<Device> opened;
  const Status status = sim_attempt([&]() -> Status {
    SimState* state = nullptr;
    if (const Status found = find_sim(ordinal, state); found != kSuccess) return found;
    const std::lock_guard lock(state->mutex);
    opened = std::make_unique<SimDevice>(*state);
    return kSuccess;
  });
  if (status == kSuccess) device = std::move(opened);  // with no lock held: it may close the old device
  return status;
}

}  // namespace gpupool::internal
