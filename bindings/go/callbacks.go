// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import (
	"fmt"
	"os"
	"runtime/cgo"
	"runtime/debug"
	"sync/atomic"
)

// OOMHandler is called before an allocation of size bytes fails; attempt counts from 1. It frees something and returns
// true to retry the allocation, or false to let it fail. It runs on the goroutine that allocates and may use the pool.
// If it panics, the allocation fails, with an Error that wraps a PanicError.
type OOMHandler func(size uint64, attempt int) bool

// SleepHook is called before memory goes, or once it is there again. ptr is the block that sleeps or wakes alone; 0: all
// of the pool. In a sleep with a target it is called for each block. It runs on the goroutine of the sleep or the wake,
// or on a thread of the library if another process asks, and may use any pool, except that those calls that sleep, wake
// or prepare the same pool fail with ErrUnavailable. A panic counts as false, and the call that asked returns an Error
// that wraps a PanicError; if that call succeeds all the same, the panic is written to standard error. Since 0.2.
type SleepHook func(ptr Ptr) bool

// sleepHooks are those of a pool; nil: none.
type sleepHooks struct{ before, after SleepHook }

// Upstream supplies the memory of a pool with WithUpstream. The library calls it from any goroutine; it must not use
// the same pool. It is kept until all its memory is back. A panic in Malloc counts as "no more memory": the call that
// asked fails with an Error that wraps a PanicError or, if memory is found elsewhere, the panic is written to standard
// error. A panic in Free ends the program.
type Upstream interface {
	// Malloc returns size bytes, aligned to at least 512, or an error for "no more memory".
	Malloc(size uint64, stream Stream) (Ptr, error)
	// Free takes back what Malloc returned, with the same size. No GPU work still uses it.
	Free(ptr Ptr, size uint64, stream Stream)
}

// LogFunc receives a line of the log. It may call this package, but must not free blocks of a closed pool; its calls
// are not logged. A panic in it ends the program.
type LogFunc func(level LogLevel, message string)

var logFunc atomic.Pointer[LogFunc]

// SetOOMHandler sets the handler that is called before an allocation of this pool fails; nil: none. When it returns,
// the old handler may still be running elsewhere. A handler that refers to the pool keeps it from being collected: such
// a pool must be closed. A handler that panics makes the allocation fail: see PanicError.
func (p *Pool) SetOOMHandler(handler OOMHandler) error {
	c, err := p.enter()
	if err != nil {
		return err
	}
	defer c.leave()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if handler != nil {
		c.oom.Store(&handler)
		return c.askHandler()
	}
	c.oom.Store(nil)
	if c.forgotten != nil {
		return nil // the collector still helps
	}
	return check(C.bridge_set_oom_handler(c.handle, nil, 0))
}

// SetSleepHooks sets what is called before memory goes, so that registrations of it can end, and once it is there again;
// nil: nothing. If beforeRelease returns false, the sleep fails with ErrUnavailable and nothing has changed; a sleep with
// a target goes on with other blocks. If afterMap does, the wake fails although the memory is there, and the next wake
// calls it again. It is also called after a sleep that failed. When SetSleepHooks returns, old hooks may still be running
// elsewhere. Hooks that refer to the pool keep it from being collected: such a pool must be closed. Since 0.2.
func (p *Pool) SetSleepHooks(beforeRelease, afterMap SleepHook) error {
	c, err := p.enter()
	if err != nil {
		return err
	}
	defer c.leave()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.user == 0 {
		c.user = cgo.NewHandle(c)
	}
	before, after := C.gpupool_sleep_hook_fn_t(nil), C.gpupool_sleep_hook_fn_t(nil)
	if beforeRelease != nil {
		before = C.gpupool_sleep_hook_fn_t(C.bridge_before_release)
	}
	if afterMap != nil {
		after = C.gpupool_sleep_hook_fn_t(C.bridge_after_map)
	}
	if err := check(C.bridge_set_sleep_hooks(c.handle, before, after, C.uintptr_t(c.user))); err != nil {
		return err
	}
	c.hooks.Store(&sleepHooks{beforeRelease, afterMap})
	return nil
}

