// SPDX-License-Identifier: Apache-2.0
// fork, as PyTorch's DataLoader does it, while another thread allocates: the child lets go of what it
// inherited, and never hangs.
#include <sys/wait.h>
#include <unistd.h>

#include "pytorch.hpp"

namespace {

TEST_F(PyTorch, AForkedChildLetsGoOfWhatItInherited) {
  std::atomic<bool> is_inside{false};
  std::atomic<bool> may_leave{false};
  const Id id{0, 1};
  torch->beginAllocateToPool(0, id, [&](cudaStream_t stream) {
    if (stream != side) return true;
    is_inside = true;  // with the lock of the pools held
    while (!may_leave) std::this_thread::yield();
    return true;
  });
  void* tensor = torch->raw_alloc(kMiB);
  std::thread other([&] { torch->raw_delete(torch->raw_alloc_with_stream(kMiB, side)); });
  while (!is_inside) std::this_thread::yield();
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
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  may_leave = true;
  other.join();
  torch->raw_delete(tensor);
  torch->endAllocateToPool(0, id);
  EXPECT_EQ(allocated(), 0);
}

}  // namespace
