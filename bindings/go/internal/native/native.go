// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !gpupool_shared

// Package native is the C library, compiled from its sources and linked into the program. In a checkout they are those in
// src; a release has them in this folder.
package native

// #cgo CXXFLAGS: -std=c++20 -O2 -DNDEBUG -DGPUPOOL_STATIC -fvisibility=hidden
// #cgo CXXFLAGS: -I${SRCDIR}/../../../../src -I${SRCDIR}/../../../../include
// #cgo linux LDFLAGS: -ldl -lm -lpthread
import "C"