// askHandler makes the library call this core before an allocation fails.
func (c *core) askHandler() error {
	if c.user == 0 {
		c.user = cgo.NewHandle(c)
	}
	return check(C.bridge_set_oom_handler(c.handle, C.gpupool_oom_fn_t(C.bridge_on_oom), C.uintptr_t(c.user)))
}

// SetLog sends log lines up to level to log; nil: to standard error. Applies to the whole process. Until then
// GPUPOOL_LOG=error|warning|info|debug in the environment decides.
func SetLog(log LogFunc, level LogLevel) error {
	if log == nil {
		return check(C.bridge_set_log(nil, C.int32_t(level)))
	}
	logFunc.Store(&log)
	return check(C.bridge_set_log(C.gpupool_log_fn_t(C.bridge_on_log), C.int32_t(level)))
}

// ---- what callbacks.c calls

//export gpupoolGoOutOfMemory
func gpupoolGoOutOfMemory(user C.uintptr_t, size C.uint64_t, attempt C.uint32_t, panicked *C.uintptr_t) C.int32_t {
	defer keepPanic(panicked)
	c := coreOf(user)
	if c.forgotten != nil {
		if attempt == 1 {
			c.forgotten.collect()
			return 1
		}
		attempt-- // as the handler counts
	}
	handler := c.oom.Load()
	if handler != nil && (*handler)(uint64(size), int(attempt)) {
		return 1
	}
	return 0
}

//export gpupoolGoSleepHook
func gpupoolGoSleepHook(user C.uintptr_t, ptr C.uint64_t, isAfter C.int32_t, panicked *C.uintptr_t) C.int32_t {
	defer keepPanic(panicked)
	hooks := coreOf(user).hooks.Load()
	if hooks == nil {
		return 1
	}
	hook := hooks.before
	if isAfter != 0 {
		hook = hooks.after
	}
	if hook == nil || hook(Ptr(ptr)) {
		return 1
	}
	return 0
}

//export gpupoolGoUpstreamMalloc
func gpupoolGoUpstreamMalloc(user C.uintptr_t, size C.uint64_t, stream C.uintptr_t, panicked *C.uintptr_t) C.uint64_t {
	defer keepPanic(panicked)
	c := coreOf(user)
	ptr, err := c.upstream.Malloc(uint64(size), Stream(stream))
	if err != nil || ptr == 0 {
		return 0
	}
	c.holders.Add(1)
	return C.uint64_t(ptr)
}

//export gpupoolGoUpstreamFree
func gpupoolGoUpstreamFree(user C.uintptr_t, ptr, size C.uint64_t, stream C.uintptr_t) {
	defer endOnPanic()
	c := coreOf(user)
	c.upstream.Free(Ptr(ptr), uint64(size), Stream(stream))
	c.release()
}

//export gpupoolGoLog
func gpupoolGoLog(level C.int32_t, message *C.char) {
	defer endOnPanic()
	if log := logFunc.Load(); log != nil {
		(*log)(LogLevel(level), C.GoString(message))
	}
}

func coreOf(user C.uintptr_t) *core { return cgo.Handle(user).Value().(*core) }

// keepPanic keeps a panic from unwinding C++ frames, and stores it for the library call that asked.
func keepPanic(panicked *C.uintptr_t) {
	if reason := recover(); reason != nil {
		_ = takePanic(*panicked) // an earlier one of the same call
		*panicked = C.uintptr_t(cgo.NewHandle(&PanicError{Value: reason, Stack: debug.Stack()}))
	}
}

// takePanic returns what keepPanic stored; nil for 0.
func takePanic(kept C.uintptr_t) *PanicError {
	if kept == 0 {
		return nil
	}
	defer cgo.Handle(kept).Delete()
	return cgo.Handle(kept).Value().(*PanicError)
}

// endOnPanic is for callbacks whose panics no call could report. It keeps a panic from unwinding C++ frames, which
// would leave the library in the middle of a call.
func endOnPanic() {
	if reason := recover(); reason != nil {
		fmt.Fprintf(os.Stderr, "panic in a callback of gpupool: %v\n\n%s", reason, debug.Stack())
		os.Exit(2)
	}
}
