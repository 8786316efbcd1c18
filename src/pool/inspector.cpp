// SPDX-License-Identifier: Apache-2.0
#include "pool/inspector.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "core/size.hpp"
#include "pool/stream_order.hpp"

namespace gpupool::internal {
namespace {

constexpr uint64_t kReportSize = align_up(sizeof(DamageReport), kUnit);

/// Words that a GPU writes at any time.
uint32_t read_now(uint32_t& word) noexcept {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}

void examine(const Damage& damage, Finding& finding) noexcept {
  const Look& look = damage.look;
  for (uint32_t i = 0; i < look.size; ++i) {
    if (damage.bytes[i] == byte_at(look.address + i, look.word)) continue;
    const uint64_t at = look.address + i - finding.block.address;
    if (finding.count++ == 0) finding.first = at;
    finding.last = at;
    if (finding.shown < finding.bytes.size() && at == finding.first + finding.shown)
      finding.bytes[finding.shown++] = damage.bytes[i];
  }
}

/// `block` is null if it is forgotten.
void begin_finding(const Look& look, bool after_free, BlockRecord* block, Finding& finding) noexcept {
  finding.block.address = look.address;
  finding.block.number = look.block;
  finding.after_free = after_free;
  if (block == nullptr) return;
  finding.block = *block;
  if (after_free) return;
  block->is_damaged = true;
  block->has_canary = false;
}

}  // namespace

Status Inspector::begin() {
  if (const Status status = device_.begin_inspecting(); status != kSuccess) return status;
  Address memory = 0;
  const Status status = device_.allocate(Kind::pinned, kReportSize, 0, memory);
  if (status == kSuccess) report_ = new (reinterpret_cast<void*>(memory)) DamageReport{};
  return status;
}

void Inspector::end() noexcept {
  if (report_ == nullptr) return;
  const auto memory = reinterpret_cast<Address>(std::exchange(report_, nullptr));
  (void)device_.deallocate(Kind::pinned, memory, kReportSize, 0);
}

/// Null if there is no memory for it.
DeferredLooks* Inspector::looks_of(StreamOrder& order) noexcept {
  if (order.looks() == nullptr && report_ != nullptr) {
    try {
      order.set_looks(std::make_unique<DeferredLooks>(device_, reinterpret_cast<Address>(report_), skipped_));
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  return order.looks();
}

bool Inspector::put_off(const Look& look, StreamOrder& order) noexcept {
  DeferredLooks* const looks = order.is_retired() ? nullptr : looks_of(order);
  if (looks == nullptr) return false;
  if (looks->is_full() && (order.capturing() || looks->queue({}, order.stream()) != kSuccess)) return false;
  looks->add(look);
  return true;
}

bool Inspector::look_behind(const BlockRecord& life, StreamOrder& order) noexcept {
  const auto size = static_cast<uint32_t>(std::min<uint64_t>(life.room - life.requested, Look::kRoom));
  return put_off({life.address + life.requested, size, canary_of(life.number), life.number}, order);
}

bool Inspector::look_inside(const BlockRecord& life, StreamOrder& order) noexcept {
  constexpr uint32_t kHalf = Look::kRoom / 2;
  const uint64_t size = align_down(life.requested, sizeof kFreePoison);
  const uint64_t first = std::min<uint64_t>(size, kHalf);
  const uint64_t last = std::min<uint64_t>(size - first, kHalf);
  const auto look = [&](uint64_t offset, uint64_t bytes) {
    if (bytes == 0) return true;
    return put_off({life.address + offset, static_cast<uint32_t>(bytes), kFreePoison, life.number}, order);
  };
  return look(0, first) && look(size - last, last);
}

bool Inspector::queue(const Fill& canary, StreamOrder& order) noexcept {
  DeferredLooks* const looks = canary.size != 0 ? looks_of(order) : order.looks();
  if (looks == nullptr) return canary.size == 0;
  return looks->queue(canary, order.stream()) == kSuccess;
}

void Inspector::drop_looks(StreamOrder& order) noexcept {
  if (order.looks() != nullptr) order.looks()->drop();
}

void Inspector::collect(AddressBook& book, std::vector<Finding>& found) {
  if (report_ == nullptr) return;
  for (; collected_ < DamageReport::kRoom; ++collected_) {
    Damage& damage = report_->damages[collected_];
    if (read_now(damage.is_complete) == 0) break;
    const Look& look = damage.look;
    const bool after_free = look.word == kFreePoison;
    BlockRecord* const block = book.find(look.address, look.block);
    if (!after_free && block != nullptr && block->is_damaged) continue;
    // The damage at the beginning and at the end of one freed block is one finding.
    if (found.empty() || found.back().block.number != look.block || found.back().after_free != after_free)
      begin_finding(look, after_free, block, found.emplace_back());
    examine(damage, found.back());
  }
}

uint64_t Inspector::untold() const noexcept {
  if (report_ == nullptr) return 0;
  return std::max<uint64_t>(read_now(report_->count), DamageReport::kRoom) - DamageReport::kRoom;
}

}  // namespace gpupool::internal
