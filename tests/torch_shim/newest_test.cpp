// SPDX-License-Identifier: Apache-2.0
// What PyTorch asks for since 2.12.
#include "pytorch.hpp"

namespace {

using Annotations = std::vector<std::pair<size_t, std::string>>;

TEST_F(PyTorch, SeesItEverywhere) {
  EXPECT_EQ(c10::GetAllocator(c10::DeviceType::CUDA), torch);
}

class Rejections : public PyTorch {
 protected:
  struct Seen {
    int64_t device;
    size_t size, allocated, total;
  };

  void SetUp() override {
    c10::CachingAllocator::settings().throws_early = true;
    PyTorch::SetUp();
    torch->setMemoryFraction(0.125, 0);  // 1 GiB
    torch->attachOomRejectionObserver([this](int64_t device, size_t size, size_t allocated, size_t total) {
      seen.push_back({device, size, allocated, total});
    });
    torch->attachOutOfMemoryObserver([this](int64_t, size_t, size_t, size_t) { ++shortages; });
  }

  std::vector<Seen> seen;
  int shortages = 0;
};

TEST_F(Rejections, AreToldAndCounted) {
  void* held = torch->raw_alloc(100 * kMiB);
  EXPECT_THROW(torch->raw_alloc(2000 * kMiB), c10::OutOfMemoryError);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].device, 0);
  EXPECT_EQ(seen[0].size, 2000 * kMiB);
  EXPECT_EQ(seen[0].allocated, 100 * kMiB);
  EXPECT_EQ(seen[0].total, size_t{8} << 30);
  EXPECT_EQ(torch->getDeviceStats(0).num_oom_rejections, 1);
  EXPECT_EQ(torch->getDeviceStats(0).num_ooms, 0);
  EXPECT_EQ(shortages, 0);
  torch->resetAccumulatedStats(0);
  EXPECT_EQ(torch->getDeviceStats(0).num_oom_rejections, 0);
  torch->raw_delete(held);
}

TEST_F(Rejections, AreNoneWhereTheSettingIsOff) {
  c10::CachingAllocator::settings().throws_early = false;
  EXPECT_THROW(torch->raw_alloc(2000 * kMiB), c10::OutOfMemoryError);
  EXPECT_TRUE(seen.empty());
  EXPECT_EQ(shortages, 1);
  EXPECT_EQ(torch->getDeviceStats(0).num_oom_rejections, 0);
  EXPECT_EQ(torch->getDeviceStats(0).num_ooms, 1);
}

TEST_F(PyTorch, TheUsersWordsAboutABlockAreAnEventOfTheirOwn) {
  EXPECT_TRUE(torch->supportsUserMetadata());
  void* block = torch->raw_alloc(kMiB);
  torch->annotateMemory(block, "before anybody records");
  record_history(Context::NEVER);
  torch->setUserMetadata("of the thread");
  torch->annotateMemory(block, "weights");
  torch->annotateMemory(static_cast<char*>(block) + 512, "of no block");
  torch->raw_delete(block);
  torch->annotateMemory(block, "of what is gone");
  Annotations found;
  for (const TraceEntry& each : trace()) {
    if (each.action_ == TraceEntry::ANNOTATE) found.emplace_back(each.addr_, each.user_metadata_);
  }
  EXPECT_EQ(found, (Annotations{{reinterpret_cast<size_t>(block), "weights"}}));
  EXPECT_EQ(torch->getUserMetadata(), "of the thread");
}

TEST_F(PyTorch, ABlockKnowsWhereItWasAllocated) {
  void* unknown = torch->raw_alloc(kMiB);
  record_history();
  where = "here";
  void* block = torch->raw_alloc(kMiB);
  EXPECT_EQ(text(torch->getContextForPointer(block)), "here");
  EXPECT_EQ(torch->getContextForPointer(unknown), nullptr);
  torch->raw_delete(block);
  EXPECT_EQ(torch->getContextForPointer(block), nullptr);
  torch->raw_delete(unknown);
}

