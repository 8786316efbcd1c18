// SPDX-License-Identifier: Apache-2.0
#include "pool/debug/inspector.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "core/size.hpp"
#include "pool/memory/retention.hpp"
#include "pool/rules/metered_device.hpp"
#include "pool/stream/streams.hpp"

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
  (after_free ? block->is_damaged_inside : block->is_damaged) = true;
  (after_free ? block->is_poisoned : block->has_canary) = false;
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
  (void)device_.deallocate(Retention::of_unused(), Kind::pinned, memory, kReportSize, 0);
}

bool Inspector::may_queue_as_user(StreamState& state) noexcept {
  return state.capture == 0 && !state.order.is_retired() && !state.order.capturing();
}

bool Inspector::may_queue(StreamState& state) const noexcept {
  return !streams_.is_capture_announced() && may_queue_as_user(state);
}

bool Inspector::put_canary(const BlockRecord& life, const StreamState& state) noexcept {
  const auto byte = static_cast<uint8_t>(canary_of(life.number));
  const bool is_put = device_.fill(life.address + life.requested, byte, life.room - life.requested,
                                   state.order.stream()) == kSuccess;
  if (!is_put) skip(1);
  return is_put;
}

void Inspector::poison(BlockRecord& life, const StreamState& state, uint32_t word) noexcept {
  const uint64_t size = align_down(life.requested, sizeof word);
  const Stream stream = state.order.stream();
  life.is_poisoned = size == 0 || device_.fill_words(life.address, word, size, stream) == kSuccess;
  if (!life.is_poisoned) skip(1);
}

void Inspector::queue(const Looks& looks, StreamState& state) noexcept {
  if (looks.empty()) return;
  const auto report = reinterpret_cast<Address>(report_);
  if (report_ == nullptr || !may_queue(state) ||
      device_.inspect(looks.all(), report, state.order.stream()) != kSuccess)
    skip(looks.all().size());
}

void Looks::add_behind(const BlockRecord& life) noexcept {
  const auto size = static_cast<uint32_t>(std::min<uint64_t>(life.room - life.requested, Look::kRoom));
  looks_[count_++] = {life.address + life.requested, size, canary_of(life.number), life.number};
}

void Looks::add_inside(const BlockRecord& life) noexcept {
  constexpr uint64_t kHalf = Look::kRoom / 2;
  const uint64_t size = align_down(life.requested, sizeof kFreePoison);
  const uint64_t first = std::min(size, kHalf);
  const uint64_t last = std::min(size - first, kHalf);
  const auto add = [&](uint64_t offset, uint64_t bytes) {
    if (bytes == 0) return;
    looks_[count_++] = {life.address + offset, static_cast<uint32_t>(bytes), kFreePoison, life.number};
  };
  add(0, first);
  add(size - last, last);
}

void Inspector::collect(BlockHistory& book, std::vector<Finding>& found) {
  if (report_ == nullptr) return;
  for (; collected_ < DamageReport::kRoom; ++collected_) {
    Damage& damage = report_->damages[collected_];
    if (read_now(damage.is_complete) == 0) break;
    const Look& look = damage.look;
    const bool after_free = look.word == kFreePoison;
    BlockRecord* const block = book.find(look.address, look.block);
    // The damage at the beginning and at the end of one freed block is one finding.
    const bool goes_on = after_free && !found.empty() && found.back().block.number == look.block &&
                         found.back().after_free &&
                         look.address > found.back().block.address + found.back().last;
    if (!goes_on && block != nullptr && (after_free ? block->is_damaged_inside : block->is_damaged)) continue;
    if (!goes_on) begin_finding(look, after_free, block, found.emplace_back());
    examine(damage, found.back());
  }
}

uint64_t Inspector::untold() const noexcept {
  if (report_ == nullptr) return 0;
  return std::max<uint64_t>(read_now(report_->count), DamageReport::kRoom) - DamageReport::kRoom;
}

}  // namespace gpupool::internal
