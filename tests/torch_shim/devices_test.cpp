// SPDX-License-Identifier: Apache-2.0
// Two GPUs in one process.
#include "pytorch.hpp"

namespace {

TEST_F(PyTorch, APeerMayUseAllThatIsMappedNowAndLater) {
  cudaStream_t theirs = new_stream(1);
  void* before = torch->raw_alloc(3 * kMiB);
  begin({1, 0}, side);
  void* graph = torch->raw_alloc_with_stream(3 * kMiB, side);
  EXPECT_FALSE(is_usable(1, before, 3 * kMiB, theirs));
  torch->enablePeerAccess(1, 0);
  void* later = torch->raw_alloc(300 * kMiB);
  void* graph_later = torch->raw_alloc_with_stream(30 * kMiB, side);
  begin({0, 1}, main);
  void* pool_later = torch->raw_alloc(30 * kMiB);
  EXPECT_TRUE(is_usable(1, before, 3 * kMiB, theirs));
  EXPECT_TRUE(is_usable(1, graph, 3 * kMiB, theirs));
  EXPECT_TRUE(is_usable(1, later, 300 * kMiB, theirs));
  EXPECT_TRUE(is_usable(1, graph_later, 30 * kMiB, theirs));
  EXPECT_TRUE(is_usable(1, pool_later, 30 * kMiB, theirs));
  // Not the other way round, until that is asked for; twice is once.
  const c10::cuda::CUDAGuard guard(1);
  void* other = torch->raw_alloc_with_stream(3 * kMiB, theirs);
  EXPECT_FALSE(is_usable(0, other, 3 * kMiB, main));
  torch->enablePeerAccess(0, 1);
  torch->enablePeerAccess(0, 1);
  EXPECT_TRUE(is_usable(0, other, 3 * kMiB, main));
}

TEST_F(PyTorch, ADeviceThatWasNotUsedYetCanBeOpenedToAPeer) {
  torch->enablePeerAccess(0, 1);
  const c10::cuda::CUDAGuard guard(1);
  EXPECT_TRUE(is_usable(0, torch->raw_alloc_with_stream(3 * kMiB, new_stream(1)), 3 * kMiB, main));
}

TEST_F(PyTorch, WhereTheDevicesCannotReachEachOtherAnErrorSaysSo) {
  fake_cuda().set_peer_access(0, 1, 0);
  fake_cuda().set_peer_access(1, 0, 0);
  try {
    torch->enablePeerAccess(1, 0);
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("gpupool: ", 0), 0u) << error.what();
  }
  EXPECT_TRUE(is_usable(0, torch->raw_alloc(3 * kMiB), 3 * kMiB, main));
}

}  // namespace
