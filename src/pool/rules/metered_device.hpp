// SPDX-License-Identifier: Apache-2.0
// The pool's device, with every call counted and timed.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <utility>

#include "device/device.hpp"
#include "pool/rules/departure.hpp"
#include "pool/rules/stream_user.hpp"

namespace gpupool::internal {

/// Thread-safe, as the device is.
class MeteredDevice {
 public:
  struct Tally {
    std::atomic<uint64_t> count{0};
    std::atomic<uint64_t> nanoseconds{0};
  };

  explicit MeteredDevice(std::shared_ptr<Device> device)
      : device_(std::move(device)), began_at_(device_->now_ns()) {}

  Device& raw() noexcept { return *device_; }
  /// For another pool, which counts its own calls of the device.
  const std::shared_ptr<Device>& shared() const noexcept { return device_; }
  const DeviceInfo& info() const noexcept { return device_->info(); }
  const Tally& tally(Call call) const noexcept { return tallies_[static_cast<size_t>(call)]; }

  /// The tally as statistics report it.
  gpupool_call_stat_t total(Call call) const noexcept {
    const Tally& each = tally(call);
    return {each.count.load(std::memory_order_relaxed), each.nanoseconds.load(std::memory_order_relaxed)};
  }

  /// As the device says it. Once it has said so, all work counts as done and what is given back as taken, and
  /// nothing else succeeds.
  bool is_lost() noexcept {
    if (device_->is_lost()) is_lost_.store(true, std::memory_order_relaxed);
    return has_lost();
  }

  uint64_t now_ns() const noexcept { return device_->now_ns(); }
  /// How long the pool has had the device, in the device's own time.
  uint64_t age_ns() const noexcept { return now_ns() - began_at_; }
  /// All calls so far.
  uint64_t calls() const noexcept {
    uint64_t sum = 0;
    for (const Tally& each : tallies_) sum += each.count.load(std::memory_order_relaxed);
    return sum;
  }

  /// The time that all calls have taken so far.
  uint64_t nanoseconds() const noexcept {
    uint64_t sum = 0;
    for (const Tally& each : tallies_) sum += each.nanoseconds.load(std::memory_order_relaxed);
    return sum;
  }

  Status reserve_addresses(uint64_t size, Address& base) {
    return timed(Call::address, [&] { return device_->reserve_addresses(size, base); });
  }
  Status release_addresses(Address base, uint64_t size) {
    annotate(base, size, Accessibility::open);
    return released(Call::address, [&] { return device_->release_addresses(base, size); });
  }
  Status create_chunk(uint64_t size, ChunkHandle& chunk) {
    return timed(Call::create, [&] { return device_->create_chunk(size, chunk); });
  }
  Status release_chunk(const Departure&, ChunkHandle chunk) {
    return released(Call::release, [&] { return device_->release_chunk(chunk); });
  }
  Status map(Address address, uint64_t size, ChunkHandle chunk) {
    return timed(Call::map, [&] { return device_->map(address, size, chunk); });
  }
  Status set_access(Address address, uint64_t size) {
    return timed(Call::set_access, [&] { return device_->set_access(address, size); });
  }
  Status protect(Address address, uint64_t size, Permission access) {
    return timed(Call::set_access, [&] { return device_->protect(address, size, access); });
  }
  Status export_chunk(ChunkHandle chunk, SharedChunk& shared) {
    return timed(Call::share, [&] { return device_->export_chunk(chunk, shared); });
  }
  Status import_chunk(const SharedChunk& shared, uint64_t size, ChunkHandle& chunk) {
    return timed(Call::share, [&] { return device_->import_chunk(shared, size, chunk); });
  }
  /// Lets annotate() reach the device from now on.
  void begin_annotating() noexcept { annotates_ = true; }
  void annotate(Address address, uint64_t size, Accessibility accessibility) noexcept {
    if (annotates_) device_->annotate(address, size, accessibility);
  }
  Status add_peer(int32_t peer, bool all) { return device_->add_peer(peer, all); }
  void remove_peer(int32_t peer) noexcept { device_->remove_peer(peer); }
  Status unmap(const Departure&, Address address, uint64_t size) {
    return released(Call::unmap, [&] { return device_->unmap(address, size); });
  }
  Status allocate(Kind kind, uint64_t size, Stream stream, Address& address) {
    return timed(Call::malloc, [&] { return device_->allocate(kind, size, stream, address); });
  }
  Status deallocate(const Departure&, Kind kind, Address address, uint64_t size, Stream stream) {
    return unless_lost(Call::free, [&] { return device_->deallocate(kind, address, size, stream); });
  }
  // Only for the user of a stream: see device.hpp.

