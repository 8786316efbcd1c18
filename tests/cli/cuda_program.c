// SPDX-License-Identifier: Apache-2.0
// A program that uses CUDA's driver and has never heard of gpupool. Its arguments are what it does, in this
// order: KIND:MIB takes memory (device, async, pinned, managed, map), "free" and "unmap" give back the last,
// "much" asks for more than there is, "end" gives up the context, "churn:N" takes and frees N times on 4
// threads, "kill" and "wait:S" are what they say, "fork" does the rest in a child, and "exec" does it as
// another program.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long long address_t;

struct properties {
  unsigned type, handles, location, device;
  void* other;
  unsigned char flags[8];
};

static void* driver;
static void* context;
static address_t last;

static void must(int result, const char* what) {
  if (result == 0) return;
  fprintf(stderr, "%s: %d\n", what, result);
  exit(90);
}

#define CALL(name, types, ...) (((int(*) types)(uintptr_t)dlsym(driver, name))(__VA_ARGS__))

static void begin(void) {
  const char* const path = getenv("GPUPOOL_LIBCUDA");
  driver = dlopen(path != NULL ? path : "libcuda.so.1", RTLD_NOW);
  if (driver == NULL) exit(91);
  must(CALL("cuInit", (unsigned), 0), "cuInit");
  must(CALL("cuDevicePrimaryCtxRetain", (void**, int), &context, 0), "cuDevicePrimaryCtxRetain");
  must(CALL("cuCtxPushCurrent_v2", (void*), context), "cuCtxPushCurrent");
}

// Not static, so that the loader knows their names. The first stands for CUDA's runtime, linked statically.
#define SEEN __attribute__((noinline, visibility("default")))
SEEN int cudaMalloc(address_t* to, size_t bytes) {
  const int result = CALL("cuMemAlloc_v2", (address_t*, size_t), to, bytes);
  must(result, "cuMemAlloc");
  return result;
}

SEEN void load_weights(size_t bytes) {
  const int result = cudaMalloc(&last, bytes);
  must(result, "cudaMalloc");
}

// The name of a function of gpupool, where that is a part of the program: gpupool::take(unsigned long).
SEEN void take_as_gpupool(size_t bytes) __asm__("_ZN7gpupool4takeEm");
void take_as_gpupool(size_t bytes) {
  must(CALL("cuMemAlloc_v2", (address_t*, size_t), &last, bytes), "cuMemAlloc");
}

static void take_from_pool(size_t bytes) {
  void* pool = NULL;
  must(CALL("cuDeviceGetMemPool", (void**, int), &pool, 0), "cuDeviceGetMemPool");
  must(CALL("cuMemAllocFromPoolAsync", (address_t*, size_t, void*, void*), &last, bytes, pool, NULL), "pool");
}

static void map(size_t bytes) {
  struct properties wanted;
  address_t chunk = 0;
  memset(&wanted, 0, sizeof wanted);
  wanted.type = 1;
  wanted.location = 1;
  must(CALL("cuMemAddressReserve", (address_t*, size_t, size_t, address_t, address_t), &last, bytes, 0, 0, 0),
       "cuMemAddressReserve");
  must(CALL("cuMemCreate", (address_t*, size_t, const void*, address_t), &chunk, bytes, &wanted, 0),
       "cuMemCreate");
  must(CALL("cuMemMap", (address_t, size_t, size_t, address_t, address_t), last, bytes, 0, chunk, 0),
       "cuMemMap");
  must(CALL("cuMemRelease", (address_t), chunk), "cuMemRelease");
}

static void* churn(void* turns) {
  must(CALL("cuCtxPushCurrent_v2", (void*), context), "cuCtxPushCurrent");
  for (long at = 0; at < (long)(intptr_t)turns; ++at) {
    address_t block = 0;
    must(CALL("cuMemAllocAsync", (address_t*, size_t, void*), &block, 4096, NULL), "cuMemAllocAsync");
    must(CALL("cuMemFreeAsync", (address_t, void*), block, NULL), "cuMemFreeAsync");
  }
  return NULL;
}

