// SPDX-License-Identifier: Apache-2.0
// A host program that touches blocks of the simulated device by pointers, in debug mode annotate: rightly, or
// with the bug that its argument names. test_checkers.py runs it under AddressSanitizer and Valgrind.
#include <stdint.h>
#include <unistd.h>

#include "support/check.h"

enum { kSmall = 1001, kLarge = 3 << 20 };

static gpupool_t* pool;

static gpupool_t* make_pool(int32_t mode) {
  gpupool_config_t config;
  OK(gpupool_config_init(&config, sizeof config));
  config.backend = GPUPOOL_BACKEND_SIM;
  config.mode = mode;
  gpupool_t* made = NULL;
  OK(gpupool_create(&config, &made));
  return made;
}

static volatile unsigned char* take(uint64_t bytes, gpupool_stream_t stream) {
  gpupool_ptr_t address = 0;
  OK(gpupool_malloc(pool, bytes, stream, &address));
  return (volatile unsigned char*)address;
}

static gpupool_ptr_t address_of(volatile unsigned char* block) {
  return (gpupool_ptr_t)block;
}

static void give(volatile unsigned char* block, gpupool_stream_t stream) {
  OK(gpupool_free(pool, address_of(block), stream));
}

static void touch_all(volatile unsigned char* block, uint64_t bytes, unsigned char value) {
  for (uint64_t i = 0; i < bytes; i += i < 64 ? 1 : 4099) block[i] = value;
  block[bytes - 1] = value;
  CHECK(block[0] == value && block[bytes - 1] == value);
}

static uint64_t faults(void) {
  uint64_t count = 0;
  OK(gpupool_sim_faults(0, &count, NULL, 0));
  return count;
}

static void sleep_and_wake(void) {
  OK(gpupool_sleep(pool, NULL, NULL));
  OK(gpupool_wake(pool, NULL, NULL));
}

// ---- what is right

static void use_rightly(void) {
  static const uint64_t kSizes[] = {1, 8, kSmall, 4096, 1 << 20, kLarge, (5 << 20) + 3};
  volatile unsigned char* blocks[7];
  for (int round = 0; round < 3; ++round) {
    gpupool_stream_t stream = 0;
    OK(gpupool_stream_create(pool, &stream));
    for (int i = 0; i < 7; ++i) {
      blocks[i] = take(kSizes[i], stream);
      touch_all(blocks[i], kSizes[i], (unsigned char)(round + i));
    }
    // By the device, to and from the host and between blocks.
    unsigned char host[kSmall];
    OK(gpupool_fill(pool, address_of(blocks[2]), 42, kSmall, stream));
    OK(gpupool_copy(pool, address_of(blocks[3]), address_of(blocks[2]), kSmall, stream));
    OK(gpupool_copy(pool, (gpupool_ptr_t)host, address_of(blocks[3]), kSmall, stream));
    OK(gpupool_stream_synchronize(pool, stream));
    CHECK(host[kSmall - 1] == 42 && blocks[3][kSmall - 1] == 42);
    volatile unsigned char* fresh = take(kSmall, stream);
    OK(gpupool_copy(pool, address_of(fresh), (gpupool_ptr_t)host, kSmall, stream));
    OK(gpupool_stream_synchronize(pool, stream));
    CHECK(fresh[0] == 42);
    OK(gpupool_record_stream(pool, address_of(fresh), 0));
    give(fresh, stream);
    for (int i = round % 2; i < 7; i += 2) give(blocks[i], stream);
    for (int i = 1 - round % 2; i < 7; i += 2) give(blocks[i], stream);
    OK(gpupool_stream_synchronize(pool, stream));
    OK(gpupool_stream_destroy(pool, stream));
  }
  OK(gpupool_empty(pool, NULL));
  CHECK(faults() == 0);
}

static void sleep_rightly(void) {
  volatile unsigned char* block = take(kSmall, 0);
  touch_all(block, kSmall, 7);
  give(take(kLarge, 0), 0);
  sleep_and_wake();
  CHECK(block[kSmall - 1] == 7);
  touch_all(block, kSmall, 8);
  give(block, 0);
  CHECK(faults() == 0);
}

// ---- bugs that a tool must find

static void read_after_free(void) {
  volatile unsigned char* block = take(kSmall, 0);
  touch_all(block, kSmall, 1);
  give(block, 0);
  printf("%d\n", block[500]);
}

static void write_after_free(void) {
  volatile unsigned char* block = take(kLarge, 0);
  touch_all(block, kLarge, 1);
  give(block, 0);
  block[kLarge / 2] = 1;
}

