// SPDX-License-Identifier: Apache-2.0
// The contract of pools: their end, their neighbours, other devices.
#include <memory>
#include <thread>

#include "pool/contract.hpp"

namespace pool_test {
namespace {

class Pools : public Contract {};
INSTANTIATE_TEST_SUITE_P(On, Pools, testing::ValuesIn(all_variants()), name_of);

TEST_P(Pools, GoAwayWithTheirLastBlock) {
  PoolUnderTest pool(config());
  const gpupool_stream_t stream = new_stream();
  const gpupool_ptr_t small = pool.malloc(1000, stream);
  const gpupool_ptr_t large = pool.malloc(40 * kMiB, stream);
  const gpupool_ptr_t freed = pool.malloc(20 * kMiB, stream);
  pool.free(freed, stream);
  gpupool_t* handle = pool.give_up();
  EXPECT_TRUE(ok(gpupool_destroy(handle)));

  gpupool_ptr_t block = 1;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_malloc(handle, 512, stream, &block)));
  EXPECT_EQ(block, 0u);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_destroy(handle)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_empty(handle, nullptr)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(handle, freed, stream)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(handle, large + 512, stream)));
  EXPECT_TRUE(ok(gpupool_free(handle, small, stream)));
  if (variant().is_on_device() && variant().is_controlled()) {
    EXPECT_GE(taken_from_device(), 40 * kMiB);
  }
  std::thread([&] { EXPECT_TRUE(ok(gpupool_free(handle, large, stream))); }).join();
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_free(handle, large, stream)));
  if (variant().source != Source::pool) {
    expect_all_given_back();
  }
}

TEST_P(Pools, GiveEverythingBackWhenDestroyed) {
  {
    PoolUnderTest pool(config());
    const gpupool_stream_t stream = new_stream();
    pool.free(pool.malloc(100 * kMiB, stream), stream);
    pool.free(pool.malloc(100));
    EXPECT_TRUE(ok(gpupool_release_stream(pool, stream)));
    pool.free(pool.malloc(10 * kMiB));
  }
  if (variant().source != Source::pool) {
    expect_all_given_back();
  }
  EXPECT_TRUE(ok(gpupool_destroy(nullptr)));
}

/// Destroys a pool as soon as the log says something of it.
struct Destroyer {
  gpupool_t* pool = nullptr;

  static void receive(void* user, int32_t, const char*) {
    gpupool_t* const pool = std::exchange(static_cast<Destroyer*>(user)->pool, nullptr);
    if (pool == nullptr) return;
    EXPECT_TRUE(ok(gpupool_destroy(pool)));
  }
};

TEST_P(Pools, MayBeDestroyedByTheReceiverOfTheirLog) {
  for (const bool in_the_middle : {false, true}) {
    PoolUnderTest pool(config());
    const gpupool_stream_t stream = new_stream();
    const gpupool_ptr_t block = pool.malloc(40 * kMiB, stream);
    if (variant().machine == Machine::sim && in_the_middle) work(stream, block, 40 * kMiB);
    pool.free(block, stream);
    gpupool_t* const handle = pool.give_up();
    Destroyer destroyer{handle};
    EXPECT_TRUE(ok(gpupool_set_log(Destroyer::receive, &destroyer, GPUPOOL_LOG_DEBUG)));
    uint64_t released = 0;
    const gpupool_status_t status =
        in_the_middle ? gpupool_synchronize(handle) : gpupool_empty(handle, &released);
    EXPECT_TRUE(ok(gpupool_set_log(nullptr, nullptr, GPUPOOL_LOG_OFF)));
    EXPECT_TRUE(ok(status));
    if (destroyer.pool != nullptr) {  // nothing was worth a line
      EXPECT_TRUE(ok(gpupool_destroy(handle)));
    }
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_destroy(handle)));  // fails, so that it ends
    if (variant().source != Source::pool) {
      expect_all_given_back();
    }
  }
}

