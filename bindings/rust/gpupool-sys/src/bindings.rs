// SPDX-License-Identifier: Apache-2.0
// Written by bindgen from gpupool.h: see the feature `generate`.

#[doc = " An address on the device. An integer, because most holders cannot read through it."]
pub type gpupool_ptr_t = u64;
#[doc = " A stream: the CUstream as an integer, or a number from gpupool_stream_create."]
pub type gpupool_stream_t = usize;
#[doc = " Receives a line of the log, on the thread that the line is about. message is valid during the call only.\n The library calls this with no lock held, before the library function that the line is about returns. Since\n 0.2 it may call any function of this library on any pool; such calls are not logged, and leave the thread's\n gpupool_last_error as it was."]
pub type gpupool_log_fn_t = ::core::option::Option<
    unsafe extern "C" fn(user: *mut ::core::ffi::c_void, level: i32, message: *const ::core::ffi::c_char),
>;
#[doc = " The pool calls this before a malloc of size bytes fails; attempt counts from 1. Free something and return\n non-zero to have the malloc tried again, or return 0 to let it fail. Since 0.2 the pool asks at most\n 100,000 times for one malloc, whatever the handler returns, and a wake that is short asks in the same way.\n It is called on the thread of the malloc with no lock held, and may call any function of this library on\n any pool. If it destroys the pool itself, the malloc fails with INVALID_ARGUMENT, and the pool ends with\n it."]
pub type gpupool_oom_fn_t = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        pool: *mut gpupool_t,
        size: u64,
        attempt: u32,
    ) -> i32,
>;
#[doc = " A sleep calls one of these before a pool's memory goes, and a wake calls one when it is there again: see\n gpupool_set_sleep_hooks. ptr is the block that sleeps or wakes alone, or goes to a sleep with a target;\n 0: all of the pool. Return non-zero if all is well. It is called on the thread of the sleep or the wake\n with no lock held, and may call any function of this library on any pool, except that those that sleep,\n wake or prepare this pool give UNAVAILABLE. Since 0.2."]
pub type gpupool_sleep_hook_fn_t = ::core::option::Option<
    unsafe extern "C" fn(user: *mut ::core::ffi::c_void, pool: *mut gpupool_t, ptr: gpupool_ptr_t) -> i32,
>;
#[doc = " The upstream of a pool: writes the address of size bytes, aligned to at least 512, to out_ptr and returns\n 0, or returns non-zero for \"no more memory\". Called with no lock held, from any thread."]
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
#[doc = " Says where in the caller's own language a malloc comes from. Writes one line a frame, the innermost first,\n as \"function (file:line)\": at most capacity bytes, without a terminating zero. Returns how many bytes it\n wrote. Called on the thread of the malloc with no lock held. It may call gpupool; mallocs made in it have\n no stack. Since 0.2."]
pub type gpupool_stack_fn_t = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
    ) -> usize,
>;
#[doc = " Says whether a call that waits is to give up: non-zero, and it fails with INTERRUPTED. wait is a\n gpupool_wait_t. It is called on the thread that waits, when a wait begins and then about every 50 ms, with\n no lock held, and may call any function of this library on any pool. A thread that is not its own concern\n gets 0. Since 0.2."]
pub type gpupool_interrupt_fn_t =
    ::core::option::Option<unsafe extern "C" fn(user: *mut ::core::ffi::c_void, wait: i32) -> i32>;