  Status record(const StreamUser& user, uint64_t context, Event& event) {
    return timed(Call::event_record, [&] { return device_->record(user.stream(), context, event); });
  }
  Status capture_id(const StreamUser& user, uint64_t& id) {
    return unless_lost(
        Call::query, [&] { return device_->capture_id(user.stream(), id); }, id, uint64_t{0});
  }
  Status wait(const StreamUser& user, Event event) {
    return timed(Call::stream_wait, [&] { return device_->wait(user.stream(), event); });
  }

  // For anybody.

  Status context_of(Stream stream, uint64_t& context) {
    return timed(Call::query, [&] { return device_->context_of(stream, context); });
  }
  Status is_capturing(Stream stream, bool& capturing) {
    return unless_lost(
        Call::query, [&] { return device_->is_capturing(stream, capturing); }, capturing, false);
  }
  Status query(Event event, bool& passed) {
    return unless_lost(
        Call::query, [&] { return device_->query(event, passed); }, passed, true);
  }
  Status synchronize(Event event) {
    return unless_lost(Call::host_wait, [&] { return device_->synchronize(event); });
  }
  void recycle(Event event) noexcept {
    if (!has_lost()) device_->recycle(event);
  }
  Status synchronize_all(uint64_t context) {
    return unless_lost(Call::host_wait, [&] { return device_->synchronize_all(context); });
  }
  Status synchronize_stream(Stream stream) {
    return unless_lost(Call::host_wait, [&] { return device_->synchronize_stream(stream); });
  }
  Status create_stream(Stream& stream) {
    return timed(Call::stream, [&] { return device_->create_stream(stream); });
  }
  Status destroy_stream(Stream stream) {
    return unless_lost(Call::stream, [&] { return device_->destroy_stream(stream); });
  }
  Status transfer(Address destination, Address source, uint64_t size, Stream stream) {
    return timed(Call::copy, [&] { return device_->transfer(destination, source, size, stream); });
  }
  Status fill_words(Address destination, uint32_t word, uint64_t size, Stream stream) {
    return timed(Call::copy, [&] { return device_->fill_words(destination, word, size, stream); });
  }
  Status begin_inspecting() { return device_->begin_inspecting(); }
  Status inspect(std::span<const Look> looks, Address report, Stream stream) {
    return timed(Call::copy, [&] { return device_->inspect(looks, report, stream); });
  }
  Status fill(Address destination, uint8_t value, uint64_t size, Stream stream) {
    return timed(Call::copy, [&] { return device_->fill(destination, value, size, stream); });
  }

 private:
  bool has_lost() const noexcept { return is_lost_.load(std::memory_order_relaxed); }

  template <typename Function>
  Status timed(Call call, Function function) {
    if (has_lost())
      return fail_driver(GPUPOOL_ERROR_DRIVER, 0, "the device's context was reset or destroyed");
    return tallied(call, function);
  }
  /// Of a context that is gone, nothing is left to wait for or to free.
  template <typename Function>
  Status unless_lost(Call call, Function function) {
    return has_lost() ? kSuccess : tallied(call, function);
  }
  /// And the answer to a question is known.
  template <typename Function, typename Answer>
  Status unless_lost(Call call, Function function, Answer& answer, Answer of_lost) {
    if (has_lost()) answer = of_lost;
    return unless_lost(call, function);
  }
  /// What the driver still has goes back to it.
  template <typename Function>
  Status released(Call call, Function function) {
    const Status status = tallied(call, function);
    return has_lost() ? kSuccess : status;
  }

  template <typename Function>
  Status tallied(Call call, Function function) {
    const uint64_t start = device_->now_ns();
    const Status status = function();
    Tally& tally = tallies_[static_cast<size_t>(call)];
    tally.count.fetch_add(1, std::memory_order_relaxed);
    tally.nanoseconds.fetch_add(device_->now_ns() - start, std::memory_order_relaxed);
    return status;
  }

  std::shared_ptr<Device> device_;
  const uint64_t began_at_;
  bool annotates_ = false;
  std::atomic<bool> is_lost_{false};
  std::array<Tally, kCalls> tallies_{};
};

}  // namespace gpupool::internal
