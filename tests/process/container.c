// SPDX-License-Identifier: Apache-2.0
// In a control group that has less memory than the host, sleep and pinned memory are refused, instead of
// being granted until the kernel ends the process. Ends with 77 where no group can be made.
#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"

#define MIB (UINT64_C(1) << 20)

static char group[4096];

static bool write_file(const char* name, uint64_t value) {
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", group, name);
  FILE* file = fopen(path, "w");
  if (file == NULL) return false;
  const bool written = fprintf(file, "%llu\n", (unsigned long long)value) > 0;
  return fclose(file) == 0 && written;
}

// A group within this process's own, of either version.
static bool make_group(uint64_t limit) {
  char line[2048];
  char path[2048] = "";
  bool is_first_version = false;
  FILE* file = fopen("/proc/self/cgroup", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    char* const memory = strstr(line, ":memory:");
    if (memory != NULL) {
      is_first_version = true;
      snprintf(path, sizeof path, "%s", memory + strlen(":memory:"));
    } else if (!is_first_version && strncmp(line, "0::", 3) == 0) {
      snprintf(path, sizeof path, "%s", line + 3);
    }
  }
  if (file != NULL) fclose(file);
  const char* const mount = is_first_version ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
  snprintf(group, sizeof group, "%s%s/gpupool-test-%d", mount, strcmp(path, "/") == 0 ? "" : path,
           (int)getpid());
  if (mkdir(group, 0755) != 0) return false;
  if (write_file(is_first_version ? "memory.limit_in_bytes" : "memory.max", limit)) return true;
  rmdir(group);
  return false;
}

static int use_memory(void) {
  gpupool_t* const pool = new_pool(0);
  const gpupool_ptr_t block = new_block(pool, 512 * MIB);
  FAILS(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY, gpupool_sleep(pool, NULL, NULL));
  gpupool_sleep_state_t state = GPUPOOL_SLEEP_STATE_ASLEEP;
  OK(gpupool_sleep_state(pool, &state));
  CHECK(state == GPUPOOL_SLEEP_STATE_AWAKE);
  OK(gpupool_free(pool, block, 0));
  OK(gpupool_destroy(pool));

  gpupool_config_t config = config_for(0);
  config.kind = GPUPOOL_KIND_PINNED;
  gpupool_t* pinned = NULL;
  OK(gpupool_create(&config, &pinned));
  gpupool_ptr_t large = 0;
  FAILS(GPUPOOL_ERROR_OUT_OF_MEMORY, gpupool_malloc(pinned, 512 * MIB, 0, &large));
  const gpupool_ptr_t small = new_block(pinned, 16 * MIB);
  OK(gpupool_free(pinned, small, 0));
  OK(gpupool_destroy(pinned));
  return finish();
}

int main(void) {
  if (!make_group(256 * MIB)) {
    fprintf(stderr, "no control group can be made here: %s\n", strerror(errno));
    return 77;
  }
  int outcome = 0;
  const pid_t child = fork();
  if (child == 0) _exit(write_file("cgroup.procs", (uint64_t)getpid()) ? use_memory() : 77);
  REQUIRE(child > 0);
  CHECK(waitpid(child, &outcome, 0) == child);
  CHECK(rmdir(group) == 0);
  if (WIFSIGNALED(outcome)) fprintf(stderr, "the kernel ended it: signal %d\n", WTERMSIG(outcome));
  return WIFEXITED(outcome) && check_failures == 0 ? WEXITSTATUS(outcome) : EXIT_FAILURE;
}
