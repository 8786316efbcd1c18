// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import (
	"runtime"
	"time"
	"unsafe"
)

// SleepConfig says how a pool falls asleep. Zero means: save everything, and fail mallocs.
type SleepConfig struct {
	Mode SleepMode
	// Changes nothing: every sleep waits for all work of the CUDA context.
	SyncContext bool
	// Mallocs wait for Wake instead of failing with ErrAsleep.
	HoldMallocs bool
	// Sleep and SleepTag: how many bytes to give back, while the pool stays awake; 0: all, and it sleeps.
	Target uint64
}

// WakeConfig says how a pool wakes. Zero means: do not wait for memory that others hold.
type WakeConfig struct {
	Timeout time.Duration
	// Fills dropped blocks with FillByte.
	Fill     bool
	FillByte byte
	// The page-locked memory stays for the next sleep.
	RetainBackup bool
}

func (config SleepConfig) options() C.gpupool_sleep_options_t {
	var flags SleepFlag
	if config.SyncContext {
		flags |= SleepFlagSyncContext
	}
	if config.HoldMallocs {
		flags |= SleepFlagHoldMallocs
	}
	return C.bridge_sleep_options(C.int32_t(config.Mode), C.uint32_t(flags), 0, 0, C.uint64_t(config.Target))
}

func (config WakeConfig) options() C.gpupool_sleep_options_t {
	var flags SleepFlag
	fill := C.uint32_t(0)
	if config.Fill {
		flags |= SleepFlagFill
		fill = C.uint32_t(config.FillByte)
	}
	if config.RetainBackup {
		flags |= SleepFlagRetainBackup
	}
	return C.bridge_sleep_options(0, C.uint32_t(flags), fill, C.uint64_t(max(config.Timeout, 0)), 0)
}

func emptyResult() SleepResult {
	return SleepResult{structSize: uint32(unsafe.Sizeof(SleepResult{}))}
}

// Sleep gives all memory back to the device and keeps the blocks: their addresses stay reserved, and nothing may use
// them until Wake. It does nothing to a pool that already sleeps. Since 0.2.
//
// Errors: ErrUnavailable (a stream captures), ErrHostOutOfMemory, ErrUnsupported (not in vmm mode), ErrDriver,
// ErrForked; then the pool is awake, and nothing has changed.
//
// With a Target the pool stays awake. What it has cached goes, and then whole blocks: those without SetKeep first if
// contents are dropped, and the idlest of them first. Nothing may use the blocks that were there before until it returns,
// and from then on those that BlockInfo calls asleep. If there is less, all there is goes, and ReleasedBytes says how
// much. After ErrDriver, blocks that went before stay asleep.
func (p *Pool) Sleep(config SleepConfig) (SleepResult, error) {
	result := emptyResult()
	err := p.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_sleep(pool, config.options(), unsafe.Pointer(&result))
	})
	return result, err
}

// Wake maps memory at the same addresses again, with what was saved. It does nothing to a pool that is awake. Since
// 0.2.
//
// Errors: ErrOutOfMemory, ErrOverLimit, ErrDriver, ErrForked; then the pool stays asleep, whole.
func (p *Pool) Wake(config WakeConfig) (SleepResult, error) {
	result := emptyResult()
	err := p.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_wake(pool, config.options(), unsafe.Pointer(&result))
	})
	return result, err
}

// AllowSleep lets others that are short have the pool put to sleep, as Sleep would, until the next Wake: other pools of this
// process, and neighbours of the group. Use none of its memory before that. Wake is cheap if nobody was short. Since 0.2.
//
// Errors: ErrUnsupported (not in vmm mode), ErrForked.
func (p *Pool) AllowSleep(config SleepConfig) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_allow_sleep(pool, config.options())
	})
}

// SleepBlock gives back the chunks that lie wholly inside one block; the pool stays awake, and mallocs, frees and graphs
// of other blocks go on. Nothing may use the block until WakeBlock. ReleasedBytes is 0 if no chunk lies inside; the
// result's Pools stays 0, and HoldMallocs does nothing. Since 0.2.
//
// Errors: as Sleep, and ErrUnknownPointer; then the block is awake, and nothing has changed.
func (p *Pool) SleepBlock(ptr Ptr, config SleepConfig) (SleepResult, error) {
	result := emptyResult()
	err := p.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_sleep_block(pool, C.uint64_t(ptr), config.options(), unsafe.Pointer(&result))
	})
	return result, err
}

