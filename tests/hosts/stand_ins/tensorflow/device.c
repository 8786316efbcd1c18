// SPDX-License-Identifier: Apache-2.0
// A GPU of 8 GiB in the host's memory, as a plugin that TensorFlow itself loads: its allocator for GPUs
// serves it, and takes memory from it as it would from CUDA. It says how much that is.
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <tensorflow/c/experimental/stream_executor/stream_executor.h>

enum { kGiB = 1 << 30 };
static const uint64_t kTotal = 8ULL * kGiB;
static uint64_t taken;

// For ctypes.
uint64_t stand_in_taken(void) {
  return taken;
}

static void allocate(const SP_Device* device, uint64_t size, int64_t space, SP_DeviceMemoryBase* memory) {
  memory->opaque = NULL;
  memory->size = 0;
  if (taken + size > kTotal) return;
  // What is not touched costs nothing.
  void* place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return;
  taken += size;
  memory->opaque = place;
  memory->size = size;
}
static void deallocate(const SP_Device* device, SP_DeviceMemoryBase* memory) {
  if (memory->opaque == NULL) return;
  taken -= memory->size;
  munmap(memory->opaque, memory->size);
}
static void* host_allocate(const SP_Device* device, uint64_t size) {
  void* place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return place == MAP_FAILED ? NULL : place;
}
static void host_deallocate(const SP_Device* device, void* place) {}
static TF_Bool allocator_stats(const SP_Device* device, SP_AllocatorStats* stats) {
  return 0;
}
static TF_Bool memory_usage(const SP_Device* device, int64_t* free_bytes, int64_t* total) {
  *total = (int64_t)kTotal;
  *free_bytes = (int64_t)(kTotal - taken);
  return 1;
}

// All work is done when it is queued, so streams, events and timers are nothing.
static char nothing;
static void create_stream(const SP_Device* device, SP_Stream* stream, TF_Status* status) {
  *stream = (SP_Stream)&nothing;
}
static void destroy_stream(const SP_Device* device, SP_Stream stream) {}
static void depend(const SP_Device* device, SP_Stream one, SP_Stream other, TF_Status* status) {}
static void stream_status(const SP_Device* device, SP_Stream stream, TF_Status* status) {}
static void create_event(const SP_Device* device, SP_Event* event, TF_Status* status) {
  *event = (SP_Event)&nothing;
}
static void destroy_event(const SP_Device* device, SP_Event event) {}
static SE_EventStatus event_status(const SP_Device* device, SP_Event event) {
  return SE_EVENT_COMPLETE;
}
static void on_event(const SP_Device* device, SP_Stream stream, SP_Event event, TF_Status* status) {}
static void create_timer(const SP_Device* device, SP_Timer* timer, TF_Status* status) {
  *timer = (SP_Timer)&nothing;
}
static void destroy_timer(const SP_Device* device, SP_Timer timer) {}
static void on_timer(const SP_Device* device, SP_Stream stream, SP_Timer timer, TF_Status* status) {}
static void wait_for_event(const SP_Device* device, SP_Event event, TF_Status* status) {}
static void wait_for_stream(const SP_Device* device, SP_Stream stream, TF_Status* status) {}
static void wait_for_all(const SP_Device* device, TF_Status* status) {}
static uint64_t nanoseconds(SP_Timer timer) {
  return 0;
}

static void to_host(const SP_Device* device, SP_Stream stream, void* to, const SP_DeviceMemoryBase* from,
                    uint64_t size, TF_Status* status) {
  memcpy(to, from->opaque, size);
}
static void to_device(const SP_Device* device, SP_Stream stream, SP_DeviceMemoryBase* to, const void* from,
                      uint64_t size, TF_Status* status) {
  memcpy(to->opaque, from, size);
}
static void within(const SP_Device* device, SP_Stream stream, SP_DeviceMemoryBase* to,
                   const SP_DeviceMemoryBase* from, uint64_t size, TF_Status* status) {
  memmove(to->opaque, from->opaque, size);
}
static void to_host_now(const SP_Device* device, void* to, const SP_DeviceMemoryBase* from, uint64_t size,
                        TF_Status* status) {
  memcpy(to, from->opaque, size);
}
static void to_device_now(const SP_Device* device, SP_DeviceMemoryBase* to, const void* from, uint64_t size,
                          TF_Status* status) {
  memcpy(to->opaque, from, size);
}
static void within_now(const SP_Device* device, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from,
                       uint64_t size, TF_Status* status) {
  memmove(to->opaque, from->opaque, size);
}
static void set_bytes(const SP_Device* device, SP_Stream stream, SP_DeviceMemoryBase* to, uint8_t pattern,
                      uint64_t size, TF_Status* status) {
  memset(to->opaque, pattern, size);
}
static void set_zero(const SP_Device* device, SP_Stream stream, SP_DeviceMemoryBase* to, uint64_t size,
                     TF_Status* status) {
  memset(to->opaque, 0, size);
}
static void set_words(const SP_Device* device, SP_Stream stream, SP_DeviceMemoryBase* to, uint32_t pattern,
                      uint64_t size, TF_Status* status) {
  for (uint64_t at = 0; at + 4 <= size; at += 4) memcpy((char*)to->opaque + at, &pattern, 4);
}
static TF_Bool call_host(const SP_Device* device, SP_Stream stream, SE_StatusCallbackFn function,
                         void* argument) {
  function(argument, NULL);
  return 1;
}

