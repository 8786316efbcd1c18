// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import (
	"io"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Block is memory of a pool that frees itself: on Close, or some time after it becomes unreachable. It stays usable if
// its pool, or the OwnedStream that it was allocated for, is closed first. It is an io.ReaderAt and an io.WriterAt.
type Block struct {
	life    *blockLife
	size    uint64
	cleanup runtime.Cleanup
}

// blockLife is inside its pool, and inside its stream where the pool created that: neither goes before it. Calls that
// use the memory are inside the block, so that another goroutine's Close delays the free until they return.
type blockLife struct {
	gate
	core     *core
	owner    *streamLife // nil: somebody else's stream
	ptr      Ptr
	stream   Stream
	closed   atomic.Bool
	behind   Stream // streams whose work the free follows; written by the goroutine that set closed
	released bool   // also
}

// Alloc is Malloc with an owner. The block is freed on this stream.
func (p *Pool) Alloc(size uint64, stream Stream) (*Block, error) {
	c, err := p.enter()
	if err != nil {
		return nil, err
	}
	owner := c.ownerOf(stream)
	return c.own(C.bridge_malloc(c.handle, C.uint64_t(size), C.uintptr_t(stream)), owner, size, stream)
}

// AllocAligned is MallocAligned with an owner.
func (p *Pool) AllocAligned(size, alignment uint64, stream Stream) (*Block, error) {
	c, err := p.enter()
	if err != nil {
		return nil, err
	}
	owner := c.ownerOf(stream)
	result := C.bridge_malloc_aligned(c.handle, C.uint64_t(size), C.uint64_t(alignment), C.uintptr_t(stream))
	return c.own(result, owner, size, stream)
}

// own turns the result of a malloc into a block. It keeps the malloc's references to pool and stream.
func (c *core) own(result C.bridge_result, owner *streamLife, size uint64, stream Stream) (*Block, error) {
	if err := check(result); err != nil {
		owner.leave()
		c.leave()
		return nil, err
	}
	life := &blockLife{core: c, owner: owner, ptr: Ptr(result.value), stream: stream}
	b := &Block{life: life, size: size}
	b.cleanup = runtime.AddCleanup(b, func(life *blockLife) { _ = life.close(life.stream) }, life)
	if c.forgotten != nil {
		c.forgotten.watch(b)
	}
	return b, nil
}

// Ptr is the block's address; 0 for an empty block. The caller must keep the block reachable while using it, if only by
// closing it afterwards.
func (b *Block) Ptr() Ptr {
	if b == nil || b.life == nil {
		return 0
	}
	return b.life.ptr
}

// Size is the requested number of bytes.
func (b *Block) Size() uint64 {
	if b == nil {
		return 0
	}
	return b.size
}

// Stream is the stream that the block was allocated for.
func (b *Block) Stream() Stream {
	if b == nil || b.life == nil {
		return 0
	}
	return b.life.stream
}

// Close frees the block on its stream: work already queued there may still use it. Any goroutine may call it, even
// after the pool was closed. If another goroutine is inside a call on the block, that call frees it when it returns.
// Never waits for the GPU. A second Close returns ErrFreed; Close of nil does nothing.
func (b *Block) Close() error { return b.CloseOn(b.Stream()) }

// CloseOn frees the block behind the work of another stream too; StreamUnknown: of all streams.
func (b *Block) CloseOn(stream Stream) error {
	if b == nil || b.life == nil {
		return nil
	}
	b.cleanup.Stop()
	return b.life.close(stream)
}

// Release gives the block up: the caller frees the address with Pool.Free. ErrFreed if it is already freed.
func (b *Block) Release() (Ptr, error) {
	if b == nil || b.life == nil {
		return 0, errNoBlock
	}
	b.cleanup.Stop()
	if b.life.closed.Swap(true) {
		return 0, ErrFreed
	}
	b.life.released = true
	return b.life.ptr, b.life.shut()
}

func (l *blockLife) close(behind Stream) error {
	if l.closed.Swap(true) {
		return ErrFreed
	}
	l.behind = behind
	return l.shut()
}

func (l *blockLife) shut() error {
	if _, last := l.gate.close(); last {
		return l.end()
	}
	return nil
}

func (l *blockLife) leave() {
	if l.gate.leave() {
		_ = l.end()
	}
}

func (l *blockLife) end() error {
	var err error
	if !l.released {
		err = check(C.bridge_free(l.core.handle, C.uint64_t(l.ptr), C.uintptr_t(l.behind)))
	}
	if l.core.forgotten != nil {
		l.core.forgotten.drop(l)
	}
	l.owner.leave()
	l.core.leave()
	return err
}

// enter keeps the block from being freed until leave.
func (b *Block) enter() (*blockLife, error) {
	if b == nil || b.life == nil {
		return nil, errNoBlock
	}
	if b.life.closed.Load() || !b.life.enter() {
		return nil, ErrFreed
	}
	return b.life, nil
}

// RecordStream tells the pool that stream uses the block too; call it before the block is closed.
func (b *Block) RecordStream(stream Stream) error {
	l, err := b.enter()
	if err != nil {
		return err
	}
	defer l.leave()
	return check(C.bridge_record_stream(l.core.handle, C.uint64_t(l.ptr), C.uintptr_t(stream)))
}

// Fill queues a fill of the whole block with value on its stream.
func (b *Block) Fill(value byte) error {
	l, err := b.enter()
	if err != nil {
		return err
	}
	defer l.leave()
	return check(C.bridge_fill(l.core.handle, C.uint64_t(l.ptr), C.uint32_t(value), C.uint64_t(b.size),
		C.uintptr_t(l.stream)))
}

// WriteAt copies p to the block from byte offset on, after the work queued on the block's stream so far, and waits for
// it. If it does not fit, nothing is copied, and the error says so and matches io.ErrShortWrite with errors.Is.
func (b *Block) WriteAt(p []byte, offset int64) (int, error) {
	l, err := b.enter()
	if err != nil {
		return 0, err
	}
	defer l.leave()
	place, err := b.place(len(p), offset, false)
	if err != nil {
		return 0, err
	}
	return l.copyHost(p, place, 0)
}

// ReadAt fills p from byte offset of the block on, after the work queued on the block's stream so far, and waits for
// it. If the block ends earlier, it reads what there is and returns io.EOF.
func (b *Block) ReadAt(p []byte, offset int64) (int, error) {
	l, err := b.enter()
	if err != nil {
		return 0, err
	}
	defer l.leave()
	if offset < 0 {
		return 0, refuse("the offset %d is negative", offset)
	}
	left := b.size - min(uint64(offset), b.size)
	if uint64(len(p)) <= left {
		return l.copyHost(p, uint64(offset), 1)
	}
	n, err := l.copyHost(p[:left], uint64(offset), 1)
	if err == nil {
		err = io.EOF
	}
	return n, err
}

// copyHost may pass Go memory to C, because the call waits for the copy.
func (l *blockLife) copyHost(p []byte, offset uint64, toHost C.int) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	err := check(C.bridge_copy_host(l.core.handle, C.uint64_t(l.ptr)+C.uint64_t(offset), unsafe.Pointer(&p[0]),
		C.uint64_t(len(p)), toHost, C.uintptr_t(l.stream)))
	if err != nil {
		return 0, err
	}
	return len(p), nil
}
