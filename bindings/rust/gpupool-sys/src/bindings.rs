// SPDX-License-Identifier: Apache-2.0
// Written by bindgen from gpupool.h: see the feature `generate`.

#[doc = " An address on the device. An integer, because most holders cannot read through it."]
pub type gpupool_ptr_t = u64;
#[doc = " A stream: the CUstream as an integer, or a number from gpupool_stream_create."]
pub type gpupool_stream_t = usize;
#[doc = " Receives a line of the log. message is valid during the call only. Called with no lock held. It must\n not call gpupool."]
pub type gpupool_log_fn_t = ::core::option::Option<
    unsafe extern "C" fn(user: *mut ::core::ffi::c_void, level: i32, message: *const ::core::ffi::c_char),
>;
#[doc = " Asked before a malloc fails: size bytes are wanted, attempt counts from 1. Free something and return\n non-zero to have the malloc tried again, or return 0 to let it fail. Called on the thread of the malloc\n with no lock held; it may call any function of this library on any pool."]
pub type gpupool_oom_fn_t = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        pool: *mut gpupool_t,
        size: u64,
        attempt: u32,
    ) -> i32,
>;
#[doc = " Upstream of a pool: writes size bytes' address, aligned to at least 512, to out_ptr and returns 0, or\n returns non-zero for \"no more memory\". Called with no lock held, from any thread."]
pub type gpupool_upstream_malloc_fn_t = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        size: u64,
        stream: gpupool_stream_t,
        out_ptr: *mut gpupool_ptr_t,
    ) -> i32,
>;
#[doc = " Takes back what gpupool_upstream_malloc_fn_t gave, with the same size. No GPU work uses it any more."]
pub type gpupool_upstream_free_fn_t = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        ptr: gpupool_ptr_t,
        size: u64,
        stream: gpupool_stream_t,
    ),
>;
#[doc = " Says where in the caller's own language a malloc comes from: writes a line for each frame, the innermost\n first, as \"function (file:line)\", at most capacity bytes without a terminating zero, and returns how many\n there are. Called on the thread of the malloc with no lock held. It may call gpupool: mallocs made in it\n have no stack. Since 0.2."]
pub type gpupool_stack_fn_t = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
    ) -> usize,
