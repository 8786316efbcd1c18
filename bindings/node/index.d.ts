// SPDX-License-Identifier: Apache-2.0
// gpupool for Node. Errors are GpuPoolError and its subclasses, with the library's explanation as the message;
// arguments of the wrong type are TypeErrors. Addresses, sizes and streams are numbers, exact up to 2 ** 53; BigInts
// are accepted too.
import {
  AccessName,
  BackendName,
  DeviceInfo,
  BlockInfo,
  Holder,
  KindName,
  ModeName,
  Segment,
  Share,
  ShareFigureName,
  ShareMember,
  SleepModeName,
  SleepResult,
  Stats,
} from "./names.js";
export * from "./names.js";

/** A stream: an object, or its number. 0 is the legacy default stream. */
export type StreamLike = Stream | number | bigint;
/** The caller's bytes. */
export type BytesLike = NodeJS.TypedArray | DataView | ArrayBuffer;
/** Never an async function: the malloc cannot wait, and throws a TypeError. */
export type OomHandler = (size: number, attempt: number) => boolean;
/** Whether the memory may go, or whether all is well again. address: the block that sleeps or wakes alone; 0: all. */
export type SleepHook = (address: number) => boolean;

/** In a free: all streams. */
export declare const STREAM_UNKNOWN: bigint;

export interface PoolOptions {
  /** A number or a string: "cuda:1", "sim", "auto". */
  device?: number | string;
  /** Bytes or a string: "8GiB", or "40%" of the device. */
  limit?: number | bigint | string;
  limitBytes?: number | bigint;
  /** A share of the device, 0 to 1. */
  fraction?: number;
  backend?: number | BackendName;
  mode?: number | ModeName;
  kind?: number | KindName;
  slack?: number;
  maxChunkBytes?: number | bigint;
  captureAware?: boolean;
  /** The group of processes with which to share the device's memory; see docs/sharing.md. */
  share?: string;
  /** This pool's guaranteed part of the group's memory, in bytes. */
  guaranteedBytes?: number | bigint;
  /** How long a malloc waits for neighbours to give memory back; 0: 50 ms. */
  shareWaitNs?: number | bigint;
  /** Decides which member gives first and which gets first, -8 to 8. */
  priority?: number;
  /** After how many seconds without a malloc cached memory goes back to the device; 0: as GPUPOOL_IDLE says; -1:
   * never. */
  idleSeconds?: number;
  /** Other devices that may access the pool's memory. */
  peers?: Iterable<number>;
}

/** A pool of one device. It frees forgotten objects, but close it yourself: `using pool = new Pool()`, or close(). */
export declare class Pool implements Disposable {
  constructor(options?: PoolOptions);
  constructor(device: string, limit?: string | number);
  /** The one pool of a device that everything in this process shares. */
  static shared(device?: number): Pool;
  /** A pool that shares this one's limit, for memory that must stay where it is, such as a CUDA graph's: what it has
   * mapped stays mapped and serves only the child, even while free, until the child itself is emptied, trimmed or
   * closed. It inherits everything else from this pool, and may outlive it. */
  createChild(): Pool;
  readonly closed: boolean;

  /** The plain address of size bytes for work on stream, with no owner. Size 0 gives 0. */
  malloc(size: number | bigint, stream?: StreamLike): number;
  /** The same, aligned to a power of two of up to 2 MiB. */
  mallocAligned(size: number | bigint, alignment: number, stream?: StreamLike): number;
  /** Frees behind the work queued on stream; STREAM_UNKNOWN: on all streams. Works on a closed pool as well. */
  free(address: number | bigint, stream?: StreamLike): void;
  recordStream(address: number | bigint, stream: StreamLike): void;
  /** Describes the block that contains the address. */
  blockInfo(address: number | bigint): BlockInfo;

  /** A block that frees itself. */
  allocate(size: number | bigint, stream?: StreamLike, alignment?: number): Block;
  createStream(): Stream;

  /** Call it before one of your own streams is destroyed. A Stream does it by itself. */
  releaseStream(stream: StreamLike): void;
  parkStream(stream: StreamLike): void;
  /** The number of the capture in progress on stream; 0: none. */
  captureId(stream: StreamLike): number;
  /** Tells the pool that the graph from a capture will not run again. */
  releaseCapture(capture: number | bigint): void;
  /**
   * Call it with true before a capture begins, and with false after it has ended or failed: in between no free touches
   * its stream, whoever makes it. Calls count.
   */
  announceCapture(begins: boolean): void;
  /** Lets another device access all memory of this pool. */
  enablePeer(device: number): void;
  /** Resolves when every stream that the pool has seen is done with the work now queued. */
  synchronize(): Promise<void>;
  /** The same, and this thread waits. */
  synchronizeSync(): void;
  synchronizeStreamSync(stream: StreamLike): void;