static void churn_on_threads(long turns) {
  pthread_t threads[4];
  for (int at = 0; at < 4; ++at) pthread_create(&threads[at], NULL, churn, (void*)(intptr_t)turns);
  for (int at = 0; at < 4; ++at) pthread_join(threads[at], NULL);
}

static size_t size;  // bytes of the last that was taken
static const char* free_function = "cuMemFreeAsync";
static int is_async;

static int is_kind(const char* word, const char* kind, long number) {
  if (strcmp(word, kind) != 0) return 0;
  size = (size_t)number << 20;
  is_async = strncmp(kind, "async", 5) == 0 || strcmp(kind, "pool") == 0;
  free_function = strcmp(kind, "async_ptsz") == 0 ? "cuMemFreeAsync_ptsz" : "cuMemFreeAsync";
  return 1;
}

static void take(const char* word, long number) {
  void* host = NULL;
  size_t pitch = 0;
  if (is_kind(word, "device", number)) load_weights(size);
  if (is_kind(word, "pooled", number)) take_as_gpupool(size);
  if (is_kind(word, "pool", number)) take_from_pool(size);
  if (is_kind(word, "pitch", number))
    must(CALL("cuMemAllocPitch_v2", (address_t*, size_t*, size_t, size_t, unsigned), &last, &pitch, 1000,
              size / 1024, 4),
         "cuMemAllocPitch");
  if (is_kind(word, "async_ptsz", number))
    must(CALL("cuMemAllocAsync_ptsz", (address_t*, size_t, void*), &last, size, NULL),
         "cuMemAllocAsync_ptsz");
  if (is_kind(word, "host", number))
    must(CALL("cuMemAllocHost_v2", (void**, size_t), &host, size), "cuMemAllocHost");
  if (is_kind(word, "async", number))
    must(CALL("cuMemAllocAsync", (address_t*, size_t, void*), &last, size, NULL), "cuMemAllocAsync");
  if (is_kind(word, "pinned", number))
    must(CALL("cuMemHostAlloc", (void**, size_t, unsigned), &host, size, 0), "cuMemHostAlloc");
  if (is_kind(word, "managed", number))
    must(CALL("cuMemAllocManaged", (address_t*, size_t, unsigned), &last, size, 1), "cuMemAllocManaged");
  if (is_kind(word, "map", number)) map(size);
}

static void give_back(void) {
  if (is_async) must(CALL(free_function, (address_t, void*), last, NULL), free_function);
  if (!is_async) must(CALL("cuMemFree_v2", (address_t), last), "cuMemFree");
}

int main(int count, char** words) {
  begin();
  for (int at = 1; at < count; ++at) {
    char* const colon = strchr(words[at], ':');
    const long number = colon != NULL ? atol(colon + 1) : 0;
    if (colon != NULL) *colon = '\0';
    const char* const word = words[at];
    take(word, number);
    if (strcmp(word, "free") == 0) give_back();
    if (strcmp(word, "unmap") == 0) must(CALL("cuMemUnmap", (address_t, size_t), last, size), "cuMemUnmap");
    if (strcmp(word, "much") == 0)
      printf("%d\n", CALL("cuMemAlloc_v2", (address_t*, size_t), &last, 1ULL << 50));
    if (strcmp(word, "much_async") == 0)
      printf("%d\n", CALL("cuMemAllocAsync", (address_t*, size_t, void*), &last, 1ULL << 50, NULL));
    if (strcmp(word, "end") == 0)
      must(CALL("cuDevicePrimaryCtxRelease_v2", (int), 0), "cuDevicePrimaryCtxRelease");
    if (strcmp(word, "churn") == 0) churn_on_threads(number);
    if (strcmp(word, "kill") == 0) kill(getpid(), SIGKILL);
    if (strcmp(word, "wait") == 0) {
      puts("ready");
      fflush(stdout);
      sleep((unsigned)number);
    }
    if (strcmp(word, "fork") == 0 && fork() != 0) {
      wait(NULL);
      return 0;
    }
    if (strcmp(word, "exec") == 0) {
      words[at] = words[0];
      execv(words[0], words + at);
      return 92;
    }
  }
  return 0;
}
