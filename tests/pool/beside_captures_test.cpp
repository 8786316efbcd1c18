// SPDX-License-Identifier: Apache-2.0
// What a pool does while another thread captures on a stream that it knows: whatever is called, the capture
// goes on. The simulated device and the stand-in driver count each question from a foreign thread.
#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "pool/contract.hpp"

namespace pool_test {
namespace {

class BesideCaptures : public Contract {
 protected:
  void begin(gpupool_stream_t stream) {
    if (variant().machine == Machine::sim) {
      EXPECT_TRUE(ok(gpupool_sim_capture(kDevice, stream, 2)));
    } else {
      fake_cuda().begin_capture(stream, 0);  // CU_STREAM_CAPTURE_MODE_GLOBAL
    }
  }
  void end(gpupool_stream_t stream) {
    if (variant().machine == Machine::sim) {
      EXPECT_TRUE(ok(gpupool_sim_capture(kDevice, stream, 0)));
      expect_no_faults();
    } else {
      EXPECT_EQ(fake_cuda().end_capture(stream), 1) << "a call of another thread ended the capture";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(On, BesideCaptures, testing::ValuesIn(controlled_variants()), name_of);

TEST_P(BesideCaptures, AnythingMayBeCalledFromOtherThreads) {
  for (const uint32_t flags : {uint32_t{0}, uint32_t{GPUPOOL_FLAG_CAPTURE_AWARE}}) {
    gpupool_config_t config = config_with_limit(8 * kBlock);
    config.flags = flags;
    PoolUnderTest pool(config);
    const gpupool_stream_t captured = new_stream();
    const gpupool_stream_t other = new_stream();
    pool.free(pool.malloc(512, other), other);
    pool.free(pool.malloc(kBlock, captured), captured);
    const gpupool_ptr_t shared = pool.malloc(kBlock, other);
    pool.record_stream(shared, captured);
    std::barrier step(2);
    std::thread capturer([&] {
      begin(captured);
      step.arrive_and_wait();  // others are at it now
      step.arrive_and_wait();
      end(captured);
      step.arrive_and_wait();
    });
    step.arrive_and_wait();
    pool.free(shared, other);
    pool.free(pool.malloc(2 * kBlock, other), other);
    pool.synchronize();
    pool.stats();
    pool.trim(kBlock);
    EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(64 * kBlock, other)));
    pool.free(pool.malloc(4 * kBlock, other), other);
    EXPECT_TRUE(ok(gpupool_release_stream(pool, other)));
    (void)gpupool_sleep(pool, nullptr, nullptr);
    pool.set_limit(16 * kBlock);
    pool.empty();
    pool.validate();
    step.arrive_and_wait();
    step.arrive_and_wait();
    capturer.join();
    pool.synchronize();
    pool.empty();
    EXPECT_EQ(pool.active(), 0u);
    EXPECT_EQ(pool.reserved(), 0u);
  }
}

/// Memory of a stream that is never used again is had back: at a shortage, and by whoever asks for it.
TEST_P(BesideCaptures, AStreamThatIsNeverUsedAgainGivesItsMemoryBack) {
  PoolUnderTest pool(config_with_limit(kBlock));
  const gpupool_stream_t silent = new_stream();
  const gpupool_stream_t captured = new_stream();
  const gpupool_stream_t other = new_stream();
  pool.free(pool.malloc(kBlock, silent), silent);
  EXPECT_TRUE(ok(gpupool_reserve(pool, 0, captured)));
  begin(captured);
  std::thread([&] {
    pool.free(pool.malloc(kBlock, other), other);
    pool.empty();
  }).join();
  end(captured);
  EXPECT_EQ(pool.reserved(), 0u);
}

/// A free may come from a thread that does not use the stream, such as one that finalizes objects.
TEST_P(BesideCaptures, AFreeOnTheBlocksOwnStreamAsksNothing) {
  PoolUnderTest pool(config());
  const gpupool_stream_t captured = new_stream();
  EXPECT_TRUE(ok(gpupool_reserve(pool, 0, new_stream())));
  std::vector<gpupool_ptr_t> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(pool.malloc(kBlock / 4, captured));
  begin(captured);
  std::thread([&] {
    for (const gpupool_ptr_t block : blocks) pool.free(block, captured);
  }).join();
  end(captured);
}

}  // namespace
}  // namespace pool_test