static void write_one_beyond(void) {
  take(kSmall, 0)[kSmall] = 1;
}

static void read_one_beyond_large(void) {
  volatile unsigned char* block = take(kLarge, 0);
  take(kLarge, 0);
  printf("%d\n", block[kLarge]);
}

static void write_one_before(void) {
  take(kLarge, 0);
  take(kLarge, 0)[-1] = 1;
}

// Two pieces with a block between: the other stream gets one of them at another address, which stays closed.
static void read_after_move(void) {
  gpupool_stream_t other = 0;
  OK(gpupool_stream_create(pool, &other));
  OK(gpupool_set_limit(pool, 16 << 20));
  volatile unsigned char* first = take(6 << 20, 0);
  volatile unsigned char* between = take(2 << 20, 0);
  volatile unsigned char* last = take(6 << 20, 0);
  give(first, 0);
  give(last, 0);
  OK(gpupool_synchronize(pool));
  touch_all(take(8 << 20, other), 8 << 20, 1);
  printf("%d %d\n", first[0], last[0]);
  give(between, 0);
}

static void read_after_destroy(void) {
  volatile unsigned char* block = take(kSmall, 0);
  give(block, 0);
  OK(gpupool_destroy(pool));
  printf("%d\n", block[0]);
}

static void write_beyond_after_wake(void) {
  volatile unsigned char* block = take(kSmall, 0);
  touch_all(block, kSmall, 1);
  sleep_and_wake();
  block[kSmall] = 1;
}

static void write_beyond_after_protect(void) {
  gpupool_ptr_t block = 0;
  OK(gpupool_malloc_aligned(pool, (4 << 20) - 512, 2 << 20, 0, &block));
  OK(gpupool_protect(pool, block, GPUPOOL_ACCESS_READ));
  OK(gpupool_protect(pool, block, GPUPOOL_ACCESS_WRITE));
  ((volatile unsigned char*)block)[(4 << 20) - 512] = 1;
}

static void read_after_free_in_child(void) {
  volatile unsigned char* block = take(kSmall, 0);
  give(block, 0);
  if (fork() == 0) printf("%d\n", block[0]);
}

static void read_unwritten(void) {
  volatile unsigned char* block = take(kSmall, 0);
  touch_all(block, kSmall, 1);
  give(block, 0);
  if (take(kSmall, 0)[0] != 1) puts("another value");
}

// ---- bugs of work, which the device finds itself

static void copy_after_free(void) {
  unsigned char host[kSmall] = {0};
  volatile unsigned char* block = take(kSmall, 0);
  give(block, 0);
  FAILS(GPUPOOL_ERROR_DRIVER, gpupool_copy(pool, (gpupool_ptr_t)host, address_of(block), kSmall, 0));
  FAILS(GPUPOOL_ERROR_DRIVER, gpupool_fill(pool, address_of(block), 1, 1, 0));
  block = take(kSmall, 0);
  FAILS(GPUPOOL_ERROR_DRIVER, gpupool_fill(pool, address_of(block), 1, kSmall + 1, 0));
  FAILS(GPUPOOL_ERROR_DRIVER, gpupool_sim_work(0, 0, address_of(block), kSmall + 1, 10));
  CHECK(faults() == 4);
  OK(gpupool_fill(pool, address_of(block), 1, kSmall, 0));
  give(block, 0);
}

static const struct {
  const char* name;
  void (*run)(void);
} kCases[] = {{"use_rightly", use_rightly},
              {"sleep_rightly", sleep_rightly},
              {"read_after_free", read_after_free},
              {"write_after_free", write_after_free},
              {"write_one_beyond", write_one_beyond},
              {"read_one_beyond_large", read_one_beyond_large},
              {"write_one_before", write_one_before},
              {"read_after_move", read_after_move},
              {"read_after_destroy", read_after_destroy},
              {"write_beyond_after_wake", write_beyond_after_wake},
              {"write_beyond_after_protect", write_beyond_after_protect},
              {"read_after_free_in_child", read_after_free_in_child},
              {"read_unwritten", read_unwritten},
              {"copy_after_free", copy_after_free}};

int main(int count, char** words) {
  REQUIRE(count == 3);
  pool = make_pool(strcmp(words[2], "driver") == 0 ? GPUPOOL_MODE_DRIVER : GPUPOOL_MODE_VMM);
  for (size_t i = 0; i < sizeof kCases / sizeof kCases[0]; ++i) {
    if (strcmp(words[1], kCases[i].name) != 0) continue;
    kCases[i].run();
    return finish();
  }
  fprintf(stderr, "no case is called %s\n", words[1]);
  return EXIT_FAILURE;
}
