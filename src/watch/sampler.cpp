// SPDX-License-Identifier: Apache-2.0
#include "watch/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>
#include <string_view>
#include <utility>

#include "base/bits.hpp"
#include "base/parse.hpp"

namespace gpupool::internal {
namespace {

constinit std::atomic<uint64_t> least_distance{Sampler::kLeastDistance};
constinit std::atomic<bool> is_distance_set{false};
constinit std::atomic<Sparing> sparing_of_all{Sparing::time};
constinit SampleBudget budget_of_all;

/// A number in (0, 1] from a counter: splitmix64. Samples are the same in each run of the same program.
double random_of(uint64_t drawn) noexcept {
  uint64_t word = (drawn + 1) * 0x9e3779b97f4a7c15;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  word ^= word >> 31;
  return static_cast<double>((word >> 11) + 1) * 0x1p-53;
}

/// A part of the live bytes, within bounds, so that a small program has as many samples as a large one. 1,024
/// of them tell what each of the three largest holders has within 10 per cent (three standard deviations) in
/// all recorded traces; 64 did not: a holder of 13 per cent in blocks of 10 MiB was wrong by 28 per cent.
uint64_t distance_above(uint64_t live) noexcept {
  const uint64_t least = sample_distance();
  return std::clamp(live / Sampler::kSamples, least, std::max(least, Sampler::kMostDistance));
}

/// What a block stands for if marks lie equally far apart, wherever the first one lies. Next to nothing is
/// unsure of one that covers many marks.
void weigh_evenly(FirstMark& mark, uint64_t bytes) noexcept {
  const double share = -std::expm1(-static_cast<double>(bytes) / static_cast<double>(mark.mean));
  const double weight = static_cast<double>(bytes) / share;
  mark.weight = static_cast<uint64_t>(weight);
  mark.variance = weight * weight * (1 - share);
}

/// The first mark stands for the bytes on average from the one before, and all bytes behind it for
/// themselves: right on average wherever marks are rarer than elsewhere, but for a large block less exact.
void weigh_anywhere(FirstMark& mark, uint64_t bytes) noexcept {
  mark.weight = mark.mean + (bytes - mark.offset);
  mark.variance = static_cast<double>(mark.mean) * static_cast<double>(mark.mean);
}

}  // namespace

uint64_t sample_distance() noexcept {
  return least_distance.load(std::memory_order_relaxed);
}

SampleBudget& sample_budget() noexcept {
  return budget_of_all;
}

Sparing sparing_of_samples() noexcept {
  return sparing_of_all.load(std::memory_order_relaxed);
}

void set_sample_distance(uint64_t bytes, Sparing sparing) noexcept {
  is_distance_set.store(true);
  sparing_of_all.store(sparing, std::memory_order_relaxed);
  least_distance.store(bytes, std::memory_order_relaxed);
}

Status read_sample_distance() {
  if (is_distance_set.load()) return kSuccess;
  const char* text = std::getenv("GPUPOOL_SAMPLE");
  if (text == nullptr || *text == '\0') return kSuccess;
  uint64_t bytes = 0;
  if (std::string_view(text) != "0") {
    if (const Status status = parse_bytes("GPUPOOL_SAMPLE", text, bytes); status != kSuccess) return status;
  }
  set_sample_distance(bytes);
  return kSuccess;
}

Sampler::~Sampler() {
  while (made_ != nullptr) {
    Sample* before = made_->made_before;
    delete made_;
    made_ = before;
  }
}

double Sampler::random() noexcept {
  return random_of(drawn_.fetch_add(1, std::memory_order_relaxed));
}

/// From anywhere to the next mark.
uint64_t Sampler::gap(uint64_t mean) noexcept {
  return static_cast<uint64_t>(-std::log(random()) * static_cast<double>(mean));
}

void Sampler::draw(Marks& marks, uint64_t live) noexcept {
  while (marks.regions != nullptr) {
    Sample* region = marks.regions;
    marks.regions = region->next;
    drop(region);
  }
  const bool stay_even = live == 0 || (marks.are_even && is_drawn(marks));
  marks = {};
  marks.are_even = stay_even;
  marks.drawn_for = sample_distance() + 1;
  if (marks.drawn_for == 1) return;
  marks.mean = distance_above(live);
  marks.next = live + gap(marks.mean);
}

/// Keeps one in so many marks, each of which then stands for so many times the bytes. The more is owed, the
/// fewer stay.
void Sampler::thin(FirstMark& mark, uint64_t owed_ns) noexcept {
  constexpr uint64_t kMostSteps = 8;
  constexpr uint64_t kMostMean = uint64_t{1} << 46;  // one in the addresses of a process
  const uint64_t steps = std::min(1 + owed_ns / SampleBudget::kBurst, kMostSteps);
  const uint64_t mean = std::min(mark.mean << 2 * steps, std::max(mark.mean, kMostMean));
  const double kept = static_cast<double>(mark.mean) / static_cast<double>(mean);
  mark.mean = mean;
  if (random() > kept) mark.offset += gap(mean);
}

FirstMark Sampler::pass_mark(Marks& marks, uint64_t live, uint64_t bytes, uint64_t owed_ns) noexcept {
  const uint64_t begin = live - bytes;
  FirstMark mark{marks.next - std::min(begin, marks.next), marks.mean};
  while (marks.next < live) {
    // Above everything drawn so far, the current distance applies. Marks below no longer matter.
    if (marks.regions == nullptr) marks.mean = distance_above(live);
    const uint64_t next = live + gap(marks.mean);
    if (next <= marks.high || marks.regions == nullptr) {
      marks.next = next;
      break;
    }
    Sample* region = marks.regions;
    marks.regions = region->next;
    marks.next = region->mark.offset;
    marks.high = region->bytes;
    marks.mean = region->mark.mean;
    drop(region);
  }
  if (owed_ns != 0) {
    marks.are_even = false;
    thin(mark, owed_ns);
  }
  if (mark.offset >= bytes) return {};
  if (marks.are_even) {
    weigh_evenly(mark, bytes);
  } else {
    weigh_anywhere(mark, bytes);
  }
  return mark;
}

void Sampler::return_mark(Marks& marks, uint64_t address, uint64_t left, uint64_t bytes) noexcept {
  Sample* region = remove(address);
  if (region == nullptr) return;
  if (sample_distance() == 0) return drop(region);
  const FirstMark mark = region->mark;
  region->mark = {marks.next, marks.mean};
  region->bytes = marks.high;
  region->next = marks.regions;
  marks.regions = region;
  marks.next = left + std::min(mark.offset, bytes - 1);
  marks.high = left + bytes;
  marks.mean = mark.mean;
}

void Sampler::add(const Sample& sample) noexcept {
  lock_.lock();
  Sample* made = spare_;
  if (made != nullptr) {
    spare_ = made->next;
  } else {
    lock_.unlock();
    made = new (std::nothrow) Sample{};
    if (made == nullptr) return;
    lock_.lock();
    made->made_before = std::exchange(made_, made);
  }
  Sample* const before = made->made_before;
  *made = sample;
  made->made_before = before;
  Sample*& bucket = buckets_[hash_to(kBucketBits, sample.address)];
  made->next = std::exchange(bucket, made);
  ++count_;
  lock_.unlock();
}

/// The record of a freed block; null if it has none.
Sample* Sampler::remove(uint64_t address) noexcept {
  const SpinGuard guard(lock_);
  Sample** at = &buckets_[hash_to(kBucketBits, address)];
  while (*at != nullptr && (*at)->address != address) at = &(*at)->next;
  Sample* found = *at;
  if (found == nullptr) return nullptr;
  *at = found->next;
  --count_;
  return found;
}

void Sampler::drop(Sample* sample) noexcept {
  const SpinGuard guard(lock_);
  sample->next = spare_;
  spare_ = sample;
}

std::vector<Sample> Sampler::all() const {
  std::vector<Sample> samples;
  for (;;) {
    lock_.lock();
    const size_t count = count_;
    if (count <= samples.capacity()) break;
    lock_.unlock();
    samples.reserve(count + count / 8);  // which must not happen under the lock
  }
  for (const Sample* bucket : buckets_) {
    for (const Sample* sample = bucket; sample != nullptr; sample = sample->next) samples.push_back(*sample);
  }
  lock_.unlock();
  return samples;
}

}  // namespace gpupool::internal
