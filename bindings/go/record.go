// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import (
	"runtime"
	"time"
	"unsafe"
)

// Holder is who holds live bytes of a pool: one call site under one tag. Since 0.2.
type Holder struct {
	LiveBytes uint64        // estimated from the samples
	Samples   uint64        // live blocks that are samples
	Oldest    time.Duration // how long the oldest of them has been live
	Newest    time.Duration
	Tag       string // "": none
	Stack     string // a line for each frame, the innermost first: Go's, then native ones; "": unknown
}

// Holders lists who holds the pool's live bytes, largest first, estimated from samples: see gpupool_holders in
// gpupool.h. Since 0.2.
func (p *Pool) Holders() ([]Holder, error) {
	var list *C.gpupool_holder_t
	capacity := uint64(0)
	defer func() { C.free(unsafe.Pointer(list)) }()
	for {
		count, err := p.inside(func(pool C.uintptr_t) C.bridge_result {
			return C.bridge_holders(pool, list, C.size_t(capacity))
		})
		if err != nil {
			return nil, err
		}
		if count <= capacity {
			capacity = count
			break
		}
		// Others may add to the list between asking for the count and for the contents.
		C.free(unsafe.Pointer(list))
		list = (*C.gpupool_holder_t)(C.calloc(C.size_t(count), C.sizeof_gpupool_holder_t))
		if capacity = count; list == nil {
			capacity = 0
		}
	}
	holders := make([]Holder, capacity)
	for i := range holders {
		c := C.bridge_holder_at(list, C.size_t(i))
		holders[i] = Holder{
			LiveBytes: uint64(c.live_bytes),
			Samples:   uint64(c.samples),
			Oldest:    time.Duration(c.oldest_nanoseconds),
			Newest:    time.Duration(c.newest_nanoseconds),
			Tag:       C.GoString(&c.tag[0]),
			Stack:     C.GoString(&c.stack[0]),
		}
	}
	return holders, nil
}

// Tag runs do with its goroutine on one thread; reports and recordings show the name, of 1 to 63 bytes, for what do
// itself allocates. Tags nest, and the innermost counts. Since 0.2.
//
// Errors: ErrInvalidArgument; then do did not run.
func Tag(name string, do func()) error {
	words, err := cString("name", name)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(words))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := check(C.bridge_tag_push(words)); err != nil {
		return err
	}
	defer func() { _ = check(C.bridge_tag_pop()) }()
	do()
	return nil
}

// SetSampling sets how densely allocations of all pools are sampled for Holders and failure messages: the minimum mean
// distance of samples in bytes; 0: no more samples. Since 0.2.
func SetSampling(bytes uint64) error { return check(C.bridge_set_sampling(C.uint64_t(bytes))) }

// StartRecording records every allocation and free of all pools of this process to a new file, which the gpupool command
// reads; "%p" in the path becomes the process's number, and "FILE,last=512MiB" or "FILE,last=10min" keeps the newest
// events, in FILE and FILE.old. stacks says which frames: RecordLanguageStacks means Go's. Since 0.2.
//
// Errors: ErrInvalidArgument (also if the path exists, or a recording is in progress).
func StartRecording(path string, stacks RecordFlag) error {
	words, err := cString("path", path)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(words))
	return check(C.bridge_record_start(words, C.uint32_t(stacks)))
}

// StopRecording ends the recording. Since 0.2.
//
// Errors: ErrInvalidArgument (there is none).
func StopRecording() error { return check(C.bridge_record_stop()) }

// Mark marks a moment in the recording, such as "step 12". Without a recording it does nothing. Since 0.2.
func Mark(text string) error {
	words, err := cString("text", text)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(words))
	return check(C.bridge_mark(words))
}
