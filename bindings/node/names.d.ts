// SPDX-License-Identifier: Apache-2.0
// Written by tools/apigen.py.

/** The result of a call. The numbers never change. */
export declare const Status: {
  readonly SUCCESS: 0;
  /** An argument is out of range, or a handle is NULL, destroyed or from another copy of the library. */
  readonly INVALID_ARGUMENT: 1;
  /** The device has no more memory, or for pinned memory the host, and nothing that the pool tried has helped. So too if the process has no addresses left, which the message says. */
  readonly OUT_OF_MEMORY: 2;
  /** The library could not get memory on the host for its own records, or to save what sleeps. */
  readonly HOST_OUT_OF_MEMORY: 3;
  /** The call would take reserved memory above the pool's limit. */
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
  /** The library broke a promise of its own. Please report it. */
  readonly INTERNAL: 11;
  /** The pool is asleep, or falling asleep: see gpupool_sleep. Since 0.2. */
  readonly ASLEEP: 12;
  /** The call waited, and a function of gpupool_set_interrupt_check has ended that. Since 0.2. */
  readonly INTERRUPTED: 13;
};
/** The same in words. */
export type StatusName = "success" | "invalid_argument" | "out_of_memory" | "host_out_of_memory" | "over_limit" | "unknown_pointer" | "unavailable" | "unsupported" | "driver" | "shutting_down" | "forked" | "internal" | "asleep" | "interrupted";

/** Where memory comes from. */
export declare const Backend: {
  /** CUDA where there is a usable GPU, else the simulated device. GPUPOOL_BACKEND=cuda|sim|host in the environment overrides this. */
  readonly AUTO: 0;
  readonly CUDA: 1;
  readonly SIM: 2;
  /** Memory of the host, without a GPU and without a simulation. Since 0.2. */
  readonly HOST: 3;
};
/** The same in words. */
export type BackendName = "auto" | "cuda" | "sim" | "host";

/** How memory is obtained from the backend. */
export declare const Mode: {
  /** vmm where the device, its driver and the kind allow it, else driver. For kind device, GPUPOOL_MODE=vmm|driver in the environment overrides this (since 0.2). */
  readonly AUTO: 0;
  /** Chunks, mapped where they are needed: the tightest mode. Kind device only. */
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
  /** Page-locked host memory that the device can read and write; the driver chooses node and pages. */
  readonly PINNED: 1;
  /** Memory that the driver moves between host and device. */
  readonly MANAGED: 2;
};
/** The same in words. */
export type KindName = "device" | "pinned" | "managed";

/** Bits of gpupool_config_t.flags. */
export declare const Flag: {
  /** At every malloc and free, the pool asks the driver whether the stream is capturing a graph, and reuses what a capture allocates and frees within that capture only. Costs one driver query a call. */
  readonly CAPTURE_AWARE: 1;
};
/** The same in words. */
export type FlagName = "capture_aware";

/** Bits of the flags of gpupool_record_start. Since 0.2. */
export declare const RecordFlag: {
  /** Records the native stack of each malloc. docs/watch.md says what a stack costs. */
  readonly NATIVE_STACKS: 1;
  /** Records what the function of gpupool_set_stack_fn says at each malloc. */
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
  /** The host's memory can be used as a device's. Since 0.2. */
  readonly HOST: 4;
};
/** The same in words. */
export type FeatureName = "sim" | "cuda" | "host";

/** Bits of gpupool_device_info_t.capabilities. */
export declare const Capability: {
  readonly VMM: 1;
  readonly RDMA: 2;
  readonly MANAGED: 4;
  /** The device has no memory of its own, but takes the host's (Jetson, GB10). total_bytes and free_bytes are then what this process may have of it and what it can still get, in its container; a pool sleeps with GPUPOOL_SLEEP_MODE_DROP only, since saved contents would stay in the same memory. Since 0.2. */
  readonly INTEGRATED: 8;
};
/** The same in words. */
export type CapabilityName = "vmm" | "rdma" | "managed" | "integrated";

