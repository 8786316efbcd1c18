// SPDX-License-Identifier: Apache-2.0
// Scripted failures: of any call, at any occurrence, with no effect but the price.
#include <functional>
#include <vector>

#include "sim_fixture.hpp"

namespace gpupool::internal {
namespace {

class SimScriptTest : public SimTest {
 protected:
  void SetUp() override { restart_without_data(); }
  Status script(const char* text) { return sim_script(kOrdinal, text); }
  Status create_one() {
    ChunkHandle chunk = 0;
    return device->create_chunk(kChunk, chunk);
  }
};

TEST_F(SimScriptTest, FailsTheOccurrenceThatIsNamed) {
  ASSERT_EQ(script("create:2,create:4=out_of_memory,create:5=error"), kSuccess);
  EXPECT_EQ(create_one(), kSuccess);
  EXPECT_EQ(create_one(), GPUPOOL_ERROR_DRIVER);
  EXPECT_EQ(last_error().driver_code, 999);
  EXPECT_NE(std::string(last_error().message).find("create number 2"), std::string::npos)
      << last_error().message;
  EXPECT_EQ(create_one(), kSuccess);
  EXPECT_EQ(create_one(), GPUPOOL_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(last_error().driver_code, 2);
  EXPECT_EQ(create_one(), GPUPOOL_ERROR_DRIVER);
  EXPECT_EQ(create_one(), kSuccess);
  EXPECT_EQ(fault_count(), 0U) << "a scripted failure is nobody's fault";
}

TEST_F(SimScriptTest, StarFailsEveryOneAndNumbersComeFirst) {
  ASSERT_EQ(script("create:*,create:2=out_of_memory"), kSuccess);
  EXPECT_EQ(create_one(), GPUPOOL_ERROR_DRIVER);
  EXPECT_EQ(create_one(), GPUPOOL_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(create_one(), GPUPOOL_ERROR_DRIVER);
  ASSERT_EQ(script(""), kSuccess);
  EXPECT_EQ(create_one(), kSuccess);
}

TEST_F(SimScriptTest, KillEndsTheProcessAtThatCall) {
  EXPECT_EXIT(
      {
        restart_without_data();  // a child of fork has devices of its own
        (void)script("create:2=kill");
        if (create_one() != kSuccess) _exit(1);
        (void)create_one();
        _exit(2);
      },
      testing::KilledBySignal(SIGKILL), "");
}

TEST_F(SimScriptTest, CountsFromTheMomentItIsSet) {
  EXPECT_EQ(create_one(), kSuccess);
  ASSERT_EQ(script("create:1"), kSuccess);
  EXPECT_EQ(create_one(), GPUPOOL_ERROR_DRIVER);
  EXPECT_EQ(create_one(), kSuccess);
  ASSERT_EQ(script("create:1"), kSuccess);
  EXPECT_EQ(create_one(), GPUPOOL_ERROR_DRIVER);
}

TEST_F(SimScriptTest, BadScriptsNameThePartAndChangeNothing) {
  ASSERT_EQ(script("create:2"), kSuccess);
  EXPECT_EQ(create_one(), kSuccess);
  const std::pair<const char*, const char*> bad[] = {
      {"create", "'create'"},
      {"create:", "'create:'"},
      {"create:0", "'create:0'"},
      {"create:x", "'create:x'"},
      {"create:1x", "'create:1x'"},
      {"create:-1", "'create:-1'"},
      {"create:99999999999999999999", "'create:99999999999999999999'"},
      {"create:1=bad", "'create:1=bad'"},
      {"create:1=", "'create:1='"},
      {"make:1", "'make:1'"},
      {":1", "':1'"},
      {"map:1,oops:2,unmap:3", "'oops:2'"},
      {"map:1,", "''"},
      {",map:1", "''"},
      {"map:1,,map:2", "''"},
      {" map:1", "' map:1'"},
      {"CREATE:1", "'CREATE:1'"},
  };
  for (const auto& [text, part] : bad) {
    EXPECT_EQ(script(text), GPUPOOL_ERROR_INVALID_ARGUMENT) << text;
    EXPECT_NE(std::string(last_error().message).find(part), std::string::npos) << last_error().message;
  }
  EXPECT_EQ(script(std::string(kMiB, 'x').c_str()), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_LE(own_length(last_error().message), kMessageLength);
  EXPECT_EQ(script(nullptr), GPUPOOL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create_one(), GPUPOOL_ERROR_DRIVER) << "the old script is still in force, with its count";
}

/// Every call of the interface that has a name in scripts, in a state in which it would succeed.
TEST_F(SimScriptTest, EveryCallCanFailAndThenDoesNothing) {
  const Address base = reserve(4 * kChunk);
  const ChunkHandle chunk = create();
  map(base, chunk);
  const ChunkHandle spare = create();
  EXPECT_EQ(device->map(base + kChunk, kChunk, spare), kSuccess);
  Address block = 0;
  ASSERT_EQ(device->allocate(Kind::device, kChunk, 0, block), kSuccess);
  Stream stream = 0;
  ASSERT_EQ(device->create_stream(stream), kSuccess);
  ASSERT_EQ(work(1, 0, 0, 1'000'000'000), kSuccess);
  const Event event = record(1);

  uint64_t out = 4711;
  bool flag = true;
  struct Row {
    const char* name;
    std::function<Status()> call;
  };
  const std::vector<Row> rows = {
      {"address", [&] { return device->reserve_addresses(kChunk, out); }},
      {"create", [&] { return device->create_chunk(kChunk, out); }},
      {"map", [&] { return device->map(base + 2 * kChunk, kChunk, chunk); }},
      {"set_access", [&] { return device->set_access(base + kChunk, kChunk); }},
      {"unmap", [&] { return device->unmap(base + kChunk, kChunk); }},
      {"release", [&] { return device->release_chunk(spare); }},
      {"malloc", [&] { return device->allocate(Kind::device, kChunk, 0, out); }},
      {"free", [&] { return device->deallocate(Kind::device, block, kChunk, 0); }},
      {"event_record", [&] { return device->record(1, 0, out); }},
      {"query", [&] { return device->query(event, flag); }},
      {"query", [&] { return device->is_capturing(1, flag); }},
      {"query", [&] { return device->capture_id(1, out); }},
      {"stream_wait", [&] { return device->wait(2, event); }},
      {"host_wait", [&] { return device->synchronize(event); }},
      {"host_wait", [&] { return device->synchronize_stream(1); }},
  };
  const uint64_t free_before = free_memory();
  for (const Row& row : rows) {
    for (const auto& [error, status] : {std::pair{"=out_of_memory", GPUPOOL_ERROR_OUT_OF_MEMORY},
                                        {"=error", GPUPOOL_ERROR_DRIVER},
                                        {"", GPUPOOL_ERROR_DRIVER}}) {
      ASSERT_EQ(script((std::string(row.name) + ":1" + error).c_str()), kSuccess);
      const uint64_t before = device->now_ns();
      EXPECT_EQ(row.call(), status) << row.name;
      EXPECT_NE(std::string(last_error().message).find(row.name), std::string::npos);
      EXPECT_GT(device->now_ns(), before) << row.name << " costs its price";
      EXPECT_LT(device->now_ns(), 500'000'000U) << row.name << " did not wait";
    }
  }
  ASSERT_EQ(script(""), kSuccess);
  EXPECT_EQ(out, 4711U);
  EXPECT_TRUE(flag);
  EXPECT_EQ(free_memory(), free_before);
  EXPECT_TRUE(idle(2)) << "the wait had no effect";
  EXPECT_EQ(work(3, base + kChunk, 1, 0), GPUPOOL_ERROR_DRIVER) << "nor set_access";
  for (const Row& row : rows) EXPECT_EQ(row.call(), kSuccess) << row.name << last_error().message;
  ASSERT_EQ(script("address:1"), kSuccess);
  EXPECT_EQ(device->release_addresses(base, 4 * kChunk), GPUPOOL_ERROR_DRIVER);
  EXPECT_EQ(last_error().driver_code, 999);
}

}  // namespace
}  // namespace gpupool::internal
