// SPDX-License-Identifier: Apache-2.0
// Written by tools/apigen.py.

/** What a call came to. The numbers never change. */
export declare const Status: {
  readonly SUCCESS: 0;
  /** An argument is out of range, or a handle is NULL, destroyed or from another copy of the library. */
  readonly INVALID_ARGUMENT: 1;
  /** The device has no more memory, and nothing that the pool could do has helped. */
  readonly OUT_OF_MEMORY: 2;
  /** The library could not get memory on the host for its own records. */
  readonly HOST_OUT_OF_MEMORY: 3;
  /** The call would bring reserved memory above the pool's limit. */
  readonly OVER_LIMIT: 4;
  /** The pointer is not a live block of this pool: foreign, freed already, or inside a block. */
  readonly UNKNOWN_POINTER: 5;
  /** The backend cannot be used here: no driver, no GPU, or no such device. */
  readonly UNAVAILABLE: 6;
  /** This device or this mode cannot do it, or a struct has fields that this version does not know. */
  readonly UNSUPPORTED: 7;
  /** The driver refused a call; gpupool_error_t.driver_code has its number. */
  readonly DRIVER: 8;
  /** The process is exiting and the driver has gone. */
  readonly SHUTTING_DOWN: 9;
  /** The pool was created before fork, in the parent process. */
  readonly FORKED: 10;
  /** A promise of the library itself was broken. Please report it. */
  readonly INTERNAL: 11;
  /** The pool sleeps, or is about to: see gpupool_sleep. Since 0.2. */
  readonly ASLEEP: 12;
};
/** The same in words. */
export type StatusName = "success" | "invalid_argument" | "out_of_memory" | "host_out_of_memory" | "over_limit" | "unknown_pointer" | "unavailable" | "unsupported" | "driver" | "shutting_down" | "forked" | "internal" | "asleep";

/** Where memory comes from. */
export declare const Backend: {
  /** CUDA where there is a usable GPU, else the simulated device. GPUPOOL_BACKEND=cuda|sim in the environment decides instead. */
  readonly AUTO: 0;
  readonly CUDA: 1;
  readonly SIM: 2;
};
/** The same in words. */
export type BackendName = "auto" | "cuda" | "sim";

/** How memory is obtained from the backend. */
export declare const Mode: {
  /** vmm where the device and the kind allow it, else driver. */
  readonly AUTO: 0;
  /** Chunks that are mapped where they are needed: tightest. Kind device only. */
  readonly VMM: 1;
  /** Segments from the driver's own malloc: for old devices, cudaIpc and RDMA through peermem. */
  readonly DRIVER: 2;
  /** Segments from the callbacks in gpupool_config_t. */
  readonly UPSTREAM: 3;
};
/** The same in words. */
export type ModeName = "auto" | "vmm" | "driver" | "upstream";

/** What kind of memory. */
export declare const Kind: {
  readonly DEVICE: 0;
  /** Page-locked memory of the host that the device can read and write. */
  readonly PINNED: 1;
  /** Memory that the driver moves between host and device. */
  readonly MANAGED: 2;
};
/** The same in words. */
export type KindName = "device" | "pinned" | "managed";

/** Bits of gpupool_config_t.flags. */
export declare const Flag: {
  /** Ask the driver at every malloc and free whether the stream is capturing a graph; what is allocated and freed while capturing is reused within that capture only. Costs a driver query a call. */
  readonly CAPTURE_AWARE: 1;
};
/** The same in words. */
export type FlagName = "capture_aware";

/** Bits of the flags of gpupool_record_start. Since 0.2. */
export declare const RecordFlag: {
  /** With the stack of native code at each malloc. 0.3 to 40 us each, by depth and by what the system has. */
  readonly NATIVE_STACKS: 1;
  /** With what the function of gpupool_set_stack_fn says at each malloc. */
  readonly LANGUAGE_STACKS: 2;
};
/** The same in words. */
export type RecordFlagName = "native_stacks" | "language_stacks";

