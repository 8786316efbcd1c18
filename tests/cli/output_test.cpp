// SPDX-License-Identifier: Apache-2.0
#include "cli/base/output.hpp"

#include <gtest/gtest.h>

namespace gpupool::cli {
namespace {

TEST(ListFirst, CutsWhatIsLongerAndSaysByHowMuch) {
  const std::vector<std::string> names{"a", "b", "c"};
  EXPECT_EQ(list_first(names, 2, ", "), "a, b, and 1 more");
  EXPECT_EQ(list_first(names, 1, " "), "a and 2 more");
}

TEST(ListFirst, ShowsAllOfWhatIsNot) {
  const std::vector<std::string> names{"a", "b", "c"};
  EXPECT_EQ(list_first(names, 3, ", "), "a, b, c");
  EXPECT_EQ(list_first(names, 4, " "), "a b c");
  EXPECT_EQ(list_first({}, 4, " "), "");
}

}  // namespace
}  // namespace gpupool::cli
