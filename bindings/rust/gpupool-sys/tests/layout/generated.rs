// SPDX-License-Identifier: Apache-2.0
// Written by tools/apigen.py.

const _: () = assert!(size_of::<gpupool_error_t>() == 1040);
field!(gpupool_error_t, struct_size: u32, at 0);
field!(gpupool_error_t, status: i32, at 4);
field!(gpupool_error_t, driver_code: i32, at 8);
field!(gpupool_error_t, reserved0: u32, at 12);
field!(gpupool_error_t, message: [c_char; 1024], at 16);

const _: () = assert!(size_of::<gpupool_config_t>() == 128);
field!(gpupool_config_t, struct_size: u32, at 0);
field!(gpupool_config_t, flags: u32, at 4);
field!(gpupool_config_t, device: i32, at 8);
field!(gpupool_config_t, backend: i32, at 12);
field!(gpupool_config_t, mode: i32, at 16);
field!(gpupool_config_t, kind: i32, at 20);
field!(gpupool_config_t, fraction: f64, at 24);
field!(gpupool_config_t, limit_bytes: u64, at 32);
field!(gpupool_config_t, slack: f64, at 40);
field!(gpupool_config_t, max_chunk_bytes: u64, at 48);
field!(gpupool_config_t, peers: *const i32, at 56);
field!(gpupool_config_t, upstream_malloc: gpupool_upstream_malloc_fn_t, at 64);
field!(gpupool_config_t, upstream_free: gpupool_upstream_free_fn_t, at 72);
field!(gpupool_config_t, upstream_user: *mut c_void, at 80);
field!(gpupool_config_t, peer_count: u32, at 88);
field!(gpupool_config_t, reserved0: u32, at 92);
field!(gpupool_config_t, reserved: [u64; 4], at 96);

const _: () = assert!(size_of::<gpupool_device_info_t>() == 176);
field!(gpupool_device_info_t, struct_size: u32, at 0);
field!(gpupool_device_info_t, backend: i32, at 4);
field!(gpupool_device_info_t, device: i32, at 8);
field!(gpupool_device_info_t, capabilities: u32, at 12);
field!(gpupool_device_info_t, total_bytes: u64, at 16);
field!(gpupool_device_info_t, free_bytes: u64, at 24);
field!(gpupool_device_info_t, granularity_bytes: u64, at 32);
field!(gpupool_device_info_t, driver_version: i32, at 40);
field!(gpupool_device_info_t, compute_capability: i32, at 44);
field!(gpupool_device_info_t, name: [c_char; 128], at 48);

const _: () = assert!(size_of::<gpupool_stat_t>() == 32);
field!(gpupool_stat_t, current: u64, at 0);
field!(gpupool_stat_t, peak: u64, at 8);
field!(gpupool_stat_t, total_allocated: u64, at 16);
field!(gpupool_stat_t, total_freed: u64, at 24);

const _: () = assert!(size_of::<gpupool_stat_group_t>() == 224);
field!(gpupool_stat_group_t, requested_bytes: gpupool_stat_t, at 0);
field!(gpupool_stat_group_t, allocated_bytes: gpupool_stat_t, at 32);
field!(gpupool_stat_group_t, active_bytes: gpupool_stat_t, at 64);
field!(gpupool_stat_group_t, reserved_bytes: gpupool_stat_t, at 96);
field!(gpupool_stat_group_t, allocated_blocks: gpupool_stat_t, at 128);
field!(gpupool_stat_group_t, active_blocks: gpupool_stat_t, at 160);
field!(gpupool_stat_group_t, chunks: gpupool_stat_t, at 192);

const _: () = assert!(size_of::<gpupool_call_stat_t>() == 16);
field!(gpupool_call_stat_t, count: u64, at 0);
field!(gpupool_call_stat_t, nanoseconds: u64, at 8);

const _: () = assert!(size_of::<gpupool_driver_stats_t>() == 192);
field!(gpupool_driver_stats_t, create: gpupool_call_stat_t, at 0);
field!(gpupool_driver_stats_t, release: gpupool_call_stat_t, at 16);
field!(gpupool_driver_stats_t, map: gpupool_call_stat_t, at 32);
field!(gpupool_driver_stats_t, set_access: gpupool_call_stat_t, at 48);
field!(gpupool_driver_stats_t, unmap: gpupool_call_stat_t, at 64);
field!(gpupool_driver_stats_t, address: gpupool_call_stat_t, at 80);
field!(gpupool_driver_stats_t, malloc: gpupool_call_stat_t, at 96);
field!(gpupool_driver_stats_t, free: gpupool_call_stat_t, at 112);
field!(gpupool_driver_stats_t, event_record: gpupool_call_stat_t, at 128);
field!(gpupool_driver_stats_t, query: gpupool_call_stat_t, at 144);
field!(gpupool_driver_stats_t, stream_wait: gpupool_call_stat_t, at 160);
field!(gpupool_driver_stats_t, host_wait: gpupool_call_stat_t, at 176);

