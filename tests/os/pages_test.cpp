// SPDX-License-Identifier: Apache-2.0
#include "os/pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "base/zeros.hpp"

namespace gpupool::internal {
namespace {

constexpr size_t kBytes = (size_t{9} << 20) + 4096;  // parts of 4 MiB, and a rest

TEST(Pages, AreZeroedAndOfTheProcessAlone) {
  auto* const pages = static_cast<unsigned char*>(os::map_pages(kBytes));
  ASSERT_NE(pages, nullptr);
  unsigned char all = 0;
  for (size_t at = 0; at < kBytes; ++at) all |= pages[at];
  EXPECT_EQ(all, 0);
  pages[0] = pages[kBytes - 1] = 1;

  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // A page that the device may write is no child's.
    unsigned char is_there = 0;
    _exit(mincore(pages, 4096, &is_there) == -1 && errno == ENOMEM ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the child has them";
  os::unmap_pages(pages, kBytes);
}

// A table's pages are there once they are touched, and zero each time.
TEST(Pages, OfZerosComeWhenTheyAreTouched) {
  for (int round = 0; round < 2; ++round) {
    auto* const zeros = static_cast<unsigned char*>(get_zeros(kBytes));
    ASSERT_NE(zeros, nullptr);
    unsigned char is_there = 1;
    EXPECT_EQ(mincore(zeros + 4096, 4096, &is_there), 0);
    EXPECT_EQ(is_there & 1, 0);
    EXPECT_EQ(zeros[4096] | zeros[kBytes - 1], 0);
    zeros[4096] = zeros[kBytes - 1] = 1;
    release_zeros(zeros, kBytes);
  }
  EXPECT_EQ(get_zeros(~size_t{0} / 2), nullptr);
}

TEST(Pages, MoreThanTheProcessMayHaveAreRefused) {
  EXPECT_EQ(os::map_pages(~size_t{0} / 2), nullptr);
}

}  // namespace
}  // namespace gpupool::internal
