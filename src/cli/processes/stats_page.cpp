// SPDX-License-Identifier: Apache-2.0
#include "cli/processes/stats_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

namespace gpupool::cli {
namespace {

constexpr uint64_t kPageMagic = 0x534c4f4f50555047;  // "GPUPOOLS"
constexpr uint32_t kPageLayout = 1;
constexpr size_t kHeaderBytes = 1024;
constexpr size_t kSlotBytes = 1024;
constexpr size_t kMostSlots = 4096;
constexpr size_t kMostSlotBytes = 1 << 16;
constexpr uint32_t kSlotsAtOnce = 16;
// A writer needs a microsecond, but on a busy machine it may have to wait for a processor in the middle.
constexpr auto kPatience = std::chrono::milliseconds(100);

// Where things are in the header, and in a slot.
constexpr size_t kLayoutAt = 8;
constexpr size_t kHeaderBytesAt = 12;
constexpr size_t kSlotBytesAt = 16;
constexpr size_t kSlotsAt = 20;
constexpr size_t kProcessAt = 24;
constexpr size_t kSlotsUsedAt = 32;
constexpr size_t kNotShownAt = 36;
constexpr size_t kVersionAt = 40;
constexpr size_t kStateAt = 4;
constexpr size_t kFiguresAt = 8;
constexpr size_t kDeviceIdAt = 40;
constexpr size_t kNameAt = 104;
constexpr size_t kGroupAt = 168;
constexpr size_t kBytesAt = 224;
constexpr size_t kTagsAt = 512;
constexpr size_t kTagBytes = 64;
constexpr size_t kTagNameBytes = 56;
constexpr uint32_t kMostTags = 8;

constexpr uint32_t kStateOfPool = 1;

/// The fields from kBytesAt on, in their order.
constexpr uint64_t ShownPool::*kBytes[] = {
    &ShownPool::device_total,   &ShownPool::limit,         &ShownPool::live,
    &ShownPool::live_blocks,    &ShownPool::live_peak,     &ShownPool::pending,
    &ShownPool::pending_blocks, &ShownPool::cached,        &ShownPool::slack,
    &ShownPool::reserved,       &ShownPool::reserved_peak, &ShownPool::asleep,
    &ShownPool::backup,         &ShownPool::free_ranges,   &ShownPool::largest_free_range,
    &ShownPool::hits,           &ShownPool::misses,        &ShownPool::steals,
    &ShownPool::stream_steals,  &ShownPool::retries,       &ShownPool::failed_mallocs,
    &ShownPool::driver_calls,   &ShownPool::driver_ns,     &ShownPool::streams,
    &ShownPool::group_limit,    &ShownPool::group_used,    &ShownPool::given,
    &ShownPool::taken};

template <typename Number, size_t Size>
Number number_at(const std::array<char, Size>& bytes, size_t at) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

/// A text up to its 0, or as much as there is room for.
template <size_t Size>
std::string text_at(const std::array<char, Size>& bytes, size_t at, size_t room) {
  return {bytes.data() + at, strnlen(bytes.data() + at, room)};
}

using SlotCopy = std::array<char, kSlotBytes>;
using Clock = std::chrono::steady_clock;

uint32_t sequence_of(const char* slot) {
  uint32_t number = 0;
  std::memcpy(&number, slot, sizeof number);
  return number;
}

/// Copies of slots side by side. One that nobody wrote to meanwhile has an even sequence, and the same one
/// before and afterwards. Reading all of them three times takes fewer calls than reading each one.
class SlotCopies {
 public:
  SlotCopies(const ReadPage& read, uint64_t at, size_t slot_bytes, size_t count)
      : slot_bytes_(slot_bytes),
        before_(slot_bytes * (count - 1) + sizeof(uint32_t)),  // to the last sequence
        copies_(slot_bytes * count),
        after_(before_.size()) {
    for (std::vector<char>* each : {&before_, &copies_, &after_})
      if (!read(at, each->data(), each->size())) throw PageError("it is cut short");
  }

  /// Nothing if somebody wrote to it.
  std::optional<SlotCopy> get(size_t slot) const {
    const size_t at = slot * slot_bytes_;
    const uint32_t sequence = sequence_of(&before_[at]);
    if (sequence % 2 != 0 || sequence_of(&after_[at]) != sequence) return std::nullopt;
    SlotCopy copy;
    std::memcpy(copy.data(), &copies_[at], copy.size());
    return copy;
  }

