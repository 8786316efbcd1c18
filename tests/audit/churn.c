// SPDX-License-Identifier: Apache-2.0
// Takes and frees memory of several kinds on 16 threads, each as often as the first argument says, with a
// second one of a pool too ("own": eight of each thread), and prints how many were given,
// how many refused, the most that the driver had out at once, and what it has at the end.
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTION(name, types) ((int(*) types)(uintptr_t)dlsym(driver, name))

enum { kThreads = 16, kLive = 8, kPools = 8 };

typedef unsigned long long address_t;

struct properties {
  unsigned type, handles, location;
  int device;
  unsigned rest[32];
};
struct descriptor {
  size_t width, height;
  unsigned format, channels;
};

static void* driver;
static void* context;
static long turns;
static unsigned long given[kThreads], refused[kThreads];

static int (*alloc_memory)(address_t*, size_t);
static int (*free_memory)(address_t);
static int (*create_chunk)(address_t*, size_t, const struct properties*, address_t);
static int (*release_chunk)(address_t);
static int (*create_array)(address_t*, const struct descriptor*);
static int (*destroy_array)(address_t);
static int (*take_async)(address_t*, size_t, void*);
static int (*take_of_pool)(address_t*, size_t, void*, void*);
static __thread void* own_pools[kPools];
static __thread unsigned next_pool;
static int has_own_pools;
static int (*free_async)(address_t, void*);
static unsigned kinds_in_use = 3;  // pools are the fourth

static int take(unsigned kind, size_t bytes, address_t* to) {
  const struct properties wanted = {1, 0, 1, 0, {0}};
  const struct descriptor array = {bytes / 4, 0, 0x20, 1};
  if (kind == 0) return alloc_memory(to, bytes);
  if (kind == 1) return create_chunk(to, bytes, &wanted, 0);
  if (kind == 3 && has_own_pools) return take_of_pool(to, bytes, own_pools[next_pool++ % kPools], NULL);
  if (kind == 3) return take_async(to, bytes, NULL);
  return create_array(to, &array);
}

static int give_back(unsigned kind, address_t address) {
  if (kind == 3) return free_async(address, NULL);
  return kind == 0 ? free_memory(address) : kind == 1 ? release_chunk(address) : destroy_array(address);
}

static void* churn(void* number_of_thread) {
  const size_t thread = (size_t)(uintptr_t)number_of_thread;
  unsigned seed = (unsigned)thread;
  address_t live[kLive] = {0};
  unsigned kinds[kLive] = {0};
  FUNCTION("cuCtxSetCurrent", (void*))(context);
  const struct properties wanted = {1, 0, 1, 0, {0}};
  for (size_t at = 0; has_own_pools && at < kPools; ++at)
    if (FUNCTION("cuMemPoolCreate", (void**, const void*))(&own_pools[at], &wanted) != 0) exit(94);
  for (long turn = 0; turn < turns + kLive; ++turn) {
    const size_t at = (size_t)turn % kLive;
    if (live[at] != 0 && give_back(kinds[at], live[at]) != 0) exit(90);
    live[at] = 0;
    if (turn >= turns) continue;
    kinds[at] = (unsigned)rand_r(&seed) % kinds_in_use;
    const size_t bytes = ((size_t)rand_r(&seed) % 4096 + 1) * 256;
    const int result = take(kinds[at], bytes, &live[at]);
    if (result != 0 && result != 2) exit(91);
    if (result != 0) live[at] = 0;
    ++*(result == 0 ? &given[thread] : &refused[thread]);
  }
  return NULL;
}

int main(int count, char** words) {
  pthread_t threads[kThreads];
  turns = count > 1 ? atol(words[1]) : 1;
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) return 92;
  FUNCTION("cuInit", (unsigned))(0);
  FUNCTION("cuDevicePrimaryCtxRetain", (void**, int))(&context, 0);
  alloc_memory = FUNCTION("cuMemAlloc_v2", (address_t*, size_t));
  free_memory = FUNCTION("cuMemFree_v2", (address_t));
  create_chunk = FUNCTION("cuMemCreate", (address_t*, size_t, const struct properties*, address_t));
  release_chunk = FUNCTION("cuMemRelease", (address_t));
  create_array = FUNCTION("cuArrayCreate_v2", (address_t*, const struct descriptor*));
  destroy_array = FUNCTION("cuArrayDestroy", (address_t));
  take_async = FUNCTION("cuMemAllocAsync", (address_t*, size_t, void*));
  free_async = FUNCTION("cuMemFreeAsync", (address_t, void*));
  take_of_pool = FUNCTION("cuMemAllocFromPoolAsync", (address_t*, size_t, void*, void*));
  if (count > 2) kinds_in_use = 4;
  has_own_pools = count > 2 && strcmp(words[2], "own") == 0;
  for (size_t at = 0; at < kThreads; ++at)
    if (pthread_create(&threads[at], NULL, churn, (void*)(uintptr_t)at) != 0) return 93;
  unsigned long all_given = 0, all_refused = 0;
  for (size_t at = 0; at < kThreads; ++at) {
    pthread_join(threads[at], NULL);
    all_given += given[at];
    all_refused += refused[at];
  }
  const uint64_t peak = ((uint64_t(*)(int))(uintptr_t)dlsym(driver, "driver_peak"))(0);
  const uint64_t used = ((uint64_t(*)(int))(uintptr_t)dlsym(driver, "driver_used"))(0);
  printf("%lu %lu %lu %lu\n", all_given, all_refused, (unsigned long)peak, (unsigned long)used);
  return 0;
}