const _: () = assert!(size_of::<gpupool_stats_t>() == 976);
field!(gpupool_stats_t, struct_size: u32, at 0);
field!(gpupool_stats_t, device: i32, at 4);
field!(gpupool_stats_t, limit_bytes: u64, at 8);
field!(gpupool_stats_t, cached_bytes: u64, at 16);
field!(gpupool_stats_t, releasable_bytes: u64, at 24);
field!(gpupool_stats_t, slack_bytes: u64, at 32);
field!(gpupool_stats_t, all: gpupool_stat_group_t, at 40);
field!(gpupool_stats_t, large: gpupool_stat_group_t, at 264);
field!(gpupool_stats_t, small: gpupool_stat_group_t, at 488);
field!(gpupool_stats_t, driver: gpupool_driver_stats_t, at 712);
field!(gpupool_stats_t, hits: u64, at 904);
field!(gpupool_stats_t, misses: u64, at 912);
field!(gpupool_stats_t, steals: u64, at 920);
field!(gpupool_stats_t, stream_steals: u64, at 928);
field!(gpupool_stats_t, retries: u64, at 936);
field!(gpupool_stats_t, oom_handler_calls: u64, at 944);
field!(gpupool_stats_t, failed_mallocs: u64, at 952);
field!(gpupool_stats_t, streams: u64, at 960);
field!(gpupool_stats_t, metadata_bytes: u64, at 968);

const _: () = assert!(size_of::<gpupool_block_t>() == 40);
field!(gpupool_block_t, address: gpupool_ptr_t, at 0);
field!(gpupool_block_t, requested_bytes: u64, at 8);
field!(gpupool_block_t, allocated_bytes: u64, at 16);
field!(gpupool_block_t, stream: gpupool_stream_t, at 24);
field!(gpupool_block_t, state: i32, at 32);
field!(gpupool_block_t, device: i32, at 36);

const _: () = assert!(size_of::<gpupool_holder_t>() == 2144);
field!(gpupool_holder_t, live_bytes: u64, at 0);
field!(gpupool_holder_t, samples: u64, at 8);
field!(gpupool_holder_t, oldest_nanoseconds: u64, at 16);
field!(gpupool_holder_t, newest_nanoseconds: u64, at 24);
field!(gpupool_holder_t, tag: [c_char; 64], at 32);
field!(gpupool_holder_t, stack: [c_char; 2048], at 96);

const _: () = assert!(size_of::<gpupool_segment_t>() == 32);
field!(gpupool_segment_t, address: gpupool_ptr_t, at 0);
field!(gpupool_segment_t, size_bytes: u64, at 8);
field!(gpupool_segment_t, stream: gpupool_stream_t, at 16);
field!(gpupool_segment_t, blocks: u32, at 24);
field!(gpupool_segment_t, is_small: u32, at 28);

const _: () = assert!(size_of::<gpupool_sim_config_t>() == 56);
field!(gpupool_sim_config_t, struct_size: u32, at 0);
field!(gpupool_sim_config_t, data: u32, at 4);
field!(gpupool_sim_config_t, capacity_bytes: u64, at 8);
field!(gpupool_sim_config_t, price_scale: f64, at 16);
field!(gpupool_sim_config_t, streams: u32, at 24);
field!(gpupool_sim_config_t, reserved0: u32, at 28);
field!(gpupool_sim_config_t, reserved: [u64; 3], at 32);

