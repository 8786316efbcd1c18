/* SPDX-License-Identifier: Apache-2.0 */
/* A program with a Lua state that it closes before it goes on with the library: Lua then unloads the module.
 */
#include <gpupool/gpupool.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>

static const char* const kProgram =
    "local gpupool = require 'gpupool'\n"
    "gpupool.set_log(gpupool.LOG_DEBUG, function() end)\n"
    "local pool = gpupool.Pool.shared()\n"
    "pool:set_oom_handler(function() return true end)\n"
    "pool:set_sleep_hooks(function() return true end)\n";

/* 0, or the number of what failed. */
static int go_on(void) {
  gpupool_t* pool = NULL;
  gpupool_ptr_t block = 0;
  /* Each is worth a line of the log, which now goes to standard error. */
  if (gpupool_create(NULL, &pool) != GPUPOOL_SUCCESS) return 1;
  if (gpupool_malloc(pool, 1 << 20, 0, &block) != GPUPOOL_SUCCESS) return 2;
  if (gpupool_destroy(pool) != GPUPOOL_SUCCESS) return 3;
  /* The handler's program is no more, so it cannot help. */
  if (gpupool_default_pool(0, &pool) != GPUPOOL_SUCCESS) return 4;
  if (gpupool_malloc(pool, (uint64_t)1 << 50, 0, &block) != GPUPOOL_ERROR_OUT_OF_MEMORY) return 5;
  /* Nor do the hooks let the pool sleep. */
  if (gpupool_sleep(pool, NULL, NULL) == GPUPOOL_SUCCESS) return 6;
  return 0;
}

int main(void) {
  lua_State* const state = luaL_newstate();
  luaL_openlibs(state);
  if (luaL_dostring(state, kProgram) != LUA_OK) {
    (void)fprintf(stderr, "%s\n", lua_tostring(state, -1));
    return 1;
  }
  lua_close(state);
  if (freopen("/dev/null", "w", stderr) == NULL) return 1;
  const int failed = go_on();
  if (failed != 0) (void)printf("after the state was closed, step %d failed\n", failed);
  return failed != 0;
}
