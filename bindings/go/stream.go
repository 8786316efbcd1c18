// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import (
	"math"
	"runtime"
)

// Ptr is an address on the device. It is a number, because most holders cannot read through it.
type Ptr uint64

// Stream is a queue of GPU work: a CUstream or cudaStream_t as a number. 0 and 1 (CU_STREAM_LEGACY) both mean the
// legacy default stream. 2 (CU_STREAM_PER_THREAD) is refused: it names another queue on each thread.
type Stream uintptr

// StreamUnknown, in a free, stands for any stream that the pool has seen.
const StreamUnknown Stream = math.MaxUint64

// OwnedStream is a stream that a pool created. It is closed by Close, or with its pool.
type OwnedStream struct {
	Stream
	pool    *Pool // must not be collected first
	life    *streamLife
	cleanup runtime.Cleanup
}

// streamLife is open while the pool's streams have it. Blocks count as inside, so the last of them ends a closed
// stream.
type streamLife struct {
	gate
	core   *core
	stream Stream
}

// NewStream creates a stream on the pool's device that does not synchronise with the legacy default stream.
func (p *Pool) NewStream() (*OwnedStream, error) {
	c, err := p.enter()
	if err != nil {
		return nil, err
	}
	defer c.leave()
	result := C.bridge_stream_create(c.handle)
	if err := check(result); err != nil {
		return nil, err
	}
	life := &streamLife{core: c, stream: Stream(result.value)}
	c.streams.Store(life.stream, life)
	s := &OwnedStream{Stream: life.stream, pool: p, life: life}
	s.cleanup = runtime.AddCleanup(s, func(life *streamLife) { _ = life.close() }, life)
	return s, nil
}

// ownerOf enters the stream if the pool created it and it is open; else it returns nil.
func (c *core) ownerOf(stream Stream) *streamLife {
	if stream == 0 {
		return nil
	}
	if life, ok := c.streams.Load(stream); ok && life.(*streamLife).enter() {
		return life.(*streamLife)
	}
	return nil
}

// Close releases the stream from its pool and destroys it, at once or when its last Block is closed: its blocks stay
// valid and can be read and written. Other pools that have seen it must release it first. A second Close, or one after
// the pool's, returns ErrClosed; Close of nil does nothing.
func (s *OwnedStream) Close() error {
	if s == nil || s.life == nil {
		return nil
	}
	s.cleanup.Stop()
	return s.life.close()
}

func (l *streamLife) close() error {
	if !l.core.enter() {
		return errStreamClosed // its pool takes it along
	}
	defer l.core.leave()
	closed, last := l.gate.close()
	if !closed {
		return errStreamClosed
	}
	l.core.streams.Delete(l.stream) // before the driver may give its number to another
	if last {
		return l.end()
	}
	return nil
}

// leave is for callers that are inside the pool, too.
func (l *streamLife) leave() {
	if l != nil && l.gate.leave() {
		_ = l.end()
	}
}

func (l *streamLife) end() error {
	return check(C.bridge_stream_destroy(l.core.handle, C.uintptr_t(l.stream)))
}

// Synchronize waits until the stream has done all work queued on it.
func (s *OwnedStream) Synchronize() error {
	if s == nil || s.life == nil {
		return errNoStream
	}
	c, err := s.pool.enter()
	if err != nil {
		return err
	}
	defer c.leave()
	if !s.life.enter() {
		return errStreamClosed
	}
	defer s.life.leave()
	return check(C.bridge_stream_synchronize(c.handle, C.uintptr_t(s.Stream)))
}

// ReleaseStream must be called before a stream that the pool did not create is destroyed. The pool never touches the
// stream again. Its free memory serves other streams; its live blocks stay valid. Never waits for the GPU.
func (p *Pool) ReleaseStream(stream Stream) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_release_stream(pool, C.uintptr_t(stream)) })
}

// ParkStream must be called after each free on a stream that somebody else may destroy unannounced. The pool does not
// touch the stream until a call names it again, such as a malloc. Its memory stays its own. Never waits for the GPU.
func (p *Pool) ParkStream(stream Stream) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_park_stream(pool, C.uintptr_t(stream)) })
}

// SynchronizeStream waits until a stream has done all work queued on it.
func (p *Pool) SynchronizeStream(stream Stream) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_stream_synchronize(pool, C.uintptr_t(stream))
	})
}

// Synchronize waits for all streams that the pool has seen. Freed blocks that waited for them are then free to hand
// out.
func (p *Pool) Synchronize() error {
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_synchronize(pool) })
}

// ---- captures of CUDA graphs

// CaptureID returns the driver's number of the capture under way on a stream; 0: none. Since 0.2.
//
// Errors: ErrInvalidArgument, ErrDriver, ErrForked.
func (p *Pool) CaptureID(stream Stream) (uint64, error) {
	return p.inside(func(pool C.uintptr_t) C.bridge_result { return C.bridge_capture_id(pool, C.uintptr_t(stream)) })
}

// ReleaseCapture says that the graph of a capture will not run any more, so its memory is the pool's again. Call it
// when the graph and its copies are destroyed and their launches are done. Never waits for the GPU. A capture that the
// pool has not seen is no error. Since 0.2.
//
// Errors: ErrInvalidArgument (capture 0, or one that is still under way), ErrDriver, ErrForked.
func (p *Pool) ReleaseCapture(capture uint64) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_release_capture(pool, C.uint64_t(capture)) })
}

// AnnounceCapture says that a capture is about to begin on some stream, or (false) that one has ended or failed. In
// between no free touches its stream, so that any goroutine may free while a capture begins; memory that is freed serves
// other streams only after waits. Calls count, and hold for the pool's parent and all children. Never waits for the GPU.
// Since 0.2.
//
// Errors: ErrInvalidArgument (false, and no capture is announced), ErrForked, ErrHostOutOfMemory.
func (p *Pool) AnnounceCapture(begins bool) error {
	number := C.int32_t(0)
	if begins {
		number = 1
	}
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_announce_capture(pool, number) })
}

// ---- work, queued on a stream

// Copy queues a copy of size bytes between two addresses on the device. For Go memory use Block.ReadAt and
// Block.WriteAt: the garbage collector does not know of copies that are still queued.
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
