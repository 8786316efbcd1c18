// SPDX-License-Identifier: Apache-2.0

// Package gpupool is a pool of GPU memory: it hands out blocks in tens of nanoseconds, because it keeps what it got
// from the driver, and tightly, because it moves physical memory to the addresses that need it. Where there is no GPU,
// the same calls work on a simulated device.
//
//	pool, err := gpupool.New(gpupool.WithDevice("cuda:0"), gpupool.WithLimit("90%"))
//	...
//	defer pool.Close()
//	block, err := pool.Alloc(1<<20, stream)
//	...
//	defer block.Close()
//
// It is a thin layer over a C library, whose sources are compiled with it; with the build tag gpupool_shared, over an
// installed one that pkg-config finds. The words are those of the library's header, gpupool.h, which is also its manual.
//
// # Threads and streams
//
// Everything may be used by any number of goroutines. No call waits for the GPU unless its description says so. A block
// belongs to the [Stream] it was allocated for: work of that stream may use it at once, and when it is freed there,
// later work of the stream may get its memory at once. When other streams use it as well, say so before with
// [Block.RecordStream].
//
// # Ownership
//
// [Pool], [Block] and [OwnedStream] are given back by Close. One that becomes unreachable is closed by the garbage
// collector, some time; that is a safety net, not a plan, because the collector does not see how much of the GPU's
// memory hangs on a small object; [WithGCBeforeOOM] runs it once before an allocation fails. Blocks may be used and
// closed after their pool and their stream, which stay until then. A pool takes its own streams along.
//
// [Pool.Malloc] and [Pool.Free] are the same with addresses that nobody looks after, for allocators and for speed.
//
// # Errors
//
// What the library refuses is an [*Error], and errors.Is finds its [Status]:
//
//	if errors.Is(err, gpupool.ErrOutOfMemory) { ... }
//
// A pool or stream that was closed gives [ErrClosed], as nil and zero values do, a block that was freed [ErrFreed]. A
// panic of an [OOMHandler] comes back in the error of the call that asked, as a [PanicError].
package gpupool
