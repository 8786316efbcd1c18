// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import (
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"unsafe"
)

// ownPackage is what the names of this package's functions begin with.
var ownPackage = reflect.TypeFor[Pool]().PkgPath() + "."

// Native frames end where Go calls C, so the library asks here for the others.
func init() { C.bridge_name_frames() }

// isBelow tells whether a frame is between the program and the library: this package's own, and what the call into C
// and back consists of.
func isBelow(function string) bool {
	for _, begin := range []string{ownPackage, "runtime.", "_cgoexp_"} {
		if strings.HasPrefix(function, begin) {
			return true
		}
	}
	return false
}

// gpupoolGoStack writes a line for each frame of the goroutine, innermost first, as gpupool_stack_fn_t describes.
//
//export gpupoolGoStack
func gpupoolGoStack(text *C.char, capacity C.size_t) C.size_t {
	defer endOnPanic()
	var counters [64]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(1, counters[:])])
	room := unsafe.Slice((*byte)(unsafe.Pointer(text)), int(capacity))[:0]
	isInside := true
	for {
		frame, more := frames.Next()
		isInside = isInside && isBelow(frame.Function)
		if !isInside && frame.Function != "runtime.main" && frame.Function != "runtime.goexit" {
			// The line's number has at most 20 digits.
			if len(room)+len(frame.Function)+len(frame.File)+len(" (:)\n")+20 > cap(room) {
				break
			}
			room = append(append(append(room, frame.Function...), " ("...), frame.File...)
			room = append(strconv.AppendInt(append(room, ':'), int64(frame.Line), 10), ")\n"...)
		}
		if !more {
			break
		}
	}
	return C.size_t(len(room))
}
