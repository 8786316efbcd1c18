// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import (
	"math"
	"runtime"
	"sync/atomic"
)

// Ptr is an address on the device. It is a number, because most holders cannot read through it.
type Ptr uint64

// Stream is a queue of the GPU's work: a CUstream or cudaStream_t as a number. 0 is the legacy default stream.
type Stream uintptr

// StreamUnknown, in a free, stands for any stream that the pool has seen.
const StreamUnknown Stream = math.MaxUint64

// OwnedStream is a stream that a pool created. It must be closed before the pool; one that is still open then stays
// until the process ends.
type OwnedStream struct {
	Stream
	pool    *Pool
	life    *streamLife
	cleanup runtime.Cleanup
}

type streamLife struct {
	core   *core
	stream Stream
	closed atomic.Bool
}

// NewStream creates a stream on the pool's device that does not synchronise with the legacy default stream.
func (p *Pool) NewStream() (*OwnedStream, error) {
	number, err := p.inside(func(pool C.uintptr_t) C.bridge_result { return C.bridge_stream_create(pool) })
	if err != nil {
		return nil, err
	}
	s := &OwnedStream{Stream: Stream(number), pool: p, life: &streamLife{core: p.core, stream: Stream(number)}}
	s.cleanup = runtime.AddCleanup(s, func(life *streamLife) { _ = life.close() }, s.life)
	return s, nil
}

// Close releases the stream from its pool and destroys it. Blocks of it that are live stay valid. Other pools that
// have seen it must release it first. A second Close gives ErrClosed.
func (s *OwnedStream) Close() error {
	s.cleanup.Stop()
	return s.life.close()
}

func (l *streamLife) close() error {
	if l.closed.Swap(true) || !l.core.enter() {
		return ErrClosed
	}
	defer l.core.leave()
	return check(C.bridge_stream_destroy(l.core.handle, C.uintptr_t(l.stream)))
}

// Synchronize waits until the stream has done all work queued on it.
func (s *OwnedStream) Synchronize() error {
	if s.life.closed.Load() {
		return ErrClosed
	}
	return s.pool.SynchronizeStream(s.Stream)
}

// ReleaseStream is to be called before a stream of somebody else's is destroyed: the pool never touches it again, and
// its free memory serves other streams. Blocks of it that are live stay valid. Never waits for the GPU.
func (p *Pool) ReleaseStream(stream Stream) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_release_stream(pool, C.uintptr_t(stream)) })
}

// ParkStream is to be called after each free on a stream of somebody else's whose end nobody announces: the pool does
// not touch it until it is named again, by a malloc for example. Its memory stays its own. Never waits for the GPU.
func (p *Pool) ParkStream(stream Stream) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_park_stream(pool, C.uintptr_t(stream)) })
}

// SynchronizeStream waits until a stream has done all work queued on it.
func (p *Pool) SynchronizeStream(stream Stream) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_stream_synchronize(pool, C.uintptr_t(stream))
	})
}

// Synchronize waits for all streams that the pool has seen, and makes freed blocks that waited for them free to hand
// out.
func (p *Pool) Synchronize() error {
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_synchronize(pool) })
}

// ---- work, queued on a stream

// Copy queues a copy of size bytes between two addresses of the device. For memory of Go, there are Block.ReadAt and
// Block.WriteAt: the garbage collector knows nothing of copies that are still queued.
func (p *Pool) Copy(destination, source Ptr, size uint64, stream Stream) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_copy(pool, C.uint64_t(destination), C.uint64_t(source), C.uint64_t(size), C.uintptr_t(stream))
	})
}

// Fill queues a fill of size bytes with value. A simulated device without data only checks the access.
func (p *Pool) Fill(destination Ptr, value byte, size uint64, stream Stream) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_fill(pool, C.uint64_t(destination), C.uint32_t(value), C.uint64_t(size), C.uintptr_t(stream))
	})
}
