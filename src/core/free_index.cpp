// SPDX-License-Identifier: Apache-2.0
#include "core/free_index.hpp"

namespace gpupool::internal {
namespace {

bool before(const Range* a, const Range* b) noexcept {
  return a->size != b->size ? a->size < b->size : a->address < b->address;
}

}  // namespace

size_t FreeIndex::bin_of(uint64_t size) noexcept {
  const uint64_t units = size / kUnit;
  if (units < (1U << kSubBits)) return static_cast<size_t>(units);
  const unsigned exponent = log2_floor(units);
  const uint64_t sub = (units >> (exponent - kSubBits)) & ((1U << kSubBits) - 1);
  return static_cast<size_t>(((exponent - kSubBits + 1) << kSubBits) + sub);
}

void FreeIndex::insert(Range* block) noexcept {
  const size_t bin = bin_of(block->size);
  Range* prev = nullptr;
  Range* at = first_in(bin);
  for (unsigned step = 0; at != nullptr && step < kScan && before(at, block); ++step) {
    prev = at;
    at = at->link;
  }
  block->link = at;
  block->set_link_back(prev);
  if (at != nullptr) at->set_link_back(block);
  (prev != nullptr ? prev->link : heads_[bin]) = block;
  occupied_.set(bin);
  ++count_;
  bytes_ += block->size;
}

void FreeIndex::remove(Range* block) noexcept {
  const size_t bin = bin_of(block->size);
  Range* back = block->link_back();
  if (block->link != nullptr) block->link->set_link_back(back);
  (back != nullptr ? back->link : heads_[bin]) = block->link;
  if (heads_[bin] == nullptr) occupied_.clear(bin);
  --count_;
  bytes_ -= block->size;
}

void FreeIndex::resize(Range* block, Address address, uint64_t size) noexcept {
  const Range* back = block->link_back();
  const bool stays = bin_of(size) == bin_of(block->size) && (back == nullptr || back->size < size) &&
                     (block->link == nullptr || size < block->link->size);
  if (stays) {
    bytes_ += size - block->size;
  } else {
    remove(block);
  }
  block->address = address;
  block->size = size;
  if (!stays) insert(block);
}

Range* FreeIndex::find(uint64_t size, bool exhaustive) const noexcept {
  const size_t own = bin_of(size);
  const size_t above = occupied_.first_from(own + 1);
  // The bin of the size itself may hold ranges that are too small.
  const bool all = exhaustive && above == kNone;
  unsigned step = 0;
  for (Range* at = first_in(own); at != nullptr && (step < kScan || all); at = at->link, ++step) {
    if (at->size >= size) return at;
  }
  return above == kNone ? nullptr : heads_[above];
}

Range* FreeIndex::top_bin() const noexcept {
  const size_t bin = occupied_.last_to(kBins - 1);
  return bin == kNone ? nullptr : heads_[bin];
}

Range* FreeIndex::walk_down(const Range* block) const noexcept {
  if (block->link != nullptr) return block->link;
  const size_t own = bin_of(block->size);
  const size_t bin = own != 0 ? occupied_.last_to(own - 1) : kNone;
  return bin == kNone ? nullptr : heads_[bin];
}

bool FreeIndex::contains(const Range* block) const noexcept {
  for (const Range* at = first_in(bin_of(block->size)); at != nullptr; at = at->link) {
    if (at == block) return true;
  }
  return false;
}

bool FreeIndex::is_valid() const noexcept {
  size_t count = 0;
  uint64_t bytes = 0;
  for (size_t bin = 0; bin < kBins; ++bin) {
    if (occupied_.has(bin) && heads_[bin] == nullptr) return false;
    const Range* prev = nullptr;
    for (const Range* at = first_in(bin); at != nullptr; prev = at, at = at->link) {
      if (at->link_back() != prev || bin_of(at->size) != bin) return false;
      ++count;
      bytes += at->size;
    }
  }
  return count == count_ && bytes == bytes_;
}

}  // namespace gpupool::internal
