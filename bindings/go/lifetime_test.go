// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

// collected lets the garbage collector run until what is waited for has happened.
func collected(t *testing.T, happened func() bool) {
	t.Helper()
	for range 1000 {
		runtime.GC()
		if happened() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("it was not collected")
}

func TestClosedPool(t *testing.T) {
	pool := newPool(t)
	ptr := must(pool.Malloc(1000, 0))(t)
	block, stream := must(pool.Alloc(1000, 0))(t), must(pool.NewStream())(t)
	ok(t, pool.Close())
	for _, err := range []error{
		pool.Close(), pool.Validate(), pool.Synchronize(), pool.SetLimit(0), pool.SetFraction(1), pool.ResetPeaks(),
		pool.Reserve(1, 0), pool.RecordStream(ptr, 0), pool.ReleaseStream(0), pool.ParkStream(0),
		pool.SynchronizeStream(0),
		pool.Fill(ptr, 0, 1, 0), pool.Copy(ptr, ptr, 1, 0), pool.SetOOMHandler(nil), stream.Close(), block.Fill(0),
		block.RecordStream(0),
	} {
		fails(t, err, gpupool.ErrClosed)
	}
	_, err := pool.Stats()
	fails(t, err, gpupool.ErrClosed)
	_, err = pool.Alloc(1000, 0)
	fails(t, err, gpupool.ErrClosed)
	_, err = pool.AllocAligned(1000, 512, 0)
	fails(t, err, gpupool.ErrClosed)
	_, err = pool.Snapshot()
	fails(t, err, gpupool.ErrClosed)
	_, err = pool.Report()
	fails(t, err, gpupool.ErrClosed)
	_, err = block.WriteAt([]byte{1}, 0)
	fails(t, err, gpupool.ErrClosed)

	fails(t, pool.Free(ptr+1, 0), gpupool.ErrUnknownPointer)
	ok(t, pool.Free(ptr, 0))
	fails(t, pool.Free(ptr, 0), gpupool.ErrUnknownPointer)
	ok(t, block.Close())
	fails(t, pool.Free(ptr, 0), gpupool.ErrInvalidArgument) // with the last block, the pool has gone
}

func TestBlocksAreCollected(t *testing.T) {
	pool := newPool(t)
	for range 10 {
		_ = must(pool.Alloc(1000, 0))(t)
	}
	collected(t, func() bool { return must(pool.Stats())(t).All.AllocatedBlocks.Current == 0 })
}

func TestStreamsAreCollected(t *testing.T) {
	pool := newPool(t)
	func() {
		stream := must(pool.NewStream())(t)
		ok(t, pool.Free(must(pool.Malloc(1000, stream.Stream))(t), stream.Stream))
	}()
	collected(t, func() bool { return must(pool.Stats())(t).Streams == 0 })
}

// The collector may take a pool and its blocks in any order, and at the same time.
func TestPoolsAreCollected(t *testing.T) {
	free := func() uint64 { return must(gpupool.DeviceInfo(gpupool.BackendSim, 6))(t).FreeBytes }
	before := free()
	for range 20 {
		pool := must(gpupool.New(gpupool.WithBackend(gpupool.BackendSim), gpupool.WithDevice(6)))(t)
		for range 5 {
			_ = must(pool.Alloc(mib, 0))(t)
		}
	}
	if free() >= before {
		t.Error("nothing was taken")
	}
	collected(t, func() bool { return free() == before })
}

func TestBlockKeepsItsPool(t *testing.T) {
	block := must(must(gpupool.New(gpupool.WithBackend(gpupool.BackendSim)))(t).Alloc(1000, 0))(t)
	for range 3 {
		runtime.GC()
	}
	must(block.WriteAt([]byte("text"), 0))(t)
	ok(t, block.Close())
}

// Goroutines allocate and free each other's blocks, until the pool is closed among them.
func TestCloseAmongCalls(t *testing.T) {
	for range 20 {
		pool := newPool(t, gpupool.WithLimit(256*mib))
		blocks := make(chan *gpupool.Block, 64)
		var group sync.WaitGroup
		for range 4 {
			group.Add(1)
			go func() {
				defer group.Done()
				for i := range 2000 {
					block, err := pool.Alloc(rand.Uint64N(100_000), gpupool.Stream(0))
					if err != nil {
						if !errors.Is(err, gpupool.ErrClosed) {
							t.Error(err)
						}
						return
					}
					blocks <- block
					if err := (<-blocks).Close(); err != nil {
						t.Error(err)
					}
					if i == 1000 {
						_ = pool.Close()
					}
				}
			}()
		}
		group.Wait()
		fails(t, pool.Close(), gpupool.ErrClosed)
	}
}

func TestManyGoroutines(t *testing.T) {
	pool := newPool(t)
	var group sync.WaitGroup
	for range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			stream, err := pool.NewStream()
			if err != nil {
				t.Error(err)
				return
			}
			defer stream.Close()
			for i := range 500 {
				block, err := pool.Alloc(uint64(i)*997, stream.Stream)
				if err == nil {
					err = errors.Join(block.RecordStream(0), block.Close())
				}
				if err != nil {
					t.Error(err)
				}
			}
			if _, err := pool.Stats(); err != nil {
				t.Error(err)
			}
		}()
	}
	group.Wait()
	ok(t, pool.Synchronize())
	equal(t, must(pool.Stats())(t).All.ActiveBlocks.Current, 0)
}

// Several goroutines close the same block, and one of them has done it.
func TestOneCloseCounts(t *testing.T) {
	pool := newPool(t)
	for range 100 {
		block := must(pool.Alloc(1000, 0))(t)
		results := make(chan error, 4)
		for range cap(results) {
			go func() { results <- block.Close() }()
		}
		closed := 0
		for range cap(results) {
			if err := <-results; err == nil {
				closed++
			} else {
				fails(t, err, gpupool.ErrFreed)
			}
		}
		equal(t, closed, 1)
	}
	equal(t, must(pool.Stats())(t).All.AllocatedBlocks.TotalFreed, 100)
}