/** State of a block in gpupool_block_t. */
export declare const BlockState: {
  /** Handed out. */
  readonly LIVE: 1;
  /** Freed, but a stream may still be using it. */
  readonly PENDING: 2;
  /** Free to hand out. */
  readonly CACHED: 3;
  /** Handed out, but some or all of its memory is away: the pool is asleep, or the block. Since 0.2. */
  readonly ASLEEP: 4;
};
/** The same in words. */
export type BlockStateName = "live" | "pending" | "cached" | "asleep";

/** What happens to the contents of blocks when a pool sleeps. Since 0.2. */
export declare const SleepMode: {
  /** They are copied to page-locked host memory, and back. */
  readonly SAVE: 0;
  /** They are lost, except in the blocks that gpupool_set_keep names. */
  readonly DROP: 1;
};
/** The same in words. */
export type SleepModeName = "save" | "drop";

/** Bits of gpupool_sleep_options_t.flags. Since 0.2. */
export declare const SleepFlag: {
  /** Changes nothing: every sleep waits for all work of the device's context, and of the contexts of the streams that the pool has seen. */
  readonly SYNC_CONTEXT: 1;
  /** Sleep: mallocs wait until the pool is awake, instead of failing with GPUPOOL_ERROR_ASLEEP. */
  readonly HOLD_MALLOCS: 2;
  /** Wake: keeps the page-locked memory for the next sleep, as gpupool_prepare_backup does. */
  readonly RETAIN_BACKUP: 4;
  /** Wake: fills blocks that were dropped with the byte in `fill`. */
  readonly FILL: 8;
};
/** The same in words. */
export type SleepFlagName = "sync_context" | "hold_mallocs" | "retain_backup" | "fill";

/** What work of the device and its peers may do with a block: see gpupool_protect. Since 0.2. */
export declare const Access: {
  readonly WRITE: 0;
  readonly READ: 1;
  readonly NONE: 2;
};
/** The same in words. */
export type AccessName = "write" | "read" | "none";

/** Whether a pool shares the device with other processes. Since 0.2. */
export declare const ShareState: {
  readonly OFF: 0;
  /** It should share and cannot, so it works as if it had the device to itself. It wrote the reason to standard error. */
  readonly ALONE: 1;
  readonly SHARED: 2;
};
/** The same in words. */
export type ShareStateName = "off" | "alone" | "shared";

/** The state of a member of a group. Since 0.2. */
export declare const ShareMemberState: {
  readonly LIVE: 1;
  /** It has ended, but the device does not show its memory as free yet. */
  readonly LIMBO: 2;
};
/** The same in words. */
export type ShareMemberStateName = "live" | "limbo";

/** What gpupool_share_set sets. Since 0.2. */
export declare const ShareFigure: {
  /** What all members may have together, in bytes. */
  readonly LIMIT: 1;
  /** What one member may have, in bytes; 0: no limit but the group's. */
  readonly MEMBER_LIMIT: 2;
  /** What one member is guaranteed, in bytes. */
  readonly MEMBER_GUARANTEE: 3;
  /** From -8 to 8. */
  readonly MEMBER_PRIORITY: 4;
};
/** The same in words. */
export type ShareFigureName = "limit" | "member_limit" | "member_guarantee" | "member_priority";

/** Whether a pool is awake. Since 0.2. */
export declare const SleepState: {
  readonly AWAKE: 0;
  readonly FALLING_ASLEEP: 1;
  readonly ASLEEP: 2;
  readonly WAKING: 3;
};
/** The same in words. */
export type SleepStateName = "awake" | "falling_asleep" | "asleep" | "waking";

/** What a call waits for when it asks a gpupool_interrupt_fn_t. Since 0.2. */
export declare const Wait: {
  /** A malloc that a sleeping pool holds: for another thread to wake the pool. It has no other end. */
  readonly WAKE: 1;
  /** For another thread's sleep or wake of the same pool to end. */
  readonly TURN: 2;
  /** For memory that others may give back: a wake with a timeout, or a request to the members of a group. */
  readonly MEMORY: 3;
  /** For work that is queued on the device. */
  readonly GPU: 4;
};
/** The same in words. */
export type WaitName = "wake" | "turn" | "memory" | "gpu";

