// SPDX-License-Identifier: Apache-2.0

// libtorch on a pool, in Go. The library comes from `python -m gpupool.libtorch /opt/libtorch`:
//
//	CGO_LDFLAGS="-L. -lgpupool_libtorch" go run main.go
package main

// int gpupool_torch_install(void);
import "C"

import (
	"fmt"
	"os"
)

func main() {
	// Before the first tensor on a GPU.
	if C.gpupool_torch_install() != 0 {
		fmt.Fprintln(os.Stderr, "PyTorch has an allocator in use already")
		os.Exit(1)
	}
	fmt.Println("gpupool")
}
