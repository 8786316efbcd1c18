// SPDX-License-Identifier: Apache-2.0
// Statistics, snapshots and the history of events.
#include <algorithm>
#include <memory>
#include <random>

#include "pytorch.hpp"

namespace {

using c10::CachingAllocator::StatArray;
using c10::CachingDeviceAllocator::DeviceStats;

/// What PyTorch's own test compares: the current statistics, counted again from the snapshot.
void expect_stats_are_sums(c10::cuda::CUDACachingAllocator::CUDAAllocator* torch) {
  const auto snapshot = torch->snapshot();
  const DeviceStats stats = torch->getDeviceStats(0);
  struct {
    int64_t allocated_bytes = 0, reserved_bytes = 0, active_bytes = 0, requested_bytes = 0, allocation = 0,
            active = 0;
  } sums[3];
  for (const auto& segment : snapshot.segments) {
    EXPECT_GE(segment.registration_counter, 0) << "NCCL asks for it";
    int64_t total = 0;
    for (auto& sum : {&sums[0], segment.is_large ? &sums[2] : &sums[1]}) {
      sum->allocated_bytes += static_cast<int64_t>(segment.allocated_size);
      sum->reserved_bytes += static_cast<int64_t>(segment.total_size);
      sum->active_bytes += static_cast<int64_t>(segment.active_size);
      sum->requested_bytes += static_cast<int64_t>(segment.requested_size);
      for (const auto& block : segment.blocks) {
        sum->allocation += block.allocated ? 1 : 0;
        sum->active += block.active ? 1 : 0;
      }
    }
    for (const auto& block : segment.blocks) total += static_cast<int64_t>(block.size);
    EXPECT_EQ(total, static_cast<int64_t>(segment.total_size));
  }
  for (size_t type = 0; type < 3; ++type) {
    SCOPED_TRACE(type);
    EXPECT_EQ(stats.allocation[type].current, sums[type].allocation);
    EXPECT_EQ(stats.active[type].current, sums[type].active);
    EXPECT_EQ(stats.allocated_bytes[type].current, sums[type].allocated_bytes);
    EXPECT_EQ(stats.reserved_bytes[type].current, sums[type].reserved_bytes);
    EXPECT_EQ(stats.active_bytes[type].current, sums[type].active_bytes);
    EXPECT_EQ(stats.requested_bytes[type].current, sums[type].requested_bytes);
  }
}

TEST_F(PyTorch, EachEmptyCacheCountsAsOneWaitForAllStreams) {
  const int64_t before = torch->getDeviceStats(0).num_sync_all_streams;
  torch->emptyCache();
  torch->emptyCache();
  EXPECT_EQ(torch->getDeviceStats(0).num_sync_all_streams, before + 2);
}

TEST_F(PyTorch, EachShortageThatTheProgramSeesCountsOnce) {
  const auto ooms = [this] { return torch->getDeviceStats(0).num_ooms; };
  torch->setMemoryFraction(0.125, 0);
  EXPECT_THROW(torch->raw_alloc(2000 * kMiB), c10::OutOfMemoryError);
  EXPECT_EQ(ooms(), 1);
  begin({1, 0});  // whose segment is asked for in two sizes
  void* most = torch->raw_alloc(1010 * kMiB);
  EXPECT_THROW(torch->raw_alloc(40 * kMiB), c10::OutOfMemoryError);
  EXPECT_EQ(ooms(), 2);
  torch->raw_delete(torch->raw_alloc(9 * kMiB));  // the larger of the two sizes is too large
  torch->endAllocateToPool(0, {1, 0});
  torch->raw_delete(most);
  torch->releasePool(0, {1, 0});
  EXPECT_EQ(ooms(), 2);
  torch->resetAccumulatedStats(0);
  EXPECT_EQ(ooms(), 0);
  EXPECT_EQ(torch->getDeviceStats(1).num_ooms, 0);
}

TEST_F(PyTorch, StatisticsAreTheSumsOfTheSnapshot) {
  const Id own{0, 3};
  const Id plain{0, 4};
  torch->createOrIncrefPool(0, own, std::make_shared<stand_in::OtherAllocator>());
  torch->createOrIncrefPool(0, plain);
  std::mt19937 random(7);
  std::vector<c10::DataPtr> live;
  for (int step = 0; step < 600; ++step) {
    const auto kind = random() % 8;
    if (kind == 0 || kind == 1) begin(kind == 0 ? own : plain);
    stand_in::set_current_stream(random() % 3 == 0 ? side : main);
    live.push_back(torch->allocate(1 + random() % (random() % 4 == 0 ? 30 * kMiB : 100'000)));
    if (kind == 0 || kind == 1) torch->endAllocateToPool(0, kind == 0 ? own : plain);
    if (random() % 4 == 0) torch->recordStream(live.back(), c10::cuda::CUDAStream(side));
    if (step % 7 == 0) fake_cuda().hold(number(side));
    while (live.size() > 30) live.erase(live.begin() + static_cast<long>(random() % live.size()));
    if (step % 7 == 3) fake_cuda().release(number(side));
    if (step % 10 == 9) expect_stats_are_sums(torch);
    if (HasFailure()) return;
    if (step % 100 == 99) torch->emptyCache();
  }
  fake_cuda().release(number(side));
  live.clear();
  expect_stats_are_sums(torch);
}

TEST_F(PyTorch, LiveBlocksHaveTheStackOfTheirMalloc) {
  record_history(Context::STATE);
  where = "first";
  void* one = torch->raw_alloc(5 * kMiB);
  begin({0, 1});
  where = "second";
  void* two = torch->raw_alloc(3 * kMiB);
  torch->endAllocateToPool(0, {0, 1});
  size_t found = 0;
  for (const SegmentInfo& segment : torch->snapshot().segments) {
    size_t at = segment.address;
    for (const auto& block : segment.blocks) {
      if (at == reinterpret_cast<size_t>(one)) found += text(block.context_when_allocated) == "first";
      if (at == reinterpret_cast<size_t>(two)) found += text(block.context_when_allocated) == "second";
      if (!block.allocated) {
        EXPECT_EQ(block.context_when_allocated, nullptr);
      }
      at += block.size;
    }
  }
  EXPECT_EQ(found, 2u);
  // This little a history keeps no stacks of events.
  for (const TraceEntry& each : trace()) EXPECT_EQ(each.context_, nullptr);
  torch->recordHistory(false, nullptr, 1, Context::NEVER, true, {});
  torch->raw_delete(one);
  torch->raw_delete(two);
}

TEST_F(PyTorch, TheHistoryTellsOfMemoryThatComesAndGoes) {
  record_history();
  where = "malloc";
  void* block = torch->raw_alloc(5 * kMiB);
  where = "free";
  torch->raw_delete(block);
  where = "empty_cache";
  torch->emptyCache();
  const auto events = trace();
  std::vector<Action> kinds;
  size_t mapped = 0;
  for (const TraceEntry& each : events) {
    kinds.push_back(each.action_);
    mapped += each.action_ == TraceEntry::SEGMENT_MAP ? each.size_ : 0;
    mapped -= each.action_ == TraceEntry::SEGMENT_UNMAP ? each.size_ : 0;
  }
  EXPECT_EQ(kinds,
            (std::vector<Action>{TraceEntry::SEGMENT_MAP, TraceEntry::ALLOC, TraceEntry::FREE_REQUESTED,
                                 TraceEntry::FREE_COMPLETED, TraceEntry::SEGMENT_UNMAP}));
  EXPECT_EQ(mapped, 0u);
  EXPECT_EQ(text(events.at(0).context_), "malloc");
  EXPECT_EQ(text(events.at(2).context_), "free");
  EXPECT_EQ(text(events.at(4).context_), "empty_cache");
  EXPECT_EQ(events.at(1).addr_, reinterpret_cast<size_t>(block));
  EXPECT_EQ(events.at(1).size_, 5 * kMiB);
  // The snapshot itself is the last event of the next one.
  EXPECT_EQ(actions().back(), TraceEntry::SNAPSHOT);
}

TEST_F(PyTorch, TheHistoryTellsOfSegmentsOfPools) {
  // A tracker stays as long as the process.
  const auto told = std::make_shared<std::vector<TraceEntry>>();
  torch->attachAllocatorTraceTracker([told](const TraceEntry& each) { told->push_back(each); });
  const Id id{0, 2};
  torch->createOrIncrefPool(0, id);
  begin(id);
  void* block = torch->raw_alloc(30 * kMiB);
  torch->endAllocateToPool(0, id);
  torch->releasePool(0, id);
  ASSERT_GE(told->size(), 2u);
  EXPECT_EQ(told->at(0).action_, TraceEntry::SEGMENT_ALLOC);
  EXPECT_EQ(told->at(0).mempool_, id);
  EXPECT_EQ(told->at(0).size_, 30 * kMiB);
  EXPECT_EQ(told->at(1).action_, TraceEntry::ALLOC);
  EXPECT_EQ(told->at(1).mempool_, id);
  torch->raw_delete(block);
  torch->releasePool(0, id);
  EXPECT_EQ(told->back().action_, TraceEntry::SEGMENT_FREE);
}

TEST_F(PyTorch, EventsSayWhatTheProgramSaysOfThem) {
  torch->setUserMetadata("a word");
  EXPECT_EQ(torch->getUserMetadata(), "a word");
  record_history(Context::NEVER);
  std::string region = "Torch-Compiled Region: 0/0";
  torch->pushCompileContext(region);
  torch->raw_delete(torch->raw_alloc(100));
  torch->popCompileContext();
  torch->popCompileContext();  // once too often
  torch->raw_delete(torch->raw_alloc(100));
  torch->recordAnnotation({{"name", "step"}, {"stage", "START"}});
  const auto snapshot = torch->snapshot();
  const auto& events = snapshot.device_traces.at(0);
  for (const TraceEntry& each : events) EXPECT_EQ(each.user_metadata_, "a word");
  EXPECT_EQ(events.front().compile_context_, region);
  EXPECT_EQ(events.back().compile_context_, "N/A");
  ASSERT_EQ(snapshot.external_annotations.size(), 1u);
  EXPECT_EQ(snapshot.external_annotations.at(0).metadata_.at("stage"), "START");
  EXPECT_GT(events.back().time_.t_, events.front().time_.t_);
  torch->setUserMetadata("");
}

TEST_F(PyTorch, TheHistoryKeepsTheLastEventsAndSkipsWhatItIsTold) {
  torch->recordHistory(true, nullptr, 3, Context::NEVER, false, {"free_requested"});
  for (size_t size = 1; size <= 5; ++size) torch->raw_delete(torch->raw_alloc(size));
  const auto events = trace();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events.at(0).action_, TraceEntry::FREE_COMPLETED);
  EXPECT_EQ(events.at(0).size_, 4u);
  EXPECT_EQ(events.at(2).size_, 5u);
  torch->recordHistory(true, nullptr, 1, Context::NEVER, false, {});
  EXPECT_EQ(trace().size(), 1u);
  EXPECT_THROW(torch->recordHistory(true, nullptr, 1, Context::ALL, false, {}), c10::Error);
}

}  // namespace
