// SPDX-License-Identifier: Apache-2.0
// A lock's holder makes progress, whichever threads wait for it.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <thread>
#include <vector>

#include "base/spin_lock.hpp"

namespace gpupool::internal {
namespace {

/// Time that the calling thread has had a core.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

bool stay_on_one_core(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  return pthread_setaffinity_np(pthread_self(), sizeof cores, &cores) == 0;
}

bool become_real_time() {
  sched_param priority{};
  priority.sched_priority = 1;
  return pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) == 0;
}

TEST(SpinLockTest, ExcludesOthers) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20'000;
  SpinLock lock;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const std::lock_guard guard(lock);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kRounds);
}

/// Wherever real-time threads are not permitted, this shows that a long waiter leaves the core.
TEST(SpinLockTest, LetsALongWaiterSleep) {
  SpinLock lock;
  lock.lock();
  double waited = 0;
  std::thread waiter([&] {
    const double start = cpu_seconds();
    lock.lock();
    waited = cpu_seconds() - start;
    lock.unlock();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  lock.unlock();
  waiter.join();
  EXPECT_LT(waited, 0.25) << "seconds of the core in half a second";
}

/// On one core, a real-time thread that only spins or yields keeps the holder from ever letting go, but for
/// the kernel's throttling after most of a second.
TEST(SpinLockTest, LetsAHolderOfLowerPriorityRun) {
  SpinLock lock;
  std::atomic<bool> held = false;
  std::atomic<bool> permitted = true;
  double waited = 0;
  const int core = sched_getcpu();
  std::thread holder([&] {
    if (!stay_on_one_core(core)) permitted = false;
    lock.lock();
    held = true;
    for (const double start = cpu_seconds(); cpu_seconds() < start + 0.01;) continue;
    lock.unlock();
  });
  std::thread waiter([&] {
    if (!stay_on_one_core(core)) permitted = false;
    while (!held) std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (!become_real_time()) permitted = false;
    const double start = cpu_seconds();
    lock.lock();
    waited = cpu_seconds() - start;
    lock.unlock();
  });
  holder.join();
  waiter.join();
  if (!permitted) GTEST_SKIP() << "real-time threads or a core of one's own are not permitted here";
  EXPECT_LT(waited, 0.1) << "seconds of the core, which the holder needed";
}

}  // namespace
}  // namespace gpupool::internal
