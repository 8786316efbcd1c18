// SPDX-License-Identifier: Apache-2.0
// One block and two processes, in C: each sees what the other writes, whichever ends first. It can be taken
// anywhere, and run on a GPU too.
//
//   export_block            both processes, once in each order
//   export_block export     writes a handle, waits for a line, and says whether the importer has answered
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"

#define MIB (UINT64_C(1) << 20)
#define SIZE (37 * MIB)

static gpupool_t* make_pool(void) {
  gpupool_t* pool = NULL;
  OK(gpupool_create(NULL, &pool));
  return pool;
}

// The byte that all of [ptr, ptr + SIZE) has; -1: they differ.
static int byte_at(gpupool_t* pool, gpupool_ptr_t ptr) {
  static unsigned char bytes[SIZE];
  OK(gpupool_copy(pool, (gpupool_ptr_t)(uintptr_t)bytes, ptr, SIZE, 0));
  OK(gpupool_stream_synchronize(pool, 0));
  for (size_t i = 1; i < SIZE; ++i) {
    if (bytes[i] != bytes[0]) return -1;
  }
  return bytes[0];
}

static void fill(gpupool_t* pool, gpupool_ptr_t ptr, int byte) {
  OK(gpupool_fill(pool, ptr, (uint32_t)byte, SIZE, 0));
  OK(gpupool_stream_synchronize(pool, 0));
}

static void tell(int pipe, char what) {
  CHECK(write(pipe, &what, 1) == 1);
}

static void await(int pipe, char what) {
  char got = 0;
  CHECK(read(pipe, &got, 1) == 1 && got == what);
}

// How much of the pool's memory blocks use, in this process or others.
static uint64_t active(gpupool_t* pool) {
  gpupool_stats_t stats;
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  OK(gpupool_stats(pool, &stats));
  return stats.all.active_bytes.current;
}

static void export_it(int in, int out, int exporter_ends_first) {
  gpupool_t* const pool = make_pool();
  gpupool_ptr_t block = 0;
  char handle[GPUPOOL_EXPORT_BYTES];
  memset(handle, 0, sizeof handle);
  OK(gpupool_malloc(pool, SIZE, 0, &block));
  fill(pool, block, 1);
  OK(gpupool_export(pool, block, handle, sizeof handle));
  CHECK(write(out, handle, sizeof handle) == (ssize_t)sizeof handle);
  await(in, 'w');  // the importer has written
  CHECK(byte_at(pool, block) == 2);
  FAILS(GPUPOOL_ERROR_UNAVAILABLE, gpupool_sleep(pool, NULL, NULL));
  OK(gpupool_free(pool, block, 0));
  CHECK(active(pool) == SIZE);
  gpupool_ptr_t other = 0;
  OK(gpupool_malloc(pool, SIZE, 0, &other));
  CHECK(other != block);
  fill(pool, other, 3);
  if (exporter_ends_first) return;
  tell(out, 'f');  // freed, and its memory was not reused
  await(in, 'c');
  CHECK(active(pool) == SIZE);
  OK(gpupool_free(pool, other, 0));
  OK(gpupool_empty(pool, NULL));
  OK(gpupool_sleep(pool, NULL, NULL));
  OK(gpupool_validate(pool));
}

static void import_it(int in, int out, int exporter_ends_first) {
  char handle[GPUPOOL_EXPORT_BYTES];
  size_t got = 0;
  while (got < sizeof handle) {
    const ssize_t more = read(in, handle + got, sizeof handle - got);
    CHECK(more > 0);
    if (more <= 0) return;
    got += (size_t)more;
  }
  gpupool_t* const pool = make_pool();
  gpupool_ptr_t block = 0;
  uint64_t size = 0;
  OK(gpupool_import(pool, handle, &block, &size));
  CHECK(size == SIZE);
  CHECK(byte_at(pool, block) == 1);
  fill(pool, block, 2);
  tell(out, 'w');
  if (exporter_ends_first) {
    char none = 0;
    CHECK(read(in, &none, 1) == 0);  // its end
  } else {
    await(in, 'f');
  }
  CHECK(byte_at(pool, block) == 2);
  OK(gpupool_import_close(pool, block));
  FAILS(GPUPOOL_ERROR_UNKNOWN_POINTER, gpupool_import_close(pool, block));
  gpupool_ptr_t again = 1;
  FAILS(GPUPOOL_ERROR_UNAVAILABLE, gpupool_import(pool, handle, &again, &size));
  CHECK(again == 0);
  if (!exporter_ends_first) tell(out, 'c');
}

// Each process is a child of its own, so that neither has what the other did before.
static void test_order(int exporter_ends_first) {
  int to_importer[2];
  int to_exporter[2];
  CHECK(pipe(to_importer) == 0 && pipe(to_exporter) == 0);
  pid_t children[2];
  for (int i = 0; i < 2; ++i) {
    children[i] = fork();
    if (children[i] != 0) continue;
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* for Yama: the importer is a sibling */
    close(to_importer[i == 0 ? 0 : 1]);
    close(to_exporter[i == 0 ? 1 : 0]);
    if (i == 0) {
      export_it(to_exporter[0], to_importer[1], exporter_ends_first);
    } else {
      import_it(to_importer[0], to_exporter[1], exporter_ends_first);
    }
    _exit(finish());
  }
  for (int i = 0; i < 2; ++i) {
    close(to_importer[i]);
    close(to_exporter[i]);
  }
  for (int i = 0; i < 2; ++i) {
    int status = -1;
    CHECK(waitpid(children[i], &status, 0) == children[i]);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

// For an importer in another language, which writes 2 over the 1, and a line when it has.
static void export_only(void) {
  gpupool_t* const pool = make_pool();
  gpupool_ptr_t block = 0;
  char handle[GPUPOOL_EXPORT_BYTES];
  OK(gpupool_malloc(pool, SIZE, 0, &block));
  fill(pool, block, 1);
  OK(gpupool_export(pool, block, handle, sizeof handle));
  printf("%s\n", handle);
  fflush(stdout);
  (void)getchar();
  CHECK(byte_at(pool, block) == 2);
  OK(gpupool_free(pool, block, 0));
  CHECK(active(pool) == SIZE);
  printf("freed\n");
  fflush(stdout);
  while (getchar() != EOF) {
  }
  CHECK(active(pool) == 0);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "export") == 0) {
    export_only();
    return finish();
  }
  test_order(0);
  test_order(1);
  return finish();
}
