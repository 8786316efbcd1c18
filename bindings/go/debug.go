// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import "unsafe"

// SetDebug sets the debug modes of pools created from now on: a comma-separated list of "poison", "canary", "fence",
// "fence=SIZE", "guard", "annotate" and "quarantine=SIZE"; "": none. Overrides GPUPOOL_DEBUG in the environment. Since
// 0.2.
//
// Errors: ErrInvalidArgument, which names the unknown word.
func SetDebug(modes string) error {
	words, err := cString("modes", modes)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(words))
	return check(C.bridge_set_debug(words))
}

// Why says what is or was at an address, in any pool of this process: the block, who allocated it, who freed it, and
// its neighbours. Since 0.2.
func Why(address Ptr) (string, error) {
	for text := make([]byte, 1024); ; {
		result := C.bridge_why(C.uint64_t(address), (*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text)))
		length := uint64(result.value)
		if err := check(result); err != nil {
			return "", err
		}
		if length < uint64(len(text)) {
			return string(text[:length]), nil
		}
		text = make([]byte, length+1)
	}
}

// Check checks the bytes behind every live block of a pool in debug mode canary, and waits for the GPU to finish. It
// returns how much damage was found since the pool was created, and a description of the latest. Since 0.2.
func (p *Pool) Check() (count uint64, text string, err error) {
	words := make([]byte, 16384)
	count, err = p.inside(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_check(pool, (*C.char)(unsafe.Pointer(&words[0])), C.size_t(len(words)))
	})
	if err != nil {
		return 0, "", err
	}
	return count, C.GoString((*C.char)(unsafe.Pointer(&words[0]))), nil
}

// Protect sets what work may do with a block: with AccessRead, a write to it is a hardware fault, with AccessNone,
// every access is; AccessWrite or the free ends that. Only for blocks that share no chunk. Since 0.2.
//
// Errors: ErrUnknownPointer, ErrUnsupported, ErrDriver, ErrInvalidArgument.
func (p *Pool) Protect(ptr Ptr, access Access) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_protect(pool, C.uint64_t(ptr), C.int32_t(access))
	})
}
