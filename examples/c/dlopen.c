// SPDX-License-Identifier: Apache-2.0
// A program that uses gpupool if it is installed, and runs without it if not: it links nothing, and takes the
// types from the header. A binding in another language does the same.
#include <dlfcn.h>
#include <gpupool/gpupool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The functions in use, each with the type that the header declares.
static struct {
  __typeof__(&gpupool_version) version;
  __typeof__(&gpupool_version_string) version_string;
  __typeof__(&gpupool_create) create;
  __typeof__(&gpupool_malloc) malloc;
  __typeof__(&gpupool_free) free;
  __typeof__(&gpupool_stats) stats;
  __typeof__(&gpupool_destroy) destroy;
} gpupool;

// Through memcpy, because ISO C knows no conversion from an object's pointer to a function's.
static int find(void* library, const char* name, void* function) {
  void* symbol = dlsym(library, name);
  if (symbol == NULL) fprintf(stderr, "%s\n", dlerror());
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static int load(const char* file) {
  // The number in the name is the contract's version. The library is never closed: it would stay anyway.
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  return library != NULL && find(library, "gpupool_version", &gpupool.version) &&
         find(library, "gpupool_version_string", &gpupool.version_string) &&
         find(library, "gpupool_create", &gpupool.create) &&
         find(library, "gpupool_malloc", &gpupool.malloc) && find(library, "gpupool_free", &gpupool.free) &&
         find(library, "gpupool_stats", &gpupool.stats) && find(library, "gpupool_destroy", &gpupool.destroy);
}

int main(int argc, char** argv) {
  if (!load(argc > 1 ? argv[1] : "libgpupool.so.0.2")) return EXIT_FAILURE;
  printf("gpupool %s, built against %d.%d.%d\n", gpupool.version_string(), GPUPOOL_VERSION_MAJOR,
         GPUPOOL_VERSION_MINOR, GPUPOOL_VERSION_PATCH);
  if (gpupool.version() < GPUPOOL_VERSION) {
    fputs("that is too old\n", stderr);
    return EXIT_FAILURE;
  }

  gpupool_t* pool = NULL;
  gpupool_ptr_t block = 0;
  // A struct of this header works with any later library: struct_size says how much of it there is.
  gpupool_stats_t stats = {.struct_size = sizeof stats};
  const int good = gpupool.create(NULL, &pool) == GPUPOOL_SUCCESS &&
                   gpupool.malloc(pool, 1000, 0, &block) == GPUPOOL_SUCCESS &&
                   gpupool.stats(pool, &stats) == GPUPOOL_SUCCESS &&
                   gpupool.free(pool, block, 0) == GPUPOOL_SUCCESS &&
                   gpupool.destroy(pool) == GPUPOOL_SUCCESS;
  printf("asked for %llu bytes, got %llu\n", (unsigned long long)stats.all.requested_bytes.current,
         (unsigned long long)stats.all.allocated_bytes.current);
  return good && stats.all.allocated_bytes.current == 1024 ? EXIT_SUCCESS : EXIT_FAILURE;
}