  /** Queues a copy on the device. */
  copy(destination: number | bigint, source: number | bigint, size: number | bigint, stream?: StreamLike): void;
  /** Queues a fill with a byte, 0 to 255. */
  fill(destination: number | bigint, value: number, size: number | bigint, stream?: StreamLike): void;

  /** Puts the pool to sleep: all memory goes back to the device, the addresses stay, and mallocs fail with AsleepError
   * or, by SleepFlag.HOLD_MALLOCS, wait in workers; the main thread does not wait. flags: bits of SleepFlag. With a
   * target the pool stays awake and gives back that many bytes, or all there are: what is cached, then whole blocks,
   * the idlest first. */
  sleep(mode?: number | SleepModeName, flags?: number, target?: number | bigint): Promise<SleepResult>;
  /** The same, and this thread waits. */
  sleepSync(mode?: number | SleepModeName, flags?: number, target?: number | bigint): SleepResult;
  /** Wakes it, with the saved contents; waits up to timeout nanoseconds for memory that others hold. fill: a byte, with
   * SleepFlag.FILL. */
  wake(timeout?: number | bigint, flags?: number, fill?: number): Promise<SleepResult>;
  /** The same, and this thread waits. */
  wakeSync(timeout?: number | bigint, flags?: number, fill?: number): SleepResult;
  /** Until the next wake, others that are short may have the pool put to sleep, as sleep does: other pools of this
   * process, and neighbours of the group. Use none of its memory before. */
  allowSleep(mode?: number | SleepModeName, flags?: number): void;
  /** Gives back the chunks that lie wholly inside the block at an address; the pool stays awake. As sleep. */
  sleepBlock(address: number | bigint, mode?: number | SleepModeName, flags?: number): Promise<SleepResult>;
  /** The same, and this thread waits. */
  sleepBlockSync(address: number | bigint, mode?: number | SleepModeName, flags?: number): SleepResult;
  /** Brings back the block at an address: of an awake pool, or ahead of wake, which brings the rest; until then,
   * mallocs stay refused, and sleep fails with UnavailableError. */
  wakeBlock(address: number | bigint, timeout?: number | bigint, flags?: number, fill?: number): Promise<SleepResult>;
  /** The same, and this thread waits. */
  wakeBlockSync(address: number | bigint, timeout?: number | bigint, flags?: number, fill?: number): SleepResult;
  /** A SleepState. */
  readonly sleepState: number;
  /** The pool's name for sleepTag: at most 63 bytes. */
  name: string;
  /** Saves a block even in a sleep that drops. */
  setKeep(address: number | bigint, keep: boolean): void;
  /** Obtains page-locked host memory ahead of the first sleep, and keeps it; 0 gives it back. */
  prepareBackup(bytes: number | bigint): void;
  /** Copies what was saved of the sleeping block at an address, which may point anywhere inside it. Without a length:
   * up to the end of the block. What is not asleep, or was dropped, throws UnavailableError. */
  readBackup(address: number | bigint, length?: number | bigint): Promise<Buffer>;
  /** The same, and this thread waits. */
  readBackupSync(address: number | bigint, length?: number | bigint): Buffer;
  /** Lets other processes map a block: a handle for importBlock of any process, good until the block is freed. */
  exportBlock(address: number | bigint): string;
  /** Maps a block of another process: its address here and its size. closeImport ends it; free refuses it. */
  importBlock(handle: string): BlockInfo;
  /** Ends an import. The last one of a handle waits for all work of the device's context. */
  closeImport(address: number | bigint): void;
  /** Asks the other processes of the pool's group for this many bytes, ahead of need, and waits at most timeoutNs. */
  shareRequest(bytes: number | bigint, timeoutNs?: number | bigint): void;

  /** Gives every cached chunk back to the driver; returns the bytes. */
  empty(): number;
  /** Gives cached chunks back until at most target bytes are reserved; returns the bytes given back. */
  trim(target: number | bigint): number;
  /** Gets memory from the driver until at least target bytes are reserved. */
  reserve(target: number | bigint, stream?: StreamLike): void;
  setFraction(fraction: number): void;
  /** Bytes or a string: "8GiB", "40%". 0 removes the limit. */
  setLimit(limit: number | bigint | string): void;
  /** Called before a malloc of this thread fails: frees something and says whether to retry. The malloc throws what
   * it throws. */
  setOomHandler(handler: OomHandler | null): void;
  /** Called before memory goes, and once it is there again, on this thread: a sleep in the background, or on another
   * thread, waits for the answer, unless this thread is inside a call that waits for a sleep itself; then it is no.
   * Inside a hook such calls are refused. What a hook throws counts as no, and the call that asked throws it. */
  setSleepHooks(beforeRelease?: SleepHook | null, afterMap?: SleepHook | null): void;

