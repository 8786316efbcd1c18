// SPDX-License-Identifier: Apache-2.0
// A stack that is taken again is the one that the compiler's unwinder finds, whatever lay there before.
#include <alloca.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "os/stack.hpp"

namespace gpupool::internal {
namespace {

#if defined(__x86_64__)
constexpr bool kRemembers = true;
#else
constexpr bool kRemembers = false;
#endif

struct Direct {
  std::array<void*, os::kFrames + 1> frames;
  size_t count = 0;
};

_Unwind_Reason_Code add(_Unwind_Context* context, void* to) noexcept {
  Direct& direct = *static_cast<Direct*>(to);
  const auto frame = _Unwind_GetIP(context);
  if (direct.count == direct.frames.size() || frame == 0) return _URC_END_OF_STACK;
  direct.frames[direct.count++] = reinterpret_cast<void*>(frame);
  return _URC_NO_REASON;
}

[[gnu::noinline]] void take_directly(Direct& direct) noexcept {
  _Unwind_Backtrace(add, &direct);
  asm volatile("" ::: "memory");
}

struct Tally {
  size_t takes = 0;
  size_t known = 0;        // of those, stacks that were taken before
  size_t forgettable = 0;  // of those, stacks that are not remembered
  size_t wrong = 0;
};

/// Takes the stack in both ways. The first frame is in here, and is another for each of its two calls.
[[gnu::noinline]] void compare(Tally& tally) noexcept {
  os::Stack taken;
  os::take_frames(taken, false);
  Direct direct;
  take_directly(direct);
  uintptr_t hash = 1;
  bool is_equal = taken.count + 1 == direct.count;
  for (size_t i = 1; is_equal && i < taken.count; ++i) {
    is_equal = taken.frames[i] == direct.frames[i + 1];
    hash = (hash ^ reinterpret_cast<uintptr_t>(direct.frames[i + 1])) * 0x9e3779b97f4a7c15;
  }
  ++tally.takes;
  if (taken.mark == nullptr) {
    ++tally.forgettable;
  } else if (*taken.mark != 0) {
    ++tally.known;
    is_equal = is_equal && *taken.mark == hash;
  } else {
    *taken.mark = hash;
  }
  if (!is_equal) ++tally.wrong;
}

// ---- random call trees

struct Tree {
  explicit Tree(unsigned seed) : random(seed) {}
  size_t pick(size_t below) { return random() % below; }

