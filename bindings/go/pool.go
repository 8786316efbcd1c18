// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import (
	"runtime"
	"runtime/cgo"
	"time"
	"unsafe"
)

// Pool is a pool of memory on one device. Any number of goroutines may call its methods at any time; after Close they
// return ErrClosed.
type Pool struct {
	core    *core
	cleanup runtime.Cleanup
}

// New creates a pool. It takes no memory from the device yet.
//
// Errors: ErrInvalidArgument (no such device, a fraction outside of 0..1, ...), ErrUnavailable, ErrUnsupported (a mode
// or kind that the device cannot do), ErrDriver.
func New(with ...Option) (*Pool, error) {
	var o options
	if err := checkVersion(); err != nil {
		return nil, err
	}
	if err := check(C.bridge_config_init(&o.config)); err != nil {
		return nil, err
	}
	for _, option := range with {
		option(&o)
	}
	if o.err != nil {
		return nil, o.err
	}
	c := newCore()
	c.backend = Backend(o.config.backend)
	if o.upstream != nil || o.collects {
		c.upstream = o.upstream
		c.user = cgo.NewHandle(c)
	}
	var upstream C.uintptr_t
	if o.upstream != nil {
		upstream = C.uintptr_t(c.user)
	}
	if o.share != nil {
		group, err := cString("share", *o.share)
		if err != nil {
			return nil, err
		}
		defer C.free(unsafe.Pointer(group))
		o.config.share = group
	}
	o.config.peer_count = C.uint32_t(len(o.peers))
	peers := (*C.int32_t)(unsafe.SliceData(o.peers))
	result := C.bridge_create(o.config, peers, upstream)
	if err := check(result); err != nil {
		c.release()
		return nil, err
	}
	c.handle = C.uintptr_t(result.value)
	if o.collects {
		c.forgotten = newForgotten()
		if err := c.askHandler(); err != nil {
			_ = c.close()
			return nil, err
		}
	}
	return newPool(c), nil
}

// DefaultPool returns the one pool of a device that everything in this process shares, in any language, created on
// first use. Closing the result does not close the pool.
func DefaultPool(device int) (*Pool, error) {
	if err := checkVersion(); err != nil {
		return nil, err
	}
	number, err := deviceNumber(device)
	if err != nil {
		return nil, err
	}
	result := C.bridge_default_pool(number)
	if err := check(result); err != nil {
		return nil, err
	}
	c := newCore()
	c.handle, c.borrowed = C.uintptr_t(result.value), true
	return newPool(c), nil
}

// NewChild creates a pool that shares this one's limit, for memory that must stay where it is, such as a CUDA graph's:
// memory that it has mapped stays mapped and serves only the child, even while free, until its own Empty, Trim or
// Close. It inherits this pool's device, mode, kind, slack, chunks and peers, and may outlive it. Since 0.2.
//
// Errors: ErrInvalidArgument (a child has no children), ErrUnsupported (memory of an Upstream), ErrForked.
func (p *Pool) NewChild() (*Pool, error) {
	result, err := p.inside(func(pool C.uintptr_t) C.bridge_result { return C.bridge_create_child(pool) })
	if err != nil {
		return nil, err
	}
	c := newCore()
	c.backend, c.handle = p.core.backend, C.uintptr_t(result)
	return newPool(c), nil
}

func newPool(c *core) *Pool {
	p := &Pool{core: c}
	p.cleanup = runtime.AddCleanup(p, func(c *core) { _ = c.close() }, c)
	return p
}

// Close closes the pool and its own streams, and gives its memory back. It may be called at any time: the pool refuses
// calls from now on, and goes away when other goroutines have left it and its last Block is closed; blocks can be read
// and written until then. May wait for the GPU. A second Close returns ErrClosed; Close of nil does nothing.
func (p *Pool) Close() error {
	if p == nil || p.core == nil {
		return nil
	}
	p.cleanup.Stop()
	return p.core.close()
}

// Handle is the gpupool_t* for other C code. The pool still owns it. It is nil for a nil Pool.
func (p *Pool) Handle() unsafe.Pointer {
	if p == nil || p.core == nil {
		return nil
	}
	return unsafe.Pointer(C.bridge_pool(p.core.handle))
}

// ---- memory

// Malloc allocates size bytes for work on stream, aligned to 512, and leaves it to the caller to free them. Size 0
// gives address 0. A cached block costs no driver call. It may wait for the GPU only before failing.
//
// Errors: ErrOutOfMemory, ErrOverLimit, ErrInvalidArgument, ErrDriver, ErrHostOutOfMemory, ErrShuttingDown, ErrForked.
func (p *Pool) Malloc(size uint64, stream Stream) (Ptr, error) {
	c, err := p.enter()
	if err != nil {
		return 0, err
	}
	result := C.bridge_malloc(c.handle, C.uint64_t(size), C.uintptr_t(stream))
	c.leave()
	return Ptr(result.value), check(result)
}