TEST_F(PyTorch, APoolHandsOutABlockAtAnAddressThatItHasFree) {
  begin({0, 7});
  void* whole = torch->raw_alloc(8 * kMiB);
  torch->raw_delete(whole);
  auto* middle = static_cast<char*>(whole) + 3 * kMiB;
  {
    const c10::DataPtr data = torch->allocateWithAddress(2 * kMiB, middle);
    EXPECT_EQ(data.get(), middle);
    EXPECT_TRUE(is_usable(0, data.get(), 2 * kMiB, main));
    EXPECT_EQ(allocated(), static_cast<int64_t>(2 * kMiB));
    EXPECT_THROW(torch->allocateWithAddress(kMiB, middle), c10::Error);  // it is not free
    void* before = torch->raw_alloc(3 * kMiB);
    EXPECT_EQ(before, whole);
    torch->raw_delete(before);
    stand_in::set_current_stream(side);
    EXPECT_THROW(torch->allocateWithAddress(kMiB, whole), c10::Error);
    stand_in::set_current_stream(main);
  }
  EXPECT_EQ(torch->raw_alloc(8 * kMiB), whole);  // in one piece again
  torch->raw_delete(whole);
  EXPECT_THROW(torch->allocateWithAddress(30 * kMiB, whole), c10::Error);
  torch->endAllocateToPool(0, {0, 7});
  EXPECT_THROW(torch->allocateWithAddress(kMiB, whole), c10::Error);
  EXPECT_EQ(allocated(), 0);
}

TEST_F(PyTorch, EachPoolHasItsOwnReservedBytes) {
  const auto of = [this](Id id, size_t type = 0) {
    return torch->getDeviceStats(0).reserved_bytes_by_private_pools.at(id).at(type);
  };
  begin({0, 7});
  torch->raw_delete(torch->raw_alloc(100));
  torch->raw_delete(torch->raw_alloc(30 * kMiB));
  torch->endAllocateToPool(0, {0, 7});
  begin({0, 8});
  torch->raw_delete(torch->raw_alloc(40 * kMiB));
  torch->endAllocateToPool(0, {0, 8});
  EXPECT_EQ(torch->getDeviceStats(0).reserved_bytes_by_private_pools.size(), 2u);
  EXPECT_EQ(of({0, 7}).current, static_cast<int64_t>(32 * kMiB));
  EXPECT_EQ(of({0, 7}, 1).current, static_cast<int64_t>(2 * kMiB));
  EXPECT_EQ(of({0, 7}, 2).current, static_cast<int64_t>(30 * kMiB));
  EXPECT_EQ(of({0, 8}).current, static_cast<int64_t>(40 * kMiB));
  torch->releasePool(0, {0, 7});
  EXPECT_EQ(of({0, 7}).current, 0);
  EXPECT_EQ(of({0, 7}).peak, static_cast<int64_t>(32 * kMiB));
  EXPECT_EQ(of({0, 7}).freed, static_cast<int64_t>(32 * kMiB));
  torch->resetAccumulatedStats(0);
  EXPECT_EQ(of({0, 7}).freed, 0);
  torch->resetPeakStats(0);
  EXPECT_EQ(of({0, 7}).peak, 0);
  EXPECT_EQ(of({0, 8}).peak, static_cast<int64_t>(40 * kMiB));
}

TEST_F(PyTorch, ACaptureThatIsAnnouncedIsNotDisturbed) {
  begin({1, 0});
  torch->raw_delete(torch->raw_alloc(4 * kMiB));
  torch->endAllocateToPool(0, {1, 0});
  torch->markCaptureBegin(0);  // into no pool
  torch->markCaptureBegin(0);
  const int waits = stand_in::device_waits();
  torch->releasePool(0, {1, 0});
  torch->markCaptureEnd(0);
  torch->emptyCache();
  EXPECT_EQ(stand_in::device_waits(), waits);
  EXPECT_EQ(torch->snapshot({1, 0}).segments.size(), 1u);
  torch->markCaptureEnd(0);
  EXPECT_EQ(torch->snapshot({1, 0}).segments.size(), 0u);
  torch->markCaptureEnd(0);  // one that never began
  torch->emptyCache();
  EXPECT_EQ(torch->snapshot({1, 0}).segments.size(), 0u);
}

TEST_F(PyTorch, NewSettingsThatDoNothingAreNamedToo) {
  c10::CachingAllocator::settings().text =
      "expandable_segments_reserve_by_class:[a:0.5], my_expandable_segments_reserve:1,large_segment_size_mb "
      ": 12";
  gpupool_torch_install();
  c10::warnings().clear();
  torch->init(1);
  ASSERT_EQ(c10::warnings().size(), 1u);
  EXPECT_NE(c10::warnings().at(0).find(": expandable_segments_reserve_by_class, large_segment_size_mb. "),
            std::string::npos)
      << c10::warnings().at(0);
}

}  // namespace