/** Levels of the log. */
export declare const LogLevel: {
  readonly OFF: 0;
  /** Failures of the driver, of the host's memory and of the library itself. */
  readonly ERROR: 1;
  /** Mallocs that fail. */
  readonly WARNING: 2;
  /** Pools that begin and end, and calls that are refused. */
  readonly INFO: 3;
  /** Since 0.2: what a pool does behind a malloc: growth, memory given back and why, memory taken from another stream, waits of the host, the steps of a shortage, streams released or parked, captures released, peers enabled. */
  readonly DEBUG: 4;
};
/** The same in words. */
export type LogLevelName = "off" | "error" | "warning" | "info" | "debug";

/** A device, as gpupool_device_info sees it. */
export interface DeviceInfo {
  /** A gpupool_backend_t, never GPUPOOL_BACKEND_AUTO. */
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

/** One quantity over time. total_allocated - total_freed = current. Current and totals are exact whenever no call is in flight. While one thread allocates, peak is exact; with several, it is too high by at most 16 MiB (or 4096 blocks) a thread. The peaks of reserved bytes and chunks are always exact. */
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

/** How often a driver function was called, and how long the calls took (in virtual time on the simulated device). Failed calls count too. */
export interface CallStat {
  readonly count: number;
  readonly nanoseconds: number;
}

/** The pool's own calls of the driver by kind. gpupool_copy, gpupool_fill and gpupool_stream_synchronize are the caller's work, and not counted. */
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

/** Statistics of a pool. all = small + large: blocks of up to 1 MiB are small. reserved_bytes and chunks of a group count the chunks that back its heaps now; all also counts a chunk that backs neither just now. */
export interface Stats {
  readonly device: number;
  /** The limit in force, in bytes, whether set in bytes, as a fraction or in the environment; 0: none. A group's limit comes on top. */
  readonly limitBytes: number;
  readonly cachedBytes: number;
  /** The part of cached_bytes that gpupool_empty would give back: chunks that no block touches. What can still be had, even in one block, is limit_bytes - all.reserved_bytes.current + releasable_bytes in mode vmm, if the device has what is not reserved yet. The rest of cached_bytes lies between live blocks. */
  readonly releasableBytes: number;
  readonly slackBytes: number;
  readonly all: StatGroup;
  readonly large: StatGroup;
  readonly small: StatGroup;
  readonly driver: DriverStats;
  /** Mallocs that a thread's own cache served, and the others. */
  readonly hits: number;
  readonly misses: number;
  /** Free chunks that the pool mapped at another address or handed to another stream, and the part of them that came from another stream. */
  readonly steals: number;
  readonly streamSteals: number;
  /** Mallocs that met a shortage, calls of the out-of-memory handler, and mallocs that failed. */
  readonly retries: number;
  readonly oomHandlerCalls: number;
  readonly failedMallocs: number;
  /** Streams that this pool has seen and nobody has released. */
  readonly streams: number;
  /** Host memory of the pool's own records. */
  readonly metadataBytes: number;
  /** Memory that waking will create, because the pool is asleep, or blocks are; a block that sleeps alone leaves it with its free. It is not part of reserved_bytes; blocks in it still count as active. This and all below: since 0.2. */
  readonly asleepBytes: number;
  /** Page-locked host memory that the pool holds to sleep with. What it saved of a block that was freed asleep goes with the next wake: to free such memory waits for the device. */
  readonly backupBytes: number;
  /** How often the pool fell asleep, and woke. */
  readonly sleeps: number;
  readonly wakes: number;
  /** More calls of the driver: what sleep, wake and debug modes copy and fill, and streams created and destroyed for that. */
  readonly copy: CallStat;
  readonly stream: CallStat;
  /** What this process has given back because others in its group were short, and what it got after asking them. */
  readonly shareGivenBytes: number;
  readonly shareTakenBytes: number;
  /** A gpupool_share_state_t. */
  readonly shareState: number;
  /** The number of the process in its group. */
  readonly shareSlot: number;
  /** What gpupool_create, gpupool_set_limit or gpupool_set_fraction asked for last, in bytes; 0: nothing. */
  readonly ownLimitBytes: number;
}

/** A group of processes that share a device's memory, as gpupool_share_info finds it. Since 0.2. */
export interface Share {
  /** Members that live, and dead ones whose memory is not confirmed free yet. */
  readonly members: number;
  /** What all members may have together, what they have (guarantees included), and what the device has. */
  readonly limitBytes: number;
  readonly usedBytes: number;
  readonly totalBytes: number;
  /** The part of used_bytes that dead members held, until the device shows it free. */
  readonly limboBytes: number;
  /** Memory that no member held at the last quiet moment: contexts, and programs outside the group. */
  readonly foreignBytes: number;
  /** Where the region is. */
  readonly path: string;
}

/** A member of a group. All but charged_bytes is what the member says of itself, and may lag. Since 0.2. */
export interface ShareMember {
  /** Its number, for gpupool_share_set. */
  readonly slot: number;
  /** A gpupool_share_member_state_t. */
  readonly state: number;
  /** As its own namespace sees it. */
  readonly pid: number;
  readonly uid: number;
  readonly priority: number;
  /** 1: it waits for want_bytes. */
  readonly isWaiting: number;
  readonly wantBytes: number;
  /** What it has, and what counts for the group: the larger of that and its guarantee. */
  readonly reservedBytes: number;
  readonly chargedBytes: number;
  /** Bytes in live blocks when it was asked last. */
  readonly liveBytes: number;
  readonly guaranteedBytes: number;
  /** 0: none but the group's. */
  readonly limitBytes: number;
  readonly givenBytes: number;
  readonly takenBytes: number;
  /** The program. */
  readonly name: string;
}

/** How to sleep, or to wake. All zero (after struct_size) is a good choice, and so is NULL. Since 0.2. */
export interface SleepOptions {
  /** A gpupool_sleep_mode_t. For sleep only. */
  readonly mode: number;
  /** With GPUPOOL_SLEEP_FLAG_FILL: a byte, 0 to 255. */
  readonly fill: number;
  /** Wake: how long to wait for memory that others hold, in nanoseconds. 0: not at all. */
  readonly timeoutNs: number;
  /** gpupool_sleep and gpupool_sleep_tag: how many bytes to give back, while the pool stays awake. 0: all, and it sleeps. Elsewhere it must be 0. */
  readonly targetBytes: number;
}

/** The result of a sleep or a wake, in bytes, over all pools that it was for. All zero if there was nothing to do. Since 0.2. */
export interface SleepResult {
  /** Pools that were put to sleep, or woken. */
  readonly pools: number;
  /** Sleep: physical memory that was given back, cached memory included. */
  readonly releasedBytes: number;
  /** Sleep: contents of live blocks that were copied to the host. Wake: contents that were copied back. */
  readonly savedBytes: number;
  /** Sleep and wake: contents of live blocks that were not copied. */
  readonly droppedBytes: number;
  /** Sleep: the part of released_bytes that the device did not get back, because somebody else holds the memory or the driver did not take it. An estimate if others allocate at the same time. */
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
  /** From gpupool_block_info, since 0.2: GPUPOOL_STREAM_UNKNOWN once the stream was released. */
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
/** The device has no more memory, or for pinned memory the host, and nothing that the pool tried has helped. So too if the process has no addresses left, which the message says. */
export declare class OutOfMemoryError extends GpuPoolError {}
/** The library could not get memory on the host for its own records, or to save what sleeps. */
export declare class HostOutOfMemoryError extends GpuPoolError {}
/** The call would take reserved memory above the pool's limit. */
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
/** The library broke a promise of its own. Please report it. */
export declare class InternalError extends GpuPoolError {}
/** The pool is asleep, or falling asleep: see gpupool_sleep. Since 0.2. */
export declare class AsleepError extends GpuPoolError {}
/** The call waited, and a function of gpupool_set_interrupt_check has ended that. Since 0.2. */
export declare class InterruptedError extends GpuPoolError {}