 private:
  size_t slot_bytes_;
  std::vector<char> before_;
  std::vector<char> copies_;
  std::vector<char> after_;
};

/// The copies of some slots, each tried again until `patience` ends. Nothing for one whose writer is at it
/// all the time, or has stopped in the middle.
std::vector<std::optional<SlotCopy>> copy_slots(const ReadPage& read, uint64_t at, size_t slot_bytes,
                                                size_t count, Clock::time_point patience) {
  std::vector<std::optional<SlotCopy>> copies(count);
  const SlotCopies all(read, at, slot_bytes, count);
  for (size_t slot = 0; slot < count; ++slot) {
    copies[slot] = all.get(slot);
    for (auto pause = std::chrono::microseconds(1); !copies[slot] && Clock::now() < patience; pause *= 2) {
      std::this_thread::sleep_for(pause);
      copies[slot] = SlotCopies(read, at + slot * slot_bytes, slot_bytes, 1).get(0);
    }
  }
  return copies;
}

ShownPool pool_of(const SlotCopy& slot) {
  ShownPool pool;
  pool.number = number_at<uint64_t>(slot, kFiguresAt);
  pool.backend = number_at<uint32_t>(slot, kFiguresAt + 8);
  pool.device = number_at<int32_t>(slot, kFiguresAt + 12);
  const auto flags = number_at<uint32_t>(slot, kFiguresAt + 16);
  pool.is_child = (flags & 1) != 0;
  pool.is_asleep = (flags & 2) != 0;
  pool.runs_alone = (flags & 4) != 0;
  pool.shown_ns = number_at<uint64_t>(slot, kFiguresAt + 24);
  pool.device_id = text_at(slot, kDeviceIdAt, kNameAt - kDeviceIdAt);
  pool.name = text_at(slot, kNameAt, kGroupAt - kNameAt);
  pool.group = text_at(slot, kGroupAt, kBytesAt - kGroupAt);
  for (size_t at = 0; at < std::size(kBytes); ++at)
    pool.*kBytes[at] = number_at<uint64_t>(slot, kBytesAt + 8 * at);
  const uint32_t tags = std::min(number_at<uint32_t>(slot, kFiguresAt + 20), kMostTags);
  for (size_t at = kTagsAt; at < kTagsAt + tags * kTagBytes; at += kTagBytes)
    pool.tags.push_back({text_at(slot, at, kTagNameBytes), number_at<uint64_t>(slot, at + kTagNameBytes)});
  return pool;
}

}  // namespace

StatsPage read_stats_page(const ReadPage& read) {
  std::array<char, kHeaderBytes> header{};
  if (!read(0, header.data(), header.size())) throw PageError("it is cut short");
  if (number_at<uint64_t>(header, 0) != kPageMagic) throw PageError("it is none, or not whole yet");
  if (const auto layout = number_at<uint32_t>(header, kLayoutAt); layout != kPageLayout) {
    throw PageError(
        fmt::format("it has layout {}, of another version of gpupool than this command's", layout));
  }
  const auto header_bytes = number_at<uint32_t>(header, kHeaderBytesAt);
  const auto slot_bytes = number_at<uint32_t>(header, kSlotBytesAt);
  const auto slots = number_at<uint32_t>(header, kSlotsAt);
  if (header_bytes < kHeaderBytes || header_bytes > kMostSlotBytes || slot_bytes < kSlotBytes ||
      slot_bytes > kMostSlotBytes || slots > kMostSlots) {
    throw PageError(fmt::format("it is damaged: {} places of {} bytes", slots, slot_bytes));
  }
  StatsPage page;
  page.process = number_at<uint64_t>(header, kProcessAt);
  page.version = text_at(header, kVersionAt, 32);
  page.not_shown = number_at<uint32_t>(header, kNotShownAt);
  const uint32_t used = std::min(number_at<uint32_t>(header, kSlotsUsedAt), slots);
  // For all slots together, so that a page of nothing but stopped writers holds nobody up.
  const Clock::time_point patience = Clock::now() + kPatience;
  for (uint32_t first = 0; first < used; first += kSlotsAtOnce) {
    const size_t count = std::min(kSlotsAtOnce, used - first);
    const uint64_t at = header_bytes + uint64_t{first} * slot_bytes;
    for (const std::optional<SlotCopy>& copy : copy_slots(read, at, slot_bytes, count, patience)) {
      if (!copy) {
        ++page.busy;
      } else if (number_at<uint32_t>(*copy, kStateAt) == kStateOfPool) {
        page.pools.push_back(pool_of(*copy));
      }
    }
  }
  return page;
}

}  // namespace gpupool::cli
