// SPDX-License-Identifier: Apache-2.0
// A stand-in for libnvidia-ml.so.1: one GPU of 8 GiB. FAKE_NVML_ID is its UUID, FAKE_NVML_USERS the
// processes that use it, "PID:BYTES,PID:BYTES".
#include <stdlib.h>
#include <string.h>

enum { kWell = 0, kUninitialized = 1, kInvalid = 2, kTooSmall = 7, kOtherVersion = 25 };

struct memory {
  unsigned long long total, free, used;
};
struct memory_v2 {
  unsigned int version;
  unsigned long long total, reserved, free, used;
};
struct process {
  unsigned int pid;
  unsigned long long used;
  unsigned int gpu_instance, compute_instance;
};

static int is_begun;

static unsigned int users(struct process* processes, unsigned int room) {
  const char* text = getenv("FAKE_NVML_USERS");
  unsigned int count = 0;
  while (text != NULL && *text != '\0') {
    char* end = NULL;
    const unsigned long pid = strtoul(text, &end, 10);
    const unsigned long long used = strtoull(end + 1, &end, 10);
    if (count < room) processes[count] = (struct process){(unsigned int)pid, used, 0, 0};
    ++count;
    text = *end == ',' ? end + 1 : end;
  }
  return count;
}

static int copy(char* to, unsigned int room, const char* text) {
  if (strlen(text) >= room) return kTooSmall;
  strcpy(to, text);
  return kWell;
}

int nvmlInit_v2(void) {
  is_begun = 1;
  return kWell;
}
int nvmlShutdown(void) {
  is_begun = 0;
  return kWell;
}
int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 1;
  return is_begun ? kWell : kInvalid;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int number, void** device) {
  *device = &is_begun;
  return number == 0 ? kWell : kInvalid;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned int room) {
  const char* id = getenv("FAKE_NVML_ID");
  return device == &is_begun && id != NULL ? copy(text, room, id) : kInvalid;
}
int nvmlDeviceGetName(void* device, char* text, unsigned int room) {
  return device == &is_begun ? copy(text, room, "Stand-in GPU") : kInvalid;
}
int nvmlDeviceGetMemoryInfo(void* device, struct memory* memory) {
  if (!is_begun) return kUninitialized;
  if (device != &is_begun || memory == NULL) return kInvalid;
  struct process all[1024];
  unsigned long long used = 0;
  const unsigned int count = users(all, 1024);
  for (unsigned int at = 0; at < count; ++at) used += all[at].used;
  *memory = (struct memory){8ULL << 30, (8ULL << 30) - used, used};
  return kWell;
}
/// Of the 8 GiB, 512 MiB are the system's.
int nvmlDeviceGetMemoryInfo_v2(void* device, struct memory_v2* memory) {
  const unsigned long long reserved = 512ULL << 20;
  struct memory all;
  const int result = nvmlDeviceGetMemoryInfo(device, memory != NULL ? &all : NULL);
  if (result != kWell) return result;
  if (memory->version != (sizeof *memory | 2U << 24)) return kOtherVersion;
  *memory = (struct memory_v2){memory->version, all.total, reserved, all.free - reserved, all.used};
  return kWell;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned int* count, struct process* processes) {
  const unsigned int room = *count;
  *count = users(processes, room);
  if (device != &is_begun) return kInvalid;
  return *count <= room ? kWell : kTooSmall;
}