const _: () = assert!(size_of::<gpupool_status_t>() == 4);
const _: () = assert!(GPUPOOL_SUCCESS.0 == 0);
const _: () = assert!(GPUPOOL_ERROR_INVALID_ARGUMENT.0 == 1);
const _: () = assert!(GPUPOOL_ERROR_OUT_OF_MEMORY.0 == 2);
const _: () = assert!(GPUPOOL_ERROR_HOST_OUT_OF_MEMORY.0 == 3);
const _: () = assert!(GPUPOOL_ERROR_OVER_LIMIT.0 == 4);
const _: () = assert!(GPUPOOL_ERROR_UNKNOWN_POINTER.0 == 5);
const _: () = assert!(GPUPOOL_ERROR_UNAVAILABLE.0 == 6);
const _: () = assert!(GPUPOOL_ERROR_UNSUPPORTED.0 == 7);
const _: () = assert!(GPUPOOL_ERROR_DRIVER.0 == 8);
const _: () = assert!(GPUPOOL_ERROR_SHUTTING_DOWN.0 == 9);
const _: () = assert!(GPUPOOL_ERROR_FORKED.0 == 10);
const _: () = assert!(GPUPOOL_ERROR_INTERNAL.0 == 11);
const _: () = assert!(GPUPOOL_STATUS_FORCE32.0 == 2147483647);

const _: () = assert!(size_of::<gpupool_backend_t>() == 4);
const _: () = assert!(GPUPOOL_BACKEND_AUTO.0 == 0);
const _: () = assert!(GPUPOOL_BACKEND_CUDA.0 == 1);
const _: () = assert!(GPUPOOL_BACKEND_SIM.0 == 2);
const _: () = assert!(GPUPOOL_BACKEND_FORCE32.0 == 2147483647);

const _: () = assert!(size_of::<gpupool_mode_t>() == 4);
const _: () = assert!(GPUPOOL_MODE_AUTO.0 == 0);
const _: () = assert!(GPUPOOL_MODE_VMM.0 == 1);
const _: () = assert!(GPUPOOL_MODE_DRIVER.0 == 2);
const _: () = assert!(GPUPOOL_MODE_UPSTREAM.0 == 3);
const _: () = assert!(GPUPOOL_MODE_FORCE32.0 == 2147483647);

const _: () = assert!(size_of::<gpupool_kind_t>() == 4);
const _: () = assert!(GPUPOOL_KIND_DEVICE.0 == 0);
const _: () = assert!(GPUPOOL_KIND_PINNED.0 == 1);
const _: () = assert!(GPUPOOL_KIND_MANAGED.0 == 2);
const _: () = assert!(GPUPOOL_KIND_FORCE32.0 == 2147483647);

const _: () = assert!(size_of::<gpupool_flag_t>() == 4);
const _: () = assert!(GPUPOOL_FLAG_CAPTURE_AWARE.0 == 1);
const _: () = assert!(GPUPOOL_FLAG_FORCE32.0 == 2147483647);

const _: () = assert!(size_of::<gpupool_record_flag_t>() == 4);
const _: () = assert!(GPUPOOL_RECORD_NATIVE_STACKS.0 == 1);
const _: () = assert!(GPUPOOL_RECORD_LANGUAGE_STACKS.0 == 2);
const _: () = assert!(GPUPOOL_RECORD_FORCE32.0 == 2147483647);

const _: () = assert!(size_of::<gpupool_feature_t>() == 4);
const _: () = assert!(GPUPOOL_FEATURE_SIM.0 == 1);
const _: () = assert!(GPUPOOL_FEATURE_CUDA.0 == 2);
const _: () = assert!(GPUPOOL_FEATURE_FORCE32.0 == 2147483647);

const _: () = assert!(size_of::<gpupool_capability_t>() == 4);
const _: () = assert!(GPUPOOL_CAPABILITY_VMM.0 == 1);
const _: () = assert!(GPUPOOL_CAPABILITY_RDMA.0 == 2);
const _: () = assert!(GPUPOOL_CAPABILITY_MANAGED.0 == 4);
const _: () = assert!(GPUPOOL_CAPABILITY_FORCE32.0 == 2147483647);

const _: () = assert!(size_of::<gpupool_block_state_t>() == 4);
const _: () = assert!(GPUPOOL_BLOCK_LIVE.0 == 1);
const _: () = assert!(GPUPOOL_BLOCK_PENDING.0 == 2);
const _: () = assert!(GPUPOOL_BLOCK_CACHED.0 == 3);
const _: () = assert!(GPUPOOL_BLOCK_FORCE32.0 == 2147483647);

const _: () = assert!(size_of::<gpupool_log_level_t>() == 4);
const _: () = assert!(GPUPOOL_LOG_OFF.0 == 0);
const _: () = assert!(GPUPOOL_LOG_ERROR.0 == 1);
const _: () = assert!(GPUPOOL_LOG_WARNING.0 == 2);
const _: () = assert!(GPUPOOL_LOG_INFO.0 == 3);
const _: () = assert!(GPUPOOL_LOG_DEBUG.0 == 4);
const _: () = assert!(GPUPOOL_LOG_FORCE32.0 == 2147483647);

