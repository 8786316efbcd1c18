// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import (
	"strings"
	"unsafe"
)

// Export lets other processes of the same user map a block: it returns a handle, a line of text that may reach them in
// any way, whatever their language. The handle is good until the block is freed, or this process ends. Processes that
// have imported the block by then keep its memory. While a block is exported, Sleep fails with ErrUnavailable. Only on
// Linux. Since 0.2.
//
// Errors: ErrUnknownPointer, ErrUnsupported (not in vmm mode, with debug modes, or a device that does not share),
// ErrAsleep, ErrUnavailable (no more descriptors), ErrDriver.
func (p *Pool) Export(ptr Ptr) (string, error) {
	text := make([]byte, C.GPUPOOL_EXPORT_BYTES)
	err := p.do(func(pool C.uintptr_t) C.bridge_result {
		return C.bridge_export(pool, C.uint64_t(ptr), (*C.char)(unsafe.Pointer(&text[0])))
	})
	handle, _, _ := strings.Cut(string(text), "\x00")
	return handle, err
}

// Import maps a block that another process has exported, for the pool's device: the same memory, at the returned
// address, with the size that was allocated there. It is no block of this pool. Importing a handle again gives the same
// address, and needs a CloseImport of its own. Since 0.2.
//
// Errors: ErrInvalidArgument (no handle, or one of another device), ErrUnavailable (the exporter has ended or freed the
// block, or the system forbids it), ErrUnsupported, ErrDriver.
func (p *Pool) Import(handle string) (Ptr, uint64, error) {
	text := C.CString(handle)
	defer C.free(unsafe.Pointer(text))
	size := C.uint64_t(0)
	ptr, err := p.inside(func(pool C.uintptr_t) C.bridge_result { return C.bridge_import(pool, text, &size) })
	return Ptr(ptr), uint64(size), err
}

// CloseImport ends an import. The last one of a handle waits for all work of the device's context, and unmaps the
// memory. What is not closed ends with the pool. Since 0.2.
//
// Errors: ErrUnknownPointer, ErrDriver; then it is still mapped.
func (p *Pool) CloseImport(ptr Ptr) error {
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_import_close(pool, C.uint64_t(ptr)) })
}