  stats(): Stats;
  /** Sets every peak to the current value. */
  resetPeaks(): void;
  /** All mapped memory and its contents, by address. */
  snapshot(): { segments: Segment[]; blocks: BlockInfo[] };
  /** Explains where the memory is. */
  report(): string;
  /** Who holds the live bytes, largest first, estimated from samples. */
  holders(): Holder[];
  /**
   * Checks the bytes behind every live block of a pool in debug mode canary, and waits for the GPU to finish. Returns
   * how much damage was found since the pool was created.
   */
  damage(): number;
  /** The same in words. */
  damageReport(): string;
  /** Sets what work may do with a block, until its free. Only for blocks that share no chunk. */
  protect(address: number | bigint, access?: number | AccessName): void;
  /** Checks every invariant of the pool's records. Slow; for tests. */
  validate(): void;

  /** Refuses calls from now on and closes its streams. Live blocks stay valid: the memory goes with the last. */
  close(): void;
  [Symbol.dispose](): void;
  toString(): string;
}

/** A stream of the pool's own. Keep the object while its number is in use; a Block keeps its stream by itself. */
export declare class Stream implements Disposable {
  private constructor();
  /** On a GPU the CUstream. */
  readonly id: number;
  readonly closed: boolean;
  /** Resolves when the stream is done with the work now queued. */
  synchronize(): Promise<void>;
  close(): void;
  [Symbol.dispose](): void;
  toString(): string;
}

/** What Block and Slice have in common. */
export interface Bytes extends Disposable {
  readonly address: number;
  readonly size: number;
  /** Queues a fill with a byte, 0 to 255. */
  fill(value: number): void;
  /** Copies bytes into it, from offset on, after the work on its stream, and waits. */
  write(data: BytesLike, offset?: number | bigint): void;
  /** Copies bytes out of it, and waits. Without a length: up to the end. */
  read(offset?: number | bigint, length?: number | bigint): Buffer;
  /** Fills the caller's bytes from offset on, waits, and returns them. */
  readInto<T extends BytesLike>(data: T, offset?: number | bigint): T;
  /** Begins to copy bytes into it, which may change at once. The block stays until it is done. */
  writeAsync(data: BytesLike, offset?: number | bigint): Promise<void>;
  /** Begins to copy bytes out of it. The block stays until it is done. */
  readAsync(offset?: number | bigint, length?: number | bigint): Promise<Buffer>;
  /** Begins to copy another block or slice, of whatever pool, into this one, on this one's stream. The work that fills
   * the other one must be behind it: on the same stream, or waited for. */
  copyFrom(source: Block | Slice, offset?: number | bigint): Promise<void>;
  /** A part, which keeps the block until it is closed or dropped. Without a length: up to the end. */
  slice(offset: number | bigint, length?: number | bigint): Slice;
  close(): void;
  toString(): string;
}

/** A block that frees itself on its stream. */
export declare class Block implements Bytes {
  private constructor();
  readonly address: number;
  readonly size: number;
  /** The number of the stream that it was allocated for. */
  readonly stream: number;
  readonly freed: boolean;
  /** Frees it behind the work queued on its stream, and on another stream if one is given. */
  free(stream?: StreamLike): void;
  /** Gives the block up and returns its address, which Pool.free takes. */
  release(): number;
  /** Tells the pool that another stream uses the block too. Call it before the block is freed. */
  recordStream(stream: StreamLike): void;
  fill(value: number): void;
  write(data: BytesLike, offset?: number | bigint): void;
  read(offset?: number | bigint, length?: number | bigint): Buffer;
  readInto<T extends BytesLike>(data: T, offset?: number | bigint): T;
  writeAsync(data: BytesLike, offset?: number | bigint): Promise<void>;
  readAsync(offset?: number | bigint, length?: number | bigint): Promise<Buffer>;
  copyFrom(source: Block | Slice, offset?: number | bigint): Promise<void>;
  slice(offset: number | bigint, length?: number | bigint): Slice;
  /** As free(), but does nothing if the block is already freed. */
  close(): void;
  [Symbol.dispose](): void;
  toString(): string;
}

/** A part of a block, which keeps it. */
export declare class Slice implements Bytes {
  private constructor();
  readonly address: number;
  /** Its offset in the block. */
  readonly offset: number;
  readonly size: number;
  readonly closed: boolean;
  fill(value: number): void;
  write(data: BytesLike, offset?: number | bigint): void;
  read(offset?: number | bigint, length?: number | bigint): Buffer;
  readInto<T extends BytesLike>(data: T, offset?: number | bigint): T;
  writeAsync(data: BytesLike, offset?: number | bigint): Promise<void>;
  readAsync(offset?: number | bigint, length?: number | bigint): Promise<Buffer>;
  copyFrom(source: Block | Slice, offset?: number | bigint): Promise<void>;
  slice(offset: number | bigint, length?: number | bigint): Slice;
  /** Releases the block. */
  close(): void;
  [Symbol.dispose](): void;
  toString(): string;
}

