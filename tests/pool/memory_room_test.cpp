// SPDX-License-Identifier: Apache-2.0
// The room of memory by itself: addresses, chunks that back them, and when memory may be created though some
// could be moved.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pool/memory/addresses.hpp"
#include "pool/rooms.hpp"

namespace gpupool::internal {
namespace {

TEST_F(Rooms, AddressesAreReservedOnceAndGivenBack) {
  Addresses addresses(*metered, are_gone);
  Windows windows;
  size_t count = 0;
  ASSERT_EQ(addresses.find_places(heap(), 6 * kMiB, kUnit, windows, count), kSuccess);
  ASSERT_GE(count, 1u);
  EXPECT_GE(windows[0].end - windows[0].start, 6 * kMiB);
  EXPECT_EQ(metered->tally(Call::address).count.load(), 1u);
  ASSERT_EQ(addresses.find_places(heap(), 8 * kMiB, kUnit, windows, count), kSuccess);
  EXPECT_EQ(metered->tally(Call::address).count.load(), 1u) << "the first region has room for both";
  for (Region& region : space.regions) {
    addresses.release(region);
    EXPECT_EQ(region.size, 0u);
  }
  EXPECT_EQ(metered->tally(Call::address).count.load(), 2u);
}

TEST_F(Rooms, AddressesAreFewerWhereTheDriverHasNoMore) {
  Addresses addresses(*metered, are_gone);
  ASSERT_EQ(sim_script(kOrdinal, "address:1=out_of_memory"), kSuccess) << last_error().message;
  ASSERT_EQ(addresses.add_region(heap(), 4 * kMiB), kSuccess) << last_error().message;
  ASSERT_EQ(addresses.add_region(heap(), 4 * kMiB), kSuccess) << last_error().message;
  const uint64_t less = space.regions.front().size;
  const uint64_t full = space.regions.back().size;
  EXPECT_LT(less, full) << "what was refused once is asked for at half the size";
  EXPECT_GE(less, 4 * kMiB);
  for (Region& region : space.regions) addresses.release(region);
}

class BackingRoom : public Rooms {
 protected:
  void SetUp() override {
    Rooms::SetUp();
    captures = std::make_unique<Captures>(options, *metered, *streams);
    gate = std::make_unique<Gate>(*streams);
    retention = std::make_unique<Retention>(options, *captures, *gate);
    backing = std::make_unique<Backing>(*metered, ledger, space, *retention, log);
    addresses = std::make_unique<Addresses>(*metered, are_gone);
    ASSERT_EQ(addresses->add_region(heap(), 32 * kMiB), kSuccess);
    region = &space.regions.front();
  }
  /// All of it goes back, whatever a test has left.
  void TearDown() override {
    streams->next_round();
    backing->unmap_passed(Retention::Cause::need);
    backing->release_all();
    EXPECT_EQ(ledger.used(), 0u);
    EXPECT_TRUE(backing->is_unmapped(*region));
    addresses->release(*region);
    backing.reset();
    Rooms::TearDown();
  }
  Piece created(uint64_t size) {
    Piece piece{};
    EXPECT_EQ(backing->create(size, piece.chunk), kSuccess) << last_error().message;
    return piece;
  }
  Status map(Address at, const std::vector<Piece>& pieces) {
    uint64_t size = 0;
    for (const Piece& piece : pieces) size += piece.chunk->size;
    backing->reserve(pieces.size());
    heap().prepare_attach(region, at, size);
    return backing->map({at, size, size}, pieces, region, heap());
  }
  bool is_valid() {
    std::string why;
    const bool good = space.is_valid(why) && heap().is_valid(why);
    EXPECT_TRUE(good) << why;
    return good;
  }

