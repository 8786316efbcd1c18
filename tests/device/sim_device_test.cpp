// SPDX-License-Identifier: Apache-2.0
// Opening and configuring devices, the environment, fork and threads.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

#include "device/sim/clock.hpp"
#include "device/sim/settings.hpp"
#include "sim_fixture.hpp"

namespace gpupool::internal {
namespace {

using SimDeviceTest = SimTest;

/// Runs check in a child of fork, whose devices are new; whether it returned true.
template <class Check>
bool holds_in_child(Check&& check) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(check() ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(SimDeviceTest, DescribesItself) {
  const DeviceInfo& info = device->info();
  EXPECT_EQ(info.backend, GPUPOOL_BACKEND_SIM);
  EXPECT_EQ(info.ordinal, kOrdinal);
  EXPECT_EQ(info.capabilities, uint32_t{GPUPOOL_CAPABILITY_VMM | GPUPOOL_CAPABILITY_MANAGED});
  EXPECT_EQ(info.total, 150754820096U);
  EXPECT_EQ(info.granularity, 2 * kMiB);
  EXPECT_EQ(info.driver_version, 0);
  EXPECT_EQ(info.compute_capability, 90);
  EXPECT_STREQ(info.name, "gpupool simulated device");
  EXPECT_EQ(free_memory(), 150754820096U);
}

TEST_F(SimDeviceTest, OneNumberIsOneDevice) {
  std::unique_ptr<Device> again;
  std::unique_ptr<Device> other;
  ASSERT_EQ(open_sim(kOrdinal, again), kSuccess);
  ASSERT_EQ(open_sim(7, other), kSuccess);
  EXPECT_EQ(other->info().ordinal, 7);
  create();
  uint64_t free = 0;
  EXPECT_EQ(again->free_memory(free), kSuccess);
  EXPECT_EQ(free, device->info().total - kChunk);
  EXPECT_EQ(again->now_ns(), device->now_ns());
  EXPECT_EQ(other->free_memory(free), kSuccess);
  EXPECT_EQ(free, other->info().total);
}

TEST_F(SimDeviceTest, UnknownNumbersAreRefused) {
  std::unique_ptr<Device> none;
  gpupool_sim_config_t config = {};
  uint64_t count = 0;
  for (const int32_t ordinal : {-1, kSimDeviceCount, std::numeric_limits<int32_t>::max()}) {
    EXPECT_EQ(open_sim(ordinal, none), GPUPOOL_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(sim_configure(ordinal, config), GPUPOOL_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(sim_script(ordinal, ""), GPUPOOL_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(sim_work(ordinal, 1, 0, 0, 1), GPUPOOL_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(sim_advance(ordinal, 1), GPUPOOL_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(sim_capture(ordinal, 1, true), GPUPOOL_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(sim_launch(ordinal, 1, 1), GPUPOOL_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(sim_faults(ordinal, count, nullptr, 0), GPUPOOL_ERROR_INVALID_ARGUMENT);
  }
}

TEST_F(SimDeviceTest, ConfiguringNeedsADeviceThatNobodyUses) {
  gpupool_sim_config_t config = {};
  config.capacity_bytes = kGiB;
  std::unique_ptr<Device> again;
  ASSERT_EQ(open_sim(kOrdinal, again), kSuccess);
  EXPECT_EQ(sim_configure(kOrdinal, config), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(last_error().message).find("in use"), std::string::npos);
  device.reset();
  EXPECT_EQ(sim_configure(kOrdinal, config), GPUPOOL_ERROR_INVALID_ARGUMENT) << "one is still open";
  again.reset();
  EXPECT_EQ(sim_configure(kOrdinal, config), kSuccess);
  ASSERT_EQ(open_sim(kOrdinal, device), kSuccess);
  EXPECT_EQ(device->info().total, kGiB);
  EXPECT_EQ(free_memory(), kGiB);
}

TEST_F(SimDeviceTest, ConfigurationsOutOfRangeAreRefused) {
  device.reset();
  const auto refused = [](auto&& change) {
    gpupool_sim_config_t config = {};
    change(config);
    return sim_configure(kOrdinal, config);
  };
  EXPECT_EQ(refused([](auto& c) { c.data = 3; }), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& c) { c.capacity_bytes = kMiB; }), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& c) { c.capacity_bytes = ~uint64_t{0}; }), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& c) { c.price_scale = -1; }), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& c) { c.price_scale = std::numeric_limits<double>::quiet_NaN(); }),
            GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& c) { c.price_scale = std::numeric_limits<double>::infinity(); }),
            GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& c) { c.streams = 3; }), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& c) { c.reserved0 = 1; }), GPUPOOL_ERROR_UNSUPPORTED);
  EXPECT_EQ(refused([](auto& c) { c.reserved[1] = 1; }), GPUPOOL_ERROR_UNSUPPORTED);
  EXPECT_EQ(refused([](auto& c) { c.data = 1; }), kSuccess);
}

