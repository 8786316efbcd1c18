// SPDX-License-Identifier: Apache-2.0
// Forks while eight threads allocate and free: a child in which nothing of CUDA works, and no lock is held.
// Writes how many children got an answer other than the driver's, CUDA_ERROR_NOT_INITIALIZED, or did not end
// well.
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 8, kChildren = 100, kNotInitialized = 3 };

static int (*allocate)(unsigned long long*, size_t);
static int (*release)(unsigned long long);
static int (*set_current)(void*);
static void* context;
static atomic_int is_over;

#define FIND(name, to) *(void**)(to) = dlsym(driver, name)

static void* churn(void* nothing) {
  set_current(context);
  while (!is_over) {
    unsigned long long address = 0;
    if (allocate(&address, 4096) == 0) release(address);
  }
  return nothing;
}

int main(void) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  int (*begin)(unsigned) = NULL;
  int (*retain)(void**, int) = NULL;
  if (driver == NULL) return 91;
  FIND("cuInit", &begin);
  FIND("cuDevicePrimaryCtxRetain", &retain);
  FIND("cuCtxSetCurrent", &set_current);
  FIND("cuMemAlloc_v2", &allocate);
  FIND("cuMemFree_v2", &release);
  begin(0);
  retain(&context, 0);
  set_current(context);
  unsigned long long address = 0;
  allocate(&address, 4096);
  pthread_t threads[kThreads];
  for (int at = 0; at < kThreads; ++at) pthread_create(&threads[at], NULL, churn, NULL);
  int bad = 0;
  for (int at = 0; at < kChildren && bad == 0; ++at) {
    const pid_t child = fork();
    if (child == 0) {
      unsigned long long other = 0;
      alarm(20);
      exit(allocate(&other, 4096) == kNotInitialized && release(address) == kNotInitialized ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    bad += status != 0;
  }
  is_over = 1;
  for (int at = 0; at < kThreads; ++at) pthread_join(threads[at], NULL);
  printf("%d\n", bad + release(address));
  return 0;
}
