// SPDX-License-Identifier: Apache-2.0

package gpupool

// The functions of bridge.h are not marked nocallback, which would be faster, because each may write a log line or call
// a handler, and those may be in Go.

// #cgo !gpupool_shared CFLAGS: -DGPUPOOL_STATIC -DGPUPOOL_GO_OWN_HEADER -I${SRCDIR}/internal/native
// #cgo gpupool_shared pkg-config: gpupool
import "C"

// The C library, compiled from its sources, unless the build tag gpupool_shared asks for an installed one.
import _ "github.com/gpupool/gpupool/bindings/go/internal/native"