#[doc = " A pool. Opaque."]
#[repr(C)]
#[derive(Debug)]
pub struct gpupool_t {
    _unused: [u8; 0],
}
#[repr(transparent)]
#[doc = " The result of a call. The numbers never change."]
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
#[doc = " What happens to the contents of blocks when a pool sleeps. Since 0.2."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_sleep_mode_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " Bits of gpupool_sleep_options_t.flags. Since 0.2."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_sleep_flag_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " What work of the device and its peers may do with a block: see gpupool_protect. Since 0.2."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_access_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " Whether a pool shares the device with other processes. Since 0.2."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_share_state_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " The state of a member of a group. Since 0.2."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_share_member_state_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " What gpupool_share_set sets. Since 0.2."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_share_figure_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " Whether a pool is awake. Since 0.2."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_sleep_state_t(pub ::core::ffi::c_uint);
#[repr(transparent)]
#[doc = " What a call waits for when it asks a gpupool_interrupt_fn_t. Since 0.2."]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct gpupool_wait_t(pub ::core::ffi::c_uint);
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
    #[doc = " In words, with a terminating zero: one line. That of a malloc for which memory was short goes on in more\n lines, which say where the memory is."]
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
    #[doc = " Limit in bytes; 0: no such limit. The smaller of the two holds, or what the environment says if that is\n less: see gpupool_set_limit."]
    pub limit_bytes: u64,
    #[doc = " By how much reserved memory may exceed the live peak to save driver calls, as a fraction in [0, 10]: 0.1\n allows 10 per cent. 0: default: tight while that costs at most a thousandth of the time, and more where\n there is room (since 0.2). -1: always tight, whatever it costs (since 0.2). See docs/inside/growth.md."]
    pub slack: f64,
    #[doc = " Size of the largest chunk, a power of two from 2 MiB; 0: 16 MiB, and up to 128 MiB in a large pool while\n most of the limit is free."]
    pub max_chunk_bytes: u64,
    #[doc = " Other devices that may access this pool's memory: peer_count numbers. Copied. Only in vmm and driver\n mode."]
    pub peers: *const i32,
    #[doc = " For GPUPOOL_MODE_UPSTREAM: both callbacks, and what they get as user."]
    pub upstream_malloc: gpupool_upstream_malloc_fn_t,
    pub upstream_free: gpupool_upstream_free_fn_t,
    pub upstream_user: *mut ::core::ffi::c_void,
    pub peer_count: u32,
    pub reserved0: u32,
    pub reserved: [u64; 4usize],
    #[doc = " The group of processes to share the device's memory with: 1 to 48 letters, digits, '-', '_' and '.'.\n NULL: the group that GPUPOOL_SHARE in the environment names, if it names one; \"\": none. Copied. Only\n pools of kind device or managed whose memory comes from the driver can share. See docs/sharing.md. This\n and all below: since 0.2."]
    pub share: *const ::core::ffi::c_char,
    #[doc = " Bytes of the group's memory that are this pool's, whoever needs them. The pool takes them when it is\n created."]
    pub guaranteed_bytes: u64,
    #[doc = " How long a malloc waits for memory that neighbours give back; 0: default, 50 ms. At most 10 s."]
    pub share_wait_ns: u64,
    #[doc = " From -8 to 8: the lowest priority gives first, the highest gets first. A process has the highest of its\n pools."]
    pub priority: i32,
    pub reserved1: u32,
    #[doc = " After how many seconds without a malloc the pool gives its cached memory back, as by gpupool_empty, but\n without a wait, so that what a stream freed last stays: 0.001 to a year, by the device's clock. 0: as\n GPUPOOL_IDLE says (\"30s\"), else never; -1: never. Calls on any pool of the process notice it, except\n mallocs and frees that a thread's cache serves; with GPUPOOL_IDLE=30s,thread a thread of the library\n does, though nobody calls. A malloc that a cache serves counts as made when such a call last came, or\n when much was last freed to a cache. docs/sleep.md."]
    pub idle_seconds: f64,
}
#[doc = " A device, as gpupool_device_info sees it."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpupool_device_info_t {
    pub struct_size: u32,
    #[doc = " A gpupool_backend_t, never GPUPOOL_BACKEND_AUTO."]
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
#[doc = " One quantity over time. total_allocated - total_freed = current. Current and totals are exact whenever no\n call is in flight. While one thread allocates, peak is exact; with several, it is too high by at most 16\n MiB (or 4096 blocks) a thread. The peaks of reserved bytes and chunks are always exact."]
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
#[doc = " How often a driver function was called, and how long the calls took (in virtual time on the simulated\n device). Failed calls count too."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpupool_call_stat_t {
    pub count: u64,
    pub nanoseconds: u64,
}
#[doc = " The pool's own calls of the driver by kind. gpupool_copy, gpupool_fill and gpupool_stream_synchronize are\n the caller's work, and not counted."]
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
#[doc = " Statistics of a pool. all = small + large: blocks of up to 1 MiB are small. reserved_bytes and chunks of a\n group count the chunks that back its heaps now; all also counts a chunk that backs neither just now."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpupool_stats_t {
    pub struct_size: u32,
    pub device: i32,
    #[doc = " The limit in force, in bytes, whether set in bytes, as a fraction or in the environment; 0: none. A\n group's limit comes on top."]
    pub limit_bytes: u64,
    pub cached_bytes: u64,
    #[doc = " The part of cached_bytes that gpupool_empty would give back: chunks that no block touches. What can still\n be had, even in one block, is limit_bytes - all.reserved_bytes.current + releasable_bytes in mode vmm, if\n the device has what is not reserved yet. The rest of cached_bytes lies between live blocks."]
    pub releasable_bytes: u64,
    pub slack_bytes: u64,
    pub all: gpupool_stat_group_t,
    pub large: gpupool_stat_group_t,
    pub small: gpupool_stat_group_t,
    pub driver: gpupool_driver_stats_t,
    #[doc = " Mallocs that a thread's own cache served, and the others."]
    pub hits: u64,
    pub misses: u64,
    #[doc = " Free chunks that the pool mapped at another address or handed to another stream, and the part of them\n that came from another stream."]
    pub steals: u64,
    pub stream_steals: u64,
    #[doc = " Mallocs that met a shortage, calls of the out-of-memory handler, and mallocs that failed."]
    pub retries: u64,
    pub oom_handler_calls: u64,
    pub failed_mallocs: u64,
    #[doc = " Streams that this pool has seen and nobody has released."]
    pub streams: u64,
    #[doc = " Host memory of the pool's own records."]
    pub metadata_bytes: u64,
    #[doc = " Memory that waking will create, because the pool is asleep, or blocks are; a block that sleeps alone\n leaves it with its free. It is not part of reserved_bytes; blocks in it still count as active. This and\n all below: since 0.2."]
    pub asleep_bytes: u64,
    #[doc = " Page-locked host memory that the pool holds to sleep with. What it saved of a block that was freed\n asleep goes with the next wake: to free such memory waits for the device."]
    pub backup_bytes: u64,
    #[doc = " How often the pool fell asleep, and woke."]
    pub sleeps: u64,
    pub wakes: u64,
    #[doc = " More calls of the driver: what sleep, wake and debug modes copy and fill, and streams created and\n destroyed for that."]
    pub copy: gpupool_call_stat_t,
    pub stream: gpupool_call_stat_t,
    #[doc = " What this process has given back because others in its group were short, and what it got after asking\n them."]
    pub share_given_bytes: u64,
    pub share_taken_bytes: u64,
    #[doc = " A gpupool_share_state_t."]
    pub share_state: i32,
    #[doc = " The number of the process in its group."]
    pub share_slot: u32,
    #[doc = " What gpupool_create, gpupool_set_limit or gpupool_set_fraction asked for last, in bytes; 0: nothing."]
    pub own_limit_bytes: u64,
}
#[doc = " A group of processes that share a device's memory, as gpupool_share_info finds it. Since 0.2."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpupool_share_t {
    pub struct_size: u32,
    #[doc = " Members that live, and dead ones whose memory is not confirmed free yet."]
    pub members: u32,
    #[doc = " What all members may have together, what they have (guarantees included), and what the device has."]
    pub limit_bytes: u64,
    pub used_bytes: u64,
    pub total_bytes: u64,
    #[doc = " The part of used_bytes that dead members held, until the device shows it free."]
    pub limbo_bytes: u64,
    #[doc = " Memory that no member held at the last quiet moment: contexts, and programs outside the group."]
    pub foreign_bytes: u64,
    #[doc = " Where the region is."]
    pub path: [::core::ffi::c_char; 256usize],
}
#[doc = " A member of a group. All but charged_bytes is what the member says of itself, and may lag. Since 0.2."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpupool_share_member_t {
    #[doc = " Its number, for gpupool_share_set."]
    pub slot: u32,
    #[doc = " A gpupool_share_member_state_t."]
    pub state: i32,
    #[doc = " As its own namespace sees it."]
    pub pid: u64,
    pub uid: u64,
    pub priority: i32,
    #[doc = " 1: it waits for want_bytes."]
    pub is_waiting: u32,
    pub want_bytes: u64,
    #[doc = " What it has, and what counts for the group: the larger of that and its guarantee."]
    pub reserved_bytes: u64,
    pub charged_bytes: u64,
    #[doc = " Bytes in live blocks when it was asked last."]
    pub live_bytes: u64,
    pub guaranteed_bytes: u64,
    #[doc = " 0: none but the group's."]
    pub limit_bytes: u64,
    pub given_bytes: u64,
    pub taken_bytes: u64,
    #[doc = " The program."]
    pub name: [::core::ffi::c_char; 40usize],
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
    #[doc = " gpupool_sleep and gpupool_sleep_tag: how many bytes to give back, while the pool stays awake. 0: all, and\n it sleeps. Elsewhere it must be 0."]
    pub target_bytes: u64,
    pub reserved: [u64; 3usize],
}
#[doc = " The result of a sleep or a wake, in bytes, over all pools that it was for. All zero if there was nothing to\n do. Since 0.2."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpupool_sleep_result_t {
    pub struct_size: u32,
    #[doc = " Pools that were put to sleep, or woken."]
    pub pools: u32,
    #[doc = " Sleep: physical memory that was given back, cached memory included."]
    pub released_bytes: u64,
    #[doc = " Sleep: contents of live blocks that were copied to the host. Wake: contents that were copied back."]
    pub saved_bytes: u64,
    #[doc = " Sleep and wake: contents of live blocks that were not copied."]
    pub dropped_bytes: u64,
    #[doc = " Sleep: the part of released_bytes that the device did not get back, because somebody else holds the\n memory or the driver did not take it. An estimate if others allocate at the same time."]
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
    #[doc = " From gpupool_block_info, since 0.2: GPUPOOL_STREAM_UNKNOWN once the stream was released."]
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
#[doc = " How a simulated device behaves; see gpupool_sim_configure. Zero means what GPUPOOL_SIM in the environment\n says, such as \"capacity=8GiB,price_scale=2\", and otherwise the default."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpupool_sim_config_t {
    pub struct_size: u32,
    #[doc = " 1: blocks are real host memory with true aliasing, and a gpupool_ptr_t may be cast to a pointer and used.\n A fork copies the memory, so parent and child do not see each other's writes. 2: addresses only, for\n speed. 0: default, 1."]
    pub data: u32,
    #[doc = " Default: 150754820096, an H200's."]
    pub capacity_bytes: u64,
    #[doc = " Multiplies the measured prices of driver calls. Default: 1."]
    pub price_scale: f64,
    #[doc = " 1: any number is a stream from its first use on. 2: only 0 and the numbers from gpupool_stream_create are\n streams; any other number is an error of the simulated device, as it crashes a GPU's driver. 0: default,\n 1. Since 0.2."]
    pub streams: u32,
    pub reserved0: u32,
    #[doc = " Host memory that can be page-locked. Default: 1 TiB. Since 0.2."]
    pub host_bytes: u64,
    pub reserved: [u64; 2usize],
}
pub const GPUPOOL_VERSION_MAJOR: u32 = 0;
pub const GPUPOOL_VERSION_MINOR: u32 = 2;
pub const GPUPOOL_VERSION_PATCH: u32 = 0;
pub const GPUPOOL_VERSION: u32 = 200;
pub const GPUPOOL_EXPORT_BYTES: u32 = 192;
pub const GPUPOOL_SUCCESS: gpupool_status_t = gpupool_status_t(0);
#[doc = " An argument is out of range, or a handle is NULL, destroyed or from another copy of the library."]
pub const GPUPOOL_ERROR_INVALID_ARGUMENT: gpupool_status_t = gpupool_status_t(1);
#[doc = " The device has no more memory, or for pinned memory the host, and nothing that the pool tried has helped.\n So too if the process has no addresses left, which the message says."]
pub const GPUPOOL_ERROR_OUT_OF_MEMORY: gpupool_status_t = gpupool_status_t(2);
#[doc = " The library could not get memory on the host for its own records, or to save what sleeps."]
pub const GPUPOOL_ERROR_HOST_OUT_OF_MEMORY: gpupool_status_t = gpupool_status_t(3);
#[doc = " The call would take reserved memory above the pool's limit."]
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
#[doc = " The library broke a promise of its own. Please report it."]
pub const GPUPOOL_ERROR_INTERNAL: gpupool_status_t = gpupool_status_t(11);
#[doc = " The pool is asleep, or falling asleep: see gpupool_sleep. Since 0.2."]
pub const GPUPOOL_ERROR_ASLEEP: gpupool_status_t = gpupool_status_t(12);
#[doc = " The call waited, and a function of gpupool_set_interrupt_check has ended that. Since 0.2."]
pub const GPUPOOL_ERROR_INTERRUPTED: gpupool_status_t = gpupool_status_t(13);
#[doc = " The call waited, and a function of gpupool_set_interrupt_check has ended that. Since 0.2."]
pub const GPUPOOL_STATUS_FORCE32: gpupool_status_t = gpupool_status_t(2147483647);
#[doc = " CUDA where there is a usable GPU, else the simulated device. GPUPOOL_BACKEND=cuda|sim|host in the\n environment overrides this."]
pub const GPUPOOL_BACKEND_AUTO: gpupool_backend_t = gpupool_backend_t(0);
#[doc = " CUDA where there is a usable GPU, else the simulated device. GPUPOOL_BACKEND=cuda|sim|host in the\n environment overrides this."]
pub const GPUPOOL_BACKEND_CUDA: gpupool_backend_t = gpupool_backend_t(1);
#[doc = " CUDA where there is a usable GPU, else the simulated device. GPUPOOL_BACKEND=cuda|sim|host in the\n environment overrides this."]
pub const GPUPOOL_BACKEND_SIM: gpupool_backend_t = gpupool_backend_t(2);
#[doc = " Memory of the host, without a GPU and without a simulation. Since 0.2."]
pub const GPUPOOL_BACKEND_HOST: gpupool_backend_t = gpupool_backend_t(3);
#[doc = " Memory of the host, without a GPU and without a simulation. Since 0.2."]
pub const GPUPOOL_BACKEND_FORCE32: gpupool_backend_t = gpupool_backend_t(2147483647);
#[doc = " vmm where the device, its driver and the kind allow it, else driver. For kind device,\n GPUPOOL_MODE=vmm|driver in the environment overrides this (since 0.2)."]
pub const GPUPOOL_MODE_AUTO: gpupool_mode_t = gpupool_mode_t(0);
#[doc = " Chunks, mapped where they are needed: the tightest mode. Kind device only."]
pub const GPUPOOL_MODE_VMM: gpupool_mode_t = gpupool_mode_t(1);
#[doc = " Segments from the driver's own malloc: for old devices, cudaIpc and RDMA through peermem."]
pub const GPUPOOL_MODE_DRIVER: gpupool_mode_t = gpupool_mode_t(2);
#[doc = " Segments from the callbacks in gpupool_config_t."]
pub const GPUPOOL_MODE_UPSTREAM: gpupool_mode_t = gpupool_mode_t(3);
#[doc = " Segments from the callbacks in gpupool_config_t."]
pub const GPUPOOL_MODE_FORCE32: gpupool_mode_t = gpupool_mode_t(2147483647);
pub const GPUPOOL_KIND_DEVICE: gpupool_kind_t = gpupool_kind_t(0);
#[doc = " Page-locked host memory that the device can read and write; the driver chooses node and pages."]
pub const GPUPOOL_KIND_PINNED: gpupool_kind_t = gpupool_kind_t(1);
#[doc = " Memory that the driver moves between host and device."]
pub const GPUPOOL_KIND_MANAGED: gpupool_kind_t = gpupool_kind_t(2);
#[doc = " Memory that the driver moves between host and device."]
pub const GPUPOOL_KIND_FORCE32: gpupool_kind_t = gpupool_kind_t(2147483647);
#[doc = " At every malloc and free, the pool asks the driver whether the stream is capturing a graph, and reuses\n what a capture allocates and frees within that capture only. Costs one driver query a call."]
pub const GPUPOOL_FLAG_CAPTURE_AWARE: gpupool_flag_t = gpupool_flag_t(1);
#[doc = " At every malloc and free, the pool asks the driver whether the stream is capturing a graph, and reuses\n what a capture allocates and frees within that capture only. Costs one driver query a call."]
pub const GPUPOOL_FLAG_FORCE32: gpupool_flag_t = gpupool_flag_t(2147483647);
#[doc = " Records the native stack of each malloc. docs/watch.md says what a stack costs."]
pub const GPUPOOL_RECORD_NATIVE_STACKS: gpupool_record_flag_t = gpupool_record_flag_t(1);
#[doc = " Records what the function of gpupool_set_stack_fn says at each malloc."]
pub const GPUPOOL_RECORD_LANGUAGE_STACKS: gpupool_record_flag_t = gpupool_record_flag_t(2);
#[doc = " Records what the function of gpupool_set_stack_fn says at each malloc."]
pub const GPUPOOL_RECORD_FORCE32: gpupool_record_flag_t = gpupool_record_flag_t(2147483647);
#[doc = " The simulated device. Always there."]
pub const GPUPOOL_FEATURE_SIM: gpupool_feature_t = gpupool_feature_t(1);
#[doc = " A CUDA driver with at least one device can be used in this process."]
pub const GPUPOOL_FEATURE_CUDA: gpupool_feature_t = gpupool_feature_t(2);
#[doc = " The host's memory can be used as a device's. Since 0.2."]
pub const GPUPOOL_FEATURE_HOST: gpupool_feature_t = gpupool_feature_t(4);
#[doc = " The host's memory can be used as a device's. Since 0.2."]
pub const GPUPOOL_FEATURE_FORCE32: gpupool_feature_t = gpupool_feature_t(2147483647);
pub const GPUPOOL_CAPABILITY_VMM: gpupool_capability_t = gpupool_capability_t(1);
pub const GPUPOOL_CAPABILITY_RDMA: gpupool_capability_t = gpupool_capability_t(2);
pub const GPUPOOL_CAPABILITY_MANAGED: gpupool_capability_t = gpupool_capability_t(4);
#[doc = " The device has no memory of its own, but takes the host's (Jetson, GB10). total_bytes and free_bytes are\n then what this process may have of it and what it can still get, in its container; a pool sleeps with\n GPUPOOL_SLEEP_MODE_DROP only, since saved contents would stay in the same memory. Since 0.2."]
pub const GPUPOOL_CAPABILITY_INTEGRATED: gpupool_capability_t = gpupool_capability_t(8);
#[doc = " The device has no memory of its own, but takes the host's (Jetson, GB10). total_bytes and free_bytes are\n then what this process may have of it and what it can still get, in its container; a pool sleeps with\n GPUPOOL_SLEEP_MODE_DROP only, since saved contents would stay in the same memory. Since 0.2."]
pub const GPUPOOL_CAPABILITY_FORCE32: gpupool_capability_t = gpupool_capability_t(2147483647);
#[doc = " Handed out."]
pub const GPUPOOL_BLOCK_LIVE: gpupool_block_state_t = gpupool_block_state_t(1);
#[doc = " Freed, but a stream may still be using it."]
pub const GPUPOOL_BLOCK_PENDING: gpupool_block_state_t = gpupool_block_state_t(2);
#[doc = " Free to hand out."]
pub const GPUPOOL_BLOCK_CACHED: gpupool_block_state_t = gpupool_block_state_t(3);
#[doc = " Handed out, but some or all of its memory is away: the pool is asleep, or the block. Since 0.2."]
pub const GPUPOOL_BLOCK_ASLEEP: gpupool_block_state_t = gpupool_block_state_t(4);
#[doc = " Handed out, but some or all of its memory is away: the pool is asleep, or the block. Since 0.2."]
pub const GPUPOOL_BLOCK_FORCE32: gpupool_block_state_t = gpupool_block_state_t(2147483647);
#[doc = " They are copied to page-locked host memory, and back."]
pub const GPUPOOL_SLEEP_MODE_SAVE: gpupool_sleep_mode_t = gpupool_sleep_mode_t(0);
#[doc = " They are lost, except in the blocks that gpupool_set_keep names."]
pub const GPUPOOL_SLEEP_MODE_DROP: gpupool_sleep_mode_t = gpupool_sleep_mode_t(1);
#[doc = " They are lost, except in the blocks that gpupool_set_keep names."]
pub const GPUPOOL_SLEEP_MODE_FORCE32: gpupool_sleep_mode_t = gpupool_sleep_mode_t(2147483647);
#[doc = " Changes nothing: every sleep waits for all work of the device's context, and of the contexts of the\n streams that the pool has seen."]
pub const GPUPOOL_SLEEP_FLAG_SYNC_CONTEXT: gpupool_sleep_flag_t = gpupool_sleep_flag_t(1);
#[doc = " Sleep: mallocs wait until the pool is awake, instead of failing with GPUPOOL_ERROR_ASLEEP."]
pub const GPUPOOL_SLEEP_FLAG_HOLD_MALLOCS: gpupool_sleep_flag_t = gpupool_sleep_flag_t(2);
#[doc = " Wake: keeps the page-locked memory for the next sleep, as gpupool_prepare_backup does."]
pub const GPUPOOL_SLEEP_FLAG_RETAIN_BACKUP: gpupool_sleep_flag_t = gpupool_sleep_flag_t(4);
#[doc = " Wake: fills blocks that were dropped with the byte in `fill`."]
pub const GPUPOOL_SLEEP_FLAG_FILL: gpupool_sleep_flag_t = gpupool_sleep_flag_t(8);
#[doc = " Wake: fills blocks that were dropped with the byte in `fill`."]
pub const GPUPOOL_SLEEP_FLAG_FORCE32: gpupool_sleep_flag_t = gpupool_sleep_flag_t(2147483647);
pub const GPUPOOL_ACCESS_WRITE: gpupool_access_t = gpupool_access_t(0);
pub const GPUPOOL_ACCESS_READ: gpupool_access_t = gpupool_access_t(1);
pub const GPUPOOL_ACCESS_NONE: gpupool_access_t = gpupool_access_t(2);
pub const GPUPOOL_ACCESS_FORCE32: gpupool_access_t = gpupool_access_t(2147483647);
pub const GPUPOOL_SHARE_STATE_OFF: gpupool_share_state_t = gpupool_share_state_t(0);
#[doc = " It should share and cannot, so it works as if it had the device to itself. It wrote the reason to\n standard error."]
pub const GPUPOOL_SHARE_STATE_ALONE: gpupool_share_state_t = gpupool_share_state_t(1);
#[doc = " It should share and cannot, so it works as if it had the device to itself. It wrote the reason to\n standard error."]
pub const GPUPOOL_SHARE_STATE_SHARED: gpupool_share_state_t = gpupool_share_state_t(2);
#[doc = " It should share and cannot, so it works as if it had the device to itself. It wrote the reason to\n standard error."]
pub const GPUPOOL_SHARE_STATE_FORCE32: gpupool_share_state_t = gpupool_share_state_t(2147483647);
pub const GPUPOOL_SHARE_MEMBER_STATE_LIVE: gpupool_share_member_state_t = gpupool_share_member_state_t(1);
#[doc = " It has ended, but the device does not show its memory as free yet."]
pub const GPUPOOL_SHARE_MEMBER_STATE_LIMBO: gpupool_share_member_state_t = gpupool_share_member_state_t(2);
#[doc = " It has ended, but the device does not show its memory as free yet."]
pub const GPUPOOL_SHARE_MEMBER_STATE_FORCE32: gpupool_share_member_state_t =
    gpupool_share_member_state_t(2147483647);