>;
#[doc = " A pool. Opaque."]
#[repr(C)]
#[derive(Debug)]
pub struct gpupool_t {
    _unused: [u8; 0],
}
#[repr(transparent)]
#[doc = " What a call came to. The numbers never change."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_status_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " Where memory comes from."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_backend_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " How memory is obtained from the backend."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_mode_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " What kind of memory."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_kind_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " Bits of gpupool_config_t.flags."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_flag_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " Bits of the flags of gpupool_record_start. Since 0.2."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_record_flag_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " Bits of gpupool_features(): what this build can do."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_feature_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " Bits of gpupool_device_info_t.capabilities."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_capability_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " State of a block in gpupool_block_t."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_block_state_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " What becomes of the contents of blocks when a pool sleeps. Since 0.2."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_sleep_mode_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " Bits of gpupool_sleep_options_t.flags. Since 0.2."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_sleep_flag_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " Where a pool stands. Since 0.2."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_sleep_state_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " Levels of the log."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_log_level_t(pub ::core::ffi::c_uint);
#[doc = " Details of a failure."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpupool_error_t {
    pub struct_size: u32,
    #[doc = " A gpupool_status_t."]
    pub status: i32,
    #[doc = " The driver's own number, or 0."]
    pub driver_code: i32,
    pub reserved0: u32,
    #[doc = " In words, with a terminating zero. An out-of-memory message explains where the memory is."]
    pub message: [::core::ffi::c_char; 1024usize],
}
#[doc = " How to create a pool. All zero (after struct_size) is a good choice; see gpupool_config_init."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpupool_config_t {
    pub struct_size: u32,
    #[doc = " Bits of gpupool_flag_t; unknown bits are refused."]
    pub flags: u32,
    #[doc = " Number of the device, from 0."]
    pub device: i32,
    #[doc = " A gpupool_backend_t."]
    pub backend: i32,
    #[doc = " A gpupool_mode_t."]
    pub mode: i32,
    #[doc = " A gpupool_kind_t."]
    pub kind: i32,
    #[doc = " Limit as a fraction of the device's memory, in (0, 1]; 0: no such limit."]
    pub fraction: f64,
    #[doc = " Limit in bytes; 0: no such limit. The smaller of the two holds."]
    pub limit_bytes: u64,
    #[doc = " How much more than the live peak may be reserved to save driver calls, as a fraction in [0, 10]:\n 0.1 allows 10 per cent. 0: default, tight; see docs/architecture.md."]
    pub slack: f64,
    #[doc = " Size of the largest chunk, a power of two from 2 MiB; 0: default."]
    pub max_chunk_bytes: u64,
    #[doc = " Other devices that may access this pool's memory: peer_count numbers. Copied. vmm and driver modes."]
    pub peers: *const i32,
    #[doc = " For GPUPOOL_MODE_UPSTREAM: both callbacks, and what they get as user."]
    pub upstream_malloc: gpupool_upstream_malloc_fn_t,
    pub upstream_free: gpupool_upstream_free_fn_t,
    pub upstream_user: *mut ::core::ffi::c_void,
    pub peer_count: u32,
    pub reserved0: u32,
    pub reserved: [u64; 4usize],
}
#[doc = " A device, as gpupool_device_info sees it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpupool_device_info_t {
    pub struct_size: u32,
    #[doc = " A gpupool_backend_t: GPUPOOL_BACKEND_CUDA or GPUPOOL_BACKEND_SIM."]
    pub backend: i32,
    pub device: i32,
    #[doc = " Bits of gpupool_capability_t."]
    pub capabilities: u32,
    pub total_bytes: u64,
    #[doc = " What the device itself says is free now, whoever holds the rest."]
    pub free_bytes: u64,
    #[doc = " Sizes of chunks are multiples of this."]
    pub granularity_bytes: u64,
    #[doc = " As the driver gives it: 13000 is 13.0. 0 for the simulated device."]
    pub driver_version: i32,
    #[doc = " Compute capability: 90 is 9.0."]
    pub compute_capability: i32,
    pub name: [::core::ffi::c_char; 128usize],
}
#[doc = " One quantity over time. total_allocated - total_freed = current. Current and totals are exact whenever\n no call is in flight. peak is exact while one thread allocates, and at most 16 MiB (or 4096 blocks) a\n thread too high with several; of reserved bytes and chunks it is always exact."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpupool_stat_t {
    pub current: u64,
    pub peak: u64,
    pub total_allocated: u64,
    pub total_freed: u64,
}
#[doc = " The quantities of a group of blocks; see WORDS above. Bytes, and counts of blocks and chunks."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpupool_stat_group_t {
    pub requested_bytes: gpupool_stat_t,
    pub allocated_bytes: gpupool_stat_t,
    pub active_bytes: gpupool_stat_t,
    pub reserved_bytes: gpupool_stat_t,
    pub allocated_blocks: gpupool_stat_t,
    pub active_blocks: gpupool_stat_t,
    pub chunks: gpupool_stat_t,
}
#[doc = " How often a driver function was called, and the time that the calls took (virtual time on the simulated\n device). Failed calls count too."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpupool_call_stat_t {
    pub count: u64,
    pub nanoseconds: u64,
}
#[doc = " Calls of the driver by kind."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpupool_driver_stats_t {
    pub create: gpupool_call_stat_t,
    pub release: gpupool_call_stat_t,
    pub map: gpupool_call_stat_t,
    pub set_access: gpupool_call_stat_t,
    pub unmap: gpupool_call_stat_t,
    #[doc = " Reserving and releasing addresses."]
    pub address: gpupool_call_stat_t,
    #[doc = " The driver's own malloc and free, or the upstream's."]
    pub malloc: gpupool_call_stat_t,
    pub free: gpupool_call_stat_t,
    pub event_record: gpupool_call_stat_t,
    #[doc = " Queries of events, streams and capture."]
    pub query: gpupool_call_stat_t,
    #[doc = " One stream made to wait for another, on the GPU."]
    pub stream_wait: gpupool_call_stat_t,
    #[doc = " The host waiting for the GPU."]
    pub host_wait: gpupool_call_stat_t,
}
#[doc = " Statistics of a pool. all = small + large: blocks of up to 1 MiB are small. reserved_bytes and chunks\n of a group are those whose chunks back its heaps now."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpupool_stats_t {
    pub struct_size: u32,
    pub device: i32,
    #[doc = " The limit in force, in bytes: what gpupool_set_limit or gpupool_set_fraction came to; 0: none."]
    pub limit_bytes: u64,
    pub cached_bytes: u64,
    #[doc = " The part of cached_bytes that gpupool_empty would give back: chunks that no block touches."]
    pub releasable_bytes: u64,
    pub slack_bytes: u64,
    pub all: gpupool_stat_group_t,
    pub large: gpupool_stat_group_t,
    pub small: gpupool_stat_group_t,
    pub driver: gpupool_driver_stats_t,
    #[doc = " Mallocs served by a thread's own cache, and the others."]
    pub hits: u64,
    pub misses: u64,
    #[doc = " Free chunks that were taken from where they lay: mapped at another address, or handed to another stream.\n And those among them that came from another stream."]
    pub steals: u64,
    pub stream_steals: u64,
    #[doc = " Mallocs that had to go down the ladder, times the handler was asked, and mallocs that failed."]
    pub retries: u64,
    pub oom_handler_calls: u64,
    pub failed_mallocs: u64,
    #[doc = " Streams that this pool has seen and that were not released."]
    pub streams: u64,
    #[doc = " Host memory of the pool's own records."]
    pub metadata_bytes: u64,
    #[doc = " Memory that is away because the pool sleeps: what waking will create, and no part of reserved_bytes; blocks\n in it still count as active. This and all below: since 0.2."]
    pub asleep_bytes: u64,
    #[doc = " Page-locked memory of the host that the pool holds to sleep with."]
    pub backup_bytes: u64,
    #[doc = " How often the pool fell asleep, and woke."]
    pub sleeps: u64,
    pub wakes: u64,
    #[doc = " More calls of the driver: copies of sleep and wake, and streams created and destroyed for them."]
    pub copy: gpupool_call_stat_t,
    pub stream: gpupool_call_stat_t,
}
#[doc = " How to sleep, or to wake. All zero (after struct_size) is a good choice, and so is NULL. Since 0.2."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpupool_sleep_options_t {
    pub struct_size: u32,
    #[doc = " A gpupool_sleep_mode_t. For sleep only."]
    pub mode: i32,
    #[doc = " Bits of gpupool_sleep_flag_t; unknown bits are refused."]
    pub flags: u32,
    #[doc = " With GPUPOOL_SLEEP_FLAG_FILL: a byte, 0 to 255."]
    pub fill: u32,
    #[doc = " Wake: how long to wait for memory that others hold, in nanoseconds. 0: not at all."]
    pub timeout_ns: u64,
    pub reserved: [u64; 4usize],
}
#[doc = " What a sleep or a wake came to, in bytes, for all pools that it was for. All zero where there was nothing to\n do. Since 0.2."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpupool_sleep_result_t {
    pub struct_size: u32,
    #[doc = " Pools that were put to sleep, or woken."]
    pub pools: u32,
    #[doc = " Sleep: physical memory that was given back, cached memory included."]
    pub released_bytes: u64,
    #[doc = " Sleep: what live blocks hold that was copied to the host. Wake: what was copied back."]
    pub saved_bytes: u64,
    #[doc = " Sleep and wake: what live blocks held that was not."]
    pub dropped_bytes: u64,
    #[doc = " Sleep: the part of released_bytes that the device did not get back, because somebody else holds the memory\n or the driver did not take it. Where others allocate at the same time, an estimate."]
    pub retained_bytes: u64,
    #[doc = " Wake: physical memory that was created."]
    pub created_bytes: u64,
    #[doc = " How long it took, waiting included, by the device's clock."]
    pub nanoseconds: u64,
}
#[doc = " A block as gpupool_block_info and gpupool_snapshot give it."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpupool_block_t {
    pub address: gpupool_ptr_t,
    pub requested_bytes: u64,
    pub allocated_bytes: u64,
    pub stream: gpupool_stream_t,
    #[doc = " A gpupool_block_state_t."]
    pub state: i32,
    pub device: i32,
}
#[doc = " Who holds live bytes of a pool: one call site under one tag. See gpupool_holders. Since 0.2."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpupool_holder_t {
    #[doc = " Estimated from the samples."]
    pub live_bytes: u64,
    #[doc = " Live blocks of this holder that are samples."]
    pub samples: u64,
    #[doc = " How long the oldest and the newest of them have been live."]
    pub oldest_nanoseconds: u64,
    pub newest_nanoseconds: u64,
    #[doc = " With a terminating zero; \"\": none."]
    pub tag: [::core::ffi::c_char; 64usize],
    #[doc = " A line for each frame, the innermost first, with a terminating zero; \"\": unknown."]
    pub stack: [::core::ffi::c_char; 2048usize],
}
#[doc = " Mapped memory as gpupool_snapshot gives it: a chunk at its address."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpupool_segment_t {
    pub address: gpupool_ptr_t,
    pub size_bytes: u64,
    #[doc = " The stream whose heap it backs."]
    pub stream: gpupool_stream_t,
    #[doc = " Blocks that touch it. 0: gpupool_empty would give it back."]
    pub blocks: u32,
    #[doc = " 1: in a heap of small blocks."]
    pub is_small: u32,
}
#[doc = " How a simulated device behaves; see gpupool_sim_configure. Zero means default."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpupool_sim_config_t {
    pub struct_size: u32,
    #[doc = " 1: blocks are real memory of the host with true aliasing, and a gpupool_ptr_t may be cast to a pointer\n and used; a fork copies it, so that parent and child do not see each other's writes. 2: addresses only,\n for speed. 0: default, 1."]
    pub data: u32,
    #[doc = " Default: 150754820096, an H200's."]
    pub capacity_bytes: u64,
    #[doc = " Multiplies the measured prices of driver calls. Default: 1."]
    pub price_scale: f64,
    #[doc = " 1: any number is a stream from its first use on. 2: only numbers from gpupool_stream_create, and 0, are;\n the others are errors of the simulated device, as they crash a GPU's driver. 0: default, 1. Since 0.2."]
    pub streams: u32,
    pub reserved0: u32,
    #[doc = " Memory of the host that can be page-locked. Default: 1 TiB. Since 0.2."]
    pub host_bytes: u64,
    pub reserved: [u64; 2usize],
}
pub const GPUPOOL_VERSION_MAJOR: u32 = 0;
pub const GPUPOOL_VERSION_MINOR: u32 = 2;
pub const GPUPOOL_VERSION_PATCH: u32 = 0;
pub const GPUPOOL_VERSION: u32 = 200;
pub const GPUPOOL_SUCCESS: gpupool_status_t = gpupool_status_t(0);
#[doc = " An argument is out of range, or a handle is NULL, destroyed or from another copy of the library."]
pub const GPUPOOL_ERROR_INVALID_ARGUMENT: gpupool_status_t = gpupool_status_t(1);
#[doc = " The device has no more memory, and nothing that the pool could do has helped."]
pub const GPUPOOL_ERROR_OUT_OF_MEMORY: gpupool_status_t = gpupool_status_t(2);
#[doc = " The library could not get memory on the host for its own records."]
pub const GPUPOOL_ERROR_HOST_OUT_OF_MEMORY: gpupool_status_t = gpupool_status_t(3);
#[doc = " The call would bring reserved memory above the pool's limit."]
pub const GPUPOOL_ERROR_OVER_LIMIT: gpupool_status_t = gpupool_status_t(4);
#[doc = " The pointer is not a live block of this pool: foreign, freed already, or inside a block."]
pub const GPUPOOL_ERROR_UNKNOWN_POINTER: gpupool_status_t = gpupool_status_t(5);
#[doc = " The backend cannot be used here: no driver, no GPU, or no such device."]
pub const GPUPOOL_ERROR_UNAVAILABLE: gpupool_status_t = gpupool_status_t(6);
#[doc = " This device or this mode cannot do it, or a struct has fields that this version does not know."]
pub const GPUPOOL_ERROR_UNSUPPORTED: gpupool_status_t = gpupool_status_t(7);
#[doc = " The driver refused a call; gpupool_error_t.driver_code has its number."]
pub const GPUPOOL_ERROR_DRIVER: gpupool_status_t = gpupool_status_t(8);
#[doc = " The process is exiting and the driver has gone."]
pub const GPUPOOL_ERROR_SHUTTING_DOWN: gpupool_status_t = gpupool_status_t(9);
#[doc = " The pool was created before fork, in the parent process."]
pub const GPUPOOL_ERROR_FORKED: gpupool_status_t = gpupool_status_t(10);
#[doc = " A promise of the library itself was broken. Please report it."]
pub const GPUPOOL_ERROR_INTERNAL: gpupool_status_t = gpupool_status_t(11);
#[doc = " The pool sleeps, or is about to: see gpupool_sleep. Since 0.2."]
pub const GPUPOOL_ERROR_ASLEEP: gpupool_status_t = gpupool_status_t(12);
#[doc = " The pool sleeps, or is about to: see gpupool_sleep. Since 0.2."]
pub const GPUPOOL_STATUS_FORCE32: gpupool_status_t = gpupool_status_t(2147483647);
#[doc = " CUDA where there is a usable GPU, else the simulated device. GPUPOOL_BACKEND=cuda|sim in the\n environment decides instead."]
pub const GPUPOOL_BACKEND_AUTO: gpupool_backend_t = gpupool_backend_t(0);
#[doc = " CUDA where there is a usable GPU, else the simulated device. GPUPOOL_BACKEND=cuda|sim in the\n environment decides instead."]
pub const GPUPOOL_BACKEND_CUDA: gpupool_backend_t = gpupool_backend_t(1);
#[doc = " CUDA where there is a usable GPU, else the simulated device. GPUPOOL_BACKEND=cuda|sim in the\n environment decides instead."]
pub const GPUPOOL_BACKEND_SIM: gpupool_backend_t = gpupool_backend_t(2);
#[doc = " CUDA where there is a usable GPU, else the simulated device. GPUPOOL_BACKEND=cuda|sim in the\n environment decides instead."]
pub const GPUPOOL_BACKEND_FORCE32: gpupool_backend_t = gpupool_backend_t(2147483647);
#[doc = " vmm where the device and the kind allow it, else driver."]
pub const GPUPOOL_MODE_AUTO: gpupool_mode_t = gpupool_mode_t(0);
#[doc = " Chunks that are mapped where they are needed: tightest. Kind device only."]
pub const GPUPOOL_MODE_VMM: gpupool_mode_t = gpupool_mode_t(1);
#[doc = " Segments from the driver's own malloc: for old devices, cudaIpc and RDMA through peermem."]
pub const GPUPOOL_MODE_DRIVER: gpupool_mode_t = gpupool_mode_t(2);
#[doc = " Segments from the callbacks in gpupool_config_t."]
pub const GPUPOOL_MODE_UPSTREAM: gpupool_mode_t = gpupool_mode_t(3);
#[doc = " Segments from the callbacks in gpupool_config_t."]
pub const GPUPOOL_MODE_FORCE32: gpupool_mode_t = gpupool_mode_t(2147483647);
pub const GPUPOOL_KIND_DEVICE: gpupool_kind_t = gpupool_kind_t(0);
#[doc = " Page-locked memory of the host that the device can read and write."]
pub const GPUPOOL_KIND_PINNED: gpupool_kind_t = gpupool_kind_t(1);
#[doc = " Memory that the driver moves between host and device."]
pub const GPUPOOL_KIND_MANAGED: gpupool_kind_t = gpupool_kind_t(2);
#[doc = " Memory that the driver moves between host and device."]
pub const GPUPOOL_KIND_FORCE32: gpupool_kind_t = gpupool_kind_t(2147483647);
#[doc = " Ask the driver at every malloc and free whether the stream is capturing a graph; what is allocated\n and freed while capturing is reused within that capture only. Costs a driver query a call."]
pub const GPUPOOL_FLAG_CAPTURE_AWARE: gpupool_flag_t = gpupool_flag_t(1);
#[doc = " Ask the driver at every malloc and free whether the stream is capturing a graph; what is allocated\n and freed while capturing is reused within that capture only. Costs a driver query a call."]
pub const GPUPOOL_FLAG_FORCE32: gpupool_flag_t = gpupool_flag_t(2147483647);
#[doc = " With the stack of native code at each malloc. 0.3 to 40 us each, by depth and by what the system has."]
pub const GPUPOOL_RECORD_NATIVE_STACKS: gpupool_record_flag_t = gpupool_record_flag_t(1);
#[doc = " With what the function of gpupool_set_stack_fn says at each malloc."]
pub const GPUPOOL_RECORD_LANGUAGE_STACKS: gpupool_record_flag_t = gpupool_record_flag_t(2);
#[doc = " With what the function of gpupool_set_stack_fn says at each malloc."]
pub const GPUPOOL_RECORD_FORCE32: gpupool_record_flag_t = gpupool_record_flag_t(2147483647);
#[doc = " The simulated device. Always there."]
pub const GPUPOOL_FEATURE_SIM: gpupool_feature_t = gpupool_feature_t(1);
#[doc = " A CUDA driver with at least one device can be used in this process."]
pub const GPUPOOL_FEATURE_CUDA: gpupool_feature_t = gpupool_feature_t(2);
#[doc = " A CUDA driver with at least one device can be used in this process."]
pub const GPUPOOL_FEATURE_FORCE32: gpupool_feature_t = gpupool_feature_t(2147483647);
pub const GPUPOOL_CAPABILITY_VMM: gpupool_capability_t = gpupool_capability_t(1);
pub const GPUPOOL_CAPABILITY_RDMA: gpupool_capability_t = gpupool_capability_t(2);
pub const GPUPOOL_CAPABILITY_MANAGED: gpupool_capability_t = gpupool_capability_t(4);
pub const GPUPOOL_CAPABILITY_FORCE32: gpupool_capability_t = gpupool_capability_t(2147483647);
#[doc = " Handed out."]
pub const GPUPOOL_BLOCK_LIVE: gpupool_block_state_t = gpupool_block_state_t(1);
#[doc = " Freed, but a stream may still be using it."]
pub const GPUPOOL_BLOCK_PENDING: gpupool_block_state_t = gpupool_block_state_t(2);
#[doc = " Free to hand out."]
pub const GPUPOOL_BLOCK_CACHED: gpupool_block_state_t = gpupool_block_state_t(3);
#[doc = " Handed out, and its memory is away: the pool sleeps. Since 0.2."]
pub const GPUPOOL_BLOCK_ASLEEP: gpupool_block_state_t = gpupool_block_state_t(4);
#[doc = " Handed out, and its memory is away: the pool sleeps. Since 0.2."]
pub const GPUPOOL_BLOCK_FORCE32: gpupool_block_state_t = gpupool_block_state_t(2147483647);
#[doc = " They are copied to page-locked memory of the host, and back."]
pub const GPUPOOL_SLEEP_MODE_SAVE: gpupool_sleep_mode_t = gpupool_sleep_mode_t(0);
#[doc = " They are lost, but for the blocks that gpupool_set_keep names."]
pub const GPUPOOL_SLEEP_MODE_DROP: gpupool_sleep_mode_t = gpupool_sleep_mode_t(1);
#[doc = " They are lost, but for the blocks that gpupool_set_keep names."]
pub const GPUPOOL_SLEEP_MODE_FORCE32: gpupool_sleep_mode_t = gpupool_sleep_mode_t(2147483647);
#[doc = " Sleep: waits for all work of the device's context, not only for streams that the pool has seen."]
pub const GPUPOOL_SLEEP_FLAG_SYNC_CONTEXT: gpupool_sleep_flag_t = gpupool_sleep_flag_t(1);
#[doc = " Sleep: mallocs wait until the pool is awake, instead of failing with GPUPOOL_ERROR_ASLEEP."]
pub const GPUPOOL_SLEEP_FLAG_HOLD_MALLOCS: gpupool_sleep_flag_t = gpupool_sleep_flag_t(2);
#[doc = " Wake: the page-locked memory stays for the next sleep, as if gpupool_prepare_backup had got it."]
pub const GPUPOOL_SLEEP_FLAG_RETAIN_BACKUP: gpupool_sleep_flag_t = gpupool_sleep_flag_t(4);
#[doc = " Wake: blocks that were dropped are filled with the byte in `fill`."]
pub const GPUPOOL_SLEEP_FLAG_FILL: gpupool_sleep_flag_t = gpupool_sleep_flag_t(8);
#[doc = " Wake: blocks that were dropped are filled with the byte in `fill`."]
pub const GPUPOOL_SLEEP_FLAG_FORCE32: gpupool_sleep_flag_t = gpupool_sleep_flag_t(2147483647);
pub const GPUPOOL_SLEEP_STATE_AWAKE: gpupool_sleep_state_t = gpupool_sleep_state_t(0);
pub const GPUPOOL_SLEEP_STATE_FALLING_ASLEEP: gpupool_sleep_state_t = gpupool_sleep_state_t(1);
pub const GPUPOOL_SLEEP_STATE_ASLEEP: gpupool_sleep_state_t = gpupool_sleep_state_t(2);
pub const GPUPOOL_SLEEP_STATE_WAKING: gpupool_sleep_state_t = gpupool_sleep_state_t(3);
pub const GPUPOOL_SLEEP_STATE_FORCE32: gpupool_sleep_state_t = gpupool_sleep_state_t(2147483647);
pub const GPUPOOL_LOG_OFF: gpupool_log_level_t = gpupool_log_level_t(0);
pub const GPUPOOL_LOG_ERROR: gpupool_log_level_t = gpupool_log_level_t(1);
pub const GPUPOOL_LOG_WARNING: gpupool_log_level_t = gpupool_log_level_t(2);
pub const GPUPOOL_LOG_INFO: gpupool_log_level_t = gpupool_log_level_t(3);
pub const GPUPOOL_LOG_DEBUG: gpupool_log_level_t = gpupool_log_level_t(4);
pub const GPUPOOL_LOG_FORCE32: gpupool_log_level_t = gpupool_log_level_t(2147483647);
impl Default for gpupool_error_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for gpupool_config_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for gpupool_device_info_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for gpupool_holder_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    #[doc = " The version of the loaded library, as GPUPOOL_VERSION. Never fails."]
    pub fn gpupool_version() -> u32;
    #[doc = " The same in words, such as \"0.1.0\". A constant string."]
    pub fn gpupool_version_string() -> *const ::core::ffi::c_char;
    #[doc = " Bits of gpupool_feature_t. The first call may load the CUDA driver."]
    pub fn gpupool_features() -> u64;
    #[doc = " The name of a status, such as \"GPUPOOL_ERROR_OVER_LIMIT\"; \"unknown status\" for others. A constant string."]
    pub fn gpupool_status_name(status: gpupool_status_t) -> *const ::core::ffi::c_char;
    #[doc = " Copies the details of the calling thread's last failure; status is GPUPOOL_SUCCESS if there was none.\n Successful calls leave it as it is. error->struct_size must be set.\n Errors: INVALID_ARGUMENT (error is NULL or too short)."]
    pub fn gpupool_last_error(error: *mut gpupool_error_t) -> gpupool_status_t;
    #[doc = " Sends log lines up to level to fn; fn NULL: to standard error. Process-wide. GPUPOOL_LOG=error|warning|\n info|debug in the environment sets the level at start; without it the level is GPUPOOL_LOG_OFF.\n Errors: INVALID_ARGUMENT (unknown level)."]
    pub fn gpupool_set_log(
        fn_: gpupool_log_fn_t,
        user: *mut ::core::ffi::c_void,
        level: i32,
    ) -> gpupool_status_t;
    #[doc = " Reads a size as people write it. \"4096\", \"512KiB\", \"1.5 GiB\" and \"2g\" count in powers of 1,024, \"8GB\" in\n powers of 1,000; they set *out_bytes, and *out_share to 0. \"40%\" sets *out_share to 0.4, for\n gpupool_set_fraction or gpupool_config_t.fraction, and *out_bytes to 0; where out_share is NULL, a share is\n refused. The environment and every binding read sizes with this function. Since 0.2. Errors:\n INVALID_ARGUMENT (anything else, zero included)."]
    pub fn gpupool_parse_size(
        text: *const ::core::ffi::c_char,
        out_bytes: *mut u64,
        out_share: *mut f64,
    ) -> gpupool_status_t;
    #[doc = " Reads a device as people write it: \"cuda\", \"cuda:1\", \"sim\", \"sim:3\", \"auto\", or a number alone, which\n leaves the backend to GPUPOOL_BACKEND_AUTO. Does not ask whether the device is there. Since 0.2. Errors:\n INVALID_ARGUMENT (anything else)."]
    pub fn gpupool_parse_device(
        text: *const ::core::ffi::c_char,
        out_backend: *mut gpupool_backend_t,
        out_device: *mut i32,
    ) -> gpupool_status_t;
    #[doc = " Counts the devices of a backend. The simulated backend has 8.\n Errors: INVALID_ARGUMENT; UNAVAILABLE, with the reason in gpupool_last_error."]
    pub fn gpupool_device_count(backend: gpupool_backend_t, out_count: *mut i32) -> gpupool_status_t;
    #[doc = " Describes a device. info->struct_size must be set.\n Errors: INVALID_ARGUMENT (NULL, too short, no such device); UNAVAILABLE; DRIVER."]
    pub fn gpupool_device_info(
        backend: gpupool_backend_t,
        device: i32,
        info: *mut gpupool_device_info_t,
    ) -> gpupool_status_t;
    #[doc = " Clears config and sets struct_size. Pass sizeof(gpupool_config_t).\n Errors: INVALID_ARGUMENT (NULL or too short); UNSUPPORTED (longer than this version knows)."]
    pub fn gpupool_config_init(config: *mut gpupool_config_t, struct_size: usize) -> gpupool_status_t;
    #[doc = " Creates a pool. config NULL means all defaults. Takes no memory from the device yet. Uses the current\n CUDA context if it belongs to the device, else the device's primary context.\n Errors: INVALID_ARGUMENT (no such device, fraction outside 0..1, unknown flags, ...), UNAVAILABLE,\n UNSUPPORTED (mode, kind or peers that the device cannot do; non-zero unknown tail), DRIVER,\n HOST_OUT_OF_MEMORY."]
    pub fn gpupool_create(config: *const gpupool_config_t, out_pool: *mut *mut gpupool_t)
        -> gpupool_status_t;
    #[doc = " Creates a child of a pool, for memory that has to stay where it is, such as a graph's. It takes after its\n parent in device, mode, kind, slack and chunks, and shares its limit and its peers: what it reserves counts\n against the parent's limit, to the byte. It has blocks, streams and statistics of its own. What it once\n mapped stays mapped where it is, also while it is free, and serves this pool only, until\n gpupool_empty or gpupool_trim is called on the child itself, or it is destroyed: no shortage and no other\n pool takes it. Where the limit has no room for a malloc of the child, the parent first gives back what it\n has cached. gpupool_report of the parent says what its children hold. The parent may be destroyed first:\n the children live on, under the same limit, which nobody can change then. gpupool_set_limit and\n gpupool_set_fraction refuse a child, and this call refuses one as a parent. Since 0.2.\n Errors: INVALID_ARGUMENT (out_pool is NULL; parent is no pool, or a child), UNSUPPORTED (a pool whose\n memory comes from callbacks), FORKED, SHUTTING_DOWN, HOST_OUT_OF_MEMORY."]
    pub fn gpupool_create_child(parent: *mut gpupool_t, out_pool: *mut *mut gpupool_t) -> gpupool_status_t;
    #[doc = " The one pool of a device that everything in this process shares, created on first use with defaults\n (backend GPUPOOL_BACKEND_AUTO; GPUPOOL_FRACTION and GPUPOOL_LIMIT in the environment set its limits).\n It belongs to the process: gpupool_destroy refuses it.\n Errors: as gpupool_create."]
    pub fn gpupool_default_pool(device: i32, out_pool: *mut *mut gpupool_t) -> gpupool_status_t;
    #[doc = " Destroys a pool and gives its memory back; NULL does nothing. With live blocks, the pool refuses new\n ones from now on and goes away with its last free. May wait for the GPU.\n Errors: INVALID_ARGUMENT (destroyed already, or a default pool)."]
    pub fn gpupool_destroy(pool: *mut gpupool_t) -> gpupool_status_t;
    #[doc = " Allocates size bytes for work on stream, aligned to 512. Size 0 gives pointer 0; a size that no device has\n is OUT_OF_MEMORY, however large. A cached block costs no\n driver call. Before failing, the pool takes idle blocks of other streams, waits for blocks that streams\n are still using, empties other pools' caches and asks the out-of-memory handler; only that may wait for\n the GPU.\n Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, OVER_LIMIT, DRIVER, SHUTTING_DOWN, FORKED, HOST_OUT_OF_MEMORY."]
    pub fn gpupool_malloc(
        pool: *mut gpupool_t,
        size: u64,
        stream: gpupool_stream_t,
        out_ptr: *mut gpupool_ptr_t,
    ) -> gpupool_status_t;
    #[doc = " The same, aligned to alignment: a power of two of up to 2 MiB."]
    pub fn gpupool_malloc_aligned(
        pool: *mut gpupool_t,
        size: u64,
        alignment: u64,
        stream: gpupool_stream_t,
        out_ptr: *mut gpupool_ptr_t,
    ) -> gpupool_status_t;
    #[doc = " Frees a block. Work queued on stream so far may still use it; it is reused in stream order. A stream\n other than the block's counts as gpupool_record_stream; GPUPOOL_STREAM_UNKNOWN waits for all streams\n that the pool has seen. Pointer 0 does nothing. Never waits for the GPU.\n Errors: UNKNOWN_POINTER, FORKED, INVALID_ARGUMENT."]
    pub fn gpupool_free(
        pool: *mut gpupool_t,
        ptr: gpupool_ptr_t,
        stream: gpupool_stream_t,
    ) -> gpupool_status_t;
    #[doc = " Says that stream uses the block too: once freed, it is reused only when stream has passed the work that\n was queued on it when the block was freed. Pointer 0, or the block's own stream, does nothing.\n Errors: UNKNOWN_POINTER, INVALID_ARGUMENT (GPUPOOL_STREAM_UNKNOWN), FORKED."]
    pub fn gpupool_record_stream(
        pool: *mut gpupool_t,
        ptr: gpupool_ptr_t,
        stream: gpupool_stream_t,
    ) -> gpupool_status_t;
    #[doc = " Describes the block that contains ptr, which may point anywhere inside it. block_size is\n sizeof(gpupool_block_t).\n Errors: UNKNOWN_POINTER (not inside a live block), INVALID_ARGUMENT, FORKED."]
    pub fn gpupool_block_info(
        pool: *mut gpupool_t,
        ptr: gpupool_ptr_t,
        block: *mut gpupool_block_t,
        block_size: usize,
    ) -> gpupool_status_t;
    #[doc = " Call before a stream is destroyed: the pool records what it must know of it and never touches the stream\n again. Its free memory serves other streams. Blocks of it that are live stay valid. A stream that the\n pool has not seen is no error. Never waits for the GPU.\n Errors: INVALID_ARGUMENT (GPUPOOL_STREAM_UNKNOWN, or a stream that is capturing), DRIVER, FORKED."]
    pub fn gpupool_release_stream(pool: *mut gpupool_t, stream: gpupool_stream_t) -> gpupool_status_t;
    #[doc = " Call after each free on a stream whose end nobody will announce: the pool records what it must know of it\n and does not touch it until it is named again, so that it may be destroyed meanwhile; blocks of it that are\n still live are then freed on other streams. Its memory stays its own: the next malloc on it, or on a new\n stream with its number, comes after all that was recorded. A microsecond or two for both. A stream that the\n pool has not seen is no error. Never waits for the GPU.\n Errors: INVALID_ARGUMENT (GPUPOOL_STREAM_UNKNOWN, or a stream that is capturing), DRIVER, FORKED."]
    pub fn gpupool_park_stream(pool: *mut gpupool_t, stream: gpupool_stream_t) -> gpupool_status_t;
    #[doc = " The number of the capture under way on stream, as the driver gives it; 0: none. Since 0.2.\n Errors: INVALID_ARGUMENT, DRIVER, FORKED."]
    pub fn gpupool_capture_id(
        pool: *mut gpupool_t,
        stream: gpupool_stream_t,
        out_capture: *mut u64,
    ) -> gpupool_status_t;
    #[doc = " Says that the graph which a capture made will not run any more, so that its memory is the pool's again:\n what the capture freed serves other requests, and its blocks that are still live are like any others. Call\n it when the graph and all its copies are destroyed and all their launches are done. A capture that the pool\n has not seen is no error. Never waits for the GPU. Since 0.2. Errors: INVALID_ARGUMENT (capture 0, or one\n that is still under way), DRIVER, FORKED."]
    pub fn gpupool_release_capture(pool: *mut gpupool_t, capture: u64) -> gpupool_status_t;
    #[doc = " Lets device number `peer` access all memory of this pool, what it has now and what it gets later, wherever\n that is mapped. A peer that can access it already, and the pool's own device, are no error. There is no way\n back but the pool's end. Since 0.2. Errors: INVALID_ARGUMENT (no such device), UNSUPPORTED (the two devices\n cannot access each other, or the memory comes from an upstream), DRIVER, FORKED."]
    pub fn gpupool_enable_peer(pool: *mut gpupool_t, peer: i32) -> gpupool_status_t;
    #[doc = " Waits until every stream that the pool has seen has passed the work queued on it so far, and makes freed\n blocks that waited for them free to hand out.\n Errors: DRIVER, FORKED."]
    pub fn gpupool_synchronize(pool: *mut gpupool_t) -> gpupool_status_t;
    #[doc = " Gives every cached chunk back to the driver: reserved falls to the chunks that live blocks touch. Waits\n for streams that may still use freed memory. out_released_bytes may be NULL.\n Errors: DRIVER, FORKED."]
    pub fn gpupool_empty(pool: *mut gpupool_t, out_released_bytes: *mut u64) -> gpupool_status_t;
    #[doc = " Gives cached chunks back, the oldest first, until reserved is at most target_bytes or nothing more can\n be given back. Waits as gpupool_empty does. out_released_bytes may be NULL."]
    pub fn gpupool_trim(
        pool: *mut gpupool_t,
        target_bytes: u64,
        out_released_bytes: *mut u64,
    ) -> gpupool_status_t;
    #[doc = " Creates memory until reserved is at least target_bytes, mapped for stream and ready to be handed out.\n Keeps what it got if it cannot get all.\n Errors: OVER_LIMIT, OUT_OF_MEMORY, DRIVER, SHUTTING_DOWN, FORKED."]
    pub fn gpupool_reserve(
        pool: *mut gpupool_t,
        target_bytes: u64,
        stream: gpupool_stream_t,
    ) -> gpupool_status_t;
    #[doc = " Limits reserved memory to a fraction of the device's total, in (0, 1]. Replaces the pool's limit. Cached\n memory above the new limit is given back, as by gpupool_trim.\n Errors: INVALID_ARGUMENT (not in (0, 1], NaN); OVER_LIMIT (live blocks hold more: nothing changes)."]
    pub fn gpupool_set_fraction(pool: *mut gpupool_t, fraction: f64) -> gpupool_status_t;
    #[doc = " The same in bytes; 0 takes the limit away."]
    pub fn gpupool_set_limit(pool: *mut gpupool_t, limit_bytes: u64) -> gpupool_status_t;
    #[doc = " Sets the handler that is asked before a malloc of this pool fails; fn NULL: none. When the call returns,\n the old handler may still be running on another thread."]
    pub fn gpupool_set_oom_handler(
        pool: *mut gpupool_t,
        fn_: gpupool_oom_fn_t,
        user: *mut ::core::ffi::c_void,
    ) -> gpupool_status_t;
    #[doc = " Puts a pool to sleep: waits for the streams that it has seen, copies what is in live blocks to the host as\n `mode` says, and gives all memory back to the device. options NULL: saves. out_result may be NULL; else its\n struct_size must be set. Between this call and the end of gpupool_wake, no work may be queued that uses the\n pool's memory. A pool that sleeps already: success, and nothing is done. Another thread's sleep or wake is\n waited for. Only pools in vmm mode can sleep. Since 0.2.\n Errors: UNAVAILABLE (a stream captures, or the driver does not say; or the call comes from a handler that this\n pool's own wake asks), HOST_OUT_OF_MEMORY (no more than three quarters of the host's free\n memory are taken), UNSUPPORTED (another mode), INVALID_ARGUMENT, DRIVER, FORKED: the pool is awake, and its\n blocks are as they were. Where the driver refuses even to undo, the pool is asleep instead, with all that was\n saved: gpupool_sleep_state tells, and gpupool_wake tries again."]
    pub fn gpupool_sleep(
        pool: *mut gpupool_t,
        options: *const gpupool_sleep_options_t,
        out_result: *mut gpupool_sleep_result_t,
    ) -> gpupool_status_t;
    #[doc = " Wakes a pool: takes what it needs from the limit, creates memory, maps it at the same addresses, and copies\n back what was saved. What was freed meanwhile gets no memory. When the call returns, the data are there, and\n work of any stream may use them. Where memory is short, other pools' caches are emptied, the out-of-memory\n handler is asked, and then what others free is waited for, as long as timeout_ns says. A pool that is awake:\n success, and nothing is done. Since 0.2.\n Errors: OUT_OF_MEMORY, OVER_LIMIT, UNAVAILABLE (called by a handler that this pool's own wake asks), DRIVER,\n HOST_OUT_OF_MEMORY, INVALID_ARGUMENT, FORKED: the pool is asleep as before, and can be woken later."]
    pub fn gpupool_wake(
        pool: *mut gpupool_t,
        options: *const gpupool_sleep_options_t,
        out_result: *mut gpupool_sleep_result_t,
    ) -> gpupool_status_t;
    #[doc = " gpupool_sleep for every pool of this process that has the name `tag`; tag NULL: for every one that has a name. A\n tag that no pool has is no error: out_result->pools is 0. Where one pool fails, those that this call has\n changed are changed back, and its status is returned. Since 0.2."]
    pub fn gpupool_sleep_tag(
        tag: *const ::core::ffi::c_char,
        options: *const gpupool_sleep_options_t,
        out_result: *mut gpupool_sleep_result_t,
    ) -> gpupool_status_t;
    #[doc = " gpupool_wake for every pool of that name, as gpupool_sleep_tag. Since 0.2."]
    pub fn gpupool_wake_tag(
        tag: *const ::core::ffi::c_char,
        options: *const gpupool_sleep_options_t,
        out_result: *mut gpupool_sleep_result_t,
    ) -> gpupool_status_t;
    #[doc = " Where a pool stands: a gpupool_sleep_state_t. Since 0.2."]
    pub fn gpupool_sleep_state(
        pool: *mut gpupool_t,
        out_state: *mut gpupool_sleep_state_t,
    ) -> gpupool_status_t;
    #[doc = " Names a pool, for gpupool_sleep_tag, messages and the report; NULL or \"\": no name. At most 63 bytes; copied.\n Since 0.2. Errors: INVALID_ARGUMENT."]
    pub fn gpupool_set_name(pool: *mut gpupool_t, name: *const ::core::ffi::c_char) -> gpupool_status_t;
    #[doc = " The pool's name, \"\" without one, written as by gpupool_report. Since 0.2."]
    pub fn gpupool_name(
        pool: *mut gpupool_t,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        out_length: *mut usize,
    ) -> gpupool_status_t;
    #[doc = " Marks a block (1) whose contents GPUPOOL_SLEEP_MODE_DROP saves all the same, or takes that back (0). Goes with the\n block. The free of a marked block takes the pool's lock. Since 0.2. Errors: UNKNOWN_POINTER,\n INVALID_ARGUMENT."]
    pub fn gpupool_set_keep(pool: *mut gpupool_t, ptr: gpupool_ptr_t, keep: i32) -> gpupool_status_t;
    #[doc = " Gets page-locked memory of the host to save `bytes` with, ahead of the first sleep, and keeps it until it is\n called with less; 0 gives back what no saved block is in. Page-locking is slow, and may hold up others on the\n machine: it is done in pieces of at most 256 MiB. Since 0.2.\n Errors: HOST_OUT_OF_MEMORY (as for gpupool_sleep), UNSUPPORTED, DRIVER, FORKED: what was held before stays."]
    pub fn gpupool_prepare_backup(pool: *mut gpupool_t, bytes: u64) -> gpupool_status_t;
    #[doc = " Where the saved contents of a block are while the pool sleeps: *out_bytes of them, from ptr on, which may\n point anywhere inside it. They lie in pieces: ask again with ptr + *out_bytes for what comes next in the block.\n Valid until the block is freed, or the pool woken. Since 0.2.\n Errors: UNKNOWN_POINTER (not in a live block), UNAVAILABLE (the pool is not asleep, or the block was\n dropped)."]
    pub fn gpupool_backup(
        pool: *mut gpupool_t,
        ptr: gpupool_ptr_t,
        out_data: *mut *const ::core::ffi::c_void,
        out_bytes: *mut u64,
    ) -> gpupool_status_t;
    #[doc = " Fills stats. stats->struct_size must be set; it is set to the bytes that were filled.\n Errors: INVALID_ARGUMENT. Works on inherited pools after fork."]
    pub fn gpupool_stats(pool: *mut gpupool_t, stats: *mut gpupool_stats_t) -> gpupool_status_t;
    #[doc = " Sets every peak to the current value."]
    pub fn gpupool_reset_peaks(pool: *mut gpupool_t) -> gpupool_status_t;
    #[doc = " Lists what is mapped and what is in it, at one moment: segments and blocks sorted by address. Writes at\n most the capacities and sets the counts to what there is, so that capacity 0 (with NULL) asks for them.\n The sizes are sizeof(gpupool_segment_t) and sizeof(gpupool_block_t).\n Errors: INVALID_ARGUMENT, HOST_OUT_OF_MEMORY."]
    pub fn gpupool_snapshot(
        pool: *mut gpupool_t,
        segments: *mut gpupool_segment_t,
        segment_size: usize,
        segment_capacity: usize,
        out_segment_count: *mut usize,
        blocks: *mut gpupool_block_t,
        block_size: usize,
        block_capacity: usize,
        out_block_count: *mut usize,
    ) -> gpupool_status_t;
    #[doc = " Explains in words where the pool's memory is: limit, live, cached, largest free range, what waits for\n streams, what others hold, chunks by size. Writes at most capacity bytes with a terminating zero (text may\n be NULL with capacity 0); out_length is the length of the whole text without it, and may be NULL."]
    pub fn gpupool_report(
        pool: *mut gpupool_t,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        out_length: *mut usize,
    ) -> gpupool_status_t;
    #[doc = " Checks every promise that the pool's records make to each other. Slow; for tests.\n Errors: INTERNAL, with what is wrong in gpupool_last_error."]
    pub fn gpupool_validate(pool: *mut gpupool_t) -> gpupool_status_t;
    #[doc = " Begins a part of the calling thread's work: until the next gpupool_tag_pop of this thread, its mallocs\n carry this name, of 1 to 63 bytes, in reports and recordings. Tags nest, up to 64 deep; the innermost\n counts. The name is copied. A process has 4,094 names; all later ones are called \"(other tags)\". Since 0.2.\n Errors: INVALID_ARGUMENT, HOST_OUT_OF_MEMORY."]
    pub fn gpupool_tag_push(tag: *const ::core::ffi::c_char) -> gpupool_status_t;
    #[doc = " Ends what the last gpupool_tag_push of this thread began. Since 0.2.\n Errors: INVALID_ARGUMENT (this thread is inside no tag)."]
    pub fn gpupool_tag_pop() -> gpupool_status_t;
    #[doc = " Lists who holds the live bytes of the pool, the largest first, estimated from samples: a live block of S\n bytes is among them with probability 1 - exp(-S / D). D is a 64th of what is live, but at least 1 MiB, or\n what gpupool_set_sampling says, and at most 64 MiB: large holders are always there, and their bytes are\n within a few per cent. Writes at most the capacity and sets the count to what there is, so that capacity 0\n (with NULL) asks for it. The size is sizeof(gpupool_holder_t). Since 0.2. Errors: INVALID_ARGUMENT,\n HOST_OUT_OF_MEMORY."]
    pub fn gpupool_holders(
        pool: *mut gpupool_t,
        holders: *mut gpupool_holder_t,
        holder_size: usize,
        holder_capacity: usize,
        out_holder_count: *mut usize,
    ) -> gpupool_status_t;
    #[doc = " Sets how densely the mallocs of all pools are sampled: the least D of gpupool_holders in bytes; 0: no\n samples from now on. Comes before GPUPOOL_SAMPLE of the environment, which is a size or 0. Since 0.2.\n Errors: INVALID_ARGUMENT (more than 2^46), HOST_OUT_OF_MEMORY."]
    pub fn gpupool_set_sampling(bytes: u64) -> gpupool_status_t;
    #[doc = " Sets who is asked where a malloc comes from; fn NULL: nobody. One for the process. When the call returns,\n the old one may still be running on another thread. Since 0.2. Errors: INVALID_ARGUMENT (user, no fn)."]
    pub fn gpupool_set_stack_fn(
        fn_: gpupool_stack_fn_t,
        user: *mut ::core::ffi::c_void,
    ) -> gpupool_status_t;
    #[doc = " Records every malloc and free of all pools of this process, what is live now included, to a new file that\n the gpupool command reads; \"%p\" in the path becomes the process's number. Flags are bits of\n gpupool_record_flag_t. The file is readable by its owner only, and complete up to the last event when the\n process is killed. A path at which something is, a symbolic link included, is refused. A child after fork\n is not recorded. Where the disk is full, events are counted as lost. Since 0.2. Errors: INVALID_ARGUMENT\n (also where a recording is under way), HOST_OUT_OF_MEMORY."]
    pub fn gpupool_record_start(path: *const ::core::ffi::c_char, flags: u32) -> gpupool_status_t;
    #[doc = " Ends the recording. Since 0.2.\n Errors: INVALID_ARGUMENT (there is none)."]
    pub fn gpupool_record_stop() -> gpupool_status_t;
    #[doc = " Notes a moment in the recording, such as \"step 12\": a text of 1 to 255 bytes. Without a recording it does\n nothing. Since 0.2.\n Errors: INVALID_ARGUMENT."]
    pub fn gpupool_mark(text: *const ::core::ffi::c_char) -> gpupool_status_t;
    #[doc = " Creates a stream on the pool's device that does not synchronise with the legacy default stream.\n Errors: DRIVER, FORKED."]
    pub fn gpupool_stream_create(pool: *mut gpupool_t, out_stream: *mut gpupool_stream_t)
        -> gpupool_status_t;
    #[doc = " Releases the stream from this pool (gpupool_release_stream) and destroys it. Other pools that have seen\n it must release it first."]
    pub fn gpupool_stream_destroy(pool: *mut gpupool_t, stream: gpupool_stream_t) -> gpupool_status_t;
    #[doc = " Waits until the stream has done all work queued on it."]
    pub fn gpupool_stream_synchronize(pool: *mut gpupool_t, stream: gpupool_stream_t) -> gpupool_status_t;
    #[doc = " Queues a copy of size bytes on stream. Either address may be on the device or on the host; host memory\n must stay valid until the stream has passed.\n Errors: DRIVER, UNSUPPORTED (a simulated device without data), INVALID_ARGUMENT."]
    pub fn gpupool_copy(
        pool: *mut gpupool_t,
        destination: gpupool_ptr_t,
        source: gpupool_ptr_t,
        size: u64,
        stream: gpupool_stream_t,
    ) -> gpupool_status_t;
    #[doc = " Queues a fill of size bytes with value (its low 8 bits) on stream. On a simulated device without data\n the access is checked and nothing is written."]
    pub fn gpupool_fill(
        pool: *mut gpupool_t,
        destination: gpupool_ptr_t,
        value: u32,
        size: u64,
        stream: gpupool_stream_t,
    ) -> gpupool_status_t;
    #[doc = " Sets how simulated device number `device` behaves. Possible only while no pool uses it.\n config->struct_size must be set.\n Errors: INVALID_ARGUMENT (no such device, in use, fields out of range); UNSUPPORTED (unknown tail)."]
    pub fn gpupool_sim_configure(device: i32, config: *const gpupool_sim_config_t) -> gpupool_status_t;
    #[doc = " Makes calls of the simulated driver fail. script is a list \"CALL:NUMBER[=ERROR]\" with commas: CALL is\n create, release, map, set_access, unmap, address, malloc, free, event_record, query, stream_wait,\n host_wait, copy (those of sleep and wake) or stream (creating and destroying one); NUMBER counts that call's occurrences from 1, starting now, or is * for every one; ERROR is\n out_of_memory or error (default). An empty script ends all failures.\n Errors: INVALID_ARGUMENT, with the part that was not understood."]
    pub fn gpupool_sim_script(device: i32, script: *const ::core::ffi::c_char) -> gpupool_status_t;
    #[doc = " Queues work of `nanoseconds` of virtual time on a stream, which reads and writes size bytes at ptr (both\n may be 0). An access to memory that is not mapped, or that another stream's unfinished work still uses,\n is an error of the simulated device: see gpupool_sim_faults. Since 0.2, so is an access to another device's\n memory that device number `device` has no access to: see gpupool_enable_peer. gpupool_fill is work too;\n gpupool_copy may touch the memory of any device."]
    pub fn gpupool_sim_work(
        device: i32,
        stream: gpupool_stream_t,
        ptr: gpupool_ptr_t,
        size: u64,
        nanoseconds: u64,
    ) -> gpupool_status_t;
    #[doc = " Lets virtual time pass."]
    pub fn gpupool_sim_advance(device: i32, nanoseconds: u64) -> gpupool_status_t;
    #[doc = " Begins (1) or ends (0) capture on a stream, as cuStreamBeginCapture and cuStreamEndCapture do. Work, fills\n and copies that are queued meanwhile are kept for gpupool_sim_launch, and not done."]
    pub fn gpupool_sim_capture(device: i32, stream: gpupool_stream_t, begin: i32) -> gpupool_status_t;
    #[doc = " Queues on a stream what an ended capture of this device recorded, as cuGraphLaunch does: at the addresses\n of then, which must be mapped now, or it is an error of the simulated device. `capture` is the number that\n gpupool_capture_id gave while it was under way; any stream of the device will do, any number of times. What\n a capture recorded stays until the device is configured anew. Since 0.2.\n Errors: INVALID_ARGUMENT (no such device, no such capture on it, or one that is still under way); DRIVER,\n UNSUPPORTED as for work, fills and copies."]
    pub fn gpupool_sim_launch(device: i32, capture: u64, stream: gpupool_stream_t) -> gpupool_status_t;
    #[doc = " Lets somebody else hold the physical memory that is mapped at ptr, as NCCL does with\n cuMemRetainAllocationHandle: it does not return to the device, until the call with ptr 0 ends all holds.\n Since 0.2. Errors: INVALID_ARGUMENT (no such device; no chunk is mapped there)."]
    pub fn gpupool_sim_hold(device: i32, ptr: gpupool_ptr_t) -> gpupool_status_t;
    #[doc = " Counts the rules of the device that were broken so far: use of unmapped memory, or of another device's\n without access, races between streams, unmapping what is in use, calls that are illegal during capture. The\n last one is described in words in text as by gpupool_report. out_count may be NULL."]
    pub fn gpupool_sim_faults(
        device: i32,
        out_count: *mut u64,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
    ) -> gpupool_status_t;
}