// WakeBlock brings back one block, which sleeps alone or with its pool. In a sleeping pool it comes ahead of Wake, which
// brings the rest: a program can use the first of many gibibytes while a goroutine wakes the others. There, until Wake,
// mallocs stay refused, graphs must not run, and Sleep fails with ErrUnavailable. The result's Pools stays 0. Since
// 0.2.
//
// Errors: as Wake, and ErrUnknownPointer; then the block and all others are as before.
func (p *Pool) WakeBlock(ptr Ptr, config WakeConfig) (SleepResult, error) {
	result := emptyResult()
	err := p.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_wake_block(pool, C.uint64_t(ptr), config.options(), unsafe.Pointer(&result))
	})
	return result, err
}

// SleepTag is Sleep for every pool of this process that has the name tag; "": any name. All of them, or none. A Target is
// for all of them together: pools of the lowest priority first, then the idlest. Since 0.2.
func SleepTag(tag string, config SleepConfig) (SleepResult, error) {
	return withTag(tag, func(text *C.char, result unsafe.Pointer) C.bridge_result {
		return C.bridge_sleep_tag(text, config.options(), result)
	})
}

// WakeTag is Wake for every pool of this process that has the name tag; "": any name. All of them, or none. Since 0.2.
func WakeTag(tag string, config WakeConfig) (SleepResult, error) {
	return withTag(tag, func(text *C.char, result unsafe.Pointer) C.bridge_result {
		return C.bridge_wake_tag(text, config.options(), result)
	})
}

func withTag(tag string, call func(text *C.char, result unsafe.Pointer) C.bridge_result) (SleepResult, error) {
	result := emptyResult()
	var text *C.char
	if tag != "" {
		text = C.CString(tag)
		defer C.free(unsafe.Pointer(text))
	}
	err := check(call(text, unsafe.Pointer(&result)))
	runtime.KeepAlive(&result)
	return result, err
}

// SleepState says whether the pool is awake. Since 0.2.
func (p *Pool) SleepState() (SleepState, error) {
	state, err := p.inside(func(pool C.uintptr_t) C.bridge_result { return C.bridge_sleep_state(pool) })
	return SleepState(state), err
}

// SetName names the pool, for SleepTag and for messages: at most 63 bytes. Since 0.2.
func (p *Pool) SetName(name string) error {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_set_name(pool, text) })
}

// Name returns the name that SetName gave. Since 0.2.
func (p *Pool) Name() (string, error) {
	text := make([]byte, 64)
	length, err := p.inside(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_name(pool, (*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text)))
	})
	return string(text[:length]), err
}

// SetKeep sets whether even a sleep that drops saves the block. Since 0.2.
func (p *Pool) SetKeep(ptr Ptr, keep bool) error {
	number := C.int32_t(0)
	if keep {
		number = 1
	}
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_set_keep(pool, C.uint64_t(ptr), number) })
}

// PrepareBackup gets page-locked host memory ahead of the first sleep, and keeps it; 0 gives it back. Since 0.2.
func (p *Pool) PrepareBackup(bytes uint64) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_prepare_backup(pool, C.uint64_t(bytes)) })
}

// ReadBackup fills the slice with what was saved of a sleeping block, from ptr on, which may point anywhere inside it. The
// block may be freed or woken meanwhile: then it fails. Since 0.2.
//
// Errors: ErrUnknownPointer, ErrUnavailable (some of it is not asleep, or was dropped), ErrInvalidArgument (the block ends
// earlier).
func (p *Pool) ReadBackup(ptr Ptr, to []byte) error {
	if len(to) == 0 {
		return nil
	}
	return p.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_read_backup(pool, C.uint64_t(ptr), unsafe.Pointer(&to[0]), C.uint64_t(len(to)))
	})
}
