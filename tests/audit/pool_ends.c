// SPDX-License-Identifier: Apache-2.0
// One thread makes pools, uses each, and destroys it; another asks for more than the card has, so that the
// hooks look into all pools. The argument says how often.
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define FUNCTION(name, types) ((int(*) types)(uintptr_t)dlsym(driver, name))

typedef unsigned long long address_t;

struct properties {
  unsigned type, handles, location;
  int device;
  unsigned rest[32];
};

static void* driver;
static void* context;
static long turns;

static void* make_pools(void* unused) {
  const struct properties wanted = {1, 0, 1, 0, {0}};
  int (*create)(void**, const void*) = FUNCTION("cuMemPoolCreate", (void**, const void*));
  int (*destroy)(void*) = FUNCTION("cuMemPoolDestroy", (void*));
  int (*take)(address_t*, size_t, void*, void*) =
      FUNCTION("cuMemAllocFromPoolAsync", (address_t*, size_t, void*, void*));
  int (*give)(address_t, void*) = FUNCTION("cuMemFreeAsync", (address_t, void*));
  FUNCTION("cuCtxSetCurrent", (void*))(context);
  for (long turn = 0; turn < turns; ++turn) {
    void* pool = NULL;
    address_t block = 0;
    if (create(&pool, &wanted) != 0) exit(90);
    if (take(&block, 2 << 20, pool, NULL) == 0 && give(block, NULL) != 0) exit(91);
    if (destroy(pool) != 0) exit(92);
  }
  return unused;
}

int main(int count, char** words) {
  turns = count == 2 ? atol(words[1]) : 0;
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL || FUNCTION("cuInit", (unsigned))(0) != 0) return 93;
  if (FUNCTION("cuDevicePrimaryCtxRetain", (void**, int))(&context, 0) != 0) return 94;
  FUNCTION("cuCtxSetCurrent", (void*))(context);
  pthread_t maker;
  if (pthread_create(&maker, NULL, make_pools, NULL) != 0) return 95;
  int (*alloc)(address_t*, size_t) = FUNCTION("cuMemAlloc_v2", (address_t*, size_t));
  address_t block = 0;
  for (long turn = 0; turn < turns; ++turn)
    if (alloc(&block, (size_t)1 << 40) != 2) return 96;
  return pthread_join(maker, NULL) == 0 ? 0 : 97;
}
