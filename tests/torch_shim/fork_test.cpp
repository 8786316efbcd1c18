// SPDX-License-Identifier: Apache-2.0
// fork, as PyTorch's DataLoader does it, while other threads allocate: the child lets go of what it
// inherited, and never hangs.
#include <sys/wait.h>
#include <unistd.h>

#include "pytorch.hpp"

namespace {

TEST_F(PyTorch, AForkedChildLetsGoOfWhatItInherited) {
  std::atomic<bool> stop{false};
  std::atomic<int> turns{0};
  record_history(Context::NEVER);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (; !stop; ++turns) torch->raw_delete(torch->raw_alloc_with_stream(1 + turns % 70'000, main));
    });
  }
  while (turns < 1000) std::this_thread::yield();
  void* tensor = torch->raw_alloc(kMiB);
  for (int i = 0; i < 50 && !HasFailure(); ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a hang ends the child with a signal
      torch->raw_delete(tensor);
      bool is_refused = false;
      try {
        torch->raw_alloc(100);
      } catch (const c10::Error&) {
        is_refused = true;
      }
      _exit(is_refused ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  torch->raw_delete(tensor);
  EXPECT_EQ(allocated(), 0);
}

}  // namespace