TEST_P(Pools, OnOneDeviceAreApart) {
  PoolUnderTest first(config_with_limit(64 * kMiB));
  PoolUnderTest second(config());
  const gpupool_ptr_t a = first.malloc(30 * kMiB);
  const gpupool_ptr_t b = second.malloc(80 * kMiB);
  EXPECT_EQ(first.allocated(), 30 * kMiB);
  EXPECT_EQ(second.allocated(), 80 * kMiB);
  EXPECT_EQ(second.stats().limit_bytes, 0u);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(second, a, 0)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(first, b, 0)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, first.try_info(b)));
  first.free(a);
  EXPECT_EQ(first.empty(), first.stats().all.reserved_bytes.peak);
  EXPECT_GE(second.reserved(), 80 * kMiB);
  second.free(b);
}

// More than the thread has places for in its table of pools.
TEST_P(Pools, MayBeMany) {
  std::vector<std::unique_ptr<PoolUnderTest>> pools;
  std::vector<gpupool_ptr_t> blocks;
  for (size_t i = 0; i < 20; ++i) pools.push_back(std::make_unique<PoolUnderTest>(config()));
  for (int round = 0; round < 3; ++round) {
    for (auto& pool : pools) blocks.push_back(pool->malloc(2000));
  }
  for (size_t i = 0; i < blocks.size(); ++i) pools[i % pools.size()]->free(blocks[i]);
  for (auto& pool : pools) {
    EXPECT_EQ(pool->allocated(), 0u);
    EXPECT_EQ(pool->stats().all.allocated_blocks.total_allocated, 3u);
  }
}

TEST_P(Pools, OfOtherDevicesAreThere) {
  int32_t count = 0;
  const auto backend = static_cast<gpupool_backend_t>(variant().backend());
  ASSERT_TRUE(ok(gpupool_device_count(backend, &count)));
  if (variant().machine == Machine::sim) {
    EXPECT_EQ(count, 8);
  }
  for (int32_t device = 0; device < count; ++device) {
    gpupool_config_t there = config();
    there.device = device;
    gpupool_device_info_t before{};
    before.struct_size = sizeof before;
    ASSERT_TRUE(ok(gpupool_device_info(backend, device, &before)));
    EXPECT_EQ(before.device, device);
    PoolUnderTest pool(there);
    const gpupool_ptr_t block = pool.malloc(40 * kMiB);
    EXPECT_EQ(pool.info(block).device, device);
    EXPECT_EQ(pool.stats().device, device);
    if (variant().is_on_device() && variant().is_controlled() && variant().source == Source::none) {
      gpupool_device_info_t after = before;
      ASSERT_TRUE(ok(gpupool_device_info(backend, device, &after)));
      EXPECT_EQ(before.free_bytes - after.free_bytes, pool.reserved());
    }
    pool.free(block);
  }
  gpupool_config_t nowhere = config();
  for (const int32_t device : {-1, count, INT32_MAX}) {
    nowhere.device = device;
    gpupool_t* none = nullptr;
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_create(&nowhere, &none)));
    EXPECT_EQ(none, nullptr);
  }
}

TEST_P(Pools, MayGrantPeersAccess) {
  int32_t count = 0;
  ASSERT_TRUE(ok(gpupool_device_count(static_cast<gpupool_backend_t>(variant().backend()), &count)));
  if (count < 2) GTEST_SKIP() << "one device has no peers";
  std::vector<int32_t> peers = {1};
  gpupool_config_t shared = config();
  shared.peers = peers.data();
  shared.peer_count = 1;
  {
    PoolUnderTest pool(shared);
    peers[0] = 77;  // copied
    pool.free(pool.malloc(10 * kMiB));
    if (variant().machine == Machine::stand_in && variant().is_vmm()) {
      EXPECT_EQ(fake_cuda().seen().access_devices, 3u);
    }
  }
  gpupool_t* none = nullptr;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_create(&shared, &none)));
  if (variant().machine == Machine::stand_in) {
    peers[0] = 1;
    fake_cuda().set_peer_access(1, kDevice, 0);
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, gpupool_create(&shared, &none)));
  }
}

