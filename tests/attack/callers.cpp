// SPDX-License-Identifier: Apache-2.0
// Mistakes of callers (findings D10, D11, D15): handlers that call back, faulty upstreams, invalid limits,
// threads that use the pool while they end, streams that cannot be queried.
#include <pthread.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <thread>

#include "attack/lab.hpp"

namespace attack {
namespace {

constexpr int32_t kDevice = 4;

class Callers : public testing::Test {
 protected:
  void SetUp() override { configure_device(kDevice, kAddressesOnly, kGiB); }
};

// ---- handlers

struct Recursion {
  int depth = 0;
  int deepest = 0;
  int calls = 0;
  int freed = 0;
  std::vector<gpupool_ptr_t> to_free;
};

/// Asks the pool that is short of memory for memory; gives a block up where it was asked first.
int32_t malloc_again(void* user, gpupool_t* pool, uint64_t size, uint32_t) {
  auto& self = *static_cast<Recursion*>(user);
  ++self.calls;
  self.deepest = std::max(self.deepest, ++self.depth);
  int32_t again = 0;
  if (self.depth < 1000) {  // else the stack is about to end
    gpupool_ptr_t block = 0;
    EXPECT_NE(gpupool_malloc(pool, size, 11, &block), GPUPOOL_SUCCESS);
    EXPECT_EQ(block, 0u);
  }
  if (self.depth == 1 && !self.to_free.empty()) {
    EXPECT_TRUE(ok(gpupool_free(pool, self.to_free.back(), 11)));
    self.to_free.pop_back();
    ++self.freed;
    again = 1;
  }
  --self.depth;
  return again;
}

TEST_F(Callers, MayMallocInTheHandlerOfTheSamePool) {
  gpupool_config_t config = sim_config(kDevice);
  config.limit_bytes = 64 * kMiB;
  PoolUnderTest pool(config);
  Recursion recursion;
  ASSERT_TRUE(ok(gpupool_set_oom_handler(pool, malloc_again, &recursion)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(80 * kMiB, 11)));
  EXPECT_LE(recursion.deepest, 8);
  EXPECT_GE(recursion.calls, 1);
  EXPECT_LE(recursion.calls, 64);

  // What the handler is for still works: each time it is asked it frees a block.
  recursion = {};
  for (int i = 0; i < 3; ++i) recursion.to_free.push_back(pool.malloc(20 * kMiB, 11));
  const gpupool_ptr_t block = pool.malloc(60 * kMiB, 11);
  EXPECT_EQ(recursion.freed, 3);
  EXPECT_LE(recursion.deepest, 8);
  EXPECT_EQ(recursion.depth, 0);
  pool.free(block, 11);
  pool.validate();
}

struct Chain {
  std::vector<gpupool_t*> pools;
  int depth = 0;
  int deepest = 0;
};

/// Asks the next pool of a ring, whose handler does the same.
int32_t malloc_from_next(void* user, gpupool_t* pool, uint64_t size, uint32_t) {
  auto& self = *static_cast<Chain*>(user);
  self.deepest = std::max(self.deepest, ++self.depth);
  if (self.depth < 1000) {
    const size_t number =
        static_cast<size_t>(std::find(self.pools.begin(), self.pools.end(), pool) - self.pools.begin());
    gpupool_ptr_t block = 0;
    EXPECT_NE(gpupool_malloc(self.pools[(number + 1) % self.pools.size()], size, 11, &block),
              GPUPOOL_SUCCESS);
  }
  --self.depth;
  return 0;
}

TEST_F(Callers, MayMallocInARingOfHandlers) {
  gpupool_config_t config = sim_config(kDevice);
  config.limit_bytes = 64 * kMiB;
  PoolUnderTest first(config);
  PoolUnderTest second(config);
  Chain chain{{first, second}};
  for (gpupool_t* const pool : chain.pools) {
    ASSERT_TRUE(ok(gpupool_set_oom_handler(pool, malloc_from_next, &chain)));
  }
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, first.try_malloc(80 * kMiB, 11)));
  EXPECT_LE(chain.deepest, 16);
}

// ---- upstreams

/// Hands out what it is told to.
struct Upstream {
  uint64_t next = uint64_t{1} << 46;
  uint64_t forced = 0;  // the next address, whatever was handed out
  std::set<uint64_t> held;
  std::vector<uint64_t> taken_back;
};

