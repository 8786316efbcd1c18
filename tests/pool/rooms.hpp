// SPDX-License-Identifier: Apache-2.0
// What the rooms of a pool stand on, without a pool.
#pragma once

#include <memory>
#include <utility>

#include "device/sim_fixture.hpp"
#include "pool/memory/pool_state.hpp"

namespace gpupool::internal {

/// A device of 64 MiB.
class SmallSimTest : public SimTest {
 protected:
  void SetUp() override {
    gpupool_sim_config_t config = {};
    config.capacity_bytes = 64 * kMiB;
    restart(config);
  }
};

/// What rooms stand on: such a device, and an empty space with one stream.
class Rooms : public SmallSimTest {
 protected:
  void SetUp() override {
    SmallSimTest::SetUp();
    metered = std::make_unique<MeteredDevice>(std::move(device));
    streams = std::make_unique<Streams>(*metered, space, true);
    StreamState* found = nullptr;
    ASSERT_EQ(streams->find(StreamUser::of_own(1), found), kSuccess);
    state = found;
  }
  void TearDown() override {
    streams.reset();
    metered.reset();
  }
  StreamHeap& heap() { return state->heap(SizeGroup::large); }

  std::unique_ptr<MeteredDevice> metered;
  Space space;
  std::unique_ptr<Streams> streams;
  StreamState* state = nullptr;
  Ledger ledger;
  Counters counters;
  PoolOptions options;
  const uint64_t number = 1;
  bool are_gone = false;
  PoolLog log{number, ledger};
};

/// The state that all rooms of a pool work on, with one stream.
class RoomsOfState : public SmallSimTest {
 protected:
  void SetUp() override {
    SmallSimTest::SetUp();
    make({});
  }
  void make(const PoolOptions& options) {
    const std::shared_ptr<Device> shared = std::move(device);
    ASSERT_EQ(open_sim(kOrdinal, device), kSuccess);
    pool = std::make_unique<PoolState>(shared, options);
    ASSERT_EQ(pool->streams.find(StreamUser::of_own(1), state), kSuccess);
  }

  std::unique_ptr<PoolState> pool;
  StreamState* state = nullptr;
};

}  // namespace gpupool::internal
