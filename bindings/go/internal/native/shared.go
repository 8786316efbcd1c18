// SPDX-License-Identifier: Apache-2.0

//go:build !cgo || gpupool_shared

// Package native is empty where an installed library is used.
package native
