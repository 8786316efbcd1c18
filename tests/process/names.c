// SPDX-License-Identifier: Apache-2.0
// A failure, the report and a recording name the functions of a program that exports none, and begin with the
// one that called the library, also where the library is part of the program.
#define _GNU_SOURCE  // mkdtemp
#include <stdlib.h>
#include <unistd.h>

#include "support/check.h"

#define GIB ((uint64_t)1 << 30)

// The call is not the last thing that they do, so that they have a frame.
static __attribute__((noinline)) gpupool_ptr_t load_weights(gpupool_t* pool) {
  gpupool_ptr_t block = new_block(pool, 6 * GIB);
  block += stats_of(pool).struct_size == 0;
  return block;
}

static __attribute__((noinline)) gpupool_ptr_t start_server(gpupool_t* pool) {
  gpupool_ptr_t block = load_weights(pool);
  block += stats_of(pool).struct_size == 0;
  return block;
}

// What follows `before` in a text; "" if it is not there.
static const char* after(const char* text, const char* before) {
  const char* found = strstr(text, before);
  return found == NULL ? "" : found + strlen(before);
}

static void has_line(const char* text, const char* line) {
  if (strncmp(text, line, strlen(line)) == 0) return;
  fprintf(stderr, "\"%.200s\" does not begin with \"%s\"\n", text, line);
  ++check_failures;
}

// The first text of a stack in the recording, which is not packed: its first line ends in a line feed.
static void recording_names(const char* path) {
  static char bytes[1 << 22];
  FILE* file = fopen(path, "rb");
  REQUIRE(file != NULL);
  const size_t length = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  const char* const name = "load_weights+0x";
  const char* found = memmem(bytes, length, name, strlen(name));
  REQUIRE(found != NULL);
  const char* const line = memchr(found, '\n', 200);
  CHECK(line != NULL && strncmp(line + 1, "start_server+0x", strlen("start_server+0x")) == 0);
  const char* const module = memmem(found, 200, " (process_names", strlen(" (process_names"));
  CHECK(module != NULL && module < line);
  CHECK(memmem(bytes, length, "gpupool::internal", strlen("gpupool::internal")) == NULL);
}

int main(void) {
  char path[] = "/tmp/gpupool-names-XXXXXX";
  REQUIRE(mkdtemp(path) != NULL);
  char recording[64];
  snprintf(recording, sizeof recording, "%s/names.gpt", path);
  OK(gpupool_record_start(recording, GPUPOOL_RECORD_NATIVE_STACKS));
  gpupool_t* pool = new_pool(0);
  OK(gpupool_set_limit(pool, 8 * GIB));
  const gpupool_ptr_t block = start_server(pool);

  gpupool_ptr_t none = 0;
  FAILS(GPUPOOL_ERROR_OVER_LIMIT, gpupool_malloc(pool, 3 * GIB, 0, &none));
  gpupool_error_t error;
  error.struct_size = sizeof error;
  OK(gpupool_last_error(&error));
  has_line(after(error.message, "\nMost is held by:\n  6.00 GiB from "), "load_weights+0x");

  char report[8192];
  size_t length = 0;
  OK(gpupool_report(pool, report, sizeof report, &length));
  has_line(after(report, "6.00 GiB from "), "load_weights+0x");

  gpupool_holder_t holder;
  size_t holders = 0;
  OK(gpupool_holders(pool, &holder, sizeof holder, 1, &holders));
  CHECK(holders == 1);
  has_line(holder.stack, "load_weights+0x");
  has_line(after(holder.stack, "\n"), "start_server+0x");

  OK(gpupool_free(pool, block, 0));
  OK(gpupool_destroy(pool));
  OK(gpupool_record_stop());
  recording_names(recording);
  remove(recording);
  rmdir(path);
  return finish();
}