#[doc = " What all members may have together, in bytes."]
pub const GPUPOOL_SHARE_FIGURE_LIMIT: gpupool_share_figure_t = gpupool_share_figure_t(1);
#[doc = " What one member may have, in bytes; 0: no limit but the group's."]
pub const GPUPOOL_SHARE_FIGURE_MEMBER_LIMIT: gpupool_share_figure_t = gpupool_share_figure_t(2);
#[doc = " What one member is guaranteed, in bytes."]
pub const GPUPOOL_SHARE_FIGURE_MEMBER_GUARANTEE: gpupool_share_figure_t = gpupool_share_figure_t(3);
#[doc = " From -8 to 8."]
pub const GPUPOOL_SHARE_FIGURE_MEMBER_PRIORITY: gpupool_share_figure_t = gpupool_share_figure_t(4);
#[doc = " From -8 to 8."]
pub const GPUPOOL_SHARE_FIGURE_FORCE32: gpupool_share_figure_t = gpupool_share_figure_t(2147483647);
pub const GPUPOOL_SLEEP_STATE_AWAKE: gpupool_sleep_state_t = gpupool_sleep_state_t(0);
pub const GPUPOOL_SLEEP_STATE_FALLING_ASLEEP: gpupool_sleep_state_t = gpupool_sleep_state_t(1);
pub const GPUPOOL_SLEEP_STATE_ASLEEP: gpupool_sleep_state_t = gpupool_sleep_state_t(2);
pub const GPUPOOL_SLEEP_STATE_WAKING: gpupool_sleep_state_t = gpupool_sleep_state_t(3);
pub const GPUPOOL_SLEEP_STATE_FORCE32: gpupool_sleep_state_t = gpupool_sleep_state_t(2147483647);
#[doc = " A malloc that a sleeping pool holds: for another thread to wake the pool. It has no other end."]
pub const GPUPOOL_WAIT_WAKE: gpupool_wait_t = gpupool_wait_t(1);
#[doc = " For another thread's sleep or wake of the same pool to end."]
pub const GPUPOOL_WAIT_TURN: gpupool_wait_t = gpupool_wait_t(2);
#[doc = " For memory that others may give back: a wake with a timeout, or a request to the members of a group."]
pub const GPUPOOL_WAIT_MEMORY: gpupool_wait_t = gpupool_wait_t(3);
#[doc = " For work that is queued on the device."]
pub const GPUPOOL_WAIT_GPU: gpupool_wait_t = gpupool_wait_t(4);
#[doc = " For work that is queued on the device."]
pub const GPUPOOL_WAIT_FORCE32: gpupool_wait_t = gpupool_wait_t(2147483647);
pub const GPUPOOL_LOG_OFF: gpupool_log_level_t = gpupool_log_level_t(0);
#[doc = " Failures of the driver, of the host's memory and of the library itself."]
pub const GPUPOOL_LOG_ERROR: gpupool_log_level_t = gpupool_log_level_t(1);
#[doc = " Mallocs that fail."]
pub const GPUPOOL_LOG_WARNING: gpupool_log_level_t = gpupool_log_level_t(2);
#[doc = " Pools that begin and end, and calls that are refused."]
pub const GPUPOOL_LOG_INFO: gpupool_log_level_t = gpupool_log_level_t(3);
#[doc = " Since 0.2: what a pool does behind a malloc: growth, memory given back and why, memory taken from another\n stream, waits of the host, the steps of a shortage, streams released or parked, captures released, peers\n enabled."]
pub const GPUPOOL_LOG_DEBUG: gpupool_log_level_t = gpupool_log_level_t(4);
#[doc = " Since 0.2: what a pool does behind a malloc: growth, memory given back and why, memory taken from another\n stream, waits of the host, the steps of a shortage, streams released or parked, captures released, peers\n enabled."]
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
impl Default for gpupool_share_t {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for gpupool_share_member_t {
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
    #[doc = " The version in words, such as \"0.1.0\". A constant string."]
    pub fn gpupool_version_string() -> *const ::core::ffi::c_char;
    #[doc = " Bits of gpupool_feature_t. The first call may load the CUDA driver."]
    pub fn gpupool_features() -> u64;
    #[doc = " The name of a status, such as \"GPUPOOL_ERROR_OVER_LIMIT\"; \"unknown status\" for others. A constant string."]
    pub fn gpupool_status_name(status: gpupool_status_t) -> *const ::core::ffi::c_char;
    #[doc = " Copies the details of the calling thread's last failure; status is GPUPOOL_SUCCESS if there was none.\n Successful calls leave it as it is. error->struct_size must be set.\n Errors: INVALID_ARGUMENT (error is NULL or too short)."]
    pub fn gpupool_last_error(error: *mut gpupool_error_t) -> gpupool_status_t;
    #[doc = " Sends log lines up to level to fn; fn NULL: to standard error, or to the file that GPUPOOL_LOG names.\n Process-wide. A level that is switched off costs one comparison in functions that are slow anyway, and\n nothing in a cached malloc or free.\n GPUPOOL_LOG=error|warning|info|debug in the environment sets the level at start; without it the level is\n GPUPOOL_LOG_OFF. Since 0.2, more may follow, as in \"info,time,process,thread,file=/tmp/gpupool-%p.log\":\n what each line begins with, and a file to append to, where %p is the number of the process. Lines for fn\n are without.\n Errors: INVALID_ARGUMENT (unknown level)."]
    pub fn gpupool_set_log(
        fn_: gpupool_log_fn_t,
        user: *mut ::core::ffi::c_void,
        level: i32,
    ) -> gpupool_status_t;
    #[doc = " Adds (1) a function that every wait of the library asks whether to give up, or takes it away (0): so that\n Ctrl-C, a deadline or a language's own way of ending threads reaches a call that waits. A call that gives\n up fails with INTERRUPTED; as after any failure nothing has changed, and it may be made again. Only\n page-locked memory that a sleep took stays, for the next one: to free it would wait for the device. What\n the call has begun is undone first, which is not interrupted, and neither are gpupool_destroy and the last\n free of a destroyed pool: those end with the device's work. A copy that was queued goes on: its memory must\n stay. While there is such a function, the library looks at the device's work again and again where it would\n leave the wait to the driver, and a wait for all work of a context gets a thread of its own, which goes on\n if the call gives up; where the system has no thread left, that wait is not interrupted. A process has room\n for 16 pairs of fn and user in its life; a pair that was taken away may come back. When the call returns, a\n function that it took away may still be running on another thread. The packages for Python, Ruby, Java and\n Node add their own. Since 0.2.\n Errors: INVALID_ARGUMENT (fn is NULL, on is not 0 or 1, or there is no such pair to take away), UNAVAILABLE\n (no room)."]
    pub fn gpupool_set_interrupt_check(
        fn_: gpupool_interrupt_fn_t,
        user: *mut ::core::ffi::c_void,
        on: i32,
    ) -> gpupool_status_t;
    #[doc = " Reads a size as people write it. \"4096\", \"512KiB\", \"1.5 GiB\" and \"2g\" count in powers of 1,024, \"8GB\" in\n powers of 1,000; they set *out_bytes, and *out_share to 0. \"40%\" sets *out_share to 0.4, for\n gpupool_set_fraction or gpupool_config_t.fraction, and *out_bytes to 0; if out_share is NULL, a share is\n refused. The environment and every binding read sizes with this function. The messages call the text a\n limit if a share may be given, and a size otherwise. Since 0.2.\n Errors: INVALID_ARGUMENT (anything else, zero included)."]
    pub fn gpupool_parse_size(
        text: *const ::core::ffi::c_char,
        out_bytes: *mut u64,
        out_share: *mut f64,
    ) -> gpupool_status_t;
    #[doc = " Reads a device as people write it: \"cuda\", \"cuda:1\", \"sim\", \"sim:3\", \"host\", \"auto\", or a number alone,\n which leaves the backend to GPUPOOL_BACKEND_AUTO. Does not ask whether the device is there. Since 0.2.\n Errors: INVALID_ARGUMENT (anything else)."]
    pub fn gpupool_parse_device(
        text: *const ::core::ffi::c_char,
        out_backend: *mut gpupool_backend_t,
        out_device: *mut i32,
    ) -> gpupool_status_t;
    #[doc = " The name of a backend, as gpupool_parse_device reads it: \"cuda\", \"sim\". NULL for GPUPOOL_BACKEND_AUTO and\n numbers that are none. Backends are numbered from 1 without a gap, so a program can list them. A constant\n string; never fails. Since 0.2."]
    pub fn gpupool_backend_name(backend: i32) -> *const ::core::ffi::c_char;
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
    #[doc = " Creates a pool. config NULL means all defaults. Takes no memory from the device yet. Uses the current\n CUDA context if it belongs to the device, else the device's primary context.\n Errors: INVALID_ARGUMENT (no such device, fraction outside 0..1, unknown flags, ...), UNAVAILABLE,\n UNSUPPORTED (mode, kind or peers that the device cannot do; non-zero unknown tail), DRIVER,\n HOST_OUT_OF_MEMORY, FORKED (this process is a child of one that has used CUDA)."]
    pub fn gpupool_create(config: *const gpupool_config_t, out_pool: *mut *mut gpupool_t)
        -> gpupool_status_t;
    #[doc = " Creates a child of a pool, for memory that must stay where it is, such as a graph's. The child has its\n parent's device, mode, kind, slack and chunk sizes, and shares its limit and its peers: what the child\n reserves counts against the parent's limit, to the byte. It has blocks, streams and statistics of its own.\n What the child has mapped stays mapped where it is, even while it is free, and serves the child only: no\n shortage and no other pool takes it. It goes back when gpupool_empty or gpupool_trim is called on the child\n itself, or when the child is destroyed. If the limit has no room for a malloc of the child, the parent\n first gives back what it has cached. gpupool_report of the parent says what its children hold. The parent\n may be destroyed first: its children live on under the same limit, and then nobody can change that limit.\n gpupool_set_limit and gpupool_set_fraction refuse a child, and a child cannot be a parent. Since 0.2.\n Errors: INVALID_ARGUMENT (out_pool is NULL; parent is no pool, or a child), UNSUPPORTED (a pool whose\n memory comes from callbacks), FORKED, SHUTTING_DOWN, HOST_OUT_OF_MEMORY."]
    pub fn gpupool_create_child(parent: *mut gpupool_t, out_pool: *mut *mut gpupool_t) -> gpupool_status_t;
    #[doc = " Gives the one pool of a device that everything in this process shares. The first use creates it with\n defaults (backend GPUPOOL_BACKEND_AUTO). It belongs to the process: gpupool_destroy refuses it.\n Errors: as gpupool_create."]
    pub fn gpupool_default_pool(device: i32, out_pool: *mut *mut gpupool_t) -> gpupool_status_t;
    #[doc = " Destroys a pool and gives its memory back; NULL does nothing. With live blocks, the pool refuses new\n ones from now on and goes away with its last free. May wait for the GPU, and no interrupt ends that wait:\n call gpupool_synchronize first, which can be interrupted. If a stream that the pool has seen is capturing,\n the memory goes when a pool is created after the capture's end; keep that stream until then. In a function\n that the library calls inside a call on the pool (the log's, a hook, an upstream), it succeeds too, and the\n memory goes when a pool is created, or when a call fails, after that call has returned.\n Errors: INVALID_ARGUMENT (destroyed already, or a default pool), FORKED."]
    pub fn gpupool_destroy(pool: *mut gpupool_t) -> gpupool_status_t;
    #[doc = " Allocates size bytes for work on stream, aligned to 512. Size 0 gives pointer 0. A size above 2^46, which\n no device has, gives OUT_OF_MEMORY in any pool, be it asleep. A cached block costs no driver call. Before\n the pool fails, it takes idle blocks of other streams, waits for blocks that streams are still using,\n empties other pools' caches and asks the out-of-memory handler; only these steps may wait for the GPU.\n Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, OVER_LIMIT, ASLEEP, DRIVER, SHUTTING_DOWN, FORKED,\n HOST_OUT_OF_MEMORY."]
    pub fn gpupool_malloc(
        pool: *mut gpupool_t,
        size: u64,
        stream: gpupool_stream_t,
        out_ptr: *mut gpupool_ptr_t,
    ) -> gpupool_status_t;
    #[doc = " As gpupool_malloc, aligned to alignment: a power of two of up to 2 MiB. An alignment above 512 may leave a\n hole of up to as much before the block, which only smaller blocks fill. Errors: as gpupool_malloc."]
    pub fn gpupool_malloc_aligned(
        pool: *mut gpupool_t,
        size: u64,
        alignment: u64,
        stream: gpupool_stream_t,
        out_ptr: *mut gpupool_ptr_t,
    ) -> gpupool_status_t;
    #[doc = " As gpupool_malloc, a block that begins where the block behind ends, so that the two can be used as one: for\n callers that divide their blocks themselves and need more room in place. Both are of one stream, and either\n both of up to 1 MiB or both larger. The pool creates or moves there exactly what is missing. behind 0: the\n block begins where there are addresses for many more behind it. A block ends at its address plus its\n allocated bytes: sizes that are multiples of 512 leave no gap. Each is freed by itself. Costs as much as a\n malloc that finds nothing cached. Since 0.2.\n Errors: as gpupool_malloc; UNKNOWN_POINTER (behind is not a live block's address); UNAVAILABLE (what lies\n there is in use, or another stream's; memory that comes with addresses of its own; a pool with debug\n modes)."]
    pub fn gpupool_malloc_behind(
        pool: *mut gpupool_t,
        size: u64,
        behind: gpupool_ptr_t,
        stream: gpupool_stream_t,
        out_ptr: *mut gpupool_ptr_t,
    ) -> gpupool_status_t;
    #[doc = " Counts parts that the caller makes of blocks of the pool, in place of these blocks, in gpupool_stats: in\n allocated_blocks, allocated_bytes, active_*, requested_bytes and their peaks, which are as exact as for the\n pool's own blocks. what is 0 for blocks that the caller divides, which then count no more;\n GPUPOOL_BLOCK_LIVE for parts that it hands out, GPUPOOL_BLOCK_PENDING for parts that are freed and still in\n use. change is 1 if so many come, -1 if they go. is_small: whether they count as small; blocks, as the pool\n has them. Tell of a block that is divided right after its malloc, and that it no more is right after its\n free: then peaks are too high by what is not yet handed out of it, and never too low. Takes the pool's lock\n and looks at all threads' caches. reserved_bytes, cached_bytes, reports and samples stay the pool's own,\n and so does what the pool decides by. Since 0.2. Errors: INVALID_ARGUMENT (no such what or change), FORKED."]
    pub fn gpupool_count_parts(
        pool: *mut gpupool_t,
        what: i32,
        change: i32,
        is_small: i32,
        blocks: u64,
        bytes: u64,
        requested_bytes: u64,
    ) -> gpupool_status_t;
    #[doc = " Frees a block. Work queued on stream so far may still use it: the memory is reused in stream order. A\n stream other than the block's counts as gpupool_record_stream, and so does the number of the block's stream\n once that was released, for a new stream may have it. GPUPOOL_STREAM_UNKNOWN holds the memory back\n until all streams that the pool has seen have passed. Pointer 0 does nothing. Never waits for the GPU.\n Errors: UNKNOWN_POINTER, FORKED, INVALID_ARGUMENT."]
    pub fn gpupool_free(
        pool: *mut gpupool_t,
        ptr: gpupool_ptr_t,
        stream: gpupool_stream_t,
    ) -> gpupool_status_t;
    #[doc = " Says that stream uses the block too. After the block's free, the pool reuses the memory only when stream\n has passed the work that was queued on it at the free. Pointer 0, or the block's own stream, does nothing.\n Errors: UNKNOWN_POINTER, INVALID_ARGUMENT (GPUPOOL_STREAM_UNKNOWN), FORKED."]
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
    #[doc = " Call this before you destroy a stream: the pool records what it must know about the stream and never\n touches it again. The stream's free memory serves other streams; its live blocks stay valid. A stream that\n the pool has not seen is no error. Never waits for the GPU. Of a stream that was destroyed without this,\n and was not parked, the pool asks the driver at a shortage, a trim, a sleep or a late call of this; where\n the driver says that it is gone, the pool waits for all work in its place, but a driver may crash instead.\n Errors: INVALID_ARGUMENT (GPUPOOL_STREAM_UNKNOWN, or a stream that is capturing), DRIVER, FORKED."]
    pub fn gpupool_release_stream(pool: *mut gpupool_t, stream: gpupool_stream_t) -> gpupool_status_t;
    #[doc = " Call this after each free on a stream if you cannot tell the pool before the stream is destroyed. The pool\n records what it must know about the stream and does not touch it again until a call names it. In between,\n the stream may be destroyed; then free its live blocks on other streams. Its memory stays its own: the next\n malloc on it, or on a new stream with its number, comes after all that was recorded. Work that you queue on\n it later counts once a call names it again: before you free a block elsewhere that such work uses, call\n gpupool_record_stream once more. docs/benchmarks.md says what parking costs (pair_parked). A stream that\n the pool has not seen is no error. Never waits for the GPU. Errors: INVALID_ARGUMENT\n (GPUPOOL_STREAM_UNKNOWN, or a stream that is capturing), DRIVER, FORKED."]
    pub fn gpupool_park_stream(pool: *mut gpupool_t, stream: gpupool_stream_t) -> gpupool_status_t;
    #[doc = " Gives the driver's number of the capture under way on stream; 0: none. Since 0.2.\n Errors: INVALID_ARGUMENT, DRIVER, FORKED."]
    pub fn gpupool_capture_id(
        pool: *mut gpupool_t,
        stream: gpupool_stream_t,
        out_capture: *mut u64,
    ) -> gpupool_status_t;
    #[doc = " Says that the graph of a capture will not run any more, so its memory is the pool's again: what the capture\n freed serves other requests, and its live blocks become blocks like any others. Call this when the graph\n and all its copies are destroyed and all their launches are done. A capture that the pool has not seen is\n no error. Never waits for the GPU. Since 0.2.\n Errors: INVALID_ARGUMENT (capture 0, or one that is still under way), DRIVER, FORKED."]
    pub fn gpupool_release_capture(pool: *mut gpupool_t, capture: u64) -> gpupool_status_t;
    #[doc = " Announces that a capture is about to begin on some stream (begins not 0), or says that one has ended (0):\n for programs that free from threads which do not use the stream, as finalizers do, so that a capture may\n begin on it meanwhile. Call it on any thread, before each capture begins and after it has ended, also if\n it has failed. Calls count: it takes as many ends as beginnings. They hold for the pool, its parent and all\n their children. In between, no call but gpupool_release_stream and gpupool_stream_synchronize records an\n event on a stream, frees and gpupool_record_stream queue nothing there, and debug modes leave out what they\n queue for a free. What another thread is recording has been recorded when the call returns. The price: what\n is freed meanwhile serves other streams, and what a parked stream has serves it again, only after a wait\n for all work of the device, which a malloc makes where memory is short; and this goes on for as long as\n nobody says that the capture has ended. After that, the next calls of a stream's users record its events\n again. Takes the lock of each of these pools once. Never waits for the GPU. Since 0.2.\n Errors: INVALID_ARGUMENT (begins is 0, and no capture is announced), FORKED, HOST_OUT_OF_MEMORY."]
    pub fn gpupool_announce_capture(pool: *mut gpupool_t, begins: i32) -> gpupool_status_t;
    #[doc = " Lets device number `peer` access all memory of this pool, what it has now and what it gets later, wherever\n it is mapped. A peer that has access already, and the pool's own device, are no error. The access lasts\n until the pool ends. Since 0.2.\n Errors: INVALID_ARGUMENT (no such device), UNSUPPORTED (the two devices cannot access each other, or the\n memory comes from an upstream), DRIVER, FORKED."]
    pub fn gpupool_enable_peer(pool: *mut gpupool_t, peer: i32) -> gpupool_status_t;
    #[doc = " Waits until the device has done all work that is queued in the pool's context so far, and on the streams of\n other contexts that the pool has seen. Freed blocks that waited for streams are then free to hand out.\n Legal while streams capture, whose own work waits for their graphs. Costs about 100 us; other threads may\n have to wait to queue work meanwhile. Errors: DRIVER, FORKED."]
    pub fn gpupool_synchronize(pool: *mut gpupool_t) -> gpupool_status_t;
    #[doc = " Gives every cached chunk back to the driver: reserved falls to the chunks that live blocks touch. Waits\n for streams that may still use freed memory. out_released_bytes may be NULL.\n Errors: DRIVER, FORKED."]
    pub fn gpupool_empty(pool: *mut gpupool_t, out_released_bytes: *mut u64) -> gpupool_status_t;
    #[doc = " Gives cached chunks back, the oldest first, until reserved is at most target_bytes or nothing more can\n be given back. Waits as gpupool_empty does. out_released_bytes may be NULL. Errors: as gpupool_empty."]
    pub fn gpupool_trim(
        pool: *mut gpupool_t,
        target_bytes: u64,
        out_released_bytes: *mut u64,
    ) -> gpupool_status_t;
    #[doc = " Creates memory until reserved is at least target_bytes, mapped for stream and ready to be handed out. If it\n cannot get all, it keeps what it got; of more than the device has in all, a vmm pool takes nothing.\n Errors: OVER_LIMIT, OUT_OF_MEMORY (for more than 2^46 bytes in any pool, as by gpupool_malloc), ASLEEP,\n INVALID_ARGUMENT (GPUPOOL_STREAM_UNKNOWN), DRIVER, SHUTTING_DOWN, FORKED."]
    pub fn gpupool_reserve(
        pool: *mut gpupool_t,
        target_bytes: u64,
        stream: gpupool_stream_t,
    ) -> gpupool_status_t;
    #[doc = " Limits reserved memory to a fraction of the device's total, in (0, 1]. Replaces what gpupool_create or an\n earlier call set, and no other limit: a smaller one in the environment (GPUPOOL_LIMIT, GPUPOOL_FRACTION and\n GPUPOOL_CAP, as they are now; since 0.2 for every pool but pinned ones) or of a group still holds. Cached\n memory above the new limit is given back, as by gpupool_trim.\n Errors: INVALID_ARGUMENT (not in (0, 1], NaN; nonsense in the environment); OVER_LIMIT (live blocks hold\n more: nothing changes); FORKED."]
    pub fn gpupool_set_fraction(pool: *mut gpupool_t, fraction: f64) -> gpupool_status_t;
    #[doc = " The same in bytes; 0 takes the pool's own limit away. Errors as above."]
    pub fn gpupool_set_limit(pool: *mut gpupool_t, limit_bytes: u64) -> gpupool_status_t;
    #[doc = " Sets the handler that the pool asks before a malloc fails; fn NULL: none. When the call returns, the old\n handler may still be running on another thread. Errors: FORKED."]
    pub fn gpupool_set_oom_handler(
        pool: *mut gpupool_t,
        fn_: gpupool_oom_fn_t,
        user: *mut ::core::ffi::c_void,
    ) -> gpupool_status_t;
    #[doc = " Puts a pool to sleep: waits for the streams that it has seen, copies the contents of live blocks to the\n host as `mode` says, and gives all memory back to the device. options NULL: saves. out_result may be NULL;\n else its struct_size must be set. Between this call and the end of gpupool_wake, queue no work that uses\n the pool's memory. If the pool is asleep already, the call succeeds and does nothing. It waits for another\n thread's sleep or wake to end. Only pools in vmm mode can sleep. Since 0.2.\n Errors: UNAVAILABLE (a stream is capturing, or the driver does not say; the call comes from a handler that\n this pool's own wake asks; gpupool_wake_block was called since the last sleep; or a hook refused),\n HOST_OUT_OF_MEMORY\n (sleeping takes at most three quarters of what the process can get), UNSUPPORTED (another mode),\n INVALID_ARGUMENT, DRIVER, FORKED. After an error the pool is awake, and its blocks are as they were. If the\n driver refuses even to undo, the pool is asleep instead, with all that was saved: gpupool_sleep_state\n tells, and gpupool_wake tries again.\n\n With options->target_bytes the pool stays awake. The call gives back cached memory, and then, one block\n after another as gpupool_sleep_block does, those that matter least, until the device has target_bytes more\n (released_bytes less retained_bytes), at most the last block's too many. In mode DROP, blocks without\n gpupool_set_keep come before those with it, which are saved; among these, the one comes first that was\n handed out, or brought back by gpupool_wake_block, longest ago (a block that a thread's cache hands out\n again counts from the first time). Passed over are blocks in which no whole chunk lies, those that are\n exported or protected, and those that a hook before_release refuses. Blocks that are handed out once the\n call has begun are left alone; nothing may use the others until it returns, and from then on those that\n gpupool_block_info calls asleep. HOLD_MALLOCS does nothing, and out_result->pools stays 0.\n If there is less than target_bytes, all there is goes, and the call succeeds: what it has given back helps\n whoever needs memory, and out_result->released_bytes says how much it was; a caller that wants all or\n nothing compares, and calls gpupool_wake. Errors as above. Captures and the host's memory are looked at\n before blocks go. If the driver fails later, the blocks that went before are asleep, all others are awake,\n and gpupool_wake brings back all; asleep_bytes of gpupool_stats_t says whether there are any."]
    pub fn gpupool_sleep(
        pool: *mut gpupool_t,
        options: *const gpupool_sleep_options_t,
        out_result: *mut gpupool_sleep_result_t,
    ) -> gpupool_status_t;
    #[doc = " Wakes a pool: takes what it needs from the limit, creates memory, maps it at the same addresses, and copies\n back what was saved. Blocks that were freed meanwhile get no memory. When the call returns, the data are\n there, and work of any stream may use them. Where memory is short, the call empties other pools' caches,\n has pools put to sleep that may be (gpupool_allow_sleep), asks the out-of-memory handler, and then waits\n for what others free, for as long as timeout_ns says. Wakes of one process that wait for the same memory\n are served in the order in which they began to wait; so is the next wake of a pool that has slept since\n then, even if there is room for it, until its time is up: then it takes what there is. If the pool is awake\n already, the call wakes the blocks that sleep alone, one after another; if there are none, it succeeds and\n does nothing. Since 0.2. Errors: OUT_OF_MEMORY, OVER_LIMIT, UNAVAILABLE (the call comes from a handler that\n this pool's own wake asks; or the pool is awake and its hook failed), DRIVER, HOST_OUT_OF_MEMORY,\n INVALID_ARGUMENT, FORKED. After an error other than a hook's the pool is asleep as before, and can be woken\n later; where blocks sleep alone, those that came first may be awake."]
    pub fn gpupool_wake(
        pool: *mut gpupool_t,
        options: *const gpupool_sleep_options_t,
        out_result: *mut gpupool_sleep_result_t,
    ) -> gpupool_status_t;
    #[doc = " gpupool_sleep for every pool of this process that has the name `tag`; tag NULL: for every one that has a\n name. A tag that no pool has is no error: out_result->pools is 0. If one pool fails, the call undoes what\n it did to the others, and returns that pool's status. Since 0.2.\n target_bytes is for all of these pools together: first what they have cached, then blocks, pool by pool, of\n lower priority (gpupool_config_t) first, and among equals the pool first in which memory was taken or freed\n longest ago. Blocks that a pool hands out before its turn may go too. If one fails, what went stays so."]
    pub fn gpupool_sleep_tag(
        tag: *const ::core::ffi::c_char,
        options: *const gpupool_sleep_options_t,
        out_result: *mut gpupool_sleep_result_t,
    ) -> gpupool_status_t;
    #[doc = " gpupool_wake for every pool of that name, as gpupool_sleep_tag. Blocks that sleep alone in awake pools come\n after all pools that sleep, and stay awake if one of them fails. Since 0.2."]
    pub fn gpupool_wake_tag(
        tag: *const ::core::ffi::c_char,
        options: *const gpupool_sleep_options_t,
        out_result: *mut gpupool_sleep_result_t,
    ) -> gpupool_status_t;
    #[doc = " Puts one block of an awake pool to sleep, at the address ptr: gives back the chunks that lie wholly inside\n it, and saves or drops what was in them, as `mode` says. The pool stays awake: mallocs, frees and graphs of\n other blocks go on. The rest of the block, in chunks that it shares, keeps its memory, but until\n gpupool_wake_block nothing may use any of it. So memory that a graph needs only while it runs can be away\n between its runs. The call waits for the streams that the pool has seen, not for mallocs; a free of the\n block on another thread does not wait for it. out_result->released_bytes is 0 if no chunk lies wholly\n inside: large blocks have some, and all of a block that is a multiple of 2 MiB, aligned to it, in a pool\n whose max_chunk_bytes is 2 MiB. A chunk that has been elsewhere stays while a graph, or work that is under\n way, may use its old addresses. HOLD_MALLOCS does nothing here, and out_result->pools stays 0. If the block\n is asleep already, the call succeeds and does nothing. A free of a sleeping block drops what was saved and\n takes no memory; do not free one that a graph will use again. Since 0.2.\n Errors: as gpupool_sleep, UNKNOWN_POINTER; UNAVAILABLE also if the block was woken in a pool that is\n asleep; UNSUPPORTED also if it is protected. After an error the block is awake, and all blocks are as they\n were. If the driver refuses even to undo, the block is asleep instead, with all that was saved:\n gpupool_wake_block tries again."]
    pub fn gpupool_sleep_block(
        pool: *mut gpupool_t,
        ptr: gpupool_ptr_t,
        options: *const gpupool_sleep_options_t,
        out_result: *mut gpupool_sleep_result_t,
    ) -> gpupool_status_t;
    #[doc = " Brings back one block, at the address ptr, which sleeps alone or with its pool. When the call returns, work\n of any stream may use the block. In a sleeping pool it comes ahead of gpupool_wake, which brings the rest,\n with what else is in the same chunks. So a program can begin with the first of many gibibytes while one of\n its threads goes on through the others: a call waits for at most one other block. There, until\n gpupool_wake, mallocs stay refused, graphs must not run, and gpupool_sleep gives UNAVAILABLE. Takes the\n options of gpupool_wake; out_result->pools stays 0, and in a sleeping pool RETAIN_BACKUP does nothing. If\n the block is awake, the call succeeds and does nothing. Since 0.2.\n Errors: as gpupool_wake, and UNKNOWN_POINTER. After an error the block and all others are as before."]
    pub fn gpupool_wake_block(
        pool: *mut gpupool_t,
        ptr: gpupool_ptr_t,
        options: *const gpupool_sleep_options_t,
        out_result: *mut gpupool_sleep_result_t,
    ) -> gpupool_status_t;
    #[doc = " Sets what is called before a pool's memory goes, and when it is there again, on the thread of the sleep or\n the wake: for what must end first, such as registrations for RDMA or NCCL. NULL: nothing. When the call\n returns, old hooks may still be running on another thread.\n before_release is called once a sleep has passed its first checks, while all memory is there and before the\n sleep waits for streams, so it may queue work. If it returns 0, the sleep gives UNAVAILABLE and nothing has\n changed; one with a target takes another block. after_map is called once the pool, or the block, is awake,\n before the wake returns; and after a sleep that failed, if before_release agreed. So it may find everything\n as it was. If it returns 0, the wake gives UNAVAILABLE although the memory is there, and the next wake of\n that block, or of the pool, calls it again, even if nothing else is to do. gpupool_sleep_tag and\n gpupool_wake_tag call the hooks of each of their pools. Neither is called for a block with nothing to give\n back, and after_map not for one that was freed meanwhile. Since 0.2.\n Errors: FORKED."]
    pub fn gpupool_set_sleep_hooks(
        pool: *mut gpupool_t,
        before_release: gpupool_sleep_hook_fn_t,
        after_map: gpupool_sleep_hook_fn_t,
        user: *mut ::core::ffi::c_void,
    ) -> gpupool_status_t;
    #[doc = " Lets others have this pool put to sleep. From this call until the next gpupool_wake of the pool, the\n program promises to use none of its memory, as if the pool were asleep. Meanwhile a malloc or a wake that\n is short, and stays short once all others have given back what they had cached, may put it to sleep with\n these options, as gpupool_sleep would: of another pool of this process, on the same device or under the\n same limit; or, if the pool shares, of a member of its group. Pools of the asker's own process come first,\n of lower priority, then those that were allowed to longest ago; then members of lower priority.\n gpupool_wake ends this, after a sleep that is under way; if the pool never slept, it only costs the pool's\n lock. So call gpupool_wake before the memory is used again. Until the pool sleeps, all other calls work as\n in any pool that is awake; then as in one that sleeps: a malloc gives ASLEEP, or waits with HOLD_MALLOCS.\n Hooks (gpupool_set_sleep_hooks) are called on the asker's thread, or on one of the library. A sleep that\n fails leaves the pool awake, and may be tried again. A second call changes the options; in a pool that\n sleeps, the call does nothing. Since 0.2. Errors: UNSUPPORTED (as for gpupool_sleep), INVALID_ARGUMENT,\n FORKED."]
    pub fn gpupool_allow_sleep(
        pool: *mut gpupool_t,
        options: *const gpupool_sleep_options_t,
    ) -> gpupool_status_t;
    #[doc = " Says whether a pool is awake: a gpupool_sleep_state_t. Since 0.2. Errors: FORKED."]
    pub fn gpupool_sleep_state(
        pool: *mut gpupool_t,
        out_state: *mut gpupool_sleep_state_t,
    ) -> gpupool_status_t;
    #[doc = " Names a pool, for gpupool_sleep_tag, messages and the report; NULL or \"\": no name. At most 63 bytes;\n copied. Since 0.2.\n Errors: INVALID_ARGUMENT, FORKED."]
    pub fn gpupool_set_name(pool: *mut gpupool_t, name: *const ::core::ffi::c_char) -> gpupool_status_t;
    #[doc = " The pool's name, \"\" without one, written as by gpupool_report. Since 0.2. Errors: FORKED."]
    pub fn gpupool_name(
        pool: *mut gpupool_t,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        out_length: *mut usize,
    ) -> gpupool_status_t;
    #[doc = " Marks a block (1), so that GPUPOOL_SLEEP_MODE_DROP saves its contents all the same, or takes the mark back\n (0). The mark goes with the block. The free of a marked block takes the pool's lock. Since 0.2.\n Errors: UNKNOWN_POINTER, INVALID_ARGUMENT, FORKED."]
    pub fn gpupool_set_keep(pool: *mut gpupool_t, ptr: gpupool_ptr_t, keep: i32) -> gpupool_status_t;
    #[doc = " Gets page-locked host memory to save `bytes` with, ahead of the first sleep, and keeps it until it is\n called with less; 0 gives back what no saved block is in. Page-locking is slow, and may hold up others on\n the machine, so it is done in pieces of at most 256 MiB. Since 0.2.\n Errors: HOST_OUT_OF_MEMORY (as for gpupool_sleep), UNSUPPORTED, DRIVER, FORKED. After an error the pool\n keeps what it had."]
    pub fn gpupool_prepare_backup(pool: *mut gpupool_t, bytes: u64) -> gpupool_status_t;
    #[doc = " Says where the saved contents of a sleeping block are: *out_bytes of them from ptr on; ptr may point\n anywhere inside the block. The contents lie in pieces: ask again with ptr + *out_bytes for what comes next\n in the block. Valid until the block is freed, or it or the pool is woken. Since 0.2.\n Errors: UNKNOWN_POINTER (not in a live block), UNAVAILABLE (what is at ptr is not asleep, or dropped),\n FORKED."]
    pub fn gpupool_backup(
        pool: *mut gpupool_t,
        ptr: gpupool_ptr_t,
        out_data: *mut *const ::core::ffi::c_void,
        out_bytes: *mut u64,
    ) -> gpupool_status_t;
    #[doc = " Copies what was saved of a sleeping block to the host's memory at data: `bytes` from ptr on, which may\n point anywhere inside the block. Unlike the pointer of gpupool_backup, a copy is safe from a free of the\n block or a wake on another thread: the call fails if one comes before it is done. Since 0.2. Errors:\n UNKNOWN_POINTER (not in a live block), UNAVAILABLE (some of it is not asleep, or dropped), INVALID_ARGUMENT\n (data is NULL, or the block ends earlier), FORKED. After an error data may hold anything."]
    pub fn gpupool_read_backup(
        pool: *mut gpupool_t,
        ptr: gpupool_ptr_t,
        data: *mut ::core::ffi::c_void,
        bytes: u64,
    ) -> gpupool_status_t;
    #[doc = " Describes a group and its members, from outside: the caller need not be one. share NULL: as GPUPOOL_SHARE\n in the environment says. info->struct_size must be set. Writes up to member_capacity members of member_size\n bytes each, in the order of their numbers, and sets *out_member_count to how many there are; a capacity of\n 0 (members may be NULL) only counts them. member_size is sizeof(gpupool_share_member_t). Since 0.2.\n Errors: INVALID_ARGUMENT; UNAVAILABLE (there is no such group, or its region cannot be used:\n gpupool_last_error says why)."]
    pub fn gpupool_share_info(
        share: *const ::core::ffi::c_char,
        backend: gpupool_backend_t,
        device: i32,
        info: *mut gpupool_share_t,
        members: *mut gpupool_share_member_t,
        member_size: usize,
        member_capacity: usize,
        out_member_count: *mut usize,
    ) -> gpupool_status_t;
    #[doc = " Asks the other members of the pool's group, ahead of need, to give back cached memory until there is room\n for `bytes` more. Waits at most timeout_ns (10 s at most). What came is there for whoever takes it first,\n with gpupool_reserve for instance. Since 0.2.\n Errors: OVER_LIMIT (less came, or the pool's own limit has no room), UNAVAILABLE (the pool shares with\n nobody), INVALID_ARGUMENT, FORKED."]
    pub fn gpupool_share_request(pool: *mut gpupool_t, bytes: u64, timeout_ns: u64) -> gpupool_status_t;
    #[doc = " Sets a figure of a group, or of one of its members, from outside. `what` is a gpupool_share_figure_t;\n member is a number from gpupool_share_info, ignored for the group's limit. A limit below what is used takes\n nothing away; the group gives nothing more until it is within the limit. share as for gpupool_share_info.\n Since 0.2.\n Errors: INVALID_ARGUMENT (no such member, or a value out of range), OVER_LIMIT (the group cannot guarantee\n that), UNAVAILABLE (no such group; or the member does not answer)."]
    pub fn gpupool_share_set(
        share: *const ::core::ffi::c_char,
        backend: gpupool_backend_t,
        device: i32,
        what: i32,
        member: u32,
        value: i64,
    ) -> gpupool_status_t;
    #[doc = " Takes back what dead members have left, as members do themselves when they are short, and corrects the\n group's used bytes if they are not what the members have; *out_off (may be NULL) says by how much they were\n too high. share as for gpupool_share_info. Since 0.2.\n Errors: INVALID_ARGUMENT; UNAVAILABLE (no such group)."]
    pub fn gpupool_share_repair(
        share: *const ::core::ffi::c_char,
        backend: gpupool_backend_t,
        device: i32,
        out_off: *mut i64,
    ) -> gpupool_status_t;
    #[doc = " Lets other processes of the same user use a block: writes a handle, a line of text of less than\n GPUPOOL_EXPORT_BYTES bytes, which may reach them in any way. The handle is good until the block is freed,\n or this process ends; a second export of the block gives the same one. The memory stays where it is: while\n a block is exported, gpupool_sleep gives UNAVAILABLE. When it is freed, processes that have imported it\n keep its memory, contents included. The block then counts as one that streams still use, and its memory\n serves other requests once all of them have closed it or ended; where one was killed, a few seconds later,\n since its work may outlive it. If this pool or process ends first, the driver keeps the memory for them.\n Other processes get the whole chunks that the block lies in, with whatever else is in there, so export to\n trusted ones only. While a block is exported, the process holds one descriptor and one for each of its\n chunks. Only on Linux. Never waits for the GPU: say in your own way when the contents are ready. Since 0.2.\n Errors: UNKNOWN_POINTER (ptr is not the address of a live block), UNSUPPORTED (not a vmm pool, a pool with\n debug modes, a system other than Linux, a simulated device without data, or a device that does not share),\n INVALID_ARGUMENT (handle is NULL, or capacity less than GPUPOOL_EXPORT_BYTES), ASLEEP, UNAVAILABLE (no more\n descriptors), DRIVER, HOST_OUT_OF_MEMORY, FORKED."]
    pub fn gpupool_export(
        pool: *mut gpupool_t,
        ptr: gpupool_ptr_t,
        handle: *mut ::core::ffi::c_char,
        capacity: usize,
    ) -> gpupool_status_t;
    #[doc = " Maps a block of another process for this pool's device and its peers: *out_ptr is its address here,\n *out_size how many bytes were allocated there. It is the same physical memory, and both may write. It is no\n block of this pool, and counts in none of its figures. Importing a handle again gives the same address, and\n needs a close of its own. Only the user that exported, on the same device, can import, and where Yama\n restricts ptrace (kernel.yama.ptrace_scope), only a parent of the exporter, or whom it lets with\n PR_SET_PTRACER. The importer must see the exporter: both are in one PID namespace, or the exporter is in\n one below, as a container's is below its host's. Only on Linux. Since 0.2. Errors: INVALID_ARGUMENT (no\n handle of gpupool_export; or one of another device), UNAVAILABLE (the exporter has ended or freed the\n block, or the system forbids access to it: gpupool_last_error says which), UNSUPPORTED, DRIVER,\n HOST_OUT_OF_MEMORY, FORKED. After an error nothing has changed."]
    pub fn gpupool_import(
        pool: *mut gpupool_t,
        handle: *const ::core::ffi::c_char,
        out_ptr: *mut gpupool_ptr_t,
        out_size: *mut u64,
    ) -> gpupool_status_t;
    #[doc = " Ends an import. The last close of a handle waits for all work of the device's context, and unmaps the\n memory. What is not closed ends with the pool or the process. Since 0.2.\n Errors: UNKNOWN_POINTER (nothing is imported there), DRIVER, FORKED. After an error the memory is still\n mapped."]
    pub fn gpupool_import_close(pool: *mut gpupool_t, ptr: gpupool_ptr_t) -> gpupool_status_t;
    #[doc = " Fills stats. stats->struct_size must be set; the call sets it to the bytes that it filled. Works on\n inherited pools after fork.\n Errors: INVALID_ARGUMENT."]
    pub fn gpupool_stats(pool: *mut gpupool_t, stats: *mut gpupool_stats_t) -> gpupool_status_t;
    #[doc = " Sets every peak to the current value. Errors: FORKED."]
    pub fn gpupool_reset_peaks(pool: *mut gpupool_t) -> gpupool_status_t;
    #[doc = " Lists what is mapped and what is in it: segments and blocks sorted by address. While other threads allocate\n and free, the list is not of one moment: each entry was so during the call, what did not change is listed\n once, and no two entries overlap. Writes at most the capacities and sets the counts to what there is;\n capacity 0 (with NULL) only counts. The sizes are sizeof(gpupool_segment_t) and sizeof(gpupool_block_t).\n Errors: INVALID_ARGUMENT, HOST_OUT_OF_MEMORY, FORKED."]
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
    #[doc = " Explains in words where the pool's memory is, a fact a line: limit, live, cached, largest free range, what\n waits for streams, what others hold, chunks by size. Writes at most capacity bytes with a terminating zero\n (text may be NULL with capacity 0). Sets *out_length to the length of the whole text without the zero;\n out_length may be NULL. Errors: FORKED, HOST_OUT_OF_MEMORY."]
    pub fn gpupool_report(
        pool: *mut gpupool_t,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        out_length: *mut usize,
    ) -> gpupool_status_t;
    #[doc = " Checks every promise that the pool's records make to each other. Slow; for tests.\n Errors: INTERNAL, with what is wrong in gpupool_last_error; FORKED."]
    pub fn gpupool_validate(pool: *mut gpupool_t) -> gpupool_status_t;
    #[doc = " Sets the debug modes of the pools that are created from now on, except children. modes is a list with\n commas of poison (fills blocks with NaN when they are handed out, and when they are free), canary (512\n bytes and more behind each block must stay as they are: see gpupool_check; they count as requested bytes),\n fence or fence=SIZE (gives blocks, or those of at least that size, mappings of their own, which go with\n them, so that an access beyond the end or after the free faults), guard (does so for a few sampled blocks),\n annotate (tells a simulated device, AddressSanitizer, Valgrind and compute-sanitizer where blocks are; 512\n bytes and more behind each, which count as requested bytes, are in none) and quarantine=SIZE (holds back so\n many bytes of freed blocks). \"\": none; NULL: the modes of GPUPOOL_DEBUG in the environment; without it, a\n pool of mode auto under compute-sanitizer has annotate. docs/debugging.md says what each mode finds and\n what it costs. Every malloc and free of such a pool takes the long way, except with guard alone. Fences\n need vmm mode; pools with fence or guard cannot sleep. Since 0.2. Errors: INVALID_ARGUMENT, with the word\n that was not understood. Creating a pool gives it for the environment's list, and UNSUPPORTED for poison or\n canary on a simulated device without data, and for annotate on a GPU without compute-sanitizer, in vmm\n mode, or beside poison or canary."]
    pub fn gpupool_set_debug(modes: *const ::core::ffi::c_char) -> gpupool_status_t;
    #[doc = " Looks behind every block of a pool in debug mode canary, and into those that quarantine holds back, if\n mode poison has filled them, and waits until the GPU has done so. Counts the findings since the pool was\n created, by this function and by frees: bytes that were written beyond the end of a block, or after its\n free. A process that exits before its pools have gone looks once more, and the log has what it finds.\n Describes the last findings in words in text, as gpupool_report does. Each also goes to the log as an\n error, or to standard error if the log is off. out_count may be NULL. A pool without debug modes has no\n findings. Since 0.2.\n Errors: DRIVER, HOST_OUT_OF_MEMORY, FORKED."]
    pub fn gpupool_check(
        pool: *mut gpupool_t,
        out_count: *mut u64,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
    ) -> gpupool_status_t;
    #[doc = " Sets what work may do with a block from now on. With GPUPOOL_ACCESS_READ a write to it is a fault of the\n hardware, at no cost to those who read; with GPUPOOL_ACCESS_NONE every access is. GPUPOOL_ACCESS_WRITE ends\n that, and so does the block's free. Waits for nothing: the rule holds for work that is queued already, too.\n Only for a block that shares no chunk with others. Where max_chunk_bytes is 2 MiB, a block of whole\n granules of 2 MiB that is aligned to as much never shares one; elsewhere it depends. A pool with such\n blocks cannot sleep. Since 0.2.\n Errors: UNKNOWN_POINTER, UNSUPPORTED (not a vmm pool; the block shares a chunk, or is asleep), DRIVER,\n INVALID_ARGUMENT, HOST_OUT_OF_MEMORY, FORKED."]
    pub fn gpupool_protect(
        pool: *mut gpupool_t,
        ptr: gpupool_ptr_t,
        access: gpupool_access_t,
    ) -> gpupool_status_t;
    #[doc = " Says in words what is or was at an address, in any pool of this process: the block, how far into it the\n address is, who allocated it, who freed it, and its neighbours. Only pools with debug modes know who freed\n a block, and which freed blocks there were; other pools know who allocated a live block if it is a sample.\n Written as by gpupool_report. An address that no pool knows is no error: the text says so. Since 0.2.\n Errors: INVALID_ARGUMENT, HOST_OUT_OF_MEMORY."]
    pub fn gpupool_why(
        address: gpupool_ptr_t,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
        out_length: *mut usize,
    ) -> gpupool_status_t;
    #[doc = " Begins a part of the calling thread's work: until the next gpupool_tag_pop of this thread, its mallocs\n carry this name, of 1 to 63 bytes, in reports and recordings. Tags nest, up to 64 deep; the innermost\n counts. The name is copied. A process has 4,094 names; later ones are all called \"(other tags)\". Since 0.2.\n Errors: INVALID_ARGUMENT, HOST_OUT_OF_MEMORY."]
    pub fn gpupool_tag_push(tag: *const ::core::ffi::c_char) -> gpupool_status_t;
    #[doc = " Ends what the last gpupool_tag_push of this thread began. Since 0.2.\n Errors: INVALID_ARGUMENT (this thread is inside no tag)."]
    pub fn gpupool_tag_pop() -> gpupool_status_t;
    #[doc = " Lists who holds the live bytes of the pool, the largest first, estimated from samples: a live block of S\n bytes is a sample with probability 1 - exp(-S / D). D is a 1,024th of what is live, at least 1 MiB, or\n what gpupool_set_sampling says, and at most 64 MiB. So large holders are always listed, and their bytes are\n within a few per cent. Writes at most the capacity and sets the count to what there is; capacity 0 (with\n NULL) only counts. holder_size is sizeof(gpupool_holder_t). Since 0.2.\n Errors: INVALID_ARGUMENT, HOST_OUT_OF_MEMORY, FORKED."]
    pub fn gpupool_holders(
        pool: *mut gpupool_t,
        holders: *mut gpupool_holder_t,
        holder_size: usize,
        holder_capacity: usize,
        out_holder_count: *mut usize,
    ) -> gpupool_status_t;
    #[doc = " Sets how densely the mallocs of all pools are sampled: the least D of gpupool_holders in bytes; 0: no\n samples from now on. Overrides GPUPOOL_SAMPLE in the environment, which is a size or 0. If neither is\n given, samples become rarer before they cost more than a fiftieth of the time. Since 0.2.\n Errors: INVALID_ARGUMENT (more than 2^46), HOST_OUT_OF_MEMORY."]
    pub fn gpupool_set_sampling(bytes: u64) -> gpupool_status_t;
    #[doc = " Sets the function that says where a malloc comes from; fn NULL: none. A process has one. When the call\n returns, the old one may still be running on another thread. Since 0.2.\n Errors: INVALID_ARGUMENT (user, no fn)."]
    pub fn gpupool_set_stack_fn(fn_: gpupool_stack_fn_t, user: *mut ::core::ffi::c_void) -> gpupool_status_t;
    #[doc = " Records every malloc and free of all pools of this process, and what is live now, to a new file that the\n gpupool command reads; \"%p\" in the path becomes the process's number. Flags are bits of\n gpupool_record_flag_t. Only its owner can read the file. It is complete up to the last event if the process\n is killed. A path where something already is, even a symbolic link, is refused. A child after fork is not\n recorded. If the disk is full, events are counted as lost. Since 0.2.\n\n \"FILE,last=512MiB\" (1 MiB to 4 GiB) or \"FILE,last=10min\" (from 1 s) keeps the newest events, of at least a\n half of that and at most all: a FILE that has the half becomes FILE.old, in place of the one before, and a\n new recording begins at FILE with what is live. The first malloc that fails for want of memory makes it\n FILE.oom, which stays. None of the three may be there at the start. A malloc makes the change, which takes\n 0.1 us for each live block; if the next file cannot be made, the recording ends, and the log says why.\n Errors: INVALID_ARGUMENT (also while a recording is under way), HOST_OUT_OF_MEMORY."]
    pub fn gpupool_record_start(path: *const ::core::ffi::c_char, flags: u32) -> gpupool_status_t;
    #[doc = " Ends the recording. Since 0.2.\n Errors: INVALID_ARGUMENT (there is none)."]
    pub fn gpupool_record_stop() -> gpupool_status_t;
    #[doc = " Notes a moment in the recording, such as \"step 12\": a text of 1 to 255 bytes. Without a recording it does\n nothing. Since 0.2.\n Errors: INVALID_ARGUMENT."]
    pub fn gpupool_mark(text: *const ::core::ffi::c_char) -> gpupool_status_t;
    #[doc = " Creates a stream on the pool's device that does not synchronise with the legacy default stream.\n Errors: DRIVER, FORKED."]
    pub fn gpupool_stream_create(pool: *mut gpupool_t, out_stream: *mut gpupool_stream_t)
        -> gpupool_status_t;
    #[doc = " Releases the stream from this pool (gpupool_release_stream) and destroys it. Other pools that have seen\n it must release it first. Errors: as gpupool_release_stream."]
    pub fn gpupool_stream_destroy(pool: *mut gpupool_t, stream: gpupool_stream_t) -> gpupool_status_t;
    #[doc = " Waits until the stream has done all work queued on it. Errors: INVALID_ARGUMENT (GPUPOOL_STREAM_UNKNOWN),\n DRIVER, FORKED."]
    pub fn gpupool_stream_synchronize(pool: *mut gpupool_t, stream: gpupool_stream_t) -> gpupool_status_t;
    #[doc = " Queues a copy of size bytes on stream. Either address may be on the device or on the host; host memory must\n stay valid until the stream has passed. Between two devices, enable access first (gpupool_enable_peer): on\n CUDA this is cuMemcpyAsync, and CUDA does not document that it reaches mapped memory without access.\n Errors: DRIVER, UNSUPPORTED (a simulated device without data), INVALID_ARGUMENT, FORKED."]
    pub fn gpupool_copy(
        pool: *mut gpupool_t,
        destination: gpupool_ptr_t,
        source: gpupool_ptr_t,
        size: u64,
        stream: gpupool_stream_t,
    ) -> gpupool_status_t;
    #[doc = " Queues a fill of size bytes with value (its low 8 bits) on stream. A simulated device without data checks\n the access and writes nothing. Errors: as gpupool_copy."]
    pub fn gpupool_fill(
        pool: *mut gpupool_t,
        destination: gpupool_ptr_t,
        value: u32,
        size: u64,
        stream: gpupool_stream_t,
    ) -> gpupool_status_t;
    #[doc = " Sets how simulated device number `device` behaves. Possible only while no pool uses it.\n config->struct_size must be set.\n Errors: INVALID_ARGUMENT (no such device, in use, fields out of range); UNSUPPORTED (unknown tail)."]
    pub fn gpupool_sim_configure(device: i32, config: *const gpupool_sim_config_t) -> gpupool_status_t;
    #[doc = " Makes calls of the simulated driver fail. script is a list \"CALL:NUMBER[=ERROR]\" with commas: CALL is\n create, release, map, set_access, unmap, address, malloc, free, event_record, query, stream_wait,\n host_wait, copy (those of sleep and wake), stream (creating and destroying one) or share (exporting a chunk\n to other processes, and importing one; since 0.2); NUMBER counts that call's occurrences from 1, starting\n now, or is * for every one; ERROR is out_of_memory, error (default), or kill (since 0.2), which ends the\n process before the call has done anything, as kill -9 does. An empty script ends all failures.\n Errors: INVALID_ARGUMENT, with the part that was not understood."]
    pub fn gpupool_sim_script(device: i32, script: *const ::core::ffi::c_char) -> gpupool_status_t;
    #[doc = " Queues work of `nanoseconds` of virtual time on a stream. The work reads and writes size bytes at ptr (both\n may be 0). An access to memory that is not mapped, or that another stream's unfinished work still uses, is\n an error of the simulated device: see gpupool_sim_faults. Since 0.2, so is an access to another device's\n memory that device number `device` has no access to: see gpupool_enable_peer. gpupool_fill is work too;\n gpupool_copy may touch the memory of any device."]
    pub fn gpupool_sim_work(
        device: i32,
        stream: gpupool_stream_t,
        ptr: gpupool_ptr_t,
        size: u64,
        nanoseconds: u64,
    ) -> gpupool_status_t;
    #[doc = " Lets virtual time pass."]
    pub fn gpupool_sim_advance(device: i32, nanoseconds: u64) -> gpupool_status_t;
    #[doc = " Begins (1, 2) or ends (0) capture on a stream, as cuStreamBeginCapture and cuStreamEndCapture do. Work,\n fills and copies that are queued meanwhile are not done, but kept for gpupool_sim_launch. After 2, calls of\n the driver that touch the stream from other threads are faults: on a GPU they end the capture, or the\n process, if they meet its beginning or its end."]
    pub fn gpupool_sim_capture(device: i32, stream: gpupool_stream_t, begin: i32) -> gpupool_status_t;
    #[doc = " Queues on a stream what an ended capture of this device recorded, as cuGraphLaunch does, at the addresses\n of the capture. If they are not mapped now, that is an error of the simulated device. `capture` is the\n number that gpupool_capture_id gave while the capture was under way; any stream of the device will do, any\n number of times. A recording stays until the device is configured anew. Since 0.2.\n Errors: INVALID_ARGUMENT (no such device, no such capture on it, or one that is still under way); DRIVER,\n UNSUPPORTED as for work, fills and copies."]
    pub fn gpupool_sim_launch(device: i32, capture: u64, stream: gpupool_stream_t) -> gpupool_status_t;
    #[doc = " Lets somebody else hold the physical memory that is mapped at ptr, as NCCL does with\n cuMemRetainAllocationHandle. That memory does not return to the device until a call with ptr 0 ends all\n holds. Since 0.2.\n Errors: INVALID_ARGUMENT (no such device; no chunk is mapped there)."]
    pub fn gpupool_sim_hold(device: i32, ptr: gpupool_ptr_t) -> gpupool_status_t;
    #[doc = " Counts how often a rule of the device was broken so far: use of unmapped memory, or of another device's\n without access, races between streams, unmapping what is in use, calls that are illegal during capture.\n Describes the last one in words in text, as gpupool_report does. out_count may be NULL."]
    pub fn gpupool_sim_faults(
        device: i32,
        out_count: *mut u64,
        text: *mut ::core::ffi::c_char,
        capacity: usize,
    ) -> gpupool_status_t;
}
