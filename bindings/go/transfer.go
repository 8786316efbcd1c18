// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import (
	"fmt"
	"io"
	"runtime"
	"sync"
	"unsafe"
)

// Transfer is a copy between Go memory and a block, queued on the block's stream: Block.WriteAsync and Block.ReadAsync.
// Until Wait has returned, the block is not freed, even if it is closed, and the Go memory stays where it is; nobody
// may write to the copy's source or read its destination. A Transfer that becomes unreachable is waited for some time
// later. Since 0.2.
type Transfer struct{ life *transferLife }

type transferLife struct {
	block *blockLife
	pin   runtime.Pinner
	once  sync.Once
	err   error
}

// Wait waits until the copy, and the work queued before it, is done. A second Wait returns what the first did; Wait of
// nil does nothing.
func (t *Transfer) Wait() error {
	if t == nil || t.life == nil {
		return nil
	}
	t.life.once.Do(t.life.wait)
	return t.life.err
}

func (l *transferLife) wait() {
	l.err = check(C.bridge_stream_synchronize(l.block.core.handle, C.uintptr_t(l.block.stream)))
	l.pin.Unpin()
	l.block.leave()
}

// WriteAsync queues a copy of p to the block from byte offset on, on the block's stream, and does not wait for it. It
// fails as WriteAt does, and then queues nothing. Since 0.2.
func (b *Block) WriteAsync(p []byte, offset int64) (*Transfer, error) {
	return b.transfer(p, offset, false)
}

// ReadAsync queues a copy that fills p from byte offset of the block on, and does not wait for it. If the block ends
// before p, it queues nothing, and the error is io.ErrUnexpectedEOF for errors.Is. Since 0.2.
func (b *Block) ReadAsync(p []byte, offset int64) (*Transfer, error) {
	return b.transfer(p, offset, true)
}

func (b *Block) transfer(p []byte, offset int64, toHost bool) (*Transfer, error) {
	l, err := b.enter()
	if err != nil {
		return nil, err
	}
	place, err := b.place(len(p), offset, toHost)
	if err != nil {
		l.leave()
		return nil, err
	}
	if len(p) == 0 {
		l.leave()
		return &Transfer{}, nil
	}
	life := &transferLife{block: l}
	life.pin.Pin(&p[0])
	host, device := C.uint64_t(uintptr(unsafe.Pointer(&p[0]))), C.uint64_t(l.ptr)+C.uint64_t(place)
	destination, source := device, host
	if toHost {
		destination, source = host, device
	}
	result := C.bridge_copy(l.core.handle, destination, source, C.uint64_t(len(p)), C.uintptr_t(l.stream))
	if err := check(result); err != nil {
		life.pin.Unpin()
		l.leave()
		return nil, err
	}
	t := &Transfer{life}
	// Not on the collector's own goroutine, which has other objects to close.
	runtime.AddCleanup(t, func(life *transferLife) { go life.once.Do(life.wait) }, life)
	return t, nil
}

// place returns the offset as a number if count bytes from there are all inside the block.
func (b *Block) place(count int, offset int64, toHost bool) (uint64, error) {
	if offset < 0 {
		return 0, refuse("the offset %d is negative", offset)
	}
	if uint64(offset) > b.size || uint64(count) > b.size-uint64(offset) {
		kind := io.ErrShortWrite
		if toHost {
			kind = io.ErrUnexpectedEOF
		}
		return 0, fmt.Errorf("gpupool: %d bytes at %d are not inside a block of %d bytes: %w", count, offset, b.size, kind)
	}
	return uint64(offset), nil
}
