// SPDX-License-Identifier: Apache-2.0
#include "attack/hunt/script.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attack/hunt/bytes.hpp"

namespace hunt {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;

/// The size at `place`, from 0 to 1, between the least and the greatest.
uint64_t size_at(const Pattern& pattern, double place) {
  const auto low = static_cast<double>(pattern.low);
  const double ratio = static_cast<double>(pattern.high) / low;
  return round_up(static_cast<uint64_t>(low * std::pow(ratio, place)), static_cast<uint64_t>(pattern.unit));
}

}  // namespace

Script::Script(const Pattern& pattern) : pattern_(pattern), threads_(static_cast<size_t>(pattern.threads)) {
  for (int64_t i = 0; i < pattern.sizes; ++i) {
    const auto gaps = static_cast<double>(std::max<int64_t>(1, pattern.sizes - 1));
    sizes_.push_back(size_at(pattern, static_cast<double>(i) / gaps));
  }
  // The ballast, what captures allocate, and what each thread has.
  blocks_.resize(static_cast<size_t>(1 + pattern.captures + pattern.threads * pattern.live));
}

std::vector<Step> Script::next_period() {
  steps_.clear();
  chances_.seed(static_cast<uint64_t>(pattern_.seed));
  for (size_t t = 0; t < threads_.size(); ++t) {
    threads_[t].random.seed(static_cast<uint64_t>(pattern_.seed) * 1000 + t);
    threads_[t].batches = 0;
  }
  if (period_ == 0 && pattern_.ballast != 0) malloc(0, 0, {static_cast<uint64_t>(pattern_.ballast) * kMiB});
  if (pattern_.captures != 0) capture();
  const int64_t steps = pattern_.steps;
  for (int64_t begin = 0; begin < steps; begin += pattern_.turn) {
    const int64_t end = std::min(steps, begin + pattern_.turn);
    const int64_t phase = begin * pattern_.phases / steps;
    for (int64_t thread = 0; thread < pattern_.threads; ++thread) {
      for (int64_t number = begin; number < end; ++number) {
        step(thread, number, phase);
        if (pattern_.turn > 1) make_room(thread, number);
      }
    }
    for (int64_t thread = 0; thread < pattern_.threads && pattern_.turn == 1; ++thread) {
      make_room(thread, begin);
    }
    const auto gap = static_cast<uint64_t>(pattern_.gap) * kMillisecond;
    steps_.push_back(
        {Kind::advance, 0, 0, 0, 0, gap * static_cast<uint64_t>(end - begin) / static_cast<uint64_t>(steps)});
  }
  ++period_;
  return steps_;
}

std::vector<Step> Script::last_frees() {
  steps_.clear();
  for (uint32_t slot = 0; slot < blocks_.size(); ++slot) {
    if (blocks_[slot].bytes != 0) free(0, slot);
  }
  return steps_;
}

/// A malloc of a thread, to which its room was made before.
void Script::step(int64_t thread, int64_t number, int64_t phase) {
  Thread& self = threads_[static_cast<size_t>(thread)];
  const int64_t first = 1 + pattern_.captures + thread * pattern_.live;
  int64_t place = number % pattern_.live;
  if (pattern_.order == kAny) place = static_cast<int64_t>(self.next);
  if (pattern_.order >= kBatch) place = static_cast<int64_t>(self.batch.size());
  const auto slot = static_cast<uint32_t>(first + place);
  malloc(thread, slot,
         {size(self, thread, number, phase), stream(self, thread, number),
          static_cast<uint8_t>(number % pattern_.pools)});
  if (pattern_.order >= kBatch) self.batch.push_back(slot);
}

/// Frees what must go before the thread's next malloc.
void Script::make_room(int64_t thread, int64_t number) {
  Thread& self = threads_[static_cast<size_t>(thread)];
  const bool is_last = number + 1 == pattern_.steps;
  if (pattern_.order < kBatch) {
    const int64_t next = is_last ? 0 : number + 1;
    const auto live = static_cast<uint64_t>(pattern_.live);
    self.next = pattern_.order == kAny ? self.random() % live : static_cast<uint64_t>(next) % live;
    const auto slot = static_cast<uint32_t>(1 + pattern_.captures + thread * pattern_.live) +
                      static_cast<uint32_t>(self.next);
    if (blocks_[slot].bytes != 0) free(thread, slot);
    return;
  }
  if (self.batch.size() < static_cast<size_t>(pattern_.live) && !is_last) return;
  if (pattern_.order == kStack) std::reverse(self.batch.begin(), self.batch.end());
  if (pattern_.order == kShuffled) std::shuffle(self.batch.begin(), self.batch.end(), self.random);
  for (const uint32_t slot : self.batch) free(thread, slot);
  self.batch.clear();
  ++self.batches;
}

