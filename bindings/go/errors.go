// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed says that the pool or the stream was closed before.
	ErrClosed = errors.New("gpupool: it is closed")
	// ErrFreed says that the block was freed before, or released.
	ErrFreed = errors.New("gpupool: the block is freed")
)

// Error is a call that the library refused.
type Error struct {
	// What the call came to.
	Status Status
	// The driver's own number, or 0.
	DriverCode int
	// Why, in words. When memory ran out, it explains where the memory is.
	Message string
}

func (e *Error) Error() string {
	return fmt.Sprintf("gpupool: %s: %s", e.Status.String(), e.Message)
}

// Is makes errors.Is find the status. Being over a pool's limit is also a way of being out of memory.
func (e *Error) Is(target error) bool {
	return target == e.Status || target == ErrOutOfMemory && e.Status == ErrOverLimit
}

// String gives the name that the status has in C, such as GPUPOOL_ERROR_OVER_LIMIT.
func (s Status) String() string {
	if name, ok := statusNames[s]; ok {
		return name
	}
	return nameInC(s) // a later library may know it
}

func nameInC(s Status) string { return C.GoString(C.gpupool_status_name(C.gpupool_status_t(s))) }

// Error is there so that a status can be a target of errors.Is.
func (s Status) Error() string { return "gpupool: " + s.String() }

// check turns what a call came to into an error.
func check(result C.bridge_result) error {
	if result.details == nil {
		return nil
	}
	return failure(result.details)
}

func failure(details *C.gpupool_error_t) error {
	defer C.bridge_drop(details)
	return &Error{
		Status:     Status(details.status),
		DriverCode: int(details.driver_code),
		Message:    C.GoString(&details.message[0]),
	}
}

// refuse is the error for what does not get as far as the library.
func refuse(format string, arguments ...any) error {
	return &Error{Status: ErrInvalidArgument, Message: fmt.Sprintf(format, arguments...)}
}
