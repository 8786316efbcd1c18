// SPDX-License-Identifier: Apache-2.0
// How much arrays need, by the shapes and formats of CUDA's documentation.
#include "frameworks/audit/arrays.hpp"

#include <gtest/gtest.h>

namespace gpupool::audit {
namespace {

constexpr auto kByte = static_cast<CUarray_format>(1);

TEST(AuditArrays, ElementsOfEachFormat) {
  EXPECT_EQ(bytes_of({64, 32, 0, kByte, 4, 0}), 64U * 32 * 4);
  EXPECT_EQ(bytes_of({64, 0, 0, CU_AD_FORMAT_HALF, 2, 0}), 64U * 4);
  EXPECT_EQ(bytes_of({64, 32, 5, CU_AD_FORMAT_FLOAT, 1, 0}), 64U * 32 * 5 * 4);
  EXPECT_EQ(bytes_of({64, 32, 0, CU_AD_FORMAT_UNORM_INT16X4, 4, 0}), 64U * 32 * 8);
  EXPECT_EQ(bytes_of({64, 32, 0, CU_AD_FORMAT_NV12, 3, 0}), 64U * 32 * 3 / 2);
  EXPECT_EQ(bytes_of({64, 32, 0, CU_AD_FORMAT_FLOAT, 4, kArraySparse}), 0U);
}

TEST(AuditArrays, CompressedOnesHaveWholeBlocks) {
  EXPECT_EQ(bytes_of({64, 32, 0, CU_AD_FORMAT_BC1_UNORM, 4, 0}), 16U * 8 * 8);
  EXPECT_EQ(bytes_of({65, 30, 2, CU_AD_FORMAT_BC7_UNORM_SRGB, 4, 0}), 17U * 8 * 16 * 2);
  EXPECT_EQ(bytes_of({64, 32, 0, CU_AD_FORMAT_BC4_SNORM, 1, 0}), 16U * 8 * 8);
}

TEST(AuditArrays, MipmapsHalveWhatIsNoLayer) {
  EXPECT_EQ(bytes_of({8, 4, 2, kByte, 1, 0}, 99), 8U * 4 * 2 + 4 * 2 + 2 + 1);
  EXPECT_EQ(bytes_of({8, 8, 6, kByte, 1, kArrayCubemap}, 99), 6U * (64 + 16 + 4 + 1));
  EXPECT_EQ(bytes_of({8, 8, 100, kByte, 1, kArrayLayered}, 99), 100U * (64 + 16 + 4 + 1));
  EXPECT_EQ(bytes_of({8, 8, 6, kByte, 1, kArrayCubemap}, 2), 6U * (64 + 16));
}

TEST(AuditArrays, WhatNobodyHasIsNotWrapped) {
  EXPECT_EQ(bytes_of({SIZE_MAX, 2, 0, kByte, 1, 0}), kTooMuch);
  EXPECT_EQ(bytes_of({SIZE_MAX / 2, 1, 0, CU_AD_FORMAT_NV12, 3, 0}), kTooMuch);
  EXPECT_EQ(bytes_of({SIZE_MAX / 4, 1, 4, kByte, 1, kArrayLayered}, 3), kTooMuch);
}

}  // namespace
}  // namespace gpupool::audit
