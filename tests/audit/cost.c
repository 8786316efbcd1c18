// SPDX-License-Identifier: Apache-2.0
// Nanoseconds of a call of the driver: one that is not hooked, one that a hook forwards, a pair of cuMemAlloc
// and cuMemFree, one of cuMemAllocAsync, and the first one again beside many blocks and after them; each the
// least of many rounds.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kRounds = 200, kCalls = 2000, kMany = 300000 };

#define FUNCTION(name, types) ((int(*) types)(uintptr_t)dlsym(driver, name))

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void must(int result) {
  if (result != 0) exit(90);
}

// `call` kCalls times, kRounds times.
#define LEAST(to, call)                                   \
  for (int round = 0; round < kRounds; ++round) {         \
    const double begin = now();                           \
    for (int turn = 0; turn < kCalls; ++turn) must(call); \
    const double each = (now() - begin) / kCalls;         \
    if (round == 0 || each < (to)) (to) = each;           \
  }

int main(void) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  void* context = NULL;
  unsigned long long address = 0;
  size_t bytes = 0;
  int device = 0;
  double plain = 0, forwarded = 0, pair = 0, pooled = 0, beside = 0, after = 0;
  static unsigned long long many[kMany];
  if (driver == NULL) return 91;
  must(FUNCTION("cuInit", (unsigned))(0));
  must(FUNCTION("cuDevicePrimaryCtxRetain", (void**, int))(&context, 0));
  must(FUNCTION("cuCtxSetCurrent", (void*))(context));
  int (*const get_device)(int*) = FUNCTION("cuCtxGetDevice", (int*));
  int (*const total)(size_t*, int) = FUNCTION("cuDeviceTotalMem_v2", (size_t*, int));
  int (*const take)(unsigned long long*, size_t) = FUNCTION("cuMemAlloc_v2", (unsigned long long*, size_t));
  int (*const give)(unsigned long long) = FUNCTION("cuMemFree_v2", (unsigned long long));
  int (*const take_async)(unsigned long long*, size_t, void*) =
      FUNCTION("cuMemAllocAsync", (unsigned long long*, size_t, void*));
  int (*const give_async)(unsigned long long, void*) =
      FUNCTION("cuMemFreeAsync", (unsigned long long, void*));
  LEAST(plain, get_device(&device));
  LEAST(forwarded, total(&bytes, 0));
  LEAST(pair, take(&address, 4096) + give(address));
  LEAST(pooled, take_async(&address, 4096, NULL) + give_async(address, NULL));
  for (int at = 0; at < kMany; ++at) must(take(&many[at], 16));
  LEAST(beside, take(&address, 4096) + give(address));
  for (int at = 0; at < kMany; ++at) must(give(many[at]));
  LEAST(after, take(&address, 4096) + give(address));
  printf("%.2f, %.2f, %.2f, %.2f, %.2f, %.2f\n", plain, forwarded, pair, pooled, beside, after);
  return 0;
}