/** Bits of gpupool_features(): what this build can do. */
export declare const Feature: {
  /** The simulated device. Always there. */
  readonly SIM: 1;
  /** A CUDA driver with at least one device can be used in this process. */
  readonly CUDA: 2;
};
/** The same in words. */
export type FeatureName = "sim" | "cuda";

/** Bits of gpupool_device_info_t.capabilities. */
export declare const Capability: {
  readonly VMM: 1;
  readonly RDMA: 2;
  readonly MANAGED: 4;
};
/** The same in words. */
export type CapabilityName = "vmm" | "rdma" | "managed";

/** State of a block in gpupool_block_t. */
export declare const BlockState: {
  /** Handed out. */
  readonly LIVE: 1;
  /** Freed, but a stream may still be using it. */
  readonly PENDING: 2;
  /** Free to hand out. */
  readonly CACHED: 3;
  /** Handed out, and its memory is away: the pool sleeps. Since 0.2. */
  readonly ASLEEP: 4;
};
/** The same in words. */
export type BlockStateName = "live" | "pending" | "cached" | "asleep";

/** What becomes of the contents of blocks when a pool sleeps. Since 0.2. */
export declare const SleepMode: {
  /** They are copied to page-locked memory of the host, and back. */
  readonly SAVE: 0;
  /** They are lost, but for the blocks that gpupool_set_keep names. */
  readonly DROP: 1;
};
/** The same in words. */
export type SleepModeName = "save" | "drop";

/** Bits of gpupool_sleep_options_t.flags. Since 0.2. */
export declare const SleepFlag: {
  /** Sleep: waits for all work of the device's context, not only for streams that the pool has seen. */
  readonly SYNC_CONTEXT: 1;
  /** Sleep: mallocs wait until the pool is awake, instead of failing with GPUPOOL_ERROR_ASLEEP. */
  readonly HOLD_MALLOCS: 2;
  /** Wake: the page-locked memory stays for the next sleep, as if gpupool_prepare_backup had got it. */
  readonly RETAIN_BACKUP: 4;
  /** Wake: blocks that were dropped are filled with the byte in `fill`. */
  readonly FILL: 8;
};
/** The same in words. */
export type SleepFlagName = "sync_context" | "hold_mallocs" | "retain_backup" | "fill";

/** Where a pool stands. Since 0.2. */
export declare const SleepState: {
  readonly AWAKE: 0;
  readonly FALLING_ASLEEP: 1;
  readonly ASLEEP: 2;
  readonly WAKING: 3;
};
/** The same in words. */
export type SleepStateName = "awake" | "falling_asleep" | "asleep" | "waking";

/** Levels of the log. */
export declare const LogLevel: {
  readonly OFF: 0;
  /** Failures of the driver, of the host's memory and of the library itself. */
  readonly ERROR: 1;
  /** Mallocs that fail. */
  readonly WARNING: 2;
  /** Pools that begin and end, and calls that are refused. */
  readonly INFO: 3;
  /** Since 0.2: what a pool does behind a malloc. Growth, memory given back and why, memory taken from another stream, waits on the host, the steps of a shortage, streams released or parked, captures released, peers enabled. */
  readonly DEBUG: 4;
};
/** The same in words. */
export type LogLevelName = "off" | "error" | "warning" | "info" | "debug";

/** A device, as gpupool_device_info sees it. */
export interface DeviceInfo {
  /** A gpupool_backend_t: GPUPOOL_BACKEND_CUDA or GPUPOOL_BACKEND_SIM. */
  readonly backend: number;
  readonly device: number;
  /** Bits of gpupool_capability_t. */
  readonly capabilities: number;
  readonly totalBytes: number;
  /** What the device itself says is free now, whoever holds the rest. */
  readonly freeBytes: number;
  /** Sizes of chunks are multiples of this. */
  readonly granularityBytes: number;
  /** As the driver gives it: 13000 is 13.0. 0 for the simulated device. */
  readonly driverVersion: number;
  /** Compute capability: 90 is 9.0. */
  readonly computeCapability: number;
  readonly name: string;
}

