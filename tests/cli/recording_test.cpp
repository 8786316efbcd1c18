// SPDX-License-Identifier: Apache-2.0
#include "cli/recording/recording.hpp"

#include <gtest/gtest.h>

#include "watch/journal.hpp"

namespace gpupool::cli {
namespace {

TEST(Recordings, the_largest_that_the_library_writes_can_be_read) {
  EXPECT_LE(internal::kJournalMost, kMostRecordingBytes);
}

}  // namespace
}  // namespace gpupool::cli
