// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import (
	"math"
	"runtime/cgo"
	"sync"
	"sync/atomic"
)

// core is what a Pool and its blocks share: the library's pool, which must not be destroyed while a call is inside.
// The last one out destroys it, so that Close is safe at any time, also from a callback. That costs a call two atomic
// additions.
type core struct {
	handle   C.uintptr_t
	borrowed bool // a default pool, which belongs to the process

	// Calls that are inside, plus closed once the pool is to go.
	calls atomic.Int64

	// Held while the pool is destroyed, and by frees that come later: the library accepts them.
	mutex     sync.Mutex
	destroyed bool
	err       error // of destroying

	// For callbacks, to which C gives user: a handle of this core, or 0. It goes when holders, the pool until it is
	// destroyed and each piece of upstream's memory, come down to 0.
	oom      atomic.Pointer[OOMHandler]
	upstream Upstream
	user     cgo.Handle
	holders  atomic.Int64
}

func newCore() *core {
	c := &core{}
	c.holders.Store(1)
	return c
}

const closed = math.MinInt64

// enter keeps the pool from being destroyed until leave; false: it is closed.
func (c *core) enter() bool { return c.calls.Add(1) > 0 || c.refuse() }

//go:noinline
func (c *core) refuse() bool {
	c.leave()
	return false
}

func (c *core) leave() {
	if c.calls.Add(-1) == closed {
		c.destroy()
	}
}

// close refuses calls from now on, and destroys the pool, at once or when the last call leaves it.
func (c *core) close() error {
	for {
		calls := c.calls.Load()
		if calls < 0 {
			return ErrClosed
		}
		if c.calls.CompareAndSwap(calls, calls+closed) {
			if calls == 0 {
				c.destroy()
				return c.err
			}
			return nil
		}
	}
}

func (c *core) destroy() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.destroyed {
		return
	}
	c.destroyed = true
	if !c.borrowed {
		c.err = check(C.bridge_destroy(c.handle))
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
	return c.freeLate(ptr, stream)
}

func (c *core) freeLate(ptr Ptr, stream Stream) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return check(C.bridge_free(c.handle, C.uint64_t(ptr), C.uintptr_t(stream)))
}
