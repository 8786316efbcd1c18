// SPDX-License-Identifier: Apache-2.0
// A member of the group that the self-test of sharing makes: a process of this program, told what to do.
//
//   take BYTES          allocates a block: "took NS", or "refused NS"
//   drop                frees all blocks, so that they are cached: "dropped"
//   churn SEED BYTES    allocates and frees at random up to so much, until the next line: "churned COUNT
//                       LONGEST_NS"
//   check               "well", or what gpupool_validate found
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "cli/share/options.hpp"

namespace gpupool::cli {

/// How long a member waits for its neighbours.
inline constexpr uint64_t kTestWaitNs = 500'000'000;

struct TestMemberTerms {
  std::string group;
  std::string device;
  uint64_t guaranteed = 0;
};

/// Its destructor kills the process, which also ends when this one does, however that ends. Throws
/// std::runtime_error if something goes wrong with the process.
class TestMember {
 public:
  explicit TestMember(const TestMemberTerms& terms);
  ~TestMember();
  TestMember(const TestMember&) = delete;
  TestMember& operator=(const TestMember&) = delete;

  pid_t pid() const noexcept { return pid_; }
  /// The next line that the member says. `what`: what it should be doing, for messages.
  std::string hear(const char* what);
  void say(const std::string& line);

  struct Taken {
    bool is_there;
    double ms;
  };
  Taken take(uint64_t bytes);
  void drop();

  /// Stops it; returns once none of its threads runs.
  void stop();
  void go_on() const;
  void kill();
  /// Lets it end by itself, and returns its exit status.
  int end();

 private:
  void close_line();

  pid_t pid_ = -1;
  int line_ = -1;
  std::string heard_;
};

/// Is such a process, which obeys its standard input until that ends. Returns the exit status.
int be_test_member(const ShareOptions& options);

}  // namespace gpupool::cli