uint64_t Script::size(Thread& self, int64_t thread, int64_t number, int64_t phase) const {
  uint64_t factor = 1;
  for (int64_t i = 0; i < phase; ++i) factor *= 3;
  if (pattern_.other != 0 && number % (pattern_.live + 1) == pattern_.live) factor *= 3;
  if (sizes_.empty()) {
    Random fresh((static_cast<uint64_t>(pattern_.seed) << 40) + (period_ << 24) +
                 (static_cast<uint64_t>(thread) << 18) + static_cast<uint64_t>(number));
    return size_at(pattern_, std::uniform_real_distribution<>(0, 1)(fresh)) * factor;
  }
  const uint64_t next =
      pattern_.pick == kAtRandom ? self.random() : static_cast<uint64_t>(number + thread) * 7;
  return sizes_[next % sizes_.size()] * factor;
}

uint16_t Script::stream(Thread& self, int64_t thread, int64_t number) const {
  int64_t first = 0;
  int64_t count = pattern_.streams;
  if (pattern_.own != 0) {
    first = thread * pattern_.streams / pattern_.threads;
    count = (thread + 1) * pattern_.streams / pattern_.threads - first;
  }
  int64_t turn = thread;
  if (pattern_.route == kEachBlock) turn += number;
  if (pattern_.route == kEachBatch) turn += static_cast<int64_t>(self.batches);
  if (pattern_.route == kAnyStream) turn = static_cast<int64_t>(self.random() >> 1);
  return static_cast<uint16_t>(first + turn % count);
}

void Script::malloc(int64_t thread, uint32_t slot, Block block) {
  blocks_[slot] = block;
  steps_.push_back({Kind::malloc, static_cast<uint8_t>(thread), block.pool, block.stream, slot, block.bytes});
  if (pattern_.busy == 0) return;
  const auto work =
      static_cast<uint64_t>(pattern_.gap * pattern_.busy / (pattern_.steps * pattern_.threads)) *
      (kMillisecond / 100);
  steps_.push_back({Kind::work, static_cast<uint8_t>(thread), block.pool, block.stream, slot, work});
}

void Script::free(int64_t thread, uint32_t slot) {
  const Block block = std::exchange(blocks_[slot], {});
  const auto chance = [&](int64_t per_cent) {
    return per_cent != 0 && static_cast<int64_t>(chances_() % 100) < per_cent;
  };
  if (chance(pattern_.record)) {
    const auto other = static_cast<uint16_t>((block.stream + 1) % pattern_.streams);
    steps_.push_back({Kind::record_stream, static_cast<uint8_t>(thread), block.pool, other, slot});
  }
  if (chance(pattern_.elsewhere)) thread = (thread + 1) % pattern_.threads;
  steps_.push_back({Kind::free, static_cast<uint8_t>(thread), block.pool, block.stream, slot, block.bytes});
}

/// A graph, captured on a stream of its own, whose memory stays until the next period captures another.
void Script::capture() {
  const auto stream = static_cast<uint16_t>(pattern_.streams);
  steps_.push_back({Kind::begin_capture, 0, 0, stream});
  const auto count = static_cast<uint32_t>(pattern_.captures);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t bytes = sizes_.empty() ? size_at(pattern_, 1) : sizes_[i % sizes_.size()];
    blocks_[1 + i] = {bytes, stream};
    steps_.push_back({Kind::malloc, 0, 0, stream, 1 + i, bytes});
  }
  for (uint32_t i = 0; i < count; ++i) {
    blocks_[1 + i] = {};
    steps_.push_back({Kind::free, 0, 0, stream, 1 + i, steps_[steps_.size() - count].bytes});
  }
  steps_.push_back({Kind::end_capture, 0, 0, stream});
}

uint64_t live_peak(const Pattern& pattern) {
  Script script(pattern);
  std::vector<uint64_t> live(static_cast<size_t>(pattern.pools));
  uint64_t peak = 0;
  uint64_t of_graph = 0;
  bool is_capturing = false;
  for (int period = 0; period < 3; ++period) {
    for (const Step& step : script.next_period()) {
      const uint64_t bytes = round_up(step.bytes, kUnit);
      if (step.kind == Kind::malloc) peak = std::max(peak, live[step.pool] += bytes);
      if (step.kind == Kind::free && is_capturing) of_graph += bytes;
      if (step.kind == Kind::free && !is_capturing) live[step.pool] -= bytes;
      if (step.kind == Kind::begin_capture) live[0] -= std::exchange(of_graph, 0);
      if (step.kind == Kind::begin_capture || step.kind == Kind::end_capture) {
        is_capturing = step.kind == Kind::begin_capture;
      }
    }
  }
  return peak;
}

}  // namespace hunt
