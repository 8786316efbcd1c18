// SPDX-License-Identifier: Apache-2.0
// two_copies LIBRARY COPY: two copies of the library in one process each have their own pools, and refuse
// each other's. Uses the header through dlopen only: this program is not linked to gpupool.
#include <dlfcn.h>
#include <gpupool/gpupool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  void* library;
  uint32_t (*version)(void);
  gpupool_status_t (*config_init)(gpupool_config_t*, size_t);
  gpupool_status_t (*create)(const gpupool_config_t*, gpupool_t**);
  gpupool_status_t (*destroy)(gpupool_t*);
  gpupool_status_t (*malloc)(gpupool_t*, uint64_t, gpupool_stream_t, gpupool_ptr_t*);
  gpupool_status_t (*free)(gpupool_t*, gpupool_ptr_t, gpupool_stream_t);
  gpupool_status_t (*stats)(gpupool_t*, gpupool_stats_t*);
  gpupool_status_t (*last_error)(gpupool_error_t*);
  gpupool_status_t (*default_pool)(int32_t, gpupool_t**);
  gpupool_t* pool;
  gpupool_ptr_t block;
} copy_t;

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

static copy_t load(const char* path) {
  copy_t copy;
  memset(&copy, 0, sizeof copy);
  copy.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  require(copy.library != NULL, path);
  find(copy.library, "gpupool_version", &copy.version, sizeof copy.version);
  find(copy.library, "gpupool_config_init", &copy.config_init, sizeof copy.config_init);
  find(copy.library, "gpupool_create", &copy.create, sizeof copy.create);
  find(copy.library, "gpupool_destroy", &copy.destroy, sizeof copy.destroy);
  find(copy.library, "gpupool_malloc", &copy.malloc, sizeof copy.malloc);
  find(copy.library, "gpupool_free", &copy.free, sizeof copy.free);
  find(copy.library, "gpupool_stats", &copy.stats, sizeof copy.stats);
  find(copy.library, "gpupool_last_error", &copy.last_error, sizeof copy.last_error);
  find(copy.library, "gpupool_default_pool", &copy.default_pool, sizeof copy.default_pool);
  require(copy.version() == GPUPOOL_VERSION, "the version differs from the header's");

  gpupool_config_t config;
  require(copy.config_init(&config, sizeof config) == GPUPOOL_SUCCESS, "config_init");
  config.backend = GPUPOOL_BACKEND_SIM;
  require(copy.create(&config, &copy.pool) == GPUPOOL_SUCCESS, "create");
  require(copy.malloc(copy.pool, 1 << 20, 0, &copy.block) == GPUPOOL_SUCCESS, "malloc");
  return copy;
}

// `copy` refuses the pool of `other`, in words.
static void refuses(const copy_t* copy, const copy_t* other) {
  gpupool_ptr_t block = 1;
  require(copy->malloc(other->pool, 512, 0, &block) == GPUPOOL_ERROR_INVALID_ARGUMENT && block == 0,
          "malloc in the other copy's pool");
  require(copy->free(other->pool, other->block, 0) == GPUPOOL_ERROR_INVALID_ARGUMENT,
          "free in the other copy's pool");
  require(copy->destroy(other->pool) == GPUPOOL_ERROR_INVALID_ARGUMENT, "destroy of the other copy's pool");
  gpupool_error_t error;
  error.struct_size = sizeof error;
  require(copy->last_error(&error) == GPUPOOL_SUCCESS && error.status == GPUPOOL_ERROR_INVALID_ARGUMENT &&
              error.message[0] != '\0',
          "the message");
}

static uint64_t live_blocks(const copy_t* copy) {
  gpupool_stats_t stats;
  stats.struct_size = sizeof stats;
  require(copy->stats(copy->pool, &stats) == GPUPOOL_SUCCESS, "stats");
  return stats.all.allocated_blocks.current;
}

// What creating the default pool of a copy writes to standard error.
static void say(const copy_t* copy, char* text, size_t room) {
  FILE* const file = tmpfile();
  const int before = dup(STDERR_FILENO);
  require(file != NULL && before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0, "standard error");
  gpupool_t* pool = NULL;
  const gpupool_status_t status = copy->default_pool(0, &pool);
  require(dup2(before, STDERR_FILENO) >= 0 && status == GPUPOOL_SUCCESS, "the default pool");
  rewind(file);
  text[fread(text, 1, room - 1, file)] = '\0';
  fclose(file);
}

// Each takes all of GPUPOOL_LIMIT, and says so if it finds the other: once, with both files.
static void test_limit(const copy_t* first, const copy_t* second, char** files) {
  char text[4096];
  say(first, text, sizeof text);
  require(text[0] == '\0', "no limit is taken twice");
  setenv("GPUPOOL_LIMIT", "1GiB", 1);
  say(second, text, sizeof text);
  require(strstr(text, "two copies of the library") != NULL, text);
  require(strstr(text, files[1]) != NULL && strstr(text, files[2]) != NULL, text);
  say(second, text, sizeof text);
  require(text[0] == '\0', "it was said before");
}

int main(int argument_count, char** arguments) {
  require(argument_count == 3, "usage: two_copies LIBRARY COPY");
  copy_t first = load(arguments[1]);
  copy_t second = load(arguments[2]);
  require(first.create != second.create, "the linker took the two files for one library");
  refuses(&first, &second);
  refuses(&second, &first);
  require(live_blocks(&first) == 1 && live_blocks(&second) == 1, "a refused call changed something");
  test_limit(&first, &second, arguments);
  require(first.free(first.pool, first.block, 0) == GPUPOOL_SUCCESS, "free");
  require(first.destroy(first.pool) == GPUPOOL_SUCCESS, "destroy");
  require(second.free(second.pool, second.block, 0) == GPUPOOL_SUCCESS, "free");
  require(second.destroy(second.pool) == GPUPOOL_SUCCESS, "destroy");
  return EXIT_SUCCESS;
}
