// SPDX-License-Identifier: Apache-2.0
// From an address to the block that starts there, without a hash and without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/no_copy.hpp"
#include "base/zeros.hpp"
#include "core/bitmap.hpp"
#include "core/range.hpp"

namespace gpupool::internal {

/// A radix tree over 48 bits of address. A leaf has an entry for each MiB: the block that starts in it, or,
/// if several small ones start there, a table of its 2,048 possible starts. At most one large block starts in
/// any MiB, so only heaps of small blocks pay for tables. A table or leaf without blocks is reused for the
/// next place that needs one, so addresses may wander for ever while the memory used follows the live blocks.
/// None is freed, so a late find() still reads a record, though perhaps another block's.
///
/// One writer at a time (the pool's lock). find() needs no lock: two or three dependent loads.
class AddressMap : NoCopy {
 public:
  AddressMap();
  ~AddressMap();

  /// Whether [address, address + size) can be registered at all.
  static bool covers(Address address, uint64_t size) noexcept {
    return address < kLimit && size <= kLimit - address;
  }

  /// Makes inserting a block at `address` safe. Throws std::bad_alloc.
  void prepare(Address address);

  /// The address must have been prepared since the last change, and be free.
  void insert(Range* block) noexcept;
  void erase(const Range* block) noexcept;

  /// A block that may start at `address`, or null. The caller compares block->address, under its lock.
  Range* find(Address address) const noexcept {
    if (address >= kLimit) [[unlikely]]
      return nullptr;
    const Leaf* leaf = root_->leaves[address >> kLeafShift].load(std::memory_order_acquire);
    if (leaf == nullptr) [[unlikely]]
      return nullptr;
    const uintptr_t entry = leaf->entries[unit_of(address)].load(std::memory_order_acquire);
    if ((entry & kTableTag) == 0) return reinterpret_cast<Range*>(entry);
    return table_of(entry)->entries[slot_of(address)].load(std::memory_order_acquire);
  }

  /// The block with the greatest start that is at most `address`, or null. Writer's side only.
  Range* find_at_or_before(Address address) const noexcept;

  size_t blocks() const noexcept { return blocks_; }
  uint64_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr unsigned kUnitShift = 20;
  static constexpr unsigned kLeafBits = 14;
  static constexpr unsigned kLeafShift = kUnitShift + kLeafBits;
  static constexpr unsigned kRootBits = 14;
  static constexpr size_t kUnits = size_t{1} << kLeafBits;
  static constexpr size_t kLeaves = size_t{1} << kRootBits;
  static constexpr Address kLimit = Address{1} << (kLeafShift + kRootBits);
  static constexpr size_t kSlots = (size_t{1} << kUnitShift) / kUnit;
  static constexpr uintptr_t kTableTag = 1;
  static constexpr size_t kNone = Bitmap<kUnits>::kNone;

  struct Table {
    std::array<std::atomic<Range*>, kSlots> entries{};
    Bitmap<kSlots> occupied;
    uint32_t count = 0;
    Table* next_spare = nullptr;
  };
  struct Leaf {
    std::array<std::atomic<uintptr_t>, kUnits> entries{};
    Bitmap<kUnits> occupied;
    uint32_t count = 0;  // of entries that are not 0
    Leaf* next_spare = nullptr;
  };
  struct Root {
    std::array<std::atomic<Leaf*>, kLeaves> leaves{};
    Bitmap<kLeaves> occupied;
  };

  static size_t unit_of(Address address) noexcept { return (address >> kUnitShift) & (kUnits - 1); }
  static size_t slot_of(Address address) noexcept { return (address / kUnit) & (kSlots - 1); }
  static Table* table_of(uintptr_t entry) noexcept { return reinterpret_cast<Table*>(entry & ~kTableTag); }
  static Range* last_at_or_before(uintptr_t entry, size_t slot) noexcept;
  static Range* last_in(const Leaf& leaf, size_t unit, size_t slot) noexcept;

  /// Of a root or a leaf few pages are ever touched.
  template <typename Record>
  struct Release {
    void operator()(Record* record) const noexcept { release_zeros(record, sizeof(Record)); }
  };
  template <typename Record>
  using Zeroed = std::unique_ptr<Record, Release<Record>>;
  template <typename Record>
  Zeroed<Record> make();
  template <typename Record>
  Record* pop_spare(Record*& spare, std::vector<Zeroed<Record>>& all);

  uint64_t bytes_ = 0;
  size_t blocks_ = 0;
  Zeroed<Root> root_;
  std::vector<Zeroed<Leaf>> leaves_;
  std::vector<Zeroed<Table>> tables_;
  Leaf* spare_leaves_ = nullptr;
  Table* spare_tables_ = nullptr;
};

}  // namespace gpupool::internal
