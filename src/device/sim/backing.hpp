// SPDX-License-Identifier: Apache-2.0
// What backs the addresses and physical memory of a simulated device: host memory, or nothing.
//
// Physical memory is named by its offset in one sparse space; no offset is ever reused.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "base/bits.hpp"
#include "device/device.hpp"

namespace gpupool::internal {

/// Addresses are below 2^47, and one call can reserve half of them, as on an H200.
inline constexpr uint64_t kSimAddressSpace = 128 * kTiB;
inline constexpr uint64_t kSimMaxReservation = 64 * kTiB;

inline constexpr uint64_t kSimGranularity = 2 * kMiB;

/// Whether size bytes at address are whole granules.
constexpr bool is_granular(Address address, uint64_t size) noexcept {
  return size != 0 && (address | size) % kSimGranularity == 0;
}

/// Not thread-safe: the device's lock is held.
class SimBacking {
 public:
  virtual ~SimBacking() = default;

  /// Whether addresses are pointers of this process, and bytes are kept.
  virtual bool has_data() const noexcept = 0;

  /// Reserves addresses that nothing else in the process uses. alignment is a power of two.
  virtual Status reserve(uint64_t size, uint64_t alignment, Address& base) = 0;
  virtual void release(Address base, uint64_t size) noexcept = 0;

  /// Names size bytes of new physical memory.
  virtual Status create(uint64_t size, uint64_t& offset) = 0;
  /// Releases their host memory.
  virtual void discard(uint64_t offset, uint64_t size) noexcept = 0;

  virtual Status map(Address address, uint64_t size, uint64_t offset) = 0;
  virtual Status set_access(Address address, uint64_t size, Permission access) = 0;
  virtual Status unmap(Address address, uint64_t size) = 0;

  // Physical memory that several processes map.

  virtual Status export_part(uint64_t, SharedChunk&) { return no_sharing(); }
  /// Names memory that another process shared. discard() gives it up.
  virtual Status import_part(const SharedChunk&, uint64_t, uint64_t&) { return no_sharing(); }

  // Around fork. In the child, all physical memory becomes a copy, to which the mappings then move; if the
  // host has no room for the copy, they become inaccessible.

  virtual void copy_for_child() noexcept = 0;
  virtual void drop_copy() noexcept = 0;    // in the parent
  virtual void become_copy() noexcept = 0;  // in the child
  virtual void map_again(Address address, uint64_t size, uint64_t offset, Permission access) noexcept = 0;

  /// Copies between physical memory and any host memory. False if the host has no such memory.
  virtual bool write(uint64_t offset, Address host, uint64_t size) noexcept = 0;
  virtual bool read(Address host, uint64_t offset, uint64_t size) noexcept = 0;

 private:
  static Status no_sharing() noexcept {
    return fail(GPUPOOL_ERROR_UNSUPPORTED,
                "a simulated device shares memory between processes only with data, and only on Linux");
  }
};

/// UNAVAILABLE: this system cannot back memory so.
Status check_host_backing();
/// True aliasing: physical memory is a sparse file, or the like, and addresses are mappings of it.
std::unique_ptr<SimBacking> make_host_backing();

/// The addresses of all simulated devices without data, so that no two devices use the same one. Best fit.
class SimAddressSpace {
 public:
  SimAddressSpace();

  /// False when no free range is large enough.
  bool reserve(uint64_t size, uint64_t alignment, Address& base);
  /// Frees a range from reserve().
  void release(Address base) noexcept;

 private:
  using Sizes = std::set<std::pair<uint64_t, Address>>;
  struct Range {
    uint64_t size = 0;
    Sizes::node_type
        place;  // in the index of free ranges; kept here while reserved, so that release() needs no memory
  };
  using Ranges = std::map<Address, Range>;

  Ranges::node_type new_range();
  void insert_free(Ranges::node_type range, Address base, uint64_t size) noexcept;
  void set_free(Ranges::iterator range) noexcept;

  std::mutex mutex_;
  Ranges ranges_;  // all of them, free or reserved
  Sizes free_;
};

/// Addresses only. `addresses` must outlive the result.
std::unique_ptr<SimBacking> make_address_backing(SimAddressSpace& addresses);

}  // namespace gpupool::internal