int32_t upstream_malloc(void* user, uint64_t size, gpupool_stream_t, gpupool_ptr_t* out) {
  auto& self = *static_cast<Upstream*>(user);
  *out = self.forced != 0 ? self.forced : self.next;
  if (self.forced == 0) self.next += (size + kGiB) / kGiB * kGiB;
  self.forced = 0;
  self.held.insert(*out);
  return 0;
}

void upstream_free(void* user, gpupool_ptr_t address, uint64_t, gpupool_stream_t) {
  auto& self = *static_cast<Upstream*>(user);
  self.taken_back.push_back(address);
  self.held.erase(address);
}

gpupool_config_t with_upstream(Upstream& upstream) {
  gpupool_config_t config = sim_config(kDevice);
  config.mode = GPUPOOL_MODE_UPSTREAM;
  config.upstream_malloc = upstream_malloc;
  config.upstream_free = upstream_free;
  config.upstream_user = &upstream;
  return config;
}

TEST_F(Callers, AreToldOfAnUpstreamThatRepeatsItself) {
  for (const uint64_t offset : {uint64_t{0}, 4 * kMiB}) {
    Upstream upstream;
    PoolUnderTest pool(with_upstream(upstream));
    const gpupool_ptr_t first = pool.malloc(40 * kMiB, 11);
    const uint64_t reserved = pool.reserved();
    upstream.forced = *upstream.held.begin() + offset;  // the same segment, or one that overlaps it
    gpupool_ptr_t second = 0;
    EXPECT_NE(pool.try_malloc(40 * kMiB, 11, second), GPUPOOL_SUCCESS) << "offset " << offset;
    EXPECT_NE(last_message(), "");
    pool.validate();
    EXPECT_EQ(pool.reserved(), reserved);
    EXPECT_EQ(pool.allocated(), 40 * kMiB);
    // The block that was there first is as it was, and so is the pool.
    EXPECT_EQ(pool.info(first + 39 * kMiB).address, first);
    EXPECT_EQ(std::count(upstream.taken_back.begin(), upstream.taken_back.end(), first), 0)
        << "the memory of a live block was given back";
    pool.free(pool.malloc(40 * kMiB, 11), 11);
    pool.free(first, 11);
    EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, first, 11)));
    pool.empty();
    EXPECT_EQ(pool.reserved(), 0u);
  }
}

TEST_F(Callers, AreToldOfAddressesThatNoDeviceHas) {
  for (const uint64_t address : {uint64_t{1} << 48, (uint64_t{1} << 48) - kMiB, ~uint64_t{0} - kMiB + 1}) {
    Upstream upstream;
    PoolUnderTest pool(with_upstream(upstream));
    upstream.forced = address;
    EXPECT_NE(pool.try_malloc(40 * kMiB, 11), GPUPOOL_SUCCESS);
    const std::string message = last_message();
    EXPECT_EQ(message.find("aligned"), std::string::npos) << message;
    EXPECT_NE(message.find("48"), std::string::npos)
        << "it should say that addresses end at 2^48: " << message;
    EXPECT_EQ(pool.reserved(), 0u);
    pool.validate();
    pool.free(pool.malloc(40 * kMiB, 11), 11);
  }
}

// ---- threads that end

gpupool_t* pool_of_destructors = nullptr;
pthread_key_t late_key;

/// Uses the pool, and asks to be called again: the C library does so a few times.
void use_late(void* rounds) {
  gpupool_ptr_t block = 0;
  EXPECT_TRUE(ok(gpupool_malloc(pool_of_destructors, 2000, 11, &block)));
  EXPECT_TRUE(ok(gpupool_free(pool_of_destructors, block, 11)));
  const auto left = reinterpret_cast<uintptr_t>(rounds) - 1;
  if (left != 0) pthread_setspecific(late_key, reinterpret_cast<void*>(left));
}

TEST_F(Callers, MayUseAPoolWhileTheirThreadsEnd) {
  PoolUnderTest pool(sim_config(kDevice));
  pool_of_destructors = pool;
  // The library's own key comes first, so that its destructor runs before ours in each round.
  std::thread([&] { pool.free(pool.malloc(1000, 11), 11); }).join();
  for (const uintptr_t rounds : {1U, 3U, 100U}) {
    SCOPED_TRACE(std::to_string(rounds) + " rounds of destructors");
    ASSERT_EQ(pthread_key_create(&late_key, use_late), 0);
    const auto run_threads = [&](int count) {
      for (int i = 0; i < count; ++i) {
        std::thread([&] {
          pool.free(pool.malloc(1000, 11), 11);
          pthread_setspecific(late_key, reinterpret_cast<void*>(rounds));
        }).join();
      }
    };
    run_threads(50);
    const uint64_t metadata = pool.stats().metadata_bytes;
    const uint64_t memory = memory_of_process();
    run_threads(1000);
    EXPECT_LE(pool.stats().metadata_bytes, metadata + 100 * kKiB);
    EXPECT_LE(memory_of_process(), memory + kNoise);
    EXPECT_EQ(pool.allocated(), 0u);
    pthread_key_delete(late_key);
  }
}