/** One quantity over time. total_allocated - total_freed = current. Current and totals are exact whenever no call is in flight. peak is exact while one thread allocates, and at most 16 MiB (or 4096 blocks) a thread too high with several; of reserved bytes and chunks it is always exact. */
export interface Stat {
  readonly current: number;
  readonly peak: number;
  readonly totalAllocated: number;
  readonly totalFreed: number;
}

/** The quantities of a group of blocks; see WORDS above. Bytes, and counts of blocks and chunks. */
export interface StatGroup {
  readonly requestedBytes: Stat;
  readonly allocatedBytes: Stat;
  readonly activeBytes: Stat;
  readonly reservedBytes: Stat;
  readonly allocatedBlocks: Stat;
  readonly activeBlocks: Stat;
  readonly chunks: Stat;
}

/** How often a driver function was called, and the time that the calls took (virtual time on the simulated device). Failed calls count too. */
export interface CallStat {
  readonly count: number;
  readonly nanoseconds: number;
}

/** Calls of the driver by kind. */
export interface DriverStats {
  readonly create: CallStat;
  readonly release: CallStat;
  readonly map: CallStat;
  readonly setAccess: CallStat;
  readonly unmap: CallStat;
  /** Reserving and releasing addresses. */
  readonly address: CallStat;
  /** The driver's own malloc and free, or the upstream's. */
  readonly malloc: CallStat;
  readonly free: CallStat;
  readonly eventRecord: CallStat;
  /** Queries of events, streams and capture. */
  readonly query: CallStat;
  /** One stream made to wait for another, on the GPU. */
  readonly streamWait: CallStat;
  /** The host waiting for the GPU. */
  readonly hostWait: CallStat;
}

/** Statistics of a pool. all = small + large: blocks of up to 1 MiB are small. reserved_bytes and chunks of a group are those whose chunks back its heaps now. */
export interface Stats {
  readonly device: number;
  /** The limit in force, in bytes: what gpupool_set_limit or gpupool_set_fraction came to; 0: none. */
  readonly limitBytes: number;
  readonly cachedBytes: number;
  /** The part of cached_bytes that gpupool_empty would give back: chunks that no block touches. */
  readonly releasableBytes: number;
  readonly slackBytes: number;
  readonly all: StatGroup;
  readonly large: StatGroup;
  readonly small: StatGroup;
  readonly driver: DriverStats;
  /** Mallocs served by a thread's own cache, and the others. */
  readonly hits: number;
  readonly misses: number;
  /** Free chunks that were taken from where they lay: mapped at another address, or handed to another stream. And those among them that came from another stream. */
  readonly steals: number;
  readonly streamSteals: number;
  /** Mallocs that had to go down the ladder, times the handler was asked, and mallocs that failed. */
  readonly retries: number;
  readonly oomHandlerCalls: number;
  readonly failedMallocs: number;
  /** Streams that this pool has seen and that were not released. */
  readonly streams: number;
  /** Host memory of the pool's own records. */
  readonly metadataBytes: number;
  /** Memory that is away because the pool sleeps: what waking will create, and no part of reserved_bytes; blocks in it still count as active. This and all below: since 0.2. */
  readonly asleepBytes: number;
  /** Page-locked memory of the host that the pool holds to sleep with. */
  readonly backupBytes: number;
  /** How often the pool fell asleep, and woke. */
  readonly sleeps: number;
  readonly wakes: number;
  /** More calls of the driver: copies of sleep and wake, and streams created and destroyed for them. */
  readonly copy: CallStat;
  readonly stream: CallStat;
}

/** How to sleep, or to wake. All zero (after struct_size) is a good choice, and so is NULL. Since 0.2. */
export interface SleepOptions {
  /** A gpupool_sleep_mode_t. For sleep only. */
  readonly mode: number;
  /** With GPUPOOL_SLEEP_FLAG_FILL: a byte, 0 to 255. */
  readonly fill: number;
  /** Wake: how long to wait for memory that others hold, in nanoseconds. 0: not at all. */
  readonly timeoutNs: number;
}

