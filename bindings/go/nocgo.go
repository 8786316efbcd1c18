// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

package gpupool

// Refused by the compiler, which prints these words.
const _ int = "gpupool needs cgo: set CGO_ENABLED=1 and have a C compiler in the PATH"
