// SPDX-License-Identifier: Apache-2.0
// Reaches the driver's cuMemAlloc by one door, named by the first argument, takes 100 bytes three times, and
// writes the results: under a cap of 250 bytes, "0 0 2". Compiled with -DLINKED it links to the driver.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int allocate(unsigned long long* address, size_t bytes);
typedef int get_address(const char* name, void** to, int version, uint64_t flags);
typedef int get_address_v2(const char* name, void** to, int version, uint64_t flags, int* status);

static void* driver;

#define OF(library, name, types) ((int(*) types)(uintptr_t)dlsym(library, name))

static void begin(void) {
  void* context = NULL;
  OF(driver, "cuInit", (unsigned))(0);
  OF(driver, "cuDevicePrimaryCtxRetain", (void**, int))(&context, 0);
  OF(driver, "cuCtxSetCurrent", (void*))(context);
}

#ifdef LINKED
allocate cuMemAlloc_v2;
allocate* const in_data = cuMemAlloc_v2;
#endif

static allocate* answer_of(void* get, int version) {
  void* found = NULL;
  int status = 0;
  ((get_address_v2*)(uintptr_t)get)("", &found, 0, 0, &status);  // CUDA's runtime asks this first
  ((get_address_v2*)(uintptr_t)get)("cuMemAlloc", &found, version, 0, &status);
  return (allocate*)(uintptr_t)found;
}

static allocate* find(const char* door) {
  if (strcmp(door, "dlsym") == 0) return (allocate*)(uintptr_t)dlsym(driver, "cuMemAlloc_v2");
  if (strcmp(door, "default") == 0) return (allocate*)(uintptr_t)dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
  if (strcmp(door, "dlvsym") == 0) {  // as libraries do that have a dlsym of their own
    const char* const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    void* found = NULL;
    for (int at = 0; at < 3 && found == NULL; ++at) found = dlvsym(RTLD_NEXT, "dlsym", versions[at]);
    return (allocate*)(uintptr_t)((void* (*)(void*, const char*))(uintptr_t)found)(driver, "cuMemAlloc_v2");
  }
  if (strcmp(door, "next") == 0) {  // the second of two equal questions has the same answer
    void* const first = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    void* const second = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    return (allocate*)(uintptr_t)(first == second ? second : NULL);
  }
  if (strcmp(door, "cuGetProcAddress") == 0) {
    void* found = NULL;
    ((get_address*)(uintptr_t)dlsym(driver, "cuGetProcAddress"))("cuMemAlloc", &found, 11080, 0);
    return (allocate*)(uintptr_t)found;
  }
  if (strncmp(door, "cuGetProcAddress_v2:", 20) == 0)
    return answer_of(dlsym(driver, "cuGetProcAddress_v2"), atoi(door + 20));
  if (strcmp(door, "itself") == 0) {  // CUDA's runtime asks it for itself, and that for the rest
    void* itself = NULL;
    ((get_address_v2*)(uintptr_t)dlsym(driver, "cuGetProcAddress_v2"))("cuGetProcAddress", &itself, 12000, 0,
                                                                       NULL);
    return answer_of(itself, 13000);
  }
#ifdef LINKED
  if (strcmp(door, "linked") == 0) return NULL;  // called by name
  if (strcmp(door, "data") == 0) return in_data;
#endif
  fprintf(stderr, "no door %s\n", door);
  exit(90);
}

int main(int count, char** words) {
  const char* const door = count > 1 ? words[1] : "";
  if (strcmp(door, "dlmopen") == 0) {
    driver = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
    words[1] = "dlsym";
  } else {
    driver = dlopen(count > 2 ? words[2] : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  }
  if (driver == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 91;
  }
  if (count > 3 && fork() != 0) {  // a child before cuInit
    int status = 0;
    wait(&status);
    return WEXITSTATUS(status);
  }
  begin();
  allocate* const function = find(words[1]);
  for (int turn = 0; turn < 3; ++turn) {
    unsigned long long address = 0;
#ifdef LINKED
    const int result = function != NULL ? function(&address, 100) : cuMemAlloc_v2(&address, 100);
#else
    const int result = function(&address, 100);
#endif
    printf("%d%c", result, turn < 2 ? ' ' : '\n');
  }
  return 0;
}
