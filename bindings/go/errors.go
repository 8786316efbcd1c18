// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
)

var (
	// ErrClosed says that the pool, stream or block is closed, or is a nil or zero value. The error's message says which;
	// errors.Is finds it.
	ErrClosed = errors.New("gpupool: what was used is closed")
	// ErrFreed says that the block is already freed or released.
	ErrFreed = errors.New("gpupool: the block is freed")
)

// closedError is an ErrClosed that says what is closed.
type closedError string

const (
	errPoolClosed   closedError = "the pool is closed"
	errStreamClosed closedError = "the stream is closed"
	errNoPool       closedError = "the pool is nil or a zero value, as good as closed; New makes pools"
	errNoStream     closedError = "the stream is nil or a zero value, as good as closed; Pool.NewStream makes streams"
	errNoBlock      closedError = "the block is nil or a zero value, as good as closed; Pool.Alloc makes blocks"
)

func (e closedError) Error() string { return "gpupool: " + string(e) }

func (e closedError) Is(target error) bool { return target == ErrClosed }

// PanicError is a panic in an OOMHandler, a SleepHook, or Malloc of an Upstream. The call that asked returns an Error
// that wraps it: errors.As finds it, and if the panic's value is an error, errors.Is finds that. Since 0.2.
type PanicError struct {
	// The value that the function panicked with.
	Value any
	// The stack, from debug.Stack.
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("a callback panicked: %v", e.Value) }

// Unwrap is the panic's value if that is an error.
func (e *PanicError) Unwrap() error {
	cause, _ := e.Value.(error)
	return cause
}

// Error is the error of a call that the library refused.
type Error struct {
	// The call's status.
	Status Status
	// The driver's own number, or 0.
	DriverCode int
	// The reason. If memory ran out, it explains where the memory is.
	Message string

	panicked *PanicError
}

func (e *Error) Error() string {
	text := fmt.Sprintf("gpupool: %s: %s", e.Status.String(), e.Message)
	if e.panicked != nil {
		text += "; " + e.panicked.Error()
	}
	return text
}

// Unwrap is a PanicError if a callback panicked during the call, else nil.
func (e *Error) Unwrap() error {
	if e.panicked == nil {
		return nil
	}
	return e.panicked
}

// Is makes errors.Is find the status. Over a pool's limit counts as out of memory too.
func (e *Error) Is(target error) bool {
	return target == e.Status || target == ErrOutOfMemory && e.Status == ErrOverLimit
}

// String returns the C name of the status, such as GPUPOOL_ERROR_OVER_LIMIT.
func (s Status) String() string {
	if name, ok := statusNames[s]; ok {
		return name
	}
	return nameInC(s) // a later library may know more
}

func nameInC(s Status) string { return C.GoString(C.gpupool_status_name(C.gpupool_status_t(s))) }

// Error makes a status usable as a target of errors.Is.
func (s Status) Error() string { return "gpupool: " + s.String() }

// check turns a call's status into an error.
func check(result C.bridge_result) error {
	if result.failed == nil {
		return nil
	}
	return failure(result.failed)
}

func failure(failed *C.bridge_failure) error {
	defer C.bridge_drop(failed)
	panicked := takePanic(failed.panic)
	if failed.details.status == C.GPUPOOL_SUCCESS {
		// The pool found memory elsewhere, or put other blocks to sleep, so no error could report the panic.
		fmt.Fprintf(os.Stderr, "gpupool: %v\n\n%s", panicked, panicked.Stack)
		return nil
	}
	return &Error{
		Status:     Status(failed.details.status),
		DriverCode: int(failed.details.driver_code),
		Message:    C.GoString(&failed.details.message[0]),
		panicked:   panicked,
	}
}

// refuse is the error for calls that do not reach the library.
func refuse(format string, arguments ...any) error {
	return &Error{Status: ErrInvalidArgument, Message: fmt.Sprintf(format, arguments...)}
}
