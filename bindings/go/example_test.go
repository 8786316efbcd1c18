// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"errors"
	"fmt"
	"log"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

// The examples run anywhere, so they ask for the simulated device.
var onSim = gpupool.WithBackend(gpupool.BackendSim)

func Example() {
	pool, err := gpupool.New(onSim, gpupool.WithFraction(0.9))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	block, err := pool.Alloc(1000, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer block.Close()
	if _, err := block.WriteAt([]byte("hello, device"), 0); err != nil {
		log.Fatal(err)
	}
	text := make([]byte, 5)
	if _, err := block.ReadAt(text, 0); err != nil {
		log.Fatal(err)
	}

	stats, err := pool.Stats()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: asked for %d bytes, got %d\n", text, stats.All.RequestedBytes.Current,
		stats.All.AllocatedBytes.Current)
	// Output: hello: asked for 1000 bytes, got 1024
}

// Addresses that nobody looks after cost least.
func ExamplePool_Malloc() {
	pool, err := gpupool.New(onSim)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	stream, err := pool.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	ptr, err := pool.Malloc(1<<20, stream.Stream)
	if err != nil {
		log.Fatal(err)
	}
	// ... queue work that uses ptr on the stream ...
	fmt.Println(pool.Free(ptr, stream.Stream))
	fmt.Println(errors.Is(pool.Free(ptr, stream.Stream), gpupool.ErrUnknownPointer))
	// Output:
	// <nil>
	// true
}

// A program's own cache makes room before an allocation fails.
func ExamplePool_SetOOMHandler() {
	pool, err := gpupool.New(onSim, gpupool.WithLimit(64<<20))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	cached, err := pool.Alloc(48<<20, 0)
	if err != nil {
		log.Fatal(err)
	}
	err = pool.SetOOMHandler(func(size uint64, attempt int) bool {
		fmt.Printf("%d bytes are wanted\n", size)
		return attempt == 1 && cached.Close() == nil
	})
	if err != nil {
		log.Fatal(err)
	}
	block, err := pool.Alloc(32<<20, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer block.Close()
	_, err = pool.Alloc(48<<20, 0)
	fmt.Println(errors.Is(err, gpupool.ErrOutOfMemory))
	// Output:
	// 33554432 bytes are wanted
	// 50331648 bytes are wanted
	// true
}
