// SPDX-License-Identifier: Apache-2.0
// gpupool for Node. Errors are GpuPoolError and its classes, with the library's explanation as the message; arguments
// of a wrong type are TypeErrors. Addresses, sizes and streams are numbers, exact up to 2 ** 53; BigInts are taken as
// well.
import {
  BackendName,
  DeviceInfo,
  BlockInfo,
  Holder,
  KindName,
  ModeName,
  Segment,
  SleepModeName,
  SleepResult,
  Stats,
} from "./names.js";
export * from "./names.js";

/** A stream: an object, or its number. 0 is the legacy default stream. */
export type StreamLike = Stream | number | bigint;
/** Bytes of the caller's. */
export type BytesLike = NodeJS.TypedArray | DataView | ArrayBuffer;
export type OomHandler = (size: number, attempt: number) => boolean;

/** Stands for all streams where a block is freed. */
export declare const STREAM_UNKNOWN: bigint;

export interface PoolOptions {
  /** A number, or words: "cuda:1", "sim", "auto". */
  device?: number | string;
  /** Bytes, or words: "8GiB", or "40%" of the device. */
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
  /** Other devices that may access the pool's memory. */
  peers?: Iterable<number>;
}

/** A pool of one device. It frees what is forgotten, and is best closed: `using pool = new Pool()`, or close(). */
export declare class Pool implements Disposable {
  constructor(options?: PoolOptions);
  constructor(device: string, limit?: string | number);
  /** The one pool of a device that everything in this process shares. */
  static shared(device?: number): Pool;
  /** A pool that shares this one's limit, for memory that has to stay where it is, such as a CUDA graph's: what it once
   * mapped stays mapped and serves it alone, also while it is free, until it is emptied, trimmed or closed itself. It
   * takes after this pool in all else, and outlives it. */
  createChild(): Pool;
  readonly closed: boolean;

  /** The address of size bytes for work on stream, in nobody's care. Size 0 gives 0. */
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

  /** Call it before a stream of yours is destroyed. A Stream does it by itself. */
  releaseStream(stream: StreamLike): void;
  parkStream(stream: StreamLike): void;
  /** The number of the capture under way on stream; 0: none. */
  captureId(stream: StreamLike): number;
  /** Says that the graph which a capture made will not run any more. */
  releaseCapture(capture: number | bigint): void;
  /** Lets another device access all memory of this pool. */
  enablePeer(device: number): void;
  /** Resolved when every stream that the pool has seen is done with what is queued now. */
  synchronize(): Promise<void>;
  /** The same, and this thread waits. */
  synchronizeSync(): void;
  synchronizeStreamSync(stream: StreamLike): void;

  /** Queues a copy on the device. */
  copy(destination: number | bigint, source: number | bigint, size: number | bigint, stream?: StreamLike): void;
  /** Queues a fill with a byte, 0 to 255. */
  fill(destination: number | bigint, value: number, size: number | bigint, stream?: StreamLike): void;

  /** Puts the pool to sleep: all memory goes back to the device, the addresses stay, and mallocs fail with AsleepError
   * or, by SleepFlag.HOLD_MALLOCS, wait in their thread. flags: bits of SleepFlag. */
  sleep(mode?: number | SleepModeName, flags?: number): Promise<SleepResult>;
  /** The same, and this thread waits. */
  sleepSync(mode?: number | SleepModeName, flags?: number): SleepResult;
  /** Wakes it, with what was saved; waits up to timeout nanoseconds for memory that others hold. fill: a byte, with
   * SleepFlag.FILL. */
  wake(timeout?: number | bigint, flags?: number, fill?: number): Promise<SleepResult>;
  /** The same, and this thread waits. */
  wakeSync(timeout?: number | bigint, flags?: number, fill?: number): SleepResult;
  /** A SleepState. */
  readonly sleepState: number;
  /** What sleepTag calls it: at most 63 bytes. */
  name: string;
  /** Has a block saved even by a sleep that drops. */
  setKeep(address: number | bigint, keep: boolean): void;
  /** Gets page-locked memory of the host ahead of the first sleep, and keeps it; 0 gives it back. */
  prepareBackup(bytes: number | bigint): void;

  /** Gives every cached chunk back to the driver; the bytes. */
  empty(): number;
  /** Gives cached chunks back until at most target bytes are reserved; the bytes given back. */
  trim(target: number | bigint): number;
  /** Gets memory from the driver until at least target bytes are reserved. */
  reserve(target: number | bigint, stream?: StreamLike): void;
  setFraction(fraction: number): void;
  /** Bytes, or words: "8GiB", "40%". 0 takes the limit away. */
  setLimit(limit: number | bigint | string): void;
  /** Asked before a malloc of this thread fails: frees something and says whether to try again. What it throws is
   * thrown by the malloc. */
  setOomHandler(handler: OomHandler | null): void;