TEST_F(SimDeviceTest, StateStaysUntilConfigured) {
  create();
  expect_fault(work(1, 0, 1, 1), 700, "unmapped address");
  device.reset();
  EXPECT_EQ(fault_count(), 1U);
  ASSERT_EQ(open_sim(kOrdinal, device), kSuccess);
  EXPECT_EQ(free_memory(), device->info().total - kChunk) << "a leak stays visible";
}

TEST(SimSettingsTest, ReadsTheEnvironmentsLanguage) {
  SimSettings settings;
  EXPECT_EQ(sim_settings_from("capacity=8GiB,data=0,price_scale=2.5", settings), kSuccess);
  EXPECT_EQ(settings.capacity, 8 * kGiB);
  EXPECT_FALSE(settings.data);
  EXPECT_EQ(settings.price_scale, 2.5);
  EXPECT_EQ(sim_settings_from("data=1", settings), kSuccess);
  EXPECT_EQ(settings.capacity, SimSettings{}.capacity) << "what is not named is the default";
  EXPECT_TRUE(settings.data);
  for (const auto& [text, size] : {std::pair{"capacity=4194304", 4 * kMiB},
                                   {"capacity=4096KiB", 4 * kMiB},
                                   {"capacity=5MiB", 5 * kMiB},
                                   {"capacity=1.5g", 3 * kGiB / 2},
                                   {"capacity=8GB", 8'000'000'000},
                                   {"capacity=64TiB", 64 * kTiB}}) {
    EXPECT_EQ(sim_settings_from(text, settings), kSuccess) << text;
    EXPECT_EQ(settings.capacity, size) << text;
  }
  EXPECT_EQ(sim_settings_from("", settings), kSuccess);

  settings.capacity = 12;
  for (const char* text : {"capacity",       "capacity=",  "capacity=GiB",   "capacity=40%",
                           "capacity=-1",    "capacity=1", "capacity=65TiB", "capacity=16777217TiB",
                           "data=2",         "data=",      "price_scale=0",  "price_scale=nan",
                           "price_scale=-1", "size=8GiB",  "data=1,,data=1", ",data=1",
                           "streams",        "streams=1",  "streams=loose",  "time=fast"}) {
    EXPECT_EQ(sim_settings_from(text, settings), GPUPOOL_ERROR_INVALID_ARGUMENT) << text;
    EXPECT_EQ(settings.capacity, 12U) << text;
  }
  EXPECT_EQ(sim_settings_from("data=0,capacity=8QiB", settings), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(last_error().message,
               "GPUPOOL_SIM: 'capacity=8QiB' is not capacity= and a size from 2MiB to 64TiB");
  EXPECT_EQ(sim_settings_from("data=0,size=8GiB", settings), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(last_error().message,
               "GPUPOOL_SIM: 'size=8GiB' is none of capacity=, host=, data=, integrated=, price_scale=, "
               "streams= and time=");
  for (const char* key : {"", "capacity=", "data="}) {
    EXPECT_EQ(sim_settings_from(key + std::string(kMiB, '1'), settings), GPUPOOL_ERROR_INVALID_ARGUMENT);
    EXPECT_LE(own_length(last_error().message), kMessageLength) << last_error().message;
  }
  EXPECT_EQ(sim_settings_from("integrated=1", settings), kSuccess);
  EXPECT_TRUE(settings.is_integrated);
  EXPECT_EQ(sim_settings_from("data=0,streams=strict", settings), kSuccess);
  EXPECT_TRUE(settings.strict_streams);
  EXPECT_EQ(sim_settings_from("streams=any", settings), kSuccess);
  EXPECT_FALSE(settings.strict_streams);
  EXPECT_EQ(sim_settings_from("time=real", settings), kSuccess);
  EXPECT_TRUE(settings.real_time);
  EXPECT_EQ(sim_settings_from("time=virtual", settings), kSuccess);
  EXPECT_FALSE(settings.real_time);
}

TEST(SimClockTest, InRealTimeCallsTakeWhatTheyCost) {
  const auto started = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    const auto now = std::chrono::steady_clock::now();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now - started).count());
  };
  SimClock clock(2, true);
  for (int i = 0; i < 10; ++i) clock.charge(50'000);  // twice that, each
  clock.advance(2'000'000);
  EXPECT_GE(elapsed(), 3'000'000U);
  EXPECT_GE(clock.now(), 3'000'000U);
  clock.advance_to(1'000'000);  // has passed
  const uint64_t before = clock.now();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GE(clock.now(), before + 1'000'000) << "time goes on by itself";
}

TEST_F(SimDeviceTest, TheEnvironmentCountsAtFirstUse) {
  EXPECT_TRUE(holds_in_child([] {
    setenv("GPUPOOL_SIM", "capacity=6MiB,data=0", 1);
    std::unique_ptr<Device> opened;
    ChunkHandle chunk = 0;
    return open_sim(3, opened) == kSuccess && opened->info().total == 6 * kMiB &&
           opened->create_chunk(8 * kMiB, chunk) == GPUPOOL_ERROR_OUT_OF_MEMORY &&
           opened->copy(0, 0, 0, 1) == GPUPOOL_ERROR_UNSUPPORTED;
  }));
  EXPECT_TRUE(holds_in_child([] {
    setenv("GPUPOOL_SIM", "capacity=6MiB,data=0", 1);
    gpupool_sim_config_t config{};
    config.struct_size = sizeof config;
    config.data = 1;
    std::unique_ptr<Device> opened;
    if (sim_configure(3, config) != kSuccess || open_sim(3, opened) != kSuccess) return false;
    return opened->info().total == 6 * kMiB && opened->copy(0, 0, 0, 1) != GPUPOOL_ERROR_UNSUPPORTED;
  })) << "what a configuration leaves open";
  EXPECT_TRUE(holds_in_child([] {
    setenv("GPUPOOL_SIM", "bad", 1);
    std::unique_ptr<Device> opened;
    return open_sim(3, opened) == GPUPOOL_ERROR_INVALID_ARGUMENT && opened == nullptr &&
           std::strstr(last_error().message, "'bad'") != nullptr;
  }));
}

TEST_F(SimDeviceTest, AChildHasNewDevices) {
  const Address inherited = usable();
  reinterpret_cast<uint8_t*>(inherited)[0] = 5;
  expect_fault(work(1, 0, 1, 1), 700, "unmapped address");
  EXPECT_TRUE(holds_in_child([&] {
    std::unique_ptr<Device> opened;
    uint64_t free = 0;
    uint64_t count = 1;
    Address base = 0;
    ChunkHandle chunk = 0;
    if (open_sim(kOrdinal, opened) != kSuccess || sim_faults(kOrdinal, count, nullptr, 0) != kSuccess)
      return false;
    if (opened->free_memory(free) != kSuccess || free != opened->info().total || count != 0) return false;
    if (opened->reserve_addresses(kChunk, base) != kSuccess || base == inherited) return false;
    if (opened->create_chunk(kChunk, chunk) != kSuccess || opened->map(base, kChunk, chunk) != kSuccess ||
        opened->set_access(base, kChunk) != kSuccess) {
      return false;
    }
    reinterpret_cast<uint8_t*>(base)[0] = 7;
    return true;
  }));
  EXPECT_EQ(reinterpret_cast<uint8_t*>(inherited)[0], 5) << "the child's memory is its own";
  EXPECT_EQ(fault_count(), 1U);
}

/// Others hold the locks of the devices nearly always, one or all of them.
TEST_F(SimDeviceTest, ForkWhileOthersUseTheDevice) {
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) device->recycle(record(1));
  });
  std::thread worker([&] {
    const Address address = reserve(kChunk);
    const ChunkHandle chunk = create();
    while (!stop) {
      map(address, chunk);
      EXPECT_EQ(device->fill(address, 1, kChunk, 2), kSuccess);
      EXPECT_EQ(device->synchronize_stream(2), kSuccess);
      EXPECT_EQ(device->unmap(address, kChunk), kSuccess);
    }
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(holds_in_child([] {
      alarm(20);
      std::unique_ptr<Device> opened;
      Event event = 0;
      return open_sim(kOrdinal, opened) == kSuccess && opened->record(1, 0, event) == kSuccess;
    }));
  }
  stop = true;
  other.join();
  worker.join();
}

TEST_F(SimDeviceTest, ThreadsShareADevice) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      const auto stream = static_cast<Stream>(t);
      const Address base = reserve(2 * kChunk);
      uint64_t clock = 0;
      for (int i = 0; i < kRounds; ++i) {
        const ChunkHandle chunk = create();
        map(base, chunk);
        EXPECT_EQ(device->fill(base, static_cast<uint8_t>(t), 4096, stream), kSuccess);
        EXPECT_EQ(device->synchronize(record(stream)), kSuccess);
        EXPECT_EQ(*reinterpret_cast<uint8_t*>(base), t);
        EXPECT_EQ(device->unmap(base, kChunk), kSuccess);
        EXPECT_EQ(device->release_chunk(chunk), kSuccess);
        EXPECT_GT(device->now_ns(), clock);
        clock = device->now_ns();
        std::unique_ptr<Device> again;
        EXPECT_EQ(open_sim(kOrdinal, again), kSuccess);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fault_count(), 0U) << last_fault();
  EXPECT_EQ(free_memory(), device->info().total);
}

}  // namespace
}  // namespace gpupool::internal
