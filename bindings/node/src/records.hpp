// SPDX-License-Identifier: Apache-2.0
// Written by tools/apigen.py. The header's structs as plain objects.
#pragma once

#include "values.hpp"

namespace node {

inline void read_fields(napi_env env, napi_value object, gpupool_config_t& record) {
  read_field(env, object, "device", record.device);
  read_field(env, object, "backend", record.backend);
  read_field(env, object, "mode", record.mode);
  read_field(env, object, "kind", record.kind);
  read_field(env, object, "fraction", record.fraction);
  read_field(env, object, "limitBytes", record.limit_bytes);
  read_field(env, object, "slack", record.slack);
  read_field(env, object, "maxChunkBytes", record.max_chunk_bytes);
  read_field(env, object, "guaranteedBytes", record.guaranteed_bytes);
  read_field(env, object, "shareWaitNs", record.share_wait_ns);
  read_field(env, object, "priority", record.priority);
  read_field(env, object, "idleSeconds", record.idle_seconds);
}

inline napi_value to_js(napi_env env, const gpupool_device_info_t& record) {
  napi_value object = nullptr;
  check(napi_create_object(env, &object));
  set_field(env, object, "backend", to_js(env, record.backend));
  set_field(env, object, "device", to_js(env, record.device));
  set_field(env, object, "capabilities", to_js(env, record.capabilities));
  set_field(env, object, "totalBytes", to_js(env, record.total_bytes));
  set_field(env, object, "freeBytes", to_js(env, record.free_bytes));
  set_field(env, object, "granularityBytes", to_js(env, record.granularity_bytes));
  set_field(env, object, "driverVersion", to_js(env, record.driver_version));
  set_field(env, object, "computeCapability", to_js(env, record.compute_capability));
  set_field(env, object, "name", to_js(env, std::string(record.name)));
  return object;
}

inline napi_value to_js(napi_env env, const gpupool_stat_t& record) {
  napi_value object = nullptr;
  check(napi_create_object(env, &object));
  set_field(env, object, "current", to_js(env, record.current));
  set_field(env, object, "peak", to_js(env, record.peak));
  set_field(env, object, "totalAllocated", to_js(env, record.total_allocated));
  set_field(env, object, "totalFreed", to_js(env, record.total_freed));
  return object;
}

inline napi_value to_js(napi_env env, const gpupool_stat_group_t& record) {
  napi_value object = nullptr;
  check(napi_create_object(env, &object));
  set_field(env, object, "requestedBytes", to_js(env, record.requested_bytes));
  set_field(env, object, "allocatedBytes", to_js(env, record.allocated_bytes));
  set_field(env, object, "activeBytes", to_js(env, record.active_bytes));
  set_field(env, object, "reservedBytes", to_js(env, record.reserved_bytes));
  set_field(env, object, "allocatedBlocks", to_js(env, record.allocated_blocks));
  set_field(env, object, "activeBlocks", to_js(env, record.active_blocks));
  set_field(env, object, "chunks", to_js(env, record.chunks));
  return object;
}

inline napi_value to_js(napi_env env, const gpupool_call_stat_t& record) {
  napi_value object = nullptr;
  check(napi_create_object(env, &object));
  set_field(env, object, "count", to_js(env, record.count));
  set_field(env, object, "nanoseconds", to_js(env, record.nanoseconds));
  return object;
}

inline napi_value to_js(napi_env env, const gpupool_driver_stats_t& record) {
  napi_value object = nullptr;
  check(napi_create_object(env, &object));
  set_field(env, object, "create", to_js(env, record.create));
  set_field(env, object, "release", to_js(env, record.release));
  set_field(env, object, "map", to_js(env, record.map));
  set_field(env, object, "setAccess", to_js(env, record.set_access));
  set_field(env, object, "unmap", to_js(env, record.unmap));
  set_field(env, object, "address", to_js(env, record.address));
  set_field(env, object, "malloc", to_js(env, record.malloc));
  set_field(env, object, "free", to_js(env, record.free));
  set_field(env, object, "eventRecord", to_js(env, record.event_record));
  set_field(env, object, "query", to_js(env, record.query));
  set_field(env, object, "streamWait", to_js(env, record.stream_wait));
  set_field(env, object, "hostWait", to_js(env, record.host_wait));
  return object;
}

inline napi_value to_js(napi_env env, const gpupool_stats_t& record) {
  napi_value object = nullptr;
  check(napi_create_object(env, &object));
  set_field(env, object, "device", to_js(env, record.device));
  set_field(env, object, "limitBytes", to_js(env, record.limit_bytes));
  set_field(env, object, "cachedBytes", to_js(env, record.cached_bytes));
  set_field(env, object, "releasableBytes", to_js(env, record.releasable_bytes));
  set_field(env, object, "slackBytes", to_js(env, record.slack_bytes));
  set_field(env, object, "all", to_js(env, record.all));
  set_field(env, object, "large", to_js(env, record.large));
  set_field(env, object, "small", to_js(env, record.small));
  set_field(env, object, "driver", to_js(env, record.driver));
  set_field(env, object, "hits", to_js(env, record.hits));
  set_field(env, object, "misses", to_js(env, record.misses));
  set_field(env, object, "steals", to_js(env, record.steals));
  set_field(env, object, "streamSteals", to_js(env, record.stream_steals));
  set_field(env, object, "retries", to_js(env, record.retries));
  set_field(env, object, "oomHandlerCalls", to_js(env, record.oom_handler_calls));
  set_field(env, object, "failedMallocs", to_js(env, record.failed_mallocs));
  set_field(env, object, "streams", to_js(env, record.streams));
  set_field(env, object, "metadataBytes", to_js(env, record.metadata_bytes));
  set_field(env, object, "asleepBytes", to_js(env, record.asleep_bytes));
  set_field(env, object, "backupBytes", to_js(env, record.backup_bytes));
  set_field(env, object, "sleeps", to_js(env, record.sleeps));
  set_field(env, object, "wakes", to_js(env, record.wakes));
  set_field(env, object, "copy", to_js(env, record.copy));
  set_field(env, object, "stream", to_js(env, record.stream));
  set_field(env, object, "shareGivenBytes", to_js(env, record.share_given_bytes));
  set_field(env, object, "shareTakenBytes", to_js(env, record.share_taken_bytes));
  set_field(env, object, "shareState", to_js(env, record.share_state));
  set_field(env, object, "shareSlot", to_js(env, record.share_slot));
  set_field(env, object, "ownLimitBytes", to_js(env, record.own_limit_bytes));
  return object;
}

inline napi_value to_js(napi_env env, const gpupool_share_t& record) {
  napi_value object = nullptr;
  check(napi_create_object(env, &object));
  set_field(env, object, "members", to_js(env, record.members));
  set_field(env, object, "limitBytes", to_js(env, record.limit_bytes));
  set_field(env, object, "usedBytes", to_js(env, record.used_bytes));
  set_field(env, object, "totalBytes", to_js(env, record.total_bytes));
  set_field(env, object, "limboBytes", to_js(env, record.limbo_bytes));
  set_field(env, object, "foreignBytes", to_js(env, record.foreign_bytes));
  set_field(env, object, "path", to_js(env, std::string(record.path)));
  return object;
}

inline napi_value to_js(napi_env env, const gpupool_share_member_t& record) {
  napi_value object = nullptr;
  check(napi_create_object(env, &object));
  set_field(env, object, "slot", to_js(env, record.slot));
  set_field(env, object, "state", to_js(env, record.state));
  set_field(env, object, "pid", to_js(env, record.pid));
  set_field(env, object, "uid", to_js(env, record.uid));
  set_field(env, object, "priority", to_js(env, record.priority));
  set_field(env, object, "isWaiting", to_js(env, record.is_waiting));
  set_field(env, object, "wantBytes", to_js(env, record.want_bytes));
  set_field(env, object, "reservedBytes", to_js(env, record.reserved_bytes));
  set_field(env, object, "chargedBytes", to_js(env, record.charged_bytes));
  set_field(env, object, "liveBytes", to_js(env, record.live_bytes));
  set_field(env, object, "guaranteedBytes", to_js(env, record.guaranteed_bytes));
  set_field(env, object, "limitBytes", to_js(env, record.limit_bytes));
  set_field(env, object, "givenBytes", to_js(env, record.given_bytes));
  set_field(env, object, "takenBytes", to_js(env, record.taken_bytes));
  set_field(env, object, "name", to_js(env, std::string(record.name)));
  return object;
}

inline napi_value to_js(napi_env env, const gpupool_sleep_options_t& record) {
  napi_value object = nullptr;
  check(napi_create_object(env, &object));
  set_field(env, object, "mode", to_js(env, record.mode));
  set_field(env, object, "fill", to_js(env, record.fill));
  set_field(env, object, "timeoutNs", to_js(env, record.timeout_ns));
  set_field(env, object, "targetBytes", to_js(env, record.target_bytes));
  return object;
}

inline napi_value to_js(napi_env env, const gpupool_sleep_result_t& record) {
  napi_value object = nullptr;
  check(napi_create_object(env, &object));
  set_field(env, object, "pools", to_js(env, record.pools));
  set_field(env, object, "releasedBytes", to_js(env, record.released_bytes));
  set_field(env, object, "savedBytes", to_js(env, record.saved_bytes));
  set_field(env, object, "droppedBytes", to_js(env, record.dropped_bytes));
  set_field(env, object, "retainedBytes", to_js(env, record.retained_bytes));
  set_field(env, object, "createdBytes", to_js(env, record.created_bytes));
  set_field(env, object, "nanoseconds", to_js(env, record.nanoseconds));
  return object;
}

inline napi_value to_js(napi_env env, const gpupool_block_t& record) {
  napi_value object = nullptr;
  check(napi_create_object(env, &object));
  set_field(env, object, "address", to_js(env, record.address));
  set_field(env, object, "requestedBytes", to_js(env, record.requested_bytes));
  set_field(env, object, "allocatedBytes", to_js(env, record.allocated_bytes));
  set_field(env, object, "stream", to_js(env, record.stream));
  set_field(env, object, "state", to_js(env, record.state));
  set_field(env, object, "device", to_js(env, record.device));
  return object;
}

inline napi_value to_js(napi_env env, const gpupool_holder_t& record) {
  napi_value object = nullptr;
  check(napi_create_object(env, &object));
  set_field(env, object, "liveBytes", to_js(env, record.live_bytes));
  set_field(env, object, "samples", to_js(env, record.samples));
  set_field(env, object, "oldestNanoseconds", to_js(env, record.oldest_nanoseconds));
  set_field(env, object, "newestNanoseconds", to_js(env, record.newest_nanoseconds));
  set_field(env, object, "tag", to_js(env, std::string(record.tag)));
  set_field(env, object, "stack", to_js(env, std::string(record.stack)));
  return object;
}

inline napi_value to_js(napi_env env, const gpupool_segment_t& record) {
  napi_value object = nullptr;
  check(napi_create_object(env, &object));
  set_field(env, object, "address", to_js(env, record.address));
  set_field(env, object, "sizeBytes", to_js(env, record.size_bytes));
  set_field(env, object, "stream", to_js(env, record.stream));
  set_field(env, object, "blocks", to_js(env, record.blocks));
  set_field(env, object, "isSmall", to_js(env, record.is_small));
  return object;
}

inline void read_fields(napi_env env, napi_value object, gpupool_sim_config_t& record) {
  read_field(env, object, "data", record.data);
  read_field(env, object, "capacityBytes", record.capacity_bytes);
  read_field(env, object, "priceScale", record.price_scale);
  read_field(env, object, "streams", record.streams);
  read_field(env, object, "hostBytes", record.host_bytes);
}

}  // namespace node
