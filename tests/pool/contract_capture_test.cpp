// SPDX-License-Identifier: Apache-2.0
// The contract of stream capture: nothing illegal is called, and what a graph may use stays with it. The
// simulated device counts what is illegal as a fault, the stand-in ends the capture.
#include "pool/contract.hpp"

namespace pool_test {
namespace {

class Capture : public Contract {
 protected:
  void SetUp() override {
    Contract::SetUp();
    if (IsSkipped()) return;
    stream_ = new_stream();
    other_ = new_stream();
  }

  void begin() {
    if (variant().machine == Machine::sim) {
      EXPECT_TRUE(ok(gpupool_sim_capture(kDevice, stream_, 1)));
    } else {
      fake_cuda().begin_capture(stream_, 0);  // CU_STREAM_CAPTURE_MODE_GLOBAL
    }
  }

  /// Whatever was called meanwhile was legal.
  void end() {
    if (variant().machine == Machine::sim) {
      EXPECT_TRUE(ok(gpupool_sim_capture(kDevice, stream_, 0)));
      expect_no_faults();
    } else {
      EXPECT_EQ(fake_cuda().end_capture(stream_), 1);
    }
  }

  gpupool_config_t aware() {
    gpupool_config_t aware = config();
    aware.flags = GPUPOOL_FLAG_CAPTURE_AWARE;
    return aware;
  }

  /// Everything that a pool does, on the capturing stream and on another one.
  void use_everything(PoolUnderTest& pool, gpupool_ptr_t before, gpupool_ptr_t shared) {
    const gpupool_ptr_t own = pool.malloc(kBlock, stream_);
    const gpupool_ptr_t small = pool.malloc(700, stream_);
    const gpupool_ptr_t elsewhere = pool.malloc(kBlock, other_);
    pool.record_stream(elsewhere, stream_);
    pool.free(elsewhere, other_);
    pool.free(own, other_);
    pool.free(before, stream_);
    pool.free(shared, kUnknownStream);
    pool.free(pool.malloc(2 * kBlock, other_), other_);
    pool.synchronize();
    EXPECT_TRUE(ok(gpupool_reserve(pool, pool.reserved() + 10 * kMiB, other_)));
    pool.trim(kBlock);
    pool.stats();
    pool.snapshot();
    pool.report();
    pool.validate();
    pool.set_limit(pool.reserved() + kBlock);
    EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(40 * kBlock, other_)));
    EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(40 * kBlock, stream_)));
    pool.set_limit(0);
    pool.free(pool.malloc(kBlock, stream_), stream_);
    pool.empty();
    pool.free(small, stream_);
  }

  gpupool_stream_t stream_ = 0;
  gpupool_stream_t other_ = 0;
};
INSTANTIATE_TEST_SUITE_P(On, Capture, testing::ValuesIn(controlled_variants()), name_of);

TEST_P(Capture, IsNotDisturbedByAnything) {
  for (const bool is_aware : {false, true}) {
    PoolUnderTest pool(is_aware ? aware() : config());
    const gpupool_ptr_t before = pool.malloc(kBlock, stream_);
    const gpupool_ptr_t shared = pool.malloc(kBlock, other_);
    pool.record_stream(shared, stream_);
    begin();
    use_everything(pool, before, shared);
    end();
    pool.synchronize();
    pool.validate();
    EXPECT_EQ(pool.active(), 0u);
    EXPECT_EQ(pool.allocated(), 0u);
  }
}

TEST_P(Capture, IsNotDisturbedByAnotherPool) {
  PoolUnderTest pool(config());
  PoolUnderTest bystander(config());
  const gpupool_ptr_t live = bystander.malloc(kBlock, stream_);
  begin();
  bystander.free(live, stream_);
  bystander.free(bystander.malloc(kBlock, other_), other_);
  bystander.empty();
  gpupool_t* handle = bystander.give_up();
  pool.free(pool.malloc(kBlock, other_), other_);
  end();
  EXPECT_TRUE(ok(gpupool_destroy(handle)));
}

