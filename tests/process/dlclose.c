// SPDX-License-Identifier: Apache-2.0
// dlclose LIBRARY: a plugin host loads the library, uses it on several threads and closes it. The library
// stays loaded, because its memory is still in use; nothing crashes then or at exit.
#include <dlfcn.h>
#include <gpupool/gpupool.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gpupool_status_t (*create)(const gpupool_config_t*, gpupool_t**);
static gpupool_status_t (*allocate)(gpupool_t*, uint64_t, gpupool_stream_t, gpupool_ptr_t*);
static gpupool_status_t (*release)(gpupool_t*, gpupool_ptr_t, gpupool_stream_t);
static gpupool_t* pool;
static atomic_int stop;
static atomic_uint rounds;

static void require(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "%s\n", what);
  exit(EXIT_FAILURE);
}

// Through memcpy: ISO C knows no conversion between object and function pointers.
static void find(void* library, const char* name, void* function, size_t size) {
  void* symbol = dlsym(library, name);
  require(symbol != NULL, name);
  memcpy(function, &symbol, size);
}

static void* work(void* argument) {
  (void)argument;
  while (!atomic_load(&stop)) {
    gpupool_ptr_t block = 0;
    const gpupool_status_t status = allocate(pool, 1 << 16, 0, &block);
    if (status == GPUPOOL_ERROR_SHUTTING_DOWN) return NULL;  // main has returned before this thread
    require(status == GPUPOOL_SUCCESS, "malloc");
    require(release(pool, block, 0) == GPUPOOL_SUCCESS, "free");
    atomic_fetch_add(&rounds, 1);
  }
  return NULL;
}

static void wait_for_rounds(unsigned count) {
  const unsigned begin = atomic_load(&rounds);
  while (atomic_load(&rounds) - begin < count) usleep(100);
}

int main(int argument_count, char** arguments) {
  alarm(60);
  require(argument_count == 2, "usage: dlclose LIBRARY");
  void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  require(library != NULL, "dlopen");
  find(library, "gpupool_create", &create, sizeof create);
  find(library, "gpupool_malloc", &allocate, sizeof allocate);
  find(library, "gpupool_free", &release, sizeof release);
  gpupool_config_t config;
  memset(&config, 0, sizeof config);
  config.struct_size = sizeof config;
  const char* backend = getenv("GPUPOOL_BACKEND");
  config.backend =
      backend != NULL && strcmp(backend, "cuda") == 0 ? GPUPOOL_BACKEND_CUDA : GPUPOOL_BACKEND_SIM;
  require(create(&config, &pool) == GPUPOOL_SUCCESS, "create");

  pthread_t ends;
  pthread_t stays;
  require(pthread_create(&ends, NULL, work, NULL) == 0, "pthread_create");
  require(pthread_create(&stays, NULL, work, NULL) == 0, "pthread_create");
  wait_for_rounds(100);
  require(dlclose(library) == 0, "dlclose");
  require(dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) != NULL, "the library was unloaded");
  wait_for_rounds(100);

  // One thread ends after the close, and its thread-local clean-up runs library code; the other never ends.
  atomic_store(&stop, 1);
  require(pthread_join(ends, NULL) == 0, "pthread_join");
  require(pthread_join(stays, NULL) == 0, "pthread_join");
  atomic_store(&stop, 0);
  require(pthread_create(&stays, NULL, work, NULL) == 0, "pthread_create");
  wait_for_rounds(100);
  return EXIT_SUCCESS;
}
