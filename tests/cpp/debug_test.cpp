// SPDX-License-Identifier: Apache-2.0
// gpupool/debug.hpp.
#include <gtest/gtest.h>

#include <gpupool/debug.hpp>

#include "cpp/fixture.hpp"

namespace {

using gpupool::Block;
using gpupool::Pool;
using testing::Test;

class Debug : public Test {
 protected:
  ~Debug() override { gpupool::set_debug(""); }
};

TEST_F(Debug, AModeThatIsNoneIsNamed) {
  try {
    gpupool::set_debug("poison,fense");
    ADD_FAILURE() << "no exception";
  } catch (const gpupool::Error& error) {
    EXPECT_NE(std::string(error.what()).find("fense"), std::string::npos) << error.what();
  }
}

TEST_F(Debug, FindsAWriteBeyondTheEnd) {
  gpupool::set_debug("canary");
  Pool pool(kSim);
  const Block block(pool, 1000);
  EXPECT_EQ(gpupool::check_damage(pool).count, 0U);
  pool.fill(block.ptr(), 0, 1001);
  const gpupool::Damage damage = gpupool::check_damage(pool);
  EXPECT_EQ(damage.count, 1U);
  EXPECT_NE(damage.text.find("1 byte was written beyond the end"), std::string::npos) << damage.text;
}

TEST_F(Debug, ProtectsABlock) {
  Pool pool({.backend = gpupool::Backend::sim, .max_chunk_bytes = 2 * kMiB});
  const Block block(pool, 4 * kMiB, 0, 2 * kMiB);
  gpupool::protect(pool, block.ptr(), gpupool::Access::read);
  expect_error(GPUPOOL_ERROR_DRIVER, [&] { pool.fill(block.ptr(), 0, 1); });
  gpupool::protect(pool, block.ptr(), gpupool::Access::write);
  pool.fill(block.ptr(), 0, 1);
}

TEST_F(Debug, SaysWhatIsAtAnAddress) {
  gpupool::set_debug("quarantine=1MiB");
  Pool pool(kSim);
  const Block block(pool, 1000);
  const std::string text = gpupool::why(block.ptr() + 10);
  EXPECT_NE(text.find("10 bytes into a live block of 1000 bytes"), std::string::npos) << text;
  EXPECT_NE(gpupool::why(1).find("not in any pool"), std::string::npos);
}

}  // namespace