// ---- the default streams

/// CU_STREAM_LEGACY is the stream that 0 means, in every call: one queue, and no race with itself.
TEST_F(Callers, MeanTheSameStreamByZeroAndOne) {
  configure_device(kDevice, kWithData, kGiB);
  PoolUnderTest pool(sim_config(kDevice));
  const gpupool_ptr_t block = pool.malloc(8192, 1);
  gpupool_block_t info{};
  ASSERT_TRUE(ok(gpupool_block_info(pool, block, &info, sizeof info)));
  EXPECT_EQ(info.stream, 0u);
  for (const gpupool_stream_t stream : {gpupool_stream_t{1}, gpupool_stream_t{0}, gpupool_stream_t{1}}) {
    EXPECT_TRUE(ok(gpupool_fill(pool, block, 7, 4096, stream)));
    EXPECT_TRUE(ok(gpupool_copy(pool, block + 4096, block, 4096, stream)));
    EXPECT_TRUE(ok(gpupool_sim_work(kDevice, stream, block, 8192, 1'000'000)));
  }
  EXPECT_TRUE(ok(gpupool_stream_synchronize(pool, 1)));
  EXPECT_TRUE(has_no_faults(kDevice));
  pool.free(block, 1);
  EXPECT_EQ(gpupool_stream_destroy(pool, 1), gpupool_stream_destroy(pool, 0));
  EXPECT_NE(gpupool_stream_destroy(pool, 1), GPUPOOL_SUCCESS);
}

TEST_F(Callers, CannotUseThePerThreadDefaultStream) {
  configure_device(kDevice, kWithData, kGiB);
  PoolUnderTest pool(sim_config(kDevice));
  const gpupool_ptr_t block = pool.malloc(8192, 11);
  gpupool_ptr_t other = 0;
  uint64_t capture = 0;
  const auto refuses = [&](gpupool_status_t status) {
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, status));
    EXPECT_NE(last_message().find("stream 2 is the per-thread default stream"), std::string::npos);
  };
  refuses(gpupool_malloc(pool, 100, 2, &other));
  refuses(gpupool_malloc_aligned(pool, 100, 512, 2, &other));
  refuses(gpupool_free(pool, block, 2));
  refuses(gpupool_record_stream(pool, block, 2));
  refuses(gpupool_release_stream(pool, 2));
  refuses(gpupool_park_stream(pool, 2));
  refuses(gpupool_reserve(pool, kMiB, 2));
  refuses(gpupool_capture_id(pool, 2, &capture));
  refuses(gpupool_stream_synchronize(pool, 2));
  refuses(gpupool_stream_destroy(pool, 2));
  refuses(gpupool_fill(pool, block, 7, 4096, 2));
  refuses(gpupool_copy(pool, block + 4096, block, 4096, 2));
  refuses(gpupool_sim_work(kDevice, 2, block, 4096, 1000));
  refuses(gpupool_sim_capture(kDevice, 2, 1));
  refuses(gpupool_sim_launch(kDevice, 1, 2));
  EXPECT_TRUE(has_no_faults(kDevice));
  pool.free(block, 11);
}

// ---- streams that cannot be asked

