// SPDX-License-Identifier: Apache-2.0
// fork: the child has a copy of the contents of the parent's blocks on the simulated device, as of all its
// memory. Neither sees what the other writes afterwards, and both see that an address is one byte.
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"

enum { kSize = 24 << 20, kSmall = 5000 };

static gpupool_t* pool;
static gpupool_t* segments;  // of the driver's own malloc
static unsigned char* blocks[3];
static size_t sizes[3];

static void fill(int value) {
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; ++i) memset(blocks[i], value, sizes[i]);
}

static int holds(int value) {
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; ++i) {
    for (size_t at = 0; at < sizes[i]; at += 997) {
      if (blocks[i][at] != value) return 0;
    }
    if (blocks[i][sizes[i] - 1] != value) return 0;
  }
  return 1;
}

// Waits for the other process's word.
static void wait_for(int from) {
  char word = 0;
  REQUIRE(read(from, &word, 1) == 1);
}
static void tell(int to) {
  REQUIRE(write(to, "x", 1) == 1);
}

static int wait_for_child(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The inherited blocks are a copy in a child of the child as well, and pools of its own are its own.
static void grandchild_is_apart(void) {
  const pid_t grandchild = fork();
  if (grandchild == 0) {
    CHECK(holds(2));
    fill(3);
    CHECK(holds(3));
    exit(finish());
  }
  CHECK(wait_for_child(grandchild));
  CHECK(holds(2));
}

static void in_child(int from_parent, int to_parent) {
  wait_for(from_parent);  // the parent has written
  CHECK(holds(1));
  fill(2);
  CHECK(holds(2));
  tell(to_parent);
  wait_for(from_parent);  // the parent has looked
  grandchild_is_apart();
  gpupool_t* mine = new_pool(0);
  const gpupool_ptr_t block = new_block(mine, kSize);
  memset((void*)(uintptr_t)block, 9, kSize);
  CHECK(holds(2));
  OK(gpupool_free(mine, block, 0));
  OK(gpupool_destroy(mine));
}

// A chunk that was moved is seen at its new address only; its bytes went along.
static gpupool_ptr_t moved_block(void) {
  const gpupool_ptr_t first = new_block(pool, kSize / 2);
  const gpupool_ptr_t second = new_block(pool, kSize / 2);
  OK(gpupool_free(pool, first, 0));
  OK(gpupool_free(pool, second, 0));
  return new_block(pool, kSize);
}

int main(void) {
  alarm(60);
  // On any other backend memory is not the library's to copy.
  pool = new_pool(0);
  if (config_for(0).backend != GPUPOOL_BACKEND_SIM) return 0;
  gpupool_config_t config = config_for(0);
  config.mode = GPUPOOL_MODE_DRIVER;
  OK(gpupool_create(&config, &segments));
  blocks[0] = (unsigned char*)(uintptr_t)moved_block();
  sizes[0] = kSize;
  blocks[1] = (unsigned char*)(uintptr_t)new_block(pool, kSmall);
  sizes[1] = kSmall;
  blocks[2] = (unsigned char*)(uintptr_t)new_block(segments, kSize);
  sizes[2] = kSize;
  fill(1);

  int to_child[2];
  int to_parent[2];
  REQUIRE(pipe(to_child) == 0 && pipe(to_parent) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);
    in_child(to_child[0], to_parent[1]);
    return finish();
  }
  fill(4);
  tell(to_child[1]);
  wait_for(to_parent[0]);  // the child has written
  CHECK(holds(4));
  tell(to_child[1]);
  CHECK(wait_for_child(child));
  CHECK(holds(4));
  OK(gpupool_fill(pool, (gpupool_ptr_t)(uintptr_t)blocks[0], 5, kSize, 0));
  CHECK(blocks[0][kSize - 1] == 5);
  return finish();
}
