// SPDX-License-Identifier: Apache-2.0
#include "core/address_map.hpp"

namespace gpupool {
namespace {

void set_bit(uint64_t* words, size_t bit) noexcept {
  words[bit / 64] |= uint64_t{1} << (bit % 64);
}
void clear_bit(uint64_t* words, size_t bit) noexcept {
  words[bit / 64] &= ~(uint64_t{1} << (bit % 64));
}

constexpr size_t kNone = ~size_t{0};

/// The highest set bit at or below `bit`, or kNone.
size_t last_bit(const uint64_t* words, size_t bit) noexcept {
  size_t word = bit / 64;
  uint64_t bits = words[word] & (~uint64_t{0} >> (63 - bit % 64));
  while (bits == 0) {
    if (word == 0) return kNone;
    bits = words[--word];
  }
  return word * 64 + log2_floor(bits);
}

}  // namespace

AddressMap::AddressMap()
    : root_(std::make_unique<std::atomic<Leaf*>[]>(size_t{1} << kRootBits)),
      bytes_((size_t{1} << kRootBits) * sizeof(std::atomic<Leaf*>)) {}

AddressMap::~AddressMap() = default;

void AddressMap::prepare(Address address) {
  std::atomic<Leaf*>& root = root_[address >> kLeafShift];
  Leaf* leaf = root.load(std::memory_order_relaxed);
  if (leaf == nullptr) {
    leaves_.push_back(std::make_unique<Leaf>());
    leaf = leaves_.back().get();
    bytes_ += sizeof(Leaf);
    root.store(leaf, std::memory_order_release);
  }
  std::atomic<uintptr_t>& entry = leaf->entries[unit_of(address)];
  const uintptr_t old = entry.load(std::memory_order_relaxed);
  if (old == 0 || (old & kTableTag) != 0) return;
  // A second block starts in this MiB: from now on it has a table, for good.
  tables_.push_back(std::make_unique<Table>());
  Table* table = tables_.back().get();
  bytes_ += sizeof(Table);
  Block* first = reinterpret_cast<Block*>(old);
  const size_t slot = slot_of(first->address);
  table->entries[slot].store(first, std::memory_order_relaxed);
  set_bit(table->occupied.data(), slot);
  table->count = 1;
  entry.store(reinterpret_cast<uintptr_t>(table) | kTableTag, std::memory_order_release);
}

void AddressMap::insert(Block* block) noexcept {
  Leaf* leaf = root_[block->address >> kLeafShift].load(std::memory_order_relaxed);
  const size_t unit = unit_of(block->address);
  std::atomic<uintptr_t>& entry = leaf->entries[unit];
  const uintptr_t old = entry.load(std::memory_order_relaxed);
  if ((old & kTableTag) != 0) {
    Table* table = table_of(old);
    const size_t slot = slot_of(block->address);
    assert(table->entries[slot].load(std::memory_order_relaxed) == nullptr);
    table->entries[slot].store(block, std::memory_order_release);
    set_bit(table->occupied.data(), slot);
    ++table->count;
  } else {
    assert(old == 0);
    entry.store(reinterpret_cast<uintptr_t>(block), std::memory_order_release);
  }
  set_bit(leaf->occupied.data(), unit);
}

void AddressMap::erase(const Block* block) noexcept {
  Leaf* leaf = root_[block->address >> kLeafShift].load(std::memory_order_relaxed);
  const size_t unit = unit_of(block->address);
  std::atomic<uintptr_t>& entry = leaf->entries[unit];
  const uintptr_t old = entry.load(std::memory_order_relaxed);
  if ((old & kTableTag) != 0) {
    Table* table = table_of(old);
    const size_t slot = slot_of(block->address);
    assert(table->entries[slot].load(std::memory_order_relaxed) == block);
    table->entries[slot].store(nullptr, std::memory_order_release);
    clear_bit(table->occupied.data(), slot);
    if (--table->count != 0) return;
  } else {
    assert(reinterpret_cast<const Block*>(old) == block);
    entry.store(0, std::memory_order_release);
  }
  clear_bit(leaf->occupied.data(), unit);
}

Block* AddressMap::last_at_or_before(uintptr_t entry, size_t slot) noexcept {
  if ((entry & kTableTag) == 0) {
    Block* block = reinterpret_cast<Block*>(entry);
    return block != nullptr && slot_of(block->address) <= slot ? block : nullptr;
  }
  const Table* table = table_of(entry);
  const size_t found = last_bit(table->occupied.data(), slot);
  return found == kNone ? nullptr : table->entries[found].load(std::memory_order_relaxed);
}

Block* AddressMap::find_at_or_before(Address address) const noexcept {
  if (address >= kLimit) return nullptr;
  size_t unit = unit_of(address);
  size_t slot = slot_of(address);
  for (size_t root = address >> kLeafShift;; --root) {
    if (const Leaf* leaf = root_[root].load(std::memory_order_relaxed)) {
      for (size_t found = last_bit(leaf->occupied.data(), unit); found != kNone;) {
        if (found != unit) slot = kSlots - 1;
        const uintptr_t entry = leaf->entries[found].load(std::memory_order_relaxed);
        if (Block* block = last_at_or_before(entry, slot)) return block;
        if (found == 0) break;
        unit = found - 1;
        slot = kSlots - 1;
        found = last_bit(leaf->occupied.data(), unit);
      }
    }
    if (root == 0) return nullptr;
    unit = (size_t{1} << kLeafBits) - 1;
    slot = kSlots - 1;
  }
}

}  // namespace gpupool