TEST_P(Capture, ReusesItsOwnMemoryOnly) {
  PoolUnderTest pool(aware());
  pool.free(pool.malloc(kBlock, stream_), stream_);  // cached outside
  const uint64_t outside = pool.reserved();
  begin();
  pool.free(pool.malloc(kBlock, stream_), stream_);
  const uint64_t with_capture = pool.reserved();
  for (int i = 0; i < 3; ++i) pool.free(pool.malloc(kBlock - i * kMiB, stream_), stream_);
  EXPECT_EQ(pool.reserved(), with_capture);
  const gpupool_ptr_t in_graph = pool.malloc(kBlock, stream_);
  EXPECT_EQ(pool.reserved(), with_capture);
  end();

  // Outside, what the capture used is not handed out, nor given back; nor inside another capture.
  pool.set_limit(with_capture);
  pool.free(in_graph, stream_);
  pool.synchronize();
  EXPECT_EQ(pool.active(), 0u);
  const gpupool_ptr_t most = pool.malloc(outside, stream_);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(kBlock, stream_)));
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(kBlock, other_)));
  pool.free(most, stream_);
  pool.empty();
  EXPECT_GE(pool.reserved(), kBlock);
  begin();
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(2 * kBlock, stream_)));
  end();
}

TEST_P(Capture, HoldsWhatIsFreedMeanwhile) {
  PoolUnderTest pool(aware());
  const gpupool_ptr_t before = pool.malloc(kBlock, stream_);
  const uint64_t reserved = pool.reserved();
  begin();
  pool.free(before, stream_);
  EXPECT_EQ(pool.active(), kBlock);
  const gpupool_ptr_t elsewhere = pool.malloc(kBlock, other_);
  EXPECT_GE(pool.reserved(), reserved + kBlock);
  EXPECT_TRUE(refused(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_free(pool, before, stream_)));
  pool.free(elsewhere, other_);
  end();
}

TEST_P(Capture, OfAStreamThatIsGoneIsForgotten) {
  PoolUnderTest pool(aware());
  const gpupool_ptr_t outside = pool.malloc(kBlock, stream_);
  begin();
  const gpupool_ptr_t inside = pool.malloc(kBlock, stream_);
  pool.free(pool.malloc(5000, stream_), stream_);
  end();
  EXPECT_TRUE(ok(gpupool_release_stream(pool, stream_)));
  EXPECT_EQ(pool.stats().streams, 0u);
  destroy_stream(stream_);
  pool.free(outside, stream_);
  pool.free(inside, stream_);
  pool.free(pool.malloc(kBlock, other_), other_);
  pool.free(pool.malloc(kBlock, other_), kUnknownStream);
  pool.synchronize();
  pool.empty();
  EXPECT_EQ(pool.active(), 0u);
  pool.validate();
}

TEST_P(Capture, KeepsItsStreamFromBeingReleased) {
  PoolUnderTest pool(config());
  pool.free(pool.malloc(kBlock, stream_), stream_);
  begin();
  EXPECT_TRUE(refused(GPUPOOL_ERROR_INVALID_ARGUMENT, gpupool_release_stream(pool, stream_)));
  EXPECT_EQ(pool.stats().streams, 1u);
  end();
  EXPECT_TRUE(ok(gpupool_release_stream(pool, stream_)));
}

// The pool cannot end before the capture does. Nobody can tell it meanwhile which streams end.
TEST_P(Capture, KeepsADestroyedPoolButNoStreamOfIt) {
  const gpupool_stream_t gone = new_stream();
  {
    PoolUnderTest pool(config());
    pool.free(pool.malloc(kBlock, gone), gone);
    const gpupool_ptr_t block = pool.malloc(kBlock, other_);
    begin();
    pool.free(block, stream_);
  }
  destroy_stream(gone);
  PoolUnderTest(config()).validate();  // tries to end the first one
  end();
  PoolUnderTest(config()).validate();
}

// Where the limit leaves no other way, the memory of a capturing stream is not to be had.
TEST_P(Capture, IsNotStolenFrom) {
  gpupool_config_t limited = config();
  limited.limit_bytes = kBlock;
  PoolUnderTest pool(limited);
  pool.free(pool.malloc(kBlock, stream_), stream_);
  begin();
  EXPECT_TRUE(refused(GPUPOOL_ERROR_OVER_LIMIT, pool.try_malloc(kBlock, other_)));
  const gpupool_ptr_t block = pool.malloc(kBlock, stream_);
  pool.free(block, stream_);
  end();
  pool.free(pool.malloc(kBlock, other_), other_);
}

}  // namespace
}  // namespace pool_test