const _: () = assert!(GPUPOOL_VERSION_MAJOR as u64 == 0);
const _: () = assert!(GPUPOOL_VERSION_MINOR as u64 == 2);
const _: () = assert!(GPUPOOL_VERSION_PATCH as u64 == 0);
const _: () = assert!(GPUPOOL_VERSION as u64 == 200);
const _: () = assert!(GPUPOOL_STREAM_UNKNOWN as u64 == 0xffffffffffffffff);

const _: fn(unsafe extern "C" fn(*mut c_void, i32, *const c_char)) -> gpupool_log_fn_t = Some;
const _: fn(unsafe extern "C" fn(*mut c_void, *mut gpupool_t, u64, u32) -> i32) -> gpupool_oom_fn_t = Some;
const _: fn(unsafe extern "C" fn(*mut c_void, u64, gpupool_stream_t, *mut gpupool_ptr_t) -> i32) -> gpupool_upstream_malloc_fn_t = Some;
const _: fn(unsafe extern "C" fn(*mut c_void, gpupool_ptr_t, u64, gpupool_stream_t)) -> gpupool_upstream_free_fn_t = Some;
const _: fn(unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> usize) -> gpupool_stack_fn_t = Some;
const _: unsafe extern "C" fn() -> u32 = gpupool_version;
const _: unsafe extern "C" fn() -> *const c_char = gpupool_version_string;
const _: unsafe extern "C" fn() -> u64 = gpupool_features;
const _: unsafe extern "C" fn(gpupool_status_t) -> *const c_char = gpupool_status_name;
const _: unsafe extern "C" fn(*mut gpupool_error_t) -> gpupool_status_t = gpupool_last_error;
const _: unsafe extern "C" fn(gpupool_log_fn_t, *mut c_void, i32) -> gpupool_status_t = gpupool_set_log;
const _: unsafe extern "C" fn(*const c_char, *mut u64, *mut f64) -> gpupool_status_t = gpupool_parse_size;
const _: unsafe extern "C" fn(*const c_char, *mut gpupool_backend_t, *mut i32) -> gpupool_status_t = gpupool_parse_device;
const _: unsafe extern "C" fn(gpupool_backend_t, *mut i32) -> gpupool_status_t = gpupool_device_count;
const _: unsafe extern "C" fn(gpupool_backend_t, i32, *mut gpupool_device_info_t) -> gpupool_status_t = gpupool_device_info;
const _: unsafe extern "C" fn(*mut gpupool_config_t, usize) -> gpupool_status_t = gpupool_config_init;
const _: unsafe extern "C" fn(*const gpupool_config_t, *mut *mut gpupool_t) -> gpupool_status_t = gpupool_create;
const _: unsafe extern "C" fn(i32, *mut *mut gpupool_t) -> gpupool_status_t = gpupool_default_pool;
const _: unsafe extern "C" fn(*mut gpupool_t) -> gpupool_status_t = gpupool_destroy;
const _: unsafe extern "C" fn(*mut gpupool_t, u64, gpupool_stream_t, *mut gpupool_ptr_t) -> gpupool_status_t = gpupool_malloc;
const _: unsafe extern "C" fn(*mut gpupool_t, u64, u64, gpupool_stream_t, *mut gpupool_ptr_t) -> gpupool_status_t = gpupool_malloc_aligned;
const _: unsafe extern "C" fn(*mut gpupool_t, gpupool_ptr_t, gpupool_stream_t) -> gpupool_status_t = gpupool_free;
const _: unsafe extern "C" fn(*mut gpupool_t, gpupool_ptr_t, gpupool_stream_t) -> gpupool_status_t = gpupool_record_stream;
const _: unsafe extern "C" fn(*mut gpupool_t, gpupool_ptr_t, *mut gpupool_block_t, usize) -> gpupool_status_t = gpupool_block_info;
const _: unsafe extern "C" fn(*mut gpupool_t, gpupool_stream_t) -> gpupool_status_t = gpupool_release_stream;
const _: unsafe extern "C" fn(*mut gpupool_t, gpupool_stream_t) -> gpupool_status_t = gpupool_park_stream;
const _: unsafe extern "C" fn(*mut gpupool_t, gpupool_stream_t, *mut u64) -> gpupool_status_t = gpupool_capture_id;
const _: unsafe extern "C" fn(*mut gpupool_t, u64) -> gpupool_status_t = gpupool_release_capture;
const _: unsafe extern "C" fn(*mut gpupool_t, i32) -> gpupool_status_t = gpupool_enable_peer;
const _: unsafe extern "C" fn(*mut gpupool_t) -> gpupool_status_t = gpupool_synchronize;
const _: unsafe extern "C" fn(*mut gpupool_t, *mut u64) -> gpupool_status_t = gpupool_empty;
const _: unsafe extern "C" fn(*mut gpupool_t, u64, *mut u64) -> gpupool_status_t = gpupool_trim;
const _: unsafe extern "C" fn(*mut gpupool_t, u64, gpupool_stream_t) -> gpupool_status_t = gpupool_reserve;
const _: unsafe extern "C" fn(*mut gpupool_t, f64) -> gpupool_status_t = gpupool_set_fraction;
const _: unsafe extern "C" fn(*mut gpupool_t, u64) -> gpupool_status_t = gpupool_set_limit;
const _: unsafe extern "C" fn(*mut gpupool_t, gpupool_oom_fn_t, *mut c_void) -> gpupool_status_t = gpupool_set_oom_handler;
const _: unsafe extern "C" fn(*mut gpupool_t, *mut gpupool_stats_t) -> gpupool_status_t = gpupool_stats;
const _: unsafe extern "C" fn(*mut gpupool_t) -> gpupool_status_t = gpupool_reset_peaks;
const _: unsafe extern "C" fn(*mut gpupool_t, *mut gpupool_segment_t, usize, usize, *mut usize, *mut gpupool_block_t, usize, usize, *mut usize) -> gpupool_status_t = gpupool_snapshot;
const _: unsafe extern "C" fn(*mut gpupool_t, *mut c_char, usize, *mut usize) -> gpupool_status_t = gpupool_report;
const _: unsafe extern "C" fn(*mut gpupool_t) -> gpupool_status_t = gpupool_validate;
const _: unsafe extern "C" fn(*const c_char) -> gpupool_status_t = gpupool_tag_push;
const _: unsafe extern "C" fn() -> gpupool_status_t = gpupool_tag_pop;
const _: unsafe extern "C" fn(*mut gpupool_t, *mut gpupool_holder_t, usize, usize, *mut usize) -> gpupool_status_t = gpupool_holders;
const _: unsafe extern "C" fn(u64) -> gpupool_status_t = gpupool_set_sampling;
const _: unsafe extern "C" fn(gpupool_stack_fn_t, *mut c_void) -> gpupool_status_t = gpupool_set_stack_fn;
const _: unsafe extern "C" fn(*const c_char, u32) -> gpupool_status_t = gpupool_record_start;
const _: unsafe extern "C" fn() -> gpupool_status_t = gpupool_record_stop;
const _: unsafe extern "C" fn(*const c_char) -> gpupool_status_t = gpupool_mark;
const _: unsafe extern "C" fn(*mut gpupool_t, *mut gpupool_stream_t) -> gpupool_status_t = gpupool_stream_create;
const _: unsafe extern "C" fn(*mut gpupool_t, gpupool_stream_t) -> gpupool_status_t = gpupool_stream_destroy;
const _: unsafe extern "C" fn(*mut gpupool_t, gpupool_stream_t) -> gpupool_status_t = gpupool_stream_synchronize;
const _: unsafe extern "C" fn(*mut gpupool_t, gpupool_ptr_t, gpupool_ptr_t, u64, gpupool_stream_t) -> gpupool_status_t = gpupool_copy;
const _: unsafe extern "C" fn(*mut gpupool_t, gpupool_ptr_t, u32, u64, gpupool_stream_t) -> gpupool_status_t = gpupool_fill;
const _: unsafe extern "C" fn(i32, *const gpupool_sim_config_t) -> gpupool_status_t = gpupool_sim_configure;
const _: unsafe extern "C" fn(i32, *const c_char) -> gpupool_status_t = gpupool_sim_script;
const _: unsafe extern "C" fn(i32, gpupool_stream_t, gpupool_ptr_t, u64, u64) -> gpupool_status_t = gpupool_sim_work;
const _: unsafe extern "C" fn(i32, u64) -> gpupool_status_t = gpupool_sim_advance;
const _: unsafe extern "C" fn(i32, gpupool_stream_t, i32) -> gpupool_status_t = gpupool_sim_capture;
const _: unsafe extern "C" fn(i32, u64, gpupool_stream_t) -> gpupool_status_t = gpupool_sim_launch;
const _: unsafe extern "C" fn(i32, *mut u64, *mut c_char, usize) -> gpupool_status_t = gpupool_sim_faults;