TEST_P(Pools, OfAKindHaveTheirModes) {
  gpupool_config_t automatic = config();
  if (variant().mode != GPUPOOL_MODE_UPSTREAM) automatic.mode = GPUPOOL_MODE_AUTO;
  const bool maps = variant().has_mappings() && variant().kind == GPUPOOL_KIND_DEVICE;
  const bool is_vmm = variant().mode != GPUPOOL_MODE_UPSTREAM && maps;
  PoolUnderTest pool(automatic);
  pool.free(pool.malloc(kMiB));
  EXPECT_EQ(pool.stats().driver.create.count > 0, is_vmm);
  EXPECT_EQ(pool.stats().driver.malloc.count > 0, !is_vmm);
  if (!maps && variant().mode != GPUPOOL_MODE_UPSTREAM) {
    automatic.mode = GPUPOOL_MODE_VMM;
    gpupool_t* none = nullptr;
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, gpupool_create(&automatic, &none)));
  }
}

// The upstream is the user's: it gets the stream, and its refusals and mistakes are told.
TEST(UpstreamPools, TellWhatTheUpstreamDid) {
  struct Upstream {
    gpupool_stream_t stream = 0;
    uint64_t offset = 0;
    int32_t refusal = 0;
    int live = 0;
  } upstream;
  gpupool_config_t config = empty_config();
  config.backend = GPUPOOL_BACKEND_SIM;
  config.mode = GPUPOOL_MODE_UPSTREAM;
  config.upstream_user = &upstream;
  config.upstream_malloc = [](void* user, uint64_t size, gpupool_stream_t stream, gpupool_ptr_t* out_ptr) {
    auto& self = *static_cast<Upstream*>(user);
    self.stream = stream;
    if (self.refusal != 0) return self.refusal;
    ++self.live;
    *out_ptr = reinterpret_cast<uintptr_t>(std::aligned_alloc(512, size + 512)) + self.offset;
    return 0;
  };
  config.upstream_free = [](void* user, gpupool_ptr_t ptr, uint64_t, gpupool_stream_t) {
    auto& self = *static_cast<Upstream*>(user);
    --self.live;
    std::free(reinterpret_cast<void*>(ptr - self.offset));
  };
  PoolUnderTest pool(config);
  upstream.refusal = 42;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OUT_OF_MEMORY, pool.try_malloc(1000, 5)));
  EXPECT_EQ(last_driver_code(), 42);
  EXPECT_EQ(upstream.stream, 5u);
  upstream.refusal = 0;
  upstream.offset = 8;
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, pool.try_malloc(1000, 5)));
  EXPECT_EQ(upstream.live, 0);
  EXPECT_EQ(pool.reserved(), 0u);
  upstream.offset = 0;
  pool.free(pool.malloc(1000, 5), 5);
  EXPECT_EQ(upstream.live, 1);
  pool.empty();
  EXPECT_EQ(upstream.live, 0);
}

