// SPDX-License-Identifier: Apache-2.0
// Part of every test program under the address sanitizer, whose allocator has locks that fork does not take:
// a child that was forked while another thread allocates waits for ever for that lock. A thread that has just
// been started allocates too, so that a test is not to blame. Here fork waits until the other threads sleep,
// for 100 ms at most: some tests fork beside threads that never sleep.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace {

constexpr int kMostRounds = 100;

/// Whether that thread of this process sleeps, or has ended.
bool is_asleep(const char* thread) {
  const std::string path = std::string("/proc/self/task/") + thread + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;
  char text[128] = {};
  const ssize_t bytes = read(file, text, sizeof text - 1);
  close(file);
  const char* const state = bytes > 0 ? strrchr(text, ')') : nullptr;  // "12 (name) S ..."
  return state == nullptr || state[1] == 0 || strchr("RD", state[2]) == nullptr;
}

bool others_are_asleep() {
  DIR* const threads = opendir("/proc/self/task");
  if (threads == nullptr) return true;
  const auto self = syscall(SYS_gettid);
  bool are_asleep = true;
  for (const dirent* each = readdir(threads); each != nullptr && are_asleep; each = readdir(threads)) {
    const bool is_other = each->d_name[0] != '.' && std::atol(each->d_name) != self;
    are_asleep = !is_other || is_asleep(each->d_name);
  }
  closedir(threads);
  return are_asleep;
}

void wait_for_quiet() {
  for (int round = 0; round < kMostRounds && !others_are_asleep(); ++round) usleep(1000);
}

// A thread that waits for a lock of the library, which may be held by now, is asleep too.
[[maybe_unused]] const int registered = pthread_atfork(wait_for_quiet, nullptr, nullptr);

}  // namespace
