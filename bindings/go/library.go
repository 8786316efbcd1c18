// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"
)

// Version returns the version of the loaded library: major * 10000 + minor * 100 + patch.
func Version() int { return int(C.gpupool_version()) }

// VersionString returns the version in words, such as "0.1.0".
func VersionString() string { return C.GoString(C.gpupool_version_string()) }

// Features tells what this build of the library can do. The first call may load the CUDA driver.
func Features() Feature { return Feature(C.gpupool_features()) }

// checkVersion refuses a library whose version differs from the header that this package was built with, because
// structs may differ.
var checkVersion = sync.OnceValue(func() error {
	const built = C.GPUPOOL_VERSION
	if Version()/100 == built/100 {
		return nil
	}
	return &Error{
		Status: ErrUnsupported,
		Message: fmt.Sprintf("the loaded libgpupool has version %s, and this program was built for %d.%d: install that "+
			"version, or build the program again", VersionString(), built/10000, built/100%100),
	}
})

// ParseSize reads a size as people write it. "4096", "512KiB", "1.5 GiB" and "2g" count in powers of 1,024, "8GB" in
// powers of 1,000; these are bytes. "40%" is a share, 0.4, for WithFraction or SetFraction. The other result is 0.
// Since 0.2.
//
// Errors: ErrInvalidArgument (anything else, zero included).
func ParseSize(text string) (bytes uint64, share float64, err error) {
	words, err := cString("size", text)
	if err != nil {
		return 0, 0, err
	}
	defer C.free(unsafe.Pointer(words))
	size := C.bridge_parse_size(words)
	if err := check(size.bytes); err != nil {
		return 0, 0, err
	}
	return uint64(size.bytes.value), float64(size.share), nil
}

// ParseDevice reads a device as people write it: "cuda", "cuda:1", "sim", "sim:3", "auto", or a number alone, which
// leaves the backend to BackendAuto. It does not ask whether the device is there.
// Since 0.2.
//
// Errors: ErrInvalidArgument (anything else).
func ParseDevice(text string) (backend Backend, number int, err error) {
	words, err := cString("device", text)
	if err != nil {
		return 0, 0, err
	}
	defer C.free(unsafe.Pointer(words))
	device := C.bridge_parse_device(words)
	if err := check(device.number); err != nil {
		return 0, 0, err
	}
	return Backend(device.backend), int(device.number.value), nil
}

// cString copies text for C; the caller frees it. It refuses a zero, because C would not see what comes after it.
func cString(what, text string) (*C.char, error) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, refuse("%s is %q, with a zero inside", what, text)
	}
	return C.CString(text), nil
}
