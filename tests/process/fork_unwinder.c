// SPDX-License-Identifier: Apache-2.0
// A thread that the child does not have may have been in libunwind, whose locks nobody opens then: the child
// takes its stacks without it.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"

static size_t count_holders(gpupool_t* pool) {
  size_t count = 0;
  OK(gpupool_holders(pool, NULL, sizeof(gpupool_holder_t), 0, &count));
  return count;
}

static int in_child(const int* calls) {
  const int before = *calls;
  gpupool_t* pool = new_pool(1);
  (void)new_block(pool, 4096);
  CHECK(count_holders(pool) == 1);
  CHECK(*calls == before);
  return finish();
}

int main(void) {
  void* library = dlopen("libunwind.so.8", RTLD_NOW);
  REQUIRE(library != NULL);
  const int* calls = dlsym(library, "fake_unwind_calls");
  REQUIRE(calls != NULL);
  OK(gpupool_set_sampling(1));
  gpupool_t* pool = new_pool(0);
  (void)new_block(pool, 4096);
  CHECK(count_holders(pool) == 1);
  CHECK(*calls != 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(in_child(calls));
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return finish();
}