  stats(): Stats;
  /** Sets every peak to the current value. */
  resetPeaks(): void;
  /** What is mapped and what is in it, by address. */
  snapshot(): { segments: Segment[]; blocks: BlockInfo[] };
  /** Explains in words where the memory is. */
  report(): string;
  /** Who holds the live bytes, the largest first, estimated from samples. */
  holders(): Holder[];
  /** Checks every promise that the pool's records make to each other. Slow; for tests. */
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
  /** Resolved when it is done with what is queued now. */
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
  /** Copies bytes into it, from offset on, behind the work on its stream, and waits. */
  write(data: BytesLike, offset?: number): void;
  /** Copies bytes out of it, and waits. Without a length: up to the end. */
  read(offset?: number, length?: number): Buffer;
  /** Fills the caller's bytes from offset on, waits, and returns them. */
  readInto<T extends BytesLike>(data: T, offset?: number): T;
  /** Begins to copy bytes into it, which may change at once. The block stays until it is done. */
  writeAsync(data: BytesLike, offset?: number): Promise<void>;
  /** Begins to copy bytes out of it. The block stays until it is done. */
  readAsync(offset?: number, length?: number): Promise<Buffer>;
  /** Begins to copy another block or slice, of whatever pool, into this one, on this one's stream. The work that fills
   * the other one must be behind it: on the same stream, or waited for. */
  copyFrom(source: Block | Slice, offset?: number): Promise<void>;
  /** A part, which keeps the block until it is closed or dropped. Without a length: up to the end. */
  slice(offset: number, length?: number): Slice;
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
  /** Says that another stream uses the block too. Call it before the block goes. */
  recordStream(stream: StreamLike): void;
  fill(value: number): void;
  write(data: BytesLike, offset?: number): void;
  read(offset?: number, length?: number): Buffer;
  readInto<T extends BytesLike>(data: T, offset?: number): T;
  writeAsync(data: BytesLike, offset?: number): Promise<void>;
  readAsync(offset?: number, length?: number): Promise<Buffer>;
  copyFrom(source: Block | Slice, offset?: number): Promise<void>;
  slice(offset: number, length?: number): Slice;
  /** As free(), but does nothing when it is freed. */
  close(): void;
  [Symbol.dispose](): void;
  toString(): string;
}

/** A part of a block, which keeps it. */
export declare class Slice implements Bytes {
  private constructor();
  readonly address: number;
  /** Where in the block it begins. */
  readonly offset: number;
  readonly size: number;
  readonly closed: boolean;
  fill(value: number): void;
  write(data: BytesLike, offset?: number): void;
  read(offset?: number, length?: number): Buffer;
  readInto<T extends BytesLike>(data: T, offset?: number): T;
  writeAsync(data: BytesLike, offset?: number): Promise<void>;
  readAsync(offset?: number, length?: number): Promise<Buffer>;
  copyFrom(source: Block | Slice, offset?: number): Promise<void>;
  slice(offset: number, length?: number): Slice;
  /** Lets go of the block. */
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
/** Sends lines of the log up to this level to a function, for the whole process; without one to standard error. Lines
 * come from any thread and wait until this one is free. */
export declare function setLog(level: number, receiver?: ((level: number, message: string) => void) | null): void;
/** A size as people write it, in bytes: "4096", "1.5 GiB". */
export declare function parseSize(text: string): number;
/** A device as people write it: "cuda:1", "sim". */
export declare function parseDevice(text: string): { backend: number; device: number };
/** Mallocs of this thread carry the name, in reports and recordings, until tagPop. Tags nest. Pop before you await,
 * since whatever runs meanwhile has the tag too. */
export declare function tagPush(tag: string): void;
export declare function tagPop(): void;
/** The least mean distance of samples in bytes; 0: none. */
export declare function setSampling(bytes: number | bigint): void;
/** Records all pools to a new file, which the gpupool command reads. flags: bits of RecordFlag. */
export declare function recordStart(path: string, flags?: number): void;
export declare function recordStop(): void;
/** Notes a moment in the recording, such as "step 12". */
export declare function mark(text: string): void;
/** Puts all pools to sleep that have this name or, without one, any: all of them, or none. */
export declare function sleepTag(tag?: string, mode?: number | SleepModeName, flags?: number): Promise<SleepResult>;
/** The same, and this thread waits. */
export declare function sleepTagSync(tag?: string, mode?: number | SleepModeName, flags?: number): SleepResult;
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
  /** Lets somebody else hold the memory that is mapped at an address, as NCCL does; 0 ends that. */
  hold(device: number, address: number | bigint): void;
  /** How many rules of the device were broken so far. */
  faults(device: number): number;
  /** The last one in words; empty if there was none. */
  lastFault(device: number): string;
};
