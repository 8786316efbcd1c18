// SPDX-License-Identifier: Apache-2.0
// Which addresses of a device nobody may touch, as pools in debug mode annotate say: what is free, and what
// is beyond the end of a block. Work that touches one is a fault, and so is, for the tools that watch the
// host, an access by the program.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/no_copy.hpp"
#include "device/device.hpp"
#include "device/sim/memory_checkers.hpp"

namespace gpupool::internal {

/// Not thread-safe: the device's lock is held. Costs nothing until something is closed.
class ClosedMemory : NoCopy {
 public:
  /// `is_host`: addresses are pointers of this process.
  explicit ClosedMemory(bool is_host) noexcept : is_host_(is_host) {}
  ~ClosedMemory() { open(0, ~uint64_t{0}); }

  /// What the pool says: see Device::annotate. If the host has no memory for the records, more stays open.
  void annotate(Address address, uint64_t size, Accessibility accessibility) noexcept;

  /// The first closed address among these.
  std::optional<Address> first_in(Address address, uint64_t size) const noexcept;

  /// The range was mapped or made accessible anew: tells the tools again what they may have forgotten.
  void repeat(Address address, uint64_t size) const noexcept;
  /// The device has written there where no tool could see it.
  void written(Address address, uint64_t size) const noexcept;

  /// While it lives, the library may touch what is closed there, without a tool complaining.
  class Leave : NoCopy {
   public:
    Leave(const ClosedMemory& closed, Address address, uint64_t size) noexcept;
    ~Leave() { closed_.repeat(address_, size_); }

   private:
    const ClosedMemory& closed_;
    Address address_;
    uint64_t size_;
  };

 private:
  using Parts = std::map<Address, uint64_t>;  // disjoint, by first address: where each ends

  void open(Address address, uint64_t size) noexcept;
  void close(Address address, uint64_t size) noexcept;
  void split(Address at);
  Parts::const_iterator first_overlap(Address address) const noexcept;
  template <class Visit>
  void for_each_in(Address address, uint64_t size, Visit visit) const noexcept;
  bool has_tools() const noexcept { return tools_ && tools_->any(); }

  bool is_host_;
  std::optional<MemoryCheckers> tools_;  // once something is closed
  Parts parts_;
};

}  // namespace gpupool::internal
