// SPDX-License-Identifier: Apache-2.0
// Allocate, use, free, and see what the pool did. Runs on a GPU or, without one, on the simulated device.
#include <gpupool/gpupool.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 1000000

// Ends the program if a call fails, with the library's explanation.
static void ok(gpupool_status_t status) {
  if (status == GPUPOOL_SUCCESS) return;
  gpupool_error_t error = {.struct_size = sizeof error};
  gpupool_last_error(&error);
  fprintf(stderr, "%s: %s\n", gpupool_status_name(status), error.message);
  exit(EXIT_FAILURE);
}

static gpupool_ptr_t address_of(const void* host) {
  return (gpupool_ptr_t)(uintptr_t)host;
}

int main(void) {
  gpupool_t* pool = NULL;
  ok(gpupool_create(NULL, &pool));  // all defaults
  gpupool_device_info_t device = {.struct_size = sizeof device};
  ok(gpupool_device_info(GPUPOOL_BACKEND_AUTO, 0, &device));
  printf("on %s\n", device.name);

  // A program that uses CUDA already passes its own cudaStream_t, cast to an integer.
  gpupool_stream_t stream = 0;
  ok(gpupool_stream_create(pool, &stream));

  float* sent = malloc(COUNT * sizeof *sent);
  float* received = calloc(COUNT, sizeof *received);
  if (sent == NULL || received == NULL) return EXIT_FAILURE;
  for (int i = 0; i < COUNT; ++i) sent[i] = (float)i;

  // Work is queued, in order; only the last call waits.
  gpupool_ptr_t a = 0, b = 0;
  const uint64_t bytes = COUNT * sizeof *sent;
  ok(gpupool_malloc(pool, bytes, stream, &a));
  ok(gpupool_malloc(pool, bytes, stream, &b));
  ok(gpupool_copy(pool, a, address_of(sent), bytes, stream));
  ok(gpupool_copy(pool, b, a, bytes, stream));
  ok(gpupool_copy(pool, address_of(received), b, bytes, stream));
  ok(gpupool_free(pool, a, stream));  // at once: what is queued may still use them
  ok(gpupool_free(pool, b, stream));
  ok(gpupool_stream_synchronize(pool, stream));
  const int same = memcmp(sent, received, bytes) == 0;
  printf("%d floats there and back: %s\n", COUNT, same ? "the same" : "DIFFERENT");

  // The second time, the pool has what it needs.
  gpupool_stats_t before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
  ok(gpupool_stats(pool, &before));
  ok(gpupool_malloc(pool, bytes, stream, &a));
  ok(gpupool_free(pool, a, stream));
  ok(gpupool_stats(pool, &after));
  const int cached = after.driver.create.count == before.driver.create.count && after.hits > before.hits;
  printf("live peak %" PRIu64 ", reserved peak %" PRIu64 ", chunks created: %" PRIu64 "\n",
         after.all.allocated_bytes.peak, after.all.reserved_bytes.peak, after.driver.create.count);

  ok(gpupool_stream_destroy(pool, stream));
  ok(gpupool_destroy(pool));
  free(sent);
  free(received);
  return same && cached ? EXIT_SUCCESS : EXIT_FAILURE;
}
