// SPDX-License-Identifier: Apache-2.0
// A block belongs to the stream it was allocated for. When another stream uses it too, say so: it is then
// handed out again only when that stream has passed.
#include <gpupool/gpupool.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define BYTES (64u << 20)

static void ok(gpupool_status_t status) {
  if (status == GPUPOOL_SUCCESS) return;
  gpupool_error_t error = {.struct_size = sizeof error};
  gpupool_last_error(&error);
  fprintf(stderr, "%s: %s\n", gpupool_status_name(status), error.message);
  exit(EXIT_FAILURE);
}

int main(void) {
  gpupool_t* pool = NULL;
  gpupool_stream_t compute = 0, transfer = 0;
  ok(gpupool_create(NULL, &pool));
  ok(gpupool_stream_create(pool, &compute));
  ok(gpupool_stream_create(pool, &transfer));
  unsigned char* received = calloc(BYTES, 1);
  if (received == NULL) return EXIT_FAILURE;

  // One stream: freed and allocated again at once, with no event and no wait, since a stream runs in order.
  gpupool_ptr_t first = 0, again = 0;
  ok(gpupool_malloc(pool, BYTES, compute, &first));
  ok(gpupool_fill(pool, first, 1, BYTES, compute));
  ok(gpupool_free(pool, first, compute));
  ok(gpupool_malloc(pool, BYTES, compute, &again));
  printf("same stream: the block is %s\n", again == first ? "reused at once" : "ANOTHER ONE");

  // Two streams: transfer reads what compute has written, and compute goes on.
  gpupool_ptr_t shared = again, next = 0;
  ok(gpupool_fill(pool, shared, 2, BYTES, compute));
  ok(gpupool_stream_synchronize(pool, compute));  // a CUDA program would make transfer wait for an event
  ok(gpupool_copy(pool, (gpupool_ptr_t)(uintptr_t)received, shared, BYTES, transfer));
  ok(gpupool_record_stream(pool, shared, transfer));
  ok(gpupool_free(pool, shared, compute));

  gpupool_stats_t stats = {.struct_size = sizeof stats};
  ok(gpupool_stats(pool, &stats));
  printf("freed while transfer reads it: %" PRIu64 " bytes wait for transfer\n",
         stats.all.active_bytes.current - stats.all.allocated_bytes.current);

  // compute gets memory that transfer does not read, whether it is done or not.
  ok(gpupool_malloc(pool, BYTES, compute, &next));
  ok(gpupool_fill(pool, next, 3, BYTES, compute));
  ok(gpupool_synchronize(pool));
  unsigned disturbed = 0;
  for (unsigned i = 0; i < BYTES; ++i) disturbed += received[i] != 2;
  printf("transfer has read %u bytes, %u of them disturbed\n", BYTES, disturbed);

  ok(gpupool_free(pool, next, compute));
  ok(gpupool_stream_destroy(pool, compute));
  ok(gpupool_stream_destroy(pool, transfer));
  ok(gpupool_destroy(pool));
  free(received);
  return again == first && disturbed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