static void device_count(const SP_Platform* platform, int* count, TF_Status* status) {
  *count = 1;
}
static void create_device(const SP_Platform* platform, SE_CreateDeviceParams* params, TF_Status* status) {
  params->device->struct_size = SP_DEVICE_STRUCT_SIZE;
  params->device->hardware_name = "Stand-in GPU";
}
static void destroy_device(const SP_Platform* platform, SP_Device* device) {}
static void create_device_fns(const SP_Platform* platform, SE_CreateDeviceFnsParams* params,
                              TF_Status* status) {
  *params->device_fns = (SP_DeviceFns){.struct_size = SP_DEVICE_FNS_STRUCT_SIZE};
}
static void destroy_device_fns(const SP_Platform* platform, SP_DeviceFns* functions) {}
static void create_executor(const SP_Platform* platform, SE_CreateStreamExecutorParams* params,
                            TF_Status* status) {
  *params->stream_executor = (SP_StreamExecutor){
      .struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE,
      .allocate = allocate,
      .deallocate = deallocate,
      .host_memory_allocate = host_allocate,
      .host_memory_deallocate = host_deallocate,
      .get_allocator_stats = allocator_stats,
      .device_memory_usage = memory_usage,
      .create_stream = create_stream,
      .destroy_stream = destroy_stream,
      .create_stream_dependency = depend,
      .get_stream_status = stream_status,
      .create_event = create_event,
      .destroy_event = destroy_event,
      .get_event_status = event_status,
      .record_event = on_event,
      .wait_for_event = on_event,
      .create_timer = create_timer,
      .destroy_timer = destroy_timer,
      .start_timer = on_timer,
      .stop_timer = on_timer,
      .memcpy_dtoh = to_host,
      .memcpy_htod = to_device,
      .memcpy_dtod = within,
      .sync_memcpy_dtoh = to_host_now,
      .sync_memcpy_htod = to_device_now,
      .sync_memcpy_dtod = within_now,
      .block_host_for_event = wait_for_event,
      .block_host_until_done = wait_for_stream,
      .synchronize_all_activity = wait_for_all,
      .mem_zero = set_zero,
      .memset = set_bytes,
      .memset32 = set_words,
      .host_callback = call_host,
  };
}
static void destroy_executor(const SP_Platform* platform, SP_StreamExecutor* executor) {}
static void create_timer_fns(const SP_Platform* platform, SP_TimerFns* functions, TF_Status* status) {
  *functions = (SP_TimerFns){.struct_size = SP_TIMER_FNS_STRUCT_SIZE, .nanoseconds = nanoseconds};
}
static void destroy_timer_fns(const SP_Platform* platform, SP_TimerFns* functions) {}
static void destroy_platform(SP_Platform* platform) {}
static void destroy_platform_fns(SP_PlatformFns* functions) {}

void SE_InitPlugin(SE_PlatformRegistrationParams* params, TF_Status* status) {
  params->platform->struct_size = SP_PLATFORM_STRUCT_SIZE;
  params->platform->name = "STAND_IN";
  params->platform->type = "GPU";
  params->platform->use_bfc_allocator = 1;
  *params->platform_fns = (SP_PlatformFns){
      .struct_size = SP_PLATFORM_FNS_STRUCT_SIZE,
      .get_device_count = device_count,
      .create_device = create_device,
      .destroy_device = destroy_device,
      .create_device_fns = create_device_fns,
      .destroy_device_fns = destroy_device_fns,
      .create_stream_executor = create_executor,
      .destroy_stream_executor = destroy_executor,
      .create_timer_fns = create_timer_fns,
      .destroy_timer_fns = destroy_timer_fns,
  };
  params->destroy_platform = destroy_platform;
  params->destroy_platform_fns = destroy_platform_fns;
}
