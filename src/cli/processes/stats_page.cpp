// SPDX-License-Identifier: Apache-2.0
#include "cli/processes/stats_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "cli/base/bytes.hpp"

namespace gpupool::cli {
namespace {

using wire::stats::Header;
using wire::stats::Slot;

constexpr size_t kMostSlots = 4096;
constexpr size_t kMostSlotBytes = 1 << 16;
constexpr uint32_t kSlotsAtOnce = 16;
// A writer needs a microsecond, but on a busy machine it may have to wait for a processor in the middle.
constexpr auto kPatience = std::chrono::milliseconds(100);

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
  std::optional<Slot> get(size_t slot) const {
    const size_t at = slot * slot_bytes_;
    const uint32_t sequence = sequence_of(&before_[at]);
    if (sequence % 2 != 0 || sequence_of(&after_[at]) != sequence) return std::nullopt;
    Slot copy;
    std::memcpy(&copy, &copies_[at], sizeof copy);
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
std::vector<std::optional<Slot>> copy_slots(const ReadPage& read, uint64_t at, size_t slot_bytes,
                                            size_t count, Clock::time_point patience) {
  std::vector<std::optional<Slot>> copies(count);
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

ShownPool pool_of(const Slot& slot) {
  const auto figures = std::bit_cast<wire::stats::Figures>(slot.words);
  ShownPool pool;
  static_cast<wire::stats::Counts&>(pool) = figures.counts;
  pool.number = figures.pool;
  pool.backend = figures.backend;
  pool.device = figures.device;
  pool.is_child = (figures.flags & wire::stats::kIsChild) != 0;
  pool.is_asleep = (figures.flags & wire::stats::kIsAsleep) != 0;
  pool.runs_alone = (figures.flags & wire::stats::kRunsAlone) != 0;
  pool.shown_ns = figures.shown_ns;
  pool.device_id = text_of(figures.device_id);
  pool.name = text_of(figures.name);
  pool.group = text_of(figures.group);
  const size_t tags = std::min<size_t>(figures.tag_count, figures.tags.size());
  for (size_t at = 0; at < tags; ++at)
    pool.tags.push_back({text_of(figures.tags[at].name), figures.tags[at].bytes});
  return pool;
}

}  // namespace

StatsPage read_stats_page(const ReadPage& read) {
  Header header{};
  if (!read(0, &header, sizeof header)) throw PageError("it is cut short");
  if (header.magic != wire::stats::kMagic) throw PageError("it is none, or not whole yet");
  if (header.layout != wire::stats::kLayout) {
    throw PageError(
        fmt::format("it has layout {}, of another version of gpupool than this command's", header.layout));
  }
  if (header.header_bytes < sizeof header || header.header_bytes > kMostSlotBytes ||
      header.slot_bytes < sizeof(Slot) || header.slot_bytes > kMostSlotBytes || header.slots > kMostSlots) {
    throw PageError(fmt::format("it is damaged: {} places of {} bytes", header.slots, header.slot_bytes));
  }
  StatsPage page;
  page.process = header.process;
  page.version = text_of(header.version);
  page.not_shown = header.not_shown;
  const uint32_t used = std::min(header.slots_used, header.slots);
  // For all slots together, so that a page of nothing but stopped writers holds nobody up.
  const Clock::time_point patience = Clock::now() + kPatience;
  for (uint32_t first = 0; first < used; first += kSlotsAtOnce) {
    const size_t count = std::min(kSlotsAtOnce, used - first);
    const uint64_t at = header.header_bytes + uint64_t{first} * header.slot_bytes;
    for (const std::optional<Slot>& copy : copy_slots(read, at, header.slot_bytes, count, patience)) {
      if (!copy) {
        ++page.busy;
      } else if (copy->state == wire::stats::SlotState::pool) {
        page.pools.push_back(pool_of(*copy));
      }
    }
  }
  return page;
}

}  // namespace gpupool::cli
