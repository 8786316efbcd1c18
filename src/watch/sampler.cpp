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
#include "watch/clock.hpp"

namespace gpupool::internal {
namespace {

constinit std::atomic<uint64_t> least_distance{Sampler::kLeastDistance};
constinit std::atomic<bool> is_distance_set{false};
constinit std::atomic<Sparing> sparing_of_all{Sparing::time};

/// A number in (0, 1] from a counter: splitmix64. Samples are the same in each run of the same program.
double random_of(uint64_t drawn) noexcept {
  uint64_t word = (drawn + 1) * 0x9e3779b97f4a7c15;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  word ^= word >> 31;
  return static_cast<double>((word >> 11) + 1) * 0x1p-53;
}

}  // namespace

uint64_t sample_distance() noexcept {
  return least_distance.load(std::memory_order_relaxed);
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

/// A part of the live bytes, within bounds, so that a small program has as many samples as a large one. 1,024
/// of them tell what each of the three largest holders has within 10 per cent (three standard deviations) in
/// all recorded traces; 64 did not: a holder of 13 per cent in blocks of 10 MiB was wrong by 28 per cent.
uint64_t Sampler::distance(uint64_t live) const noexcept {
  const uint64_t least = sample_distance();
  if (least == 0) return 0;
  const uint64_t wanted = std::clamp(live / kSamples, least, std::max(least, kMostDistance));
  return wanted << thinned_.load(std::memory_order_relaxed);
}

double Sampler::random() noexcept {
  return random_of(drawn_.fetch_add(1, std::memory_order_relaxed));
}

uint64_t Sampler::next_above(uint64_t live, uint64_t mean) noexcept {
  return live + static_cast<uint64_t>(-std::log(random()) * static_cast<double>(mean));
}

void Sampler::draw(Marks& marks, uint64_t live) noexcept {
  if (is_drawn(marks)) return;
  while (marks.regions != nullptr) {
    Sample* region = marks.regions;
    marks.regions = region->next;
    drop(region);
  }
  marks = {};
  marks.drawn_for = sample_distance() + 1;
  marks.thinned = thinned_.load(std::memory_order_relaxed);
  if (marks.drawn_for == 1) return;
  marks.mean = distance(live);
  marks.next = next_above(live, marks.mean);
}

void Sampler::pass_mark(Marks& marks, uint64_t live) noexcept {
  while (marks.next < live) {
    // Above everything drawn so far, the current distance applies. Marks below no longer matter.
    if (marks.regions == nullptr) marks.mean = distance(live);
    const uint64_t next = next_above(live, marks.mean);
    if (next <= marks.high || marks.regions == nullptr) {
      marks.next = next;
      return;
    }
    Sample* region = marks.regions;
    marks.regions = region->next;
    marks.next = region->weight;
    marks.high = region->bytes;
    marks.mean = region->mean;
    drop(region);
  }
}

void Sampler::return_mark(Marks& marks, uint64_t address, uint64_t left, uint64_t bytes) noexcept {
  Sample* region = remove(address);
  if (region == nullptr) return;
  if (sample_distance() == 0) return drop(region);
  // The first mark within this many bytes, given that there is one. If marks have become thinner or denser
  // meanwhile, that is not given: otherwise a block that comes and goes would be sampled each time, for ever.
  const bool is_known = region->thinned == thinned_.load(std::memory_order_relaxed);
  if (!is_known) region->mean = distance(left);
  const auto mean = static_cast<double>(region->mean);
  const double share = is_known ? -std::expm1(-static_cast<double>(bytes) / mean) : 1;
  const double at = -std::log1p(-random() * share) * mean;
  if (!is_known && !(at < static_cast<double>(bytes))) return drop(region);
  region->weight = marks.next;
  region->bytes = marks.high;
  region->mean = std::exchange(marks.mean, region->mean);
  region->next = marks.regions;
  marks.regions = region;
  marks.next = left + std::min(static_cast<uint64_t>(at), bytes - 1);
  marks.high = left + bytes;
}

uint64_t Sampler::weight_of(uint64_t bytes, uint64_t mean) noexcept {
  const double share = -std::expm1(-static_cast<double>(bytes) / static_cast<double>(mean));
  return static_cast<uint64_t>(static_cast<double>(bytes) / share);
}

void Sampler::weigh_cost(uint64_t now_ns, uint64_t cost_ns) noexcept {
  constexpr int64_t kFree = 5'000'000;  // ns that every program may spend, and is kept for a burst at most
  constexpr int64_t kLent = 250'000;    // ns until marks are thinned again; given back when they come closer
  constexpr uint64_t kShare = 200;      // of the time
  constexpr uint8_t kMostThinned = 24;  // 16 TiB apart at the minimum distance: no marks at all
  if (weighed_ns_ == 0) {
    weighed_ns_ = now_ns;
    credit_ns_ = kFree;
  }
  const uint64_t passed = now_ns - std::min(now_ns, weighed_ns_);
  weighed_ns_ += passed;
  credit_ns_ = std::min(credit_ns_ + static_cast<int64_t>(passed / kShare), kFree);
  const bool is_full = credit_ns_ == kFree;
  credit_ns_ -= static_cast<int64_t>(cost_ns);
  uint8_t thinned = thinned_.load(std::memory_order_relaxed);
  const bool is_spared = sparing_of_all.load(std::memory_order_relaxed) == Sparing::time;
  if (is_spared && credit_ns_ < 0) {
    // Whatever is owed is forgotten: a sample that cost milliseconds was interrupted, and says nothing of
    // others.
    credit_ns_ = kLent;
    if (thinned < kMostThinned) ++thinned;
  } else if (thinned > 0 && (!is_spared || is_full)) {
    credit_ns_ -= kLent;
    --thinned;
  }
  thinned_.store(thinned, std::memory_order_relaxed);
}

/// Reads the clock with one miss in many.
void Sampler::relax_by_time() noexcept {
  constexpr uint32_t kMisses = 16;
  if (++relaxes_ % kMisses != 0) return;
  const uint64_t now = clock_ns();
  const SpinGuard guard(lock_);
  weigh_cost(now, 0);
}

void Sampler::add(const Sample& sample, uint64_t cost_ns) noexcept {
  lock_.lock();
  Sample* made = spare_;
  if (made != nullptr) spare_ = made->next;
  lock_.unlock();
  const bool is_new = made == nullptr;
  if (is_new) made = new (std::nothrow) Sample{};
  if (made == nullptr) return;
  const SpinGuard guard(lock_);
  Sample* before = is_new ? made_ : made->made_before;
  if (is_new) made_ = made;
  *made = sample;
  made->made_before = before;
  Sample*& bucket = buckets_[hash_to(kBucketBits, sample.address)];
  made->next = bucket;
  bucket = made;
  ++count_;
  weigh_cost(sample.born_ns, cost_ns);
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