/** The version of the loaded library: major * 10000 + minor * 100 + patch. */
export declare function version(): number;
export declare function versionString(): string;
/** Bits of Feature. */
export declare function features(): number;
/** The name of a status in C. */
export declare function statusName(status: number): string;
/** Sends log lines up to this level to a function, for the whole process; without one, to standard error. Lines
 * come from any thread and wait until this one is free. */
export declare function setLog(level: number, receiver?: ((level: number, message: string) => void) | null): void;
/** A size as people write it, in bytes: "4096", "1.5 GiB". */
export declare function parseSize(text: string): number;
/** A device as people write it: "cuda:1", "sim". */
export declare function parseDevice(text: string): { backend: number; device: number };
/** Calls code, and its mallocs carry the name, in reports and recordings: also those behind an await, and in what it
 * begins, but not in whatever else runs meanwhile. Tags nest; the innermost counts. Returns what code does. */
export declare function tag<T>(name: string, code: () => T): T;
/** The same until the end of `using scope = tag("kv cache")`, for code that does not await: like tagPush. */
export declare function tag(name: string): Disposable;
/** Mallocs of this thread carry the name until tagPop. Pop before you await, since whatever runs meanwhile has the tag
 * too; or use tag. */
export declare function tagPush(tag: string): void;
export declare function tagPop(): void;
/** The minimum mean distance of samples in bytes; 0: no samples. */
export declare function setSampling(bytes: number | bigint): void;
/** Records all pools to a new file, which the gpupool command reads. flags: bits of RecordFlag. */
export declare function recordStart(path: string, flags?: number): void;
export declare function recordStop(): void;
/** Marks a moment in the recording, such as "step 12". */
export declare function mark(text: string): void;
/** Debug modes of pools created from now on: "poison,canary,fence,guard,annotate,quarantine=64MiB"; "": none. */
export declare function setDebug(modes?: string): void;
/** What is or was at an address, in any pool of this process. */
export declare function why(address: number | bigint): string;
/** Describes a group of processes that share a device, a number or words such as "cuda:1"; "": the one that
 * GPUPOOL_SHARE names. The caller need not be a member. */
export declare function shareInfo(
  group?: string, device?: number | string,
): { share: Share; members: ShareMember[] };
/** Sets a figure of a group or, by its slot, of a member: bytes, or a priority. */
export declare function shareSet(
  what: number | ShareFigureName, amount: number | bigint, member?: number, group?: string, device?: number | string,
): void;
/** Takes back what dead members have left, and corrects the group's used bytes. Returns by how much they were too
 * high. */
export declare function shareRepair(group?: string, device?: number | string): number;
/** Puts all pools to sleep that have this name or, without one, any: all of them, or none. */
export declare function sleepTag(
  tag?: string, mode?: number | SleepModeName, flags?: number, target?: number | bigint,
): Promise<SleepResult>;
/** The same, and this thread waits. */
export declare function sleepTagSync(
  tag?: string, mode?: number | SleepModeName, flags?: number, target?: number | bigint,
): SleepResult;
/** Wakes them: all, or none. */
export declare function wakeTag(tag?: string, timeout?: number | bigint, flags?: number): Promise<SleepResult>;
/** The same, and this thread waits. */
export declare function wakeTagSync(tag?: string, timeout?: number | bigint, flags?: number): SleepResult;
export declare function deviceCount(backend?: number): number;
export declare function deviceInfo(backend?: number, device?: number): DeviceInfo;

/** The simulated device: see gpupool.h. */
export declare const sim: {
  configure(
    device: number,
    options?: {
      data?: number;
      capacityBytes?: number | bigint;
      priceScale?: number;
      streams?: number;
      hostBytes?: number | bigint;
    },
  ): void;
  script(device: number, script: string): void;
  work(device: number, stream: StreamLike, address: number, size: number, nanoseconds: number): void;
  advance(device: number, nanoseconds: number | bigint): void;
  capture(device: number, stream: StreamLike, begin: boolean): void;
  launch(device: number, capture: number | bigint, stream: StreamLike): void;
  /** Holds the memory mapped at an address as another library such as NCCL would; 0 ends that. */
  hold(device: number, address: number | bigint): void;
  /** How many of the device's rules have been broken so far. */
  faults(device: number): number;
  /** A description of the last one; empty if there was none. */
  lastFault(device: number): string;
};
