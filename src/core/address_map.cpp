// SPDX-License-Identifier: Apache-2.0
#include "core/address_map.hpp"

#include <utility>

namespace gpupool::internal {

AddressMap::AddressMap()
    : root_(std::make_unique<std::atomic<Leaf*>[]>(size_t{1} << kRootBits)),
      bytes_((size_t{1} << kRootBits) * sizeof(std::atomic<Leaf*>)) {}

AddressMap::~AddressMap() = default;

/// An empty record: a spare one or a new one.
template <typename Record>
Record* AddressMap::pop_spare(Record*& spare, std::vector<std::unique_ptr<Record>>& all) {
  if (spare != nullptr) return std::exchange(spare, spare->next_spare);
  all.push_back(std::make_unique<Record>());
  bytes_ += sizeof(Record);
  return all.back().get();
}

void AddressMap::prepare(Address address) {
  std::atomic<Leaf*>& root = root_[address >> kLeafShift];
  Leaf* leaf = root.load(std::memory_order_relaxed);
  if (leaf == nullptr) {
    leaf = pop_spare(spare_leaves_, leaves_);
    root.store(leaf, std::memory_order_release);
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
  Leaf* leaf = root_[block->address >> kLeafShift].load(std::memory_order_relaxed);
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
  std::atomic<Leaf*>& root = root_[block->address >> kLeafShift];
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

Range* AddressMap::find_at_or_before(Address address) const noexcept {
  if (address >= kLimit) return nullptr;
  size_t unit = unit_of(address);
  size_t slot = slot_of(address);
  for (size_t root = address >> kLeafShift;; --root) {
    if (const Leaf* leaf = root_[root].load(std::memory_order_relaxed)) {
      constexpr size_t kNone = decltype(leaf->occupied)::kNone;
      for (size_t found = leaf->occupied.last_to(unit); found != kNone;) {
        if (found != unit) slot = kSlots - 1;
        const uintptr_t entry = leaf->entries[found].load(std::memory_order_relaxed);
        if (Range* block = last_at_or_before(entry, slot)) return block;
        if (found == 0) break;
        unit = found - 1;
        slot = kSlots - 1;
        found = leaf->occupied.last_to(unit);
      }
    }
    if (root == 0) return nullptr;
    unit = (size_t{1} << kLeafBits) - 1;
    slot = kSlots - 1;
  }
}

}  // namespace gpupool::internal