  std::mt19937 random;
  size_t left = 0;
  Tally tally;
};

using Step = void (*)(Tree&);
Step next_of(Tree& tree);

template <class T>
void use(T& local) noexcept {
  asm volatile("" ::"r"(&local) : "memory");
}

/// Two calls from one function, both to anywhere.
template <size_t kBytes>
[[gnu::noinline]] void fixed(Tree& tree) {
  std::array<char, kBytes> room;  // NOLINT: as calls before left it
  use(room);
  const Step next = next_of(tree);
  if (tree.pick(2) == 0) {
    next(tree);
    asm volatile("" ::: "memory");
  } else {
    next(tree);
    asm volatile("nop" ::: "memory");
  }
}

[[gnu::noinline]] void varying(Tree& tree) {
  void* const room = alloca(16 * tree.pick(4));
  use(room);
  next_of(tree)(tree);
  asm volatile("" ::: "memory");
}

[[gnu::noinline]] void aligned(Tree& tree) {
  alignas(64) std::array<char, 64> room;  // NOLINT
  use(room);
  next_of(tree)(tree);
  asm volatile("" ::: "memory");
}

/// Frames that are the same in many stacks, under others that differ.
[[gnu::noinline]] void descend(Tree& tree, size_t depth) {
  if (depth == 0) {
    compare(tree.tally);
  } else {
    descend(tree, depth - 1);
  }
  asm volatile("" ::: "memory");
}

[[gnu::noinline]] void leaf(Tree& tree) {
  descend(tree, tree.pick(2) * 12);
  asm volatile("" ::: "memory");
}

constexpr std::array<Step, 7> kSteps = {fixed<8>, fixed<24>, fixed<40>, fixed<200>,
                                        varying,  varying,   aligned};

Step next_of(Tree& tree) {
  if (tree.left == 0) return leaf;
  --tree.left;
  return kSteps[tree.pick(kSteps.size())];
}

Tally climb(unsigned seed, size_t takes) {
  Tree tree(seed);
  for (size_t i = 0; i < takes; ++i) {
    tree.left = tree.pick(40) == 0 ? tree.pick(80) : tree.pick(5);
    next_of(tree)(tree);
  }
  return tree.tally;
}

void expect_right(const Tally& tally) {
  EXPECT_EQ(tally.wrong, 0U) << "of " << tally.takes;
  if (!kRemembers) return;
  EXPECT_GT(tally.known, tally.takes / 4);
  EXPECT_LT(tally.forgettable, tally.takes / 100);
}

TEST(StackMemo, TreesOfCalls) {
  expect_right(climb(1, 100000));
}

TEST(StackMemo, RecursionOverFramesThatVary) {
  // Three frames may lie where two lay, with the same return addresses, and what they left is still there.
  struct Recursion {
    [[gnu::noinline]] static void go(Tree& tree, size_t bytes, size_t depth) {
      void* const room = alloca(bytes);
      use(room);
      if (depth == 0) {
        compare(tree.tally);
      } else {
        go(tree, bytes, depth - 1);
      }
      asm volatile("" ::: "memory");
    }
  };
  Tree tree(2);
  for (size_t i = 0; i < 20000; ++i) Recursion::go(tree, 16 * tree.pick(12), tree.pick(12));
  expect_right(tree.tally);
}

TEST(StackMemo, EachThread) {
  std::array<Tally, 4> tallies;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < tallies.size(); ++i)
    threads.emplace_back([&tallies, i] { tallies[i] = climb(10 + i, 10000); });
  for (std::thread& thread : threads) thread.join();
  for (const Tally& tally : tallies) expect_right(tally);
}

size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

TEST(StackMemo, LeavesNothingOfAThread) {
  const auto run = [] {
    for (unsigned i = 0; i < 50; ++i) std::thread([i] { climb(i, 10); }).join();
  };
  run();
  const size_t before = mappings();
  run();
  EXPECT_LT(mappings(), before + 25);
}

TEST(StackMemo, InAChildOfFork) {
  Tree tree(3);
  const auto take = [&tree] {
    for (size_t i = 0; i < 1000; ++i) {
      tree.left = tree.pick(4);
      next_of(tree)(tree);
    }
  };
  take();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    take();
    _exit(tree.tally.wrong == 0 && (!kRemembers || tree.tally.known > 100) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

Tally* in_signal = nullptr;

TEST(StackMemo, FramesOfSignalsAreNotRemembered) {
  // On the thread's own stack, and on others below and above it.
  Tally tally;
  in_signal = &tally;
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { compare(*in_signal); };
  action.sa_flags = SA_ONSTACK;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  constexpr size_t kRoom = 1 << 20;
  std::vector<std::byte> rooms(3 * kRoom);
  const auto raise_often = [](void* room) -> void* {
    stack_t other{};
    other.ss_sp = room;
    other.ss_size = kRoom;
    stack_t usual{};  // the sanitizers have one
    if (room != nullptr && sigaltstack(&other, &usual) != 0) ++in_signal->wrong;
    for (size_t i = 0; i < 100; ++i) std::raise(SIGUSR1);
    if (room != nullptr && sigaltstack(&usual, nullptr) != 0) ++in_signal->wrong;
    return nullptr;
  };
  for (std::byte* const room : {static_cast<std::byte*>(nullptr), &rooms[0], &rooms[2 * kRoom]}) {
    pthread_attr_t own;
    ASSERT_EQ(pthread_attr_init(&own), 0);
    ASSERT_EQ(pthread_attr_setstack(&own, &rooms[kRoom], kRoom), 0);
    pthread_t thread{};
    ASSERT_EQ(pthread_create(&thread, &own, raise_often, room), 0);
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    ASSERT_EQ(pthread_attr_destroy(&own), 0);
  }
  ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
  EXPECT_EQ(tally.takes, 300U);
  EXPECT_EQ(tally.wrong, 0U);
  EXPECT_EQ(tally.known, 0U);
}

TEST(StackMemo, CautiouslyNothingIsRemembered) {
  for (size_t i = 0; i < 2; ++i) {
    os::Stack taken;
    os::take_frames(taken, true);
    EXPECT_GT(taken.count, 1U);
    EXPECT_EQ(taken.mark, nullptr);
  }
}

// ---- stacks that come and go

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

constexpr size_t kPage = 4096;
constexpr size_t kLargeStack = 32 * kPage;

struct Coroutine {
  ucontext_t here;
  ucontext_t there;
  Tree tree{4};
  size_t depth = 0;
};
Coroutine* running = nullptr;

void in_coroutine() {
  descend(running->tree, running->depth);
  for (size_t i = 0; i < 10; ++i) {
    running->tree.left = running->tree.pick(4);
    next_of(running->tree)(running->tree);
  }
}

void run_on(Coroutine& coroutine, std::byte* stack, size_t bytes) {
  running = &coroutine;
  ASSERT_EQ(getcontext(&coroutine.there), 0);
  coroutine.there.uc_stack.ss_sp = stack;
  coroutine.there.uc_stack.ss_size = bytes;
  coroutine.there.uc_link = &coroutine.here;
  makecontext(&coroutine.there, in_coroutine, 0);
  ASSERT_EQ(swapcontext(&coroutine.here, &coroutine.there), 0);
}

TEST(StackMemo, CoroutinesWhoseStacksShrink) {
  // Nothing is mapped behind the smaller stack: a step too far ends the program. Its frames lie where frames
  // of the same functions lay, deep in the larger one.
  Coroutine coroutine;
  for (size_t round = 0; round < 200; ++round) {
    void* const room =
        mmap(nullptr, kLargeStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    ASSERT_NE(room, MAP_FAILED);
    auto* const stack = static_cast<std::byte*>(room);
    for (coroutine.depth = 0; coroutine.depth < 400; coroutine.depth += 7)
      run_on(coroutine, stack, kLargeStack);
    const size_t pages = 4 + round % 24;
    ASSERT_EQ(munmap(stack + pages * kPage, kLargeStack - pages * kPage), 0);
    for (coroutine.depth = 0; coroutine.depth < 40; coroutine.depth += 3)
      run_on(coroutine, stack, pages * kPage);
    ASSERT_EQ(munmap(stack, pages * kPage), 0);
  }
  EXPECT_EQ(coroutine.tree.tally.wrong, 0U) << "of " << coroutine.tree.tally.takes;
}

#endif

}  // namespace
}  // namespace gpupool::internal
