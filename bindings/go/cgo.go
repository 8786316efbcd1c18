// SPDX-License-Identifier: Apache-2.0

package gpupool

// The functions of bridge.h are not marked nocallback, which would be faster, because each of them may write a line of
// the log or ask a handler, and those may be Go's.

// #cgo pkg-config: gpupool
import "C"
