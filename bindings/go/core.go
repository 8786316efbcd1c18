// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import (
	"runtime/cgo"
	"sync"
	"sync/atomic"
)

// core is what a Pool shares with its blocks and streams: the library's pool, which must not be destroyed while a call
// is inside. The last call to return destroys it, so Close is safe at any time, even from a callback. That costs a call
// two atomic additions. A block counts as inside for as long as it lives, so it can be read and written after the pool
// was closed.
type core struct {
	gate
	handle   C.uintptr_t
	backend  Backend // as requested
	borrowed bool    // a default pool, which belongs to the process

	// Open streams that the pool created: Stream to *streamLife.
	streams sync.Map

	// Held while the pool is destroyed, and by frees that come after Close: the library accepts them.
	mutex     sync.Mutex
	destroyed bool
	err       error // of destroying

	// For callbacks, to which C passes user: a handle of this core, or 0. It goes when holders (the pool until it is
	// destroyed, and each piece of the upstream's memory) drops to 0.
	oom       atomic.Pointer[OOMHandler]
	hooks     atomic.Pointer[sleepHooks]
	forgotten *forgotten // nil: the collector does not run before an out-of-memory
	upstream  Upstream
	user      cgo.Handle
	holders   atomic.Int64
}

func newCore() *core {
	c := &core{}
	c.holders.Store(1)
	return c
}

// enter begins a call on the pool: it keeps the pool from being destroyed until leave.
func (p *Pool) enter() (*core, error) {
	if p == nil || p.core == nil {
		return nil, errNoPool
	}
	if !p.core.enter() {
		return nil, errPoolClosed
	}
	return p.core, nil
}

func (c *core) leave() {
	if c.gate.leave() {
		c.destroy()
	}
}

// close refuses calls from now on, and destroys the pool, at once or when the last call and the last block leave it.
func (c *core) close() error {
	closed, last := c.gate.close()
	if !closed {
		return errPoolClosed
	}
	if last {
		c.destroy()
		return c.err
	}
	return nil
}

// destroy also ends the pool's own streams. Only addresses from Malloc may still be live.
func (c *core) destroy() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.destroyed = true
	c.streams.Range(func(stream, _ any) bool {
		if err := check(C.bridge_stream_destroy(c.handle, C.uintptr_t(stream.(Stream)))); err != nil {
			c.err = err
		}
		return true
	})
	c.streams.Clear()
	if !c.borrowed {
		if err := check(C.bridge_destroy(c.handle)); err != nil {
			c.err = err
		}
	}
	c.release()
}

// release drops one of the holders.
func (c *core) release() {
	if c.holders.Add(-1) == 0 && c.user != 0 {
		c.user.Delete()
	}
}

// free works on closed pools as well.
func (c *core) free(ptr Ptr, stream Stream) error {
	if c.enter() {
		result := C.bridge_free(c.handle, C.uint64_t(ptr), C.uintptr_t(stream))
		c.leave()
		return check(result)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return check(C.bridge_free(c.handle, C.uint64_t(ptr), C.uintptr_t(stream)))
}
