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

// Block is memory of a pool that frees itself: on Close, or some time after it became unreachable. It keeps its pool
// from being collected. It is an io.ReaderAt and an io.WriterAt.
type Block struct {
	pool    *Pool
	life    *blockLife
	size    uint64
	cleanup runtime.Cleanup
}

type blockLife struct {
	core   *core
	ptr    Ptr
	stream Stream
	freed  atomic.Bool
}

// Alloc is Malloc with an owner. The block is freed on this stream.
func (p *Pool) Alloc(size uint64, stream Stream) (*Block, error) {
	ptr, err := p.Malloc(size, stream)
	if err != nil {
		return nil, err
	}
	return p.own(ptr, size, stream), nil
}

// AllocAligned is MallocAligned with an owner.
func (p *Pool) AllocAligned(size, alignment uint64, stream Stream) (*Block, error) {
	ptr, err := p.MallocAligned(size, alignment, stream)
	if err != nil {
		return nil, err
	}
	return p.own(ptr, size, stream), nil
}

func (p *Pool) own(ptr Ptr, size uint64, stream Stream) *Block {
	b := &Block{pool: p, life: &blockLife{core: p.core, ptr: ptr, stream: stream}, size: size}
	b.cleanup = runtime.AddCleanup(b, func(life *blockLife) { _ = life.free(life.stream) }, b.life)
	return b
}

// Ptr is the block's address; 0 for a block of no bytes. Whoever uses it must keep the block reachable, if only by
// closing it afterwards.
func (b *Block) Ptr() Ptr { return b.life.ptr }

// Size is the number of bytes that were asked for.
func (b *Block) Size() uint64 { return b.size }

// Stream is the one that the block was allocated for.
func (b *Block) Stream() Stream { return b.life.stream }

// Close frees the block on its stream: work queued there so far may still use it. It may be called on any goroutine,
// and after the pool was closed. Never waits for the GPU. A second Close gives ErrFreed.
func (b *Block) Close() error { return b.CloseOn(b.life.stream) }

// CloseOn frees the block behind the work of another stream too; StreamUnknown: of all streams.
func (b *Block) CloseOn(stream Stream) error {
	b.cleanup.Stop()
	return b.life.free(stream)
}

func (l *blockLife) free(stream Stream) error {
	if l.freed.Swap(true) {
		return ErrFreed
	}
	return l.core.free(l.ptr, stream)
}

// Release gives the block up: the caller frees the address with Pool.Free. ErrFreed if it is freed already.
func (b *Block) Release() (Ptr, error) {
	b.cleanup.Stop()
	if b.life.freed.Swap(true) {
		return 0, ErrFreed
	}
	return b.life.ptr, nil
}

// RecordStream says that stream uses the block too; to be called before the block is closed.
func (b *Block) RecordStream(stream Stream) error {
	if b.life.freed.Load() {
		return ErrFreed
	}
	return b.pool.RecordStream(b.life.ptr, stream)
}

// Fill queues a fill of the whole block with value on its stream.
func (b *Block) Fill(value byte) error {
	if b.life.freed.Load() {
		return ErrFreed
	}
	return b.pool.Fill(b.life.ptr, value, b.size, b.life.stream)
}

// WriteAt copies p to the block from byte offset on, after the work queued on the block's stream so far, and waits for
// it. io.ErrShortWrite, and nothing is copied, if it does not fit.
func (b *Block) WriteAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, refuse("the offset %d is negative", offset)
	}
	if uint64(offset) > b.size || uint64(len(p)) > b.size-uint64(offset) {
		return 0, io.ErrShortWrite
	}
	return b.copyHost(p, uint64(offset), 0)
}

// ReadAt fills p from byte offset of the block on, after the work queued on the block's stream so far, and waits for
// it. Where the block ends before, it is io.EOF after what there is.
func (b *Block) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, refuse("the offset %d is negative", offset)
	}
	if b.life.freed.Load() {
		return 0, ErrFreed
	}
	left := b.size - min(uint64(offset), b.size)
	if uint64(len(p)) <= left {
		return b.copyHost(p, uint64(offset), 1)
	}
	n, err := b.copyHost(p[:left], uint64(offset), 1)
	if err == nil {
		err = io.EOF
	}
	return n, err
}

// copyHost may give C memory of Go, because the call waits for the copy.
func (b *Block) copyHost(p []byte, offset uint64, toHost C.int) (int, error) {
	if b.life.freed.Load() {
		return 0, ErrFreed
	}
	if len(p) == 0 {
		return 0, nil
	}
	err := b.pool.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_copy_host(pool, C.uint64_t(b.life.ptr)+C.uint64_t(offset), unsafe.Pointer(&p[0]),
			C.uint64_t(len(p)), toHost, C.uintptr_t(b.life.stream))
	})
	runtime.KeepAlive(b) // or it could be freed during the copy
	if err != nil {
		return 0, err
	}
	return len(p), nil
}