// What overlaps a segment that is still there is not given back to the upstream: that would free the first
// one.
TEST(UpstreamPools, RefuseAddressesThatCannotBe) {
  struct Upstream {
    gpupool_ptr_t next = kGiB;
    int live = 0;
  } upstream;
  gpupool_config_t config = empty_config();
  config.backend = GPUPOOL_BACKEND_SIM;
  config.mode = GPUPOOL_MODE_UPSTREAM;
  config.upstream_user = &upstream;
  config.upstream_malloc = [](void* user, uint64_t, gpupool_stream_t, gpupool_ptr_t* out_ptr) {
    auto& self = *static_cast<Upstream*>(user);
    ++self.live;
    *out_ptr = self.next;
    return 0;
  };
  config.upstream_free = [](void* user, gpupool_ptr_t, uint64_t, gpupool_stream_t) {
    --static_cast<Upstream*>(user)->live;
  };
  PoolUnderTest pool(config);
  const gpupool_ptr_t first = pool.malloc(40 * kMiB, 5);
  EXPECT_EQ(first, kGiB);
  const uint64_t reserved = pool.reserved();
  for (const gpupool_ptr_t again : {kGiB, kGiB + 20 * kMiB, kGiB - 20 * kMiB}) {
    upstream.next = again;
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, pool.try_malloc(40 * kMiB, 5)));
    EXPECT_NE(last_message().find("overlaps"), std::string::npos) << last_message();
    EXPECT_EQ(pool.reserved(), reserved);
    pool.validate();
  }
  const int live = upstream.live;
  for (const gpupool_ptr_t beyond :
       {gpupool_ptr_t{1} << 48, (gpupool_ptr_t{1} << 48) - kMiB, ~gpupool_ptr_t{511}}) {
    upstream.next = beyond;
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNSUPPORTED, pool.try_malloc(40 * kMiB, 5)));
    EXPECT_NE(last_message().find("2^48"), std::string::npos) << last_message();
    EXPECT_EQ(upstream.live, live) << "it got back what cannot be used";
  }
  pool.free(first, 5);
  pool.validate();
}

// On a device of its own: a default pool stays until the process ends.
TEST(Log, TellsOfPoolsAndFailures) {
  std::vector<std::pair<int32_t, std::string>> lines;
  const auto receive = [](void* user, int32_t level, const char* message) {
    static_cast<std::vector<std::pair<int32_t, std::string>>*>(user)->emplace_back(level, message);
  };
  ASSERT_TRUE(ok(gpupool_set_log(receive, &lines, GPUPOOL_LOG_INFO)));
  {
    gpupool_config_t config = empty_config();
    config.backend = GPUPOOL_BACKEND_SIM;
    config.limit_bytes = 4 * kMiB;
    PoolUnderTest pool(config);
    EXPECT_FALSE(lines.empty()) << "a pool was created";
    lines.clear();
    EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(64 * kMiB)));
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0].first, GPUPOOL_LOG_WARNING);
    const std::string message = last_message();
    EXPECT_NE(message.find('\n'), std::string::npos);
    EXPECT_EQ(lines[0].second, "GPUPOOL_ERROR_OVER_LIMIT: " + message.substr(0, message.find('\n')));
    lines.clear();
    ASSERT_TRUE(ok(gpupool_set_log(receive, &lines, GPUPOOL_LOG_ERROR)));
    EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(64 * kMiB)));
    EXPECT_TRUE(lines.empty());
  }
  ASSERT_TRUE(ok(gpupool_set_log(nullptr, nullptr, GPUPOOL_LOG_OFF)));
}

TEST(DefaultPool, IsOneForAllThreads) {
  setenv("GPUPOOL_BACKEND", "sim", 1);
  constexpr int32_t kDevice = 7;
  std::vector<gpupool_t*> seen(8);
  std::vector<std::thread> threads;
  for (gpupool_t*& pool : seen) {
    threads.emplace_back([&pool] {
      EXPECT_TRUE(ok(gpupool_default_pool(kDevice, &pool)));
      gpupool_ptr_t block = 0;
      EXPECT_TRUE(ok(gpupool_malloc(pool, 1000, 0, &block)));
      EXPECT_TRUE(ok(gpupool_free(pool, block, 0)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const gpupool_t* pool : seen) EXPECT_EQ(pool, seen[0]);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_destroy(seen[0])));
  gpupool_ptr_t block = 0;
  EXPECT_TRUE(ok(gpupool_malloc(seen[0], 1000, 0, &block)));
  EXPECT_TRUE(ok(gpupool_free(seen[0], block, 0)));

  gpupool_t* other = nullptr;
  EXPECT_TRUE(ok(gpupool_default_pool(kDevice - 1, &other)));
  EXPECT_NE(other, seen[0]);
  for (const int32_t device : {-1, 8, 1000}) {
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_default_pool(device, &other)));
    EXPECT_EQ(other, nullptr);
  }
  unsetenv("GPUPOOL_BACKEND");
}

}  // namespace
}  // namespace pool_test