// MallocAligned is Malloc with an alignment: a power of two of up to 2 MiB.
func (p *Pool) MallocAligned(size, alignment uint64, stream Stream) (Ptr, error) {
	result, err := p.inside(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_malloc_aligned(pool, C.uint64_t(size), C.uint64_t(alignment), C.uintptr_t(stream))
	})
	return Ptr(result), err
}

// Free frees an address from Malloc, even after Close. Work already queued on stream may still use it. A stream other
// than the block's counts as RecordStream; StreamUnknown waits for all streams that the pool has seen. Address 0 does
// nothing. Never waits for the GPU.
//
// Errors: ErrUnknownPointer (foreign, already freed, or inside a block), ErrInvalidArgument, ErrForked.
func (p *Pool) Free(ptr Ptr, stream Stream) error {
	if p == nil || p.core == nil {
		return errNoPool
	}
	return p.core.free(ptr, stream)
}

// RecordStream tells the pool that stream uses the block too: once freed, the block is reused only when stream has
// passed the work queued on it by then.
func (p *Pool) RecordStream(ptr Ptr, stream Stream) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_record_stream(pool, C.uint64_t(ptr), C.uintptr_t(stream))
	})
}

// BlockInfo describes the live block that contains ptr.
func (p *Pool) BlockInfo(ptr Ptr) (BlockInfo, error) {
	var info BlockInfo
	err := p.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_block_info(pool, C.uint64_t(ptr), unsafe.Pointer(&info), C.size_t(unsafe.Sizeof(info)))
	})
	return info, err
}

// ---- keeping memory, and giving it back

// Empty gives every cached chunk back to the driver, and returns how many bytes that was. Waits for streams that may
// still use freed memory.
func (p *Pool) Empty() (released uint64, err error) {
	return p.inside(func(pool C.uintptr_t) C.bridge_result { return C.bridge_empty(pool) })
}

// Trim gives cached chunks back, oldest first, until at most target bytes are reserved or no more can be given back.
// Waits as Empty does.
func (p *Pool) Trim(target uint64) (released uint64, err error) {
	return p.inside(func(pool C.uintptr_t) C.bridge_result { return C.bridge_trim(pool, C.uint64_t(target)) })
}

// Reserve creates memory until at least target bytes are reserved, mapped for stream and ready for use. If it cannot
// get everything, it keeps what it got.
func (p *Pool) Reserve(target uint64, stream Stream) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_reserve(pool, C.uint64_t(target), C.uintptr_t(stream))
	})
}

// ShareRequest asks the other processes of the pool's group to give back cached memory until there is room for this
// many more bytes, ahead of need. It waits for at most timeout. Since 0.2.
func (p *Pool) ShareRequest(bytes uint64, timeout time.Duration) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_share_request(pool, C.uint64_t(bytes), C.uint64_t(max(timeout, 0)))
	})
}

// SetFraction limits reserved memory to a fraction of the device's, in (0, 1]. Replaces the pool's limit; cached
// memory above it is given back. ErrOverLimit if live blocks hold more.
func (p *Pool) SetFraction(fraction float64) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_set_fraction(pool, C.double(fraction)) })
}

// SetLimit is SetFraction in bytes; 0 removes the limit.
func (p *Pool) SetLimit(bytes uint64) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_set_limit(pool, C.uint64_t(bytes)) })
}

// SetLimitTo is SetLimit or SetFraction with a string that ParseSize reads: "8GiB", "40%". Since 0.2.
func (p *Pool) SetLimitTo(limit string) error {
	bytes, share, err := ParseSize(limit)
	if err != nil {
		return err
	}
	if share > 0 {
		return p.SetFraction(share)
	}
	return p.SetLimit(bytes)
}

// EnablePeer lets the device with number peer access all memory of this pool, now and later. Only the pool's end
// revokes it. Naming the pool's own device, or one that already has access, is not an error. Since 0.2.
//
// Errors: ErrInvalidArgument (no such device), ErrUnsupported (the devices cannot access each other, or the memory
// comes from an Upstream), ErrDriver, ErrForked.
func (p *Pool) EnablePeer(peer int) error {
	number, err := deviceNumber(peer)
	if err != nil {
		return err
	}
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_enable_peer(pool, number) })
}

// do makes a call that keeps the pool from being destroyed.
func (p *Pool) do(call func(pool C.uintptr_t) C.bridge_result) error {
	_, err := p.inside(call)
	return err
}

// inside is do for a call with a result, which is 0 on failure.
func (p *Pool) inside(call func(pool C.uintptr_t) C.bridge_result) (uint64, error) {
	c, err := p.enter()
	if err != nil {
		return 0, err
	}
	defer c.leave()
	result := call(c.handle)
	return uint64(result.value), check(result)
}
