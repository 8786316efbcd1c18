// SPDX-License-Identifier: Apache-2.0
// A folder of regions for one test, and processes that are members.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/bits.hpp"
#include "share/member.hpp"
#include "share/view.hpp"
#include "support/own_folder.hpp"

namespace gpupool::internal::share {

constexpr uint64_t kMs = 1'000'000;

template <typename Condition>
bool soon(Condition condition, int ms = 5000) {
  for (int i = 0; i < ms && !condition(); ++i) usleep(1000);
  return condition();
}

/// A process whose device says what the test wants, and which gives back what the test lets it.
class TestOwner : public Owner {
 public:
  uint64_t release(uint64_t bytes) noexcept override { return give ? give(bytes) : 0; }
  uint64_t put_to_sleep(uint64_t bytes, uint64_t /*asker*/) noexcept override {
    return sleep ? sleep(bytes) : 0;
  }
  uint64_t live_bytes() noexcept override { return live; }
  bool free_bytes(uint64_t& out) noexcept override {
    if (when_asked) when_asked();
    if (free == ~uint64_t{0}) return false;
    out = free;
    return true;
  }

  std::function<uint64_t(uint64_t)> give;
  std::function<uint64_t(uint64_t)> sleep;
  std::function<void()> when_asked;  // for what the device has free
  uint64_t live = 0;
  uint64_t free = ~uint64_t{0};
};

/// Memory that this process and its children see.
template <typename Value>
class Common {
 public:
  Common()
      : value_(static_cast<Value*>(
            mmap(nullptr, sizeof(Value), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    new (value_) Value{};
  }
  Common(const Common&) = delete;
  Common& operator=(const Common&) = delete;
  ~Common() { munmap(value_, sizeof(Value)); }
  Value* operator->() const { return value_; }
  Value& operator*() const { return *value_; }

 private:
  Value* value_;
};

class ShareTest : public testing::Test {
 protected:
  static constexpr uint64_t kTotal = 64 * kGiB;

  ShareTest() {
    place_.folder = folder_;
    place_.group = "team";
    place_.device = "GPU-0";
    place_.device_bytes = kTotal;
  }

  std::shared_ptr<Member> join(std::unique_ptr<Owner> owner = std::make_unique<TestOwner>()) const {
    std::shared_ptr<Member> member;
    EXPECT_EQ(share::join(place_, ~uint64_t{0}, std::move(owner), member), kSuccess) << last_error().message;
    return member;
  }

  /// Another process, which ends with what `work` returns. Its siblings may import from it, also where Yama
  /// would let only its ancestors.
  template <typename Work>
  static pid_t start(Work work) {
    const pid_t child = fork();
    if (child != 0) return child;
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    const int result = work();
    _exit(result);
  }
  /// Stops a child, and waits until its last thread has stopped.
  static void stop(pid_t child) {
    kill(child, SIGSTOP);
    EXPECT_EQ(waitpid(child, nullptr, WUNTRACED), child);
  }
  static int end_of(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  uint64_t used() const { return standing().used; }
  Standing standing() const {
    View view;
    EXPECT_EQ(view.open(place_), kSuccess) << last_error().message;
    return view.standing();
  }
  std::vector<Neighbour> members() const {
    View view;
    EXPECT_EQ(view.open(place_), kSuccess) << last_error().message;
    return view.members();
  }
  /// What is still charged once the dead are cleaned up; fails where the sum does not agree.
  uint64_t used_after_repair() const {
    View view;
    EXPECT_EQ(view.open(place_), kSuccess) << last_error().message;
    int64_t off = -1;
    EXPECT_EQ(view.repair(kTotal, off), kSuccess) << last_error().message;
    EXPECT_EQ(off, 0) << "used is not the sum of the members' amounts";
    return view.standing().used;
  }
  std::string path() const { return place_.path(); }

  const OwnFolder own_folder_;
  const std::string folder_ = own_folder_.path().string();
  Place place_;
};

}  // namespace gpupool::internal::share
