// SPDX-License-Identifier: Apache-2.0

// Basic is a first program: a pool, blocks that are freed in stream order, and what a refusal says.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	pool, err := gpupool.New(gpupool.WithLimit(64 << 20))
	if err != nil {
		return err
	}
	defer pool.Close()
	stream, err := pool.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()

	if err := thereAndBack(pool, stream.Stream); err != nil {
		return err
	}

	_, err = pool.Alloc(100<<20, stream.Stream)
	if !errors.Is(err, gpupool.ErrOutOfMemory) {
		return fmt.Errorf("100 MiB of 64 were not refused: %w", err)
	}
	fmt.Println(err)

	stats, err := pool.Stats()
	if err != nil {
		return err
	}
	released, err := pool.Empty()
	fmt.Printf("live now %d, live peak %d, reserved %d; given back %d\n", stats.All.AllocatedBytes.Current,
		stats.All.AllocatedBytes.Peak, stats.All.ReservedBytes.Current, released)
	return err
}

// thereAndBack sends bytes through two blocks.
func thereAndBack(pool *gpupool.Pool, stream gpupool.Stream) error {
	sent := bytes.Repeat([]byte("gpupool "), 500_000)
	a, err := pool.Alloc(uint64(len(sent)), stream)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := pool.Alloc(a.Size(), stream)
	if err != nil {
		return err
	}
	defer b.Close()

	if _, err := a.WriteAt(sent, 0); err != nil { // waits
		return err
	}
	if err := pool.Copy(b.Ptr(), a.Ptr(), a.Size(), stream); err != nil { // does not; any kernel would do
		return err
	}
	received := make([]byte, len(sent))
	if _, err := b.ReadAt(received, 0); err != nil { // waits
		return err
	}
	if !bytes.Equal(sent, received) {
		return errors.New("what came back is not what was sent")
	}
	fmt.Printf("%d bytes there and back: the same\n", len(sent))
	return nil
}
