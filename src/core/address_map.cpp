// SPDX-License-Identifier: Apache-2.0
#include "core/address_map.hpp"

#include <new>
#include <utility>

#include "base/reserve.hpp"

namespace gpupool::internal {

AddressMap::AddressMap() : root_(make<Root>()) {}

AddressMap::~AddressMap() = default;

template <typename Record>
AddressMap::Zeroed<Record> AddressMap::make() {
  static_assert(std::is_trivially_destructible_v<Record>);  // and empty where all bits are 0
  Zeroed<Record> record(static_cast<Record*>(get_zeros(sizeof(Record))));
  if (record == nullptr) throw std::bad_alloc();
  bytes_ += sizeof(Record);
  return record;
}

/// An empty record: a spare one or a new one.
template <typename Record>
Record* AddressMap::pop_spare(Record*& spare, std::vector<Zeroed<Record>>& all) {
  if (spare != nullptr) return std::exchange(spare, spare->next_spare);
  reserve_more(all, 1);
  all.push_back(make<Record>());
  return all.back().get();
}

void AddressMap::prepare(Address address) {
  std::atomic<Leaf*>& root = root_->leaves[address >> kLeafShift];
  Leaf* leaf = root.load(std::memory_order_relaxed);
  if (leaf == nullptr) {
    leaf = pop_spare(spare_leaves_, leaves_);
    root.store(leaf, std::memory_order_release);
    root_->occupied.set(address >> kLeafShift);
  }
  std::atomic<uintptr_t>& entry = leaf->entries[unit_of(address)];
  const uintptr_t old = entry.load(std::memory_order_relaxed);
  if (old == 0 || (old & kTableTag) != 0) return;
  // A second block starts in this MiB: from now on it has a table, until none does.
  Table* table = pop_spare(spare_tables_, tables_);
  Range* first = reinterpret_cast<Range*>(old);
  const size_t slot = slot_of(first->address);
  table->entries[slot].store(first, std::memory_order_relaxed);
  table->occupied.set(slot);
  table->count = 1;
  entry.store(reinterpret_cast<uintptr_t>(table) | kTableTag, std::memory_order_release);
}

void AddressMap::insert(Range* block) noexcept {
  ++blocks_;
  Leaf* leaf = root_->leaves[block->address >> kLeafShift].load(std::memory_order_relaxed);
  const size_t unit = unit_of(block->address);
  std::atomic<uintptr_t>& entry = leaf->entries[unit];
  const uintptr_t old = entry.load(std::memory_order_relaxed);
  if ((old & kTableTag) != 0) {
    Table* table = table_of(old);
    const size_t slot = slot_of(block->address);
    assert(table->entries[slot].load(std::memory_order_relaxed) == nullptr);
    table->entries[slot].store(block, std::memory_order_release);
    table->occupied.set(slot);
    ++table->count;
  } else {
    assert(old == 0);
    entry.store(reinterpret_cast<uintptr_t>(block), std::memory_order_release);
    leaf->occupied.set(unit);
    ++leaf->count;
  }
}

void AddressMap::erase(const Range* block) noexcept {
  --blocks_;
  std::atomic<Leaf*>& root = root_->leaves[block->address >> kLeafShift];
  Leaf* leaf = root.load(std::memory_order_relaxed);
  const size_t unit = unit_of(block->address);
  std::atomic<uintptr_t>& entry = leaf->entries[unit];
  const uintptr_t old = entry.load(std::memory_order_relaxed);
  if ((old & kTableTag) != 0) {
    Table* table = table_of(old);
    const size_t slot = slot_of(block->address);
    assert(table->entries[slot].load(std::memory_order_relaxed) == block);
    table->entries[slot].store(nullptr, std::memory_order_release);
    table->occupied.clear(slot);
    if (--table->count != 0) return;
    table->next_spare = spare_tables_;
    spare_tables_ = table;
  }
  assert((old & kTableTag) != 0 || reinterpret_cast<const Range*>(old) == block);
  entry.store(0, std::memory_order_release);
  leaf->occupied.clear(unit);
  if (--leaf->count != 0) return;
  root.store(nullptr, std::memory_order_release);
  root_->occupied.clear(block->address >> kLeafShift);
  leaf->next_spare = spare_leaves_;
  spare_leaves_ = leaf;
}

Range* AddressMap::last_at_or_before(uintptr_t entry, size_t slot) noexcept {
  if ((entry & kTableTag) == 0) {
    Range* block = reinterpret_cast<Range*>(entry);
    return block != nullptr && slot_of(block->address) <= slot ? block : nullptr;
  }
  const Table* table = table_of(entry);
  const size_t found = table->occupied.last_to(slot);
  return found == decltype(table->occupied)::kNone ? nullptr
                                                   : table->entries[found].load(std::memory_order_relaxed);
}

/// The last block of `leaf` that begins at or before a place in it. Entries that were only prepared have
/// none.
Range* AddressMap::last_in(const Leaf& leaf, size_t unit, size_t slot) noexcept {
  for (;;) {
    const size_t found = leaf.occupied.last_to(unit);
    if (found == kNone) return nullptr;
    const uintptr_t entry = leaf.entries[found].load(std::memory_order_relaxed);
    if (Range* block = last_at_or_before(entry, found == unit ? slot : kSlots - 1)) return block;
    if (found == 0) return nullptr;
    unit = found - 1;
    slot = kSlots - 1;
  }
}

Range* AddressMap::find_at_or_before(Address address) const noexcept {
  if (address >= kLimit) return nullptr;
  size_t root = address >> kLeafShift;
  if (const Leaf* leaf = root_->leaves[root].load(std::memory_order_relaxed)) {
    if (Range* block = last_in(*leaf, unit_of(address), slot_of(address))) return block;
  }
  while (root != 0) {
    root = root_->occupied.last_to(root - 1);
    if (root == kNone) break;
    const Leaf* leaf = root_->leaves[root].load(std::memory_order_relaxed);
    if (Range* block = last_in(*leaf, kUnits - 1, kSlots - 1)) return block;
  }
  return nullptr;
}

}  // namespace gpupool::internal