  std::unique_ptr<Captures> captures;
  std::unique_ptr<Gate> gate;
  std::unique_ptr<Retention> retention;
  std::unique_ptr<Backing> backing;
  std::unique_ptr<Addresses> addresses;
  Region* region = nullptr;
};

TEST_F(BackingRoom, CountsWhatItCreatesAndReleases) {
  Piece piece = created(4 * kMiB);
  EXPECT_EQ(ledger.used(), 4 * kMiB);
  EXPECT_EQ(ledger.reserved().current, 4 * kMiB);
  ASSERT_EQ(backing->release(Retention::of_unused(), piece.chunk), kSuccess);
  EXPECT_EQ(ledger.used(), 0u);
  EXPECT_EQ(ledger.chunks().in, 1u);
  EXPECT_EQ(ledger.chunks().out, 1u);
}

TEST_F(BackingRoom, StaysWithinTheLimitAndTheDevice) {
  ASSERT_TRUE(ledger.budget().set_limit(4 * kMiB));
  Chunk* chunk = nullptr;
  EXPECT_EQ(backing->create(8 * kMiB, chunk), GPUPOOL_ERROR_OVER_LIMIT);
  ASSERT_TRUE(ledger.budget().set_limit(Budget::kNone));
  EXPECT_EQ(backing->create(128 * kMiB, chunk), GPUPOOL_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(chunk, nullptr);
  EXPECT_EQ(ledger.used(), 0u);
}

TEST_F(BackingRoom, AChunkThatMovesLeavesAnOldMappingUntilItsStreamHasPassed) {
  const Piece piece = created(kGranule);
  ASSERT_EQ(map(region->base, {piece}), kSuccess) << last_error().message;
  ASSERT_EQ(work(1, region->base, kGranule, 1'000'000), kSuccess);
  backing->attach(heap(), region, region->base, piece.chunk, state->order.stamp());
  EXPECT_EQ(heap().reserved(), kGranule);

  const Address next = region->base + 4 * kGranule;
  ASSERT_EQ(map(next, {piece}), kSuccess) << last_error().message;
  heap().claim_chunk(piece.chunk);
  backing->move_away(piece.chunk, heap(), false);
  backing->attach(heap(), region, next, piece.chunk, state->order.stamp());
  EXPECT_EQ(piece.chunk->old_mappings, 1u);
  EXPECT_TRUE(is_valid());

  streams->next_round();
  backing->unmap_passed(Retention::Cause::need);
  EXPECT_EQ(piece.chunk->old_mappings, 1u) << "the kernel still runs";
  bool blocked = false;
  ASSERT_EQ(backing->release_free(nullptr, 0, Retention::Cause::need, blocked), kSuccess);
  EXPECT_TRUE(blocked);
  EXPECT_EQ(ledger.used(), kGranule);

  ASSERT_EQ(sim_advance(kOrdinal, 2'000'000), kSuccess);
  streams->next_round();
  backing->unmap_passed(Retention::Cause::need);
  EXPECT_EQ(piece.chunk->old_mappings, 1u) << "the stream's user has left no event";
  EXPECT_TRUE(state->order.leave_event(StreamUser::of_own(1)));
  streams->next_round();
  backing->unmap_passed(Retention::Cause::need);
  EXPECT_EQ(piece.chunk->old_mappings, 0u);
  EXPECT_TRUE(is_valid());
}

TEST_F(BackingRoom, WhatCannotBeMappedIsUsedNowhere) {
  for (const char* script : {"map:2", "set_access:1", "map:2,unmap:1", "set_access:1,unmap:1"}) {
    SCOPED_TRACE(script);
    const std::vector<Piece> pieces{created(kGranule), created(kGranule)};
    ASSERT_EQ(sim_script(kOrdinal, script), kSuccess) << last_error().message;
    EXPECT_NE(map(region->base, pieces), kSuccess);
    backing->unclaim(pieces);
    EXPECT_EQ(backing->bytes_in_hand(), 2 * kGranule);
    EXPECT_EQ(heap().reserved(), 0u);
    EXPECT_TRUE(is_valid());
    // Where the driver did not take a mapping back, the chunk waits for that.
    ASSERT_EQ(sim_script(kOrdinal, ""), kSuccess);
    bool blocked = false;
    ASSERT_EQ(backing->release_in_hand(nullptr, 0, Retention::Cause::need, blocked), kSuccess);
    EXPECT_EQ(blocked, std::string(script).find("unmap") != std::string::npos);
    streams->next_round();
    backing->unmap_passed(Retention::Cause::need);
    ASSERT_EQ(backing->release_in_hand(nullptr, 0, Retention::Cause::need, blocked), kSuccess);
    EXPECT_EQ(ledger.used(), 0u);
  }
}

TEST_F(BackingRoom, TakesFromItsHandWhatFits) {
  const std::vector<Piece> pieces{created(4 * kMiB), created(2 * kMiB)};
  backing->unclaim(pieces);
  EXPECT_EQ(backing->take_from_hand(kMiB), nullptr);
  EXPECT_EQ(backing->take_from_hand(2 * kMiB), pieces[1].chunk);
  EXPECT_EQ(backing->take_from_hand(2 * kMiB), nullptr);
  EXPECT_EQ(backing->bytes_in_hand(), 4 * kMiB);
  backing->unclaim({pieces[1]});
}

class SurplusRoom : public Rooms {
 protected:
  void SetUp() override {
    Rooms::SetUp();
    surplus = std::make_unique<Surplus>(options, *metered, ledger, space, *streams, counters);
  }
  std::unique_ptr<Surplus> surplus;
};

TEST_F(SurplusRoom, HasRoomOnlyWhereOthersKeepTheirs) {
  // An eighth of 64 MiB stays free for those who need it.
  EXPECT_TRUE(surplus->has_room(56 * kMiB));
  EXPECT_FALSE(surplus->has_room(58 * kMiB));
  ASSERT_TRUE(ledger.budget().set_limit(32 * kMiB));
  EXPECT_TRUE(surplus->has_room(28 * kMiB));
  EXPECT_FALSE(surplus->has_room(29 * kMiB));
  options.slack = -1;
  EXPECT_FALSE(surplus->has_room(kMiB)) << "a tight pool has no surplus";
}

TEST_F(SurplusRoom, LetsThreadsKeepCachesOnlyWhereThatTakesLittle) {
  const Caches caches;
  const auto keeps = [&](uint64_t bytes) {
    return surplus->keeps_caches_apart(SizeGroup::small, bytes, caches);
  };
  const auto drain = [&] { surplus->drained(SizeGroup::small, policy::kBurstBetweenNs / policy::kDrainNs); };
  EXPECT_FALSE(keeps(0));
  drain();
  EXPECT_TRUE(keeps(56 * kMiB));
  EXPECT_FALSE(surplus->keeps_caches_apart(SizeGroup::large, 0, caches)) << "of which none were drained";
  options.slack = -1;
  EXPECT_FALSE(keeps(0)) << "a tight pool has no surplus";
  options.slack = 0;
  options.idle_ns = 1;
  EXPECT_FALSE(keeps(0)) << "it gives back what is idle";
  options.idle_ns = 0;
  EXPECT_TRUE(keeps(0));
  EXPECT_FALSE(keeps(58 * kMiB)) << "an eighth of the device is for those who need it";
  EXPECT_FALSE(keeps(0)) << "so there is no rest";
  ASSERT_EQ(sim_advance(kOrdinal, policy::kApartNs), kSuccess);
  drain();
  EXPECT_TRUE(keeps(0)) << "after a minute it tries again";
  surplus->ran_short();
  EXPECT_FALSE(keeps(0));
}

TEST_F(SurplusRoom, CountsWhatRelativesHaveOfTheLimit) {
  ASSERT_TRUE(ledger.budget().set_limit(32 * kMiB));
  Ledger relative{ledger.budget().shared()};
  ASSERT_TRUE(relative.budget().charge(24 * kMiB));
  EXPECT_TRUE(surplus->has_room(4 * kMiB));
  EXPECT_FALSE(surplus->has_room(5 * kMiB));
  relative.budget().refund(24 * kMiB);
}

TEST_F(SurplusRoom, IsDueOnceAWindow) {
  ASSERT_EQ(sim_advance(kOrdinal, policy::kApartNs), kSuccess);
  surplus->note_use(heap(), kMiB);
  EXPECT_TRUE(surplus->is_due());
  EXPECT_FALSE(surplus->is_due());
  surplus->note_use(heap(), 4 * kMiB);
  EXPECT_FALSE(surplus->is_due());
  EXPECT_EQ(surplus->kept(), 4 * kMiB + 4 * kMiB / policy::kEntitledParts);
  ASSERT_EQ(sim_advance(kOrdinal, policy::kApartNs), kSuccess);
  surplus->note_use(heap(), kMiB);
  EXPECT_TRUE(surplus->is_due());
}

TEST_F(SurplusRoom, PausesLongerEachTimeThatWhatWentCameBack) {
  uint64_t came_back = 0;
  int windows_between = 0;
  std::vector<int> pauses;
  for (int window = 0; window < 200; ++window) {
    ASSERT_EQ(sim_advance(kOrdinal, policy::kApartNs), kSuccess);
    surplus->note_use(heap(), kMiB);
    ++windows_between;
    if (!surplus->is_due()) continue;
    pauses.push_back(windows_between - 1);
    windows_between = 0;
    const uint64_t before = ledger.used() + kMiB;  // as if so much had gone
    surplus->gave_back(before);
    ASSERT_TRUE(ledger.budget().charge(kMiB));  // and came back
    came_back += kMiB;
  }
  ledger.budget().refund(came_back);
  EXPECT_EQ(std::vector<int>(pauses.begin(), pauses.begin() + 6), (std::vector<int>{0, 1, 3, 7, 15, 31}));
}

TEST_F(SurplusRoom, KeepsStreamsApartOnceTheyTookTooMuch) {
  const uint64_t now = metered->raw().now_ns();
  EXPECT_FALSE(surplus->keeps_apart(kMiB, now));
  for (uint64_t spent = 0; spent < policy::kBurstBetweenNs; spent += policy::kStealRunNs)
    surplus->stole_run(now);
  EXPECT_TRUE(surplus->keeps_apart(kMiB, now));
  EXPECT_FALSE(surplus->keeps_apart(kMiB, now + policy::kApartNs));
}

TEST_F(SurplusRoom, KeepsStreamsApartOnlyWhileThatTakesLittle) {
  constexpr uint64_t kAtOnce = 128 * kMiB;
  surplus->note_use(heap(), kAtOnce);
  const uint64_t now = metered->raw().now_ns();
  for (uint64_t spent = 0; spent < policy::kBurstBetweenNs; spent += policy::kStealRunNs)
    surplus->stole_run(now);
  EXPECT_TRUE(surplus->keeps_apart(kAtOnce + policy::kLeastSurplus, now));
  EXPECT_FALSE(surplus->keeps_apart(kAtOnce + policy::kLeastSurplus + 1, now));
  surplus->moved(kGiB, 0, 2 * policy::kBurstBetweenNs);
  EXPECT_TRUE(surplus->keeps_apart(2 * kAtOnce, now)) << "moves cost more";
  EXPECT_FALSE(surplus->keeps_apart(2 * kAtOnce + 1, now));
}

}  // namespace
}  // namespace gpupool::internal