TEST_F(Callers, CanFreeWhenNoStreamAnswers) {
  gpupool_config_t config = sim_config(kDevice);
  config.flags = GPUPOOL_FLAG_CAPTURE_AWARE;
  PoolUnderTest pool(config);
  const auto free_all = [&](std::vector<gpupool_ptr_t> blocks, gpupool_stream_t stream) {
    ASSERT_TRUE(ok(gpupool_sim_script(kDevice, "query:*")));
    for (const gpupool_ptr_t block : blocks) {
      EXPECT_TRUE(ok(gpupool_free(pool, block, stream)));
      EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, block, stream)));
    }
    EXPECT_EQ(pool.allocated(), 0u);
    ASSERT_TRUE(ok(gpupool_sim_script(kDevice, "")));
    pool.synchronize();
    EXPECT_EQ(pool.active(), 0u);
    pool.empty();
    EXPECT_EQ(pool.reserved(), 0u);
  };
  for (const gpupool_stream_t stream : {gpupool_stream_t{11}, gpupool_stream_t{12}, gpupool_stream_t{13},
                                        gpupool_stream_t{0}, kUnknownStream}) {
    SCOPED_TRACE("on stream " + std::to_string(stream));
    free_all({pool.malloc(1000, 11), pool.malloc(5 * kMiB, 11), pool.malloc(1000, 12)}, stream);
  }
  const gpupool_ptr_t recorded = pool.malloc(5 * kMiB, 11);
  pool.record_stream(recorded, 12);
  free_all({recorded}, 11);
  EXPECT_TRUE(has_no_faults(kDevice));
}

TEST_F(Callers, CanRecordWhenNoStreamAnswers) {
  gpupool_config_t config = sim_config(kDevice);
  config.flags = GPUPOOL_FLAG_CAPTURE_AWARE;
  PoolUnderTest pool(config);
  const gpupool_ptr_t block = pool.malloc(5 * kMiB, 11);
  ASSERT_TRUE(ok(gpupool_sim_work(kDevice, 12, 0, 0, 1'000'000)));
  ASSERT_TRUE(ok(gpupool_sim_script(kDevice, "query:*")));
  EXPECT_TRUE(ok(gpupool_record_stream(pool, block, 12)));
  ASSERT_TRUE(ok(gpupool_sim_script(kDevice, "")));
  pool.free(block, 11);
  EXPECT_EQ(pool.active(), 5 * kMiB) << "stream 12 is still using it";
}

// ---- limits that are none

TEST_F(Callers, CannotSetFractionsThatAreNone) {
  PoolUnderTest pool(sim_config(kDevice));
  pool.set_limit(100 * kMiB);
  for (const double fraction :
       {1e-300, 1e-320, 1e-10, -0.1, 1.0000001, 0.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_set_fraction(pool, fraction))) << fraction;
    EXPECT_NE(last_message().find("fraction"), std::string::npos) << last_message();
    EXPECT_EQ(pool.stats().limit_bytes, 100 * kMiB);
    if (fraction == 0) continue;  // in a configuration: no such limit
    gpupool_config_t config = sim_config(kDevice);
    config.fraction = fraction;
    gpupool_t* other = nullptr;
    EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_create(&config, &other))) << fraction;
    EXPECT_EQ(other, nullptr);
  }
}

/// What gpupool_default_pool comes to in a process of its own, with a variable of the environment.
void expect_default_pool(const char* variable, const char* value, gpupool_status_t expected) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    setenv("GPUPOOL_BACKEND", "sim", 1);
    setenv(variable, value, 1);
    gpupool_t* pool = nullptr;
    const gpupool_status_t status = gpupool_default_pool(0, &pool);
    const bool names_it = last_message().find(variable) != std::string::npos;
    const bool good = status == expected && (status == GPUPOOL_SUCCESS || names_it);
    if (!good) std::fprintf(stderr, "%s: %s\n", gpupool_status_name(status), last_message().c_str());
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << variable << "=\"" << value << '"';
}

TEST(Environment, RefusesLimitsThatAreNone) {
  for (const char* const text : {"99999999999999999999999", " -5", "-5", "0", "0%", "1e400", "nan", "inf",
                                 "8 apples", "101%", "18446744073709551616", "0x10", "1.5.5", "%", "GiB"}) {
    expect_default_pool("GPUPOOL_LIMIT", text, GPUPOOL_ERROR_INVALID_ARGUMENT);
  }
  for (const char* const text : {"1e-320", "0", "-1", "1.1", "nan", "half", "0,5", "200%"}) {
    expect_default_pool("GPUPOOL_FRACTION", text, GPUPOOL_ERROR_INVALID_ARGUMENT);
  }
  expect_default_pool("GPUPOOL_LIMIT", "8GiB", GPUPOOL_SUCCESS);
  expect_default_pool("GPUPOOL_LIMIT", " 40% ", GPUPOOL_SUCCESS);
  expect_default_pool("GPUPOOL_FRACTION", "0.5", GPUPOOL_SUCCESS);
}

}  // namespace
}  // namespace attack
