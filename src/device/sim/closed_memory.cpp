// SPDX-License-Identifier: Apache-2.0
#include "device/sim/closed_memory.hpp"

#include <algorithm>
#include <iterator>
#include <new>

namespace gpupool::internal {
namespace {

Address end_of(Address address, uint64_t size) noexcept {
  return address + std::min(size, ~uint64_t{0} - address);
}

}  // namespace

void ClosedMemory::annotate(Address address, uint64_t size, Accessibility accessibility) noexcept {
  if (size == 0) return;
  if (is_host_ && !tools_) tools_.emplace();
  switch (accessibility) {
    case Accessibility::open: open(address, size); return;
    case Accessibility::closed: close(address, size); return;
    case Accessibility::block:
      open(address, size);
      if (has_tools()) tools_->begin_block(address, size);
      return;
    case Accessibility::freed:
      if (has_tools()) tools_->end_block(address);
      close(address, size);
      return;
  }
}

ClosedMemory::Parts::const_iterator ClosedMemory::first_overlap(Address address) const noexcept {
  auto part = parts_.upper_bound(address);
  if (part != parts_.begin() && std::prev(part)->second > address) --part;
  return part;
}

template <class Visit>
void ClosedMemory::for_each_in(Address address, uint64_t size, Visit visit) const noexcept {
  const Address end = end_of(address, size);
  for (auto part = first_overlap(address); part != parts_.end() && part->first < end; ++part) {
    const Address from = std::max(part->first, address);
    visit(from, std::min(part->second, end) - from);
  }
}

/// Makes a part end, and another one begin, at an address within it. Throws std::bad_alloc before it changes
/// anything.
void ClosedMemory::split(Address at) {
  const auto next = parts_.lower_bound(at);
  if (next == parts_.begin()) return;
  const auto part = std::prev(next);
  if (part->second <= at) return;
  parts_.emplace_hint(next, at, part->second);
  part->second = at;
}

void ClosedMemory::open(Address address, uint64_t size) noexcept {
  if (parts_.empty()) return;
  const Address end = end_of(address, size);
  try {
    split(address);
    split(end);
  } catch (const std::bad_alloc&) {
    // Parts that reach out of the range go whole.
  }
  for (auto part = first_overlap(address); part != parts_.end() && part->first < end;) {
    if (has_tools()) tools_->open(part->first, part->second - part->first);
    part = parts_.erase(part);
  }
}

void ClosedMemory::close(Address address, uint64_t size) noexcept {
  Address begin = address;
  Address end = end_of(address, size);
  try {
    // Together with what it touches.
    auto next = parts_.lower_bound(begin);
    if (next != parts_.begin() && std::prev(next)->second >= begin) {
      begin = std::prev(next)->first;
    } else {
      next = parts_.emplace_hint(next, begin, end);
    }
    const auto whole = parts_.find(begin);
    end = std::max(end, whole->second);
    auto other = std::next(whole);
    while (other != parts_.end() && other->first <= end) {
      end = std::max(end, other->second);
      other = parts_.erase(other);
    }
    whole->second = end;
  } catch (const std::bad_alloc&) {
    return;
  }
  if (has_tools()) tools_->close(address, size);
}

std::optional<Address> ClosedMemory::first_in(Address address, uint64_t size) const noexcept {
  const auto part = first_overlap(address);
  if (part == parts_.end() || part->first >= end_of(address, size)) return std::nullopt;
  return std::max(part->first, address);
}

void ClosedMemory::repeat(Address address, uint64_t size) const noexcept {
  if (!has_tools()) return;
  for_each_in(address, size, [&](Address at, uint64_t bytes) { tools_->close(at, bytes); });
}

void ClosedMemory::written(Address address, uint64_t size) const noexcept {
  if (has_tools()) tools_->written(address, size);
}

ClosedMemory::Leave::Leave(const ClosedMemory& closed, Address address, uint64_t size) noexcept
    : closed_(closed), address_(address), size_(size) {
  if (!closed_.has_tools()) return;
  closed_.for_each_in(address, size, [&](Address at, uint64_t bytes) { closed_.tools_->open(at, bytes); });
}

}  // namespace gpupool::internal
