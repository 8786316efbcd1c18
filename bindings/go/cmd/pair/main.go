// SPDX-License-Identifier: Apache-2.0

// Pair measures a cached Malloc and Free on one goroutine, beside what `gpupool bench` says of C, and the same for a
// Block, which costs the garbage collector's part as well. One line of JSON, nanoseconds a pair.
package main

import (
	"encoding/json"
	"log"
	"os"
	"slices"
	"time"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

const (
	rounds = 15
	pairs  = 100_000
)

// median of the nanoseconds that one of the pairs takes, over all rounds but the first.
func median(play func() error) float64 {
	times := make([]float64, 0, rounds+1)
	for range rounds + 1 {
		start := time.Now()
		if err := play(); err != nil {
			log.Fatal(err)
		}
		times = append(times, float64(time.Since(start).Nanoseconds())/pairs)
	}
	times = times[1:]
	slices.Sort(times)
	return times[len(times)/2]
}

func raw(pool *gpupool.Pool, size uint64) error {
	for range pairs {
		ptr, err := pool.Malloc(size, 0)
		if err != nil {
			return err
		}
		if err := pool.Free(ptr, 0); err != nil {
			return err
		}
	}
	return nil
}

func blocks(pool *gpupool.Pool, size uint64) error {
	for range pairs {
		block, err := pool.Alloc(size, 0)
		if err != nil {
			return err
		}
		if err := block.Close(); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := gpupool.SimConfigure(0, gpupool.SimConfig{WithoutData: true}); err != nil {
		log.Fatal(err)
	}
	pool, err := gpupool.New(gpupool.WithBackend(gpupool.BackendSim))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	_ = json.NewEncoder(os.Stdout).Encode(struct {
		Language string  `json:"language"`
		Pair4K   float64 `json:"pair_ns_4k"`
		Pair1M   float64 `json:"pair_ns_1m"`
		Block1M  float64 `json:"block_ns_1m"`
	}{
		"go",
		median(func() error { return raw(pool, 4<<10) }),
		median(func() error { return raw(pool, 1<<20) }),
		median(func() error { return blocks(pool, 1<<20) }),
	})
}
