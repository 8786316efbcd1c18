/* SPDX-License-Identifier: Apache-2.0 */
/* The program of one_card.py in C: "become BYTES LARGEST SEED" and "work TIMES SEED", a line each; answers
 * "ok NANOSECONDS", or what went wrong.
 *
 *   cc -O2 -Iinclude one_card.c -o one_card -L... -lgpupool
 *   one_card DEVICE      sim, cuda:0 and so on */
#include <gpupool/gpupool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 1 << 16 };
static const uint64_t kMiB = 1 << 20;

static struct {
  gpupool_ptr_t at;
  uint64_t size;
  unsigned char byte;
} live[MOST];
static size_t count;
static uint64_t sum;
static uint64_t state;
static gpupool_t* pool;
static gpupool_stream_t stream;
static const char* wrong;

static uint64_t number_below(uint64_t end) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % end;
}

static int is_good(gpupool_status_t status) {
  static gpupool_error_t error;
  if (status == GPUPOOL_SUCCESS) return 1;
  error.struct_size = sizeof error;
  gpupool_last_error(&error);
  wrong = error.message;
  return 0;
}

static int take(uint64_t size) {
  gpupool_ptr_t at = 0;
  const unsigned char byte = (unsigned char)(1 + number_below(255));
  if (count == MOST) {
    wrong = "too many blocks";
    return 0;
  }
  if (!is_good(gpupool_malloc(pool, size, stream, &at)) ||
      !is_good(gpupool_fill(pool, at, byte, size, stream)))
    return 0;
  live[count].at = at;
  live[count].size = size;
  live[count++].byte = byte;
  sum += size;
  return 1;
}

static int drop(size_t which) {
  unsigned char last = 0;
  const gpupool_ptr_t at = live[which].at;
  const uint64_t size = live[which].size;
  if (!is_good(gpupool_copy(pool, (gpupool_ptr_t)(uintptr_t)&last, at + size - 1, 1, stream)) ||
      !is_good(gpupool_stream_synchronize(pool, stream)))
    return 0;
  if (last != live[which].byte) wrong = "wrong bytes";
  live[which] = live[--count];
  sum -= size;
  return is_good(gpupool_free(pool, at, stream)) && wrong == NULL;
}

static int become(uint64_t wanted, uint64_t largest) {
  while (sum > wanted) {
    if (!drop(number_below(count))) return 0;
  }
  while (sum < wanted) {
    const uint64_t size = (1 + number_below(largest / kMiB)) * kMiB;
    if (!take(size < wanted - sum ? size : wanted - sum)) return 0;
  }
  return 1;
}

static int work(uint64_t times) {
  for (; times != 0 && count != 0; --times) {
    const size_t which = number_below(count);
    const uint64_t size = live[which].size;
    if (!drop(which) || !take(size)) return 0;
  }
  return 1;
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(int argc, char** argv) {
  char line[200], word[20];
  unsigned long long first, second, third;
  gpupool_config_t config;
  gpupool_config_init(&config, sizeof config);
  config.share_wait_ns = 5000000000u; /* a busy machine may be late */
  if (argc > 1 && strncmp(argv[1], "sim", 3) == 0) config.backend = GPUPOOL_BACKEND_SIM;
  if (argc > 1 && strchr(argv[1], ':') != NULL) config.device = atoi(strchr(argv[1], ':') + 1);
  if (!is_good(gpupool_create(&config, &pool)) || !is_good(gpupool_stream_create(pool, &stream))) {
    fprintf(stderr, "%s\n", wrong);
    return 1;
  }
  while (fgets(line, sizeof line, stdin) != NULL) {
    const int found = sscanf(line, "%19s %llu %llu %llu", word, &first, &second, &third);
    const uint64_t start = now_ns();
    int done = 0;
    wrong = NULL;
    if (found == 4 && strcmp(word, "become") == 0) {
      state = third;
      done = become(first, second);
    } else if (found == 3 && strcmp(word, "work") == 0) {
      state = second;
      done = work(first);
    } else {
      wrong = "no such command";
    }
    if (done && is_good(gpupool_stream_synchronize(pool, stream))) {
      printf("ok %llu\n", (unsigned long long)(now_ns() - start));
    } else {
      printf("failed %s\n", wrong);
    }
    fflush(stdout);
  }
  gpupool_destroy(pool);
  return 0;
}
