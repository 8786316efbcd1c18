// SPDX-License-Identifier: Apache-2.0

// Package gpupool is a pool of GPU memory: it hands out blocks in tens of nanoseconds, because it keeps what the driver
// gave it, and packs them tightly, because it moves physical memory to the addresses that need it. Without a GPU, the
// same calls work on a simulated device.
//
//	pool, err := gpupool.New(gpupool.WithDevice("cuda:0"), gpupool.WithLimit("90%"))
//	...
//	defer pool.Close()
//	block, err := pool.Alloc(1<<20, stream)
//	...
//	defer block.Close()
//
// It is a thin layer over a C library, whose sources are compiled with it; with the build tag gpupool_shared, over an
// installed one that pkg-config finds. Terms are those of the library's header, gpupool.h, which is also its manual.
//
// # Threads and streams
//
// Any number of goroutines may use everything. No call waits for the GPU unless its description says so. A block
// belongs to the [Stream] it was allocated for: work of that stream may use it at once, and when it is freed there,
// later work of the stream may get its memory at once. If other streams use it too, say so first with
// [Block.RecordStream].
//
// # Ownership
//
// Close gives a [Pool], [Block] or [OwnedStream] back. The garbage collector closes an unreachable one eventually; that
// is a safety net, not a plan, because the collector does not see how much GPU memory a small object holds;
// [WithGCBeforeOOM] runs it once before an allocation fails. Blocks may be used and closed after their pool and their
// stream, which stay until then. Closing a pool closes its own streams.
//
// [Pool.Malloc] and [Pool.Free] do the same with plain addresses without an owner, for allocators and for speed.
//
// # Errors
//
// A call that the library refuses returns an [*Error], and errors.Is finds its [Status]:
//
//	if errors.Is(err, gpupool.ErrOutOfMemory) { ... }
//
// A closed pool or stream gives [ErrClosed], as nil and zero values do; a freed block gives [ErrFreed]. A panic of an
// [OOMHandler] or a [SleepHook] comes back as a [PanicError] in the error of the call that asked.
package gpupool