/** What a sleep or a wake came to, in bytes, for all pools that it was for. All zero where there was nothing to do. Since 0.2. */
export interface SleepResult {
  /** Pools that were put to sleep, or woken. */
  readonly pools: number;
  /** Sleep: physical memory that was given back, cached memory included. */
  readonly releasedBytes: number;
  /** Sleep: what live blocks hold that was copied to the host. Wake: what was copied back. */
  readonly savedBytes: number;
  /** Sleep and wake: what live blocks held that was not. */
  readonly droppedBytes: number;
  /** Sleep: the part of released_bytes that the device did not get back, because somebody else holds the memory or the driver did not take it. Where others allocate at the same time, an estimate. */
  readonly retainedBytes: number;
  /** Wake: physical memory that was created. */
  readonly createdBytes: number;
  /** How long it took, waiting included, by the device's clock. */
  readonly nanoseconds: number;
}

/** A block as gpupool_block_info and gpupool_snapshot give it. */
export interface BlockInfo {
  readonly address: number;
  readonly requestedBytes: number;
  readonly allocatedBytes: number;
  readonly stream: number;
  /** A gpupool_block_state_t. */
  readonly state: number;
  readonly device: number;
}

/** Who holds live bytes of a pool: one call site under one tag. See gpupool_holders. Since 0.2. */
export interface Holder {
  /** Estimated from the samples. */
  readonly liveBytes: number;
  /** Live blocks of this holder that are samples. */
  readonly samples: number;
  /** How long the oldest and the newest of them have been live. */
  readonly oldestNanoseconds: number;
  readonly newestNanoseconds: number;
  /** With a terminating zero; "": none. */
  readonly tag: string;
  /** A line for each frame, the innermost first, with a terminating zero; "": unknown. */
  readonly stack: string;
}

/** Mapped memory as gpupool_snapshot gives it: a chunk at its address. */
export interface Segment {
  readonly address: number;
  readonly sizeBytes: number;
  /** The stream whose heap it backs. */
  readonly stream: number;
  /** Blocks that touch it. 0: gpupool_empty would give it back. */
  readonly blocks: number;
  /** 1: in a heap of small blocks. */
  readonly isSmall: number;
}

/** A call of the library that failed; the message explains why. Each status has a class of its own. */
export declare class GpuPoolError extends Error {
  /** One of Status. */
  readonly status: number;
  /** The driver's own number, or 0. */
  readonly driverCode: number;
}

/** An argument is out of range, or a handle is NULL, destroyed or from another copy of the library. */
export declare class InvalidArgumentError extends GpuPoolError {}
/** The device has no more memory, and nothing that the pool could do has helped. */
export declare class OutOfMemoryError extends GpuPoolError {}
/** The library could not get memory on the host for its own records. */
export declare class HostOutOfMemoryError extends GpuPoolError {}
/** The call would bring reserved memory above the pool's limit. */
export declare class OverLimitError extends OutOfMemoryError {}
/** The pointer is not a live block of this pool: foreign, freed already, or inside a block. */
export declare class UnknownPointerError extends GpuPoolError {}
/** The backend cannot be used here: no driver, no GPU, or no such device. */
export declare class UnavailableError extends GpuPoolError {}
/** This device or this mode cannot do it, or a struct has fields that this version does not know. */
export declare class UnsupportedError extends GpuPoolError {}
/** The driver refused a call; gpupool_error_t.driver_code has its number. */
export declare class DriverError extends GpuPoolError {}
/** The process is exiting and the driver has gone. */
export declare class ShuttingDownError extends GpuPoolError {}
/** The pool was created before fork, in the parent process. */
export declare class ForkedError extends GpuPoolError {}
/** A promise of the library itself was broken. Please report it. */
export declare class InternalError extends GpuPoolError {}
/** The pool sleeps, or is about to: see gpupool_sleep. Since 0.2. */
export declare class AsleepError extends GpuPoolError {}
