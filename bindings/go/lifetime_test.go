// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
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
		pool.SetLimitTo("1GiB"), pool.Reserve(1, 0), pool.RecordStream(ptr, 0), pool.ReleaseStream(0), pool.ParkStream(0),
		pool.SynchronizeStream(0), pool.EnablePeer(1), pool.ReleaseCapture(1), pool.AnnounceCapture(true),
		pool.Fill(ptr, 0, 1, 0), pool.Copy(ptr, ptr, 1, 0), pool.SetOOMHandler(nil), stream.Synchronize(),
		second(pool.Stats()), second(pool.Alloc(1000, 0)), second(pool.AllocAligned(1000, 512, 0)),
		second(pool.Snapshot()), second(pool.Report()), second(pool.NewStream()), second(pool.DeviceInfo()),
		second(pool.CaptureID(0)),
	} {
		fails(t, err, gpupool.ErrClosed)
		says(t, err, "the pool is closed")
	}
	fails(t, stream.Close(), gpupool.ErrClosed)
	says(t, stream.Close(), "the stream is closed")

	fails(t, pool.Free(ptr+1, 0), gpupool.ErrUnknownPointer)
	ok(t, pool.Free(ptr, 0))
	fails(t, pool.Free(ptr, 0), gpupool.ErrUnknownPointer)
	ok(t, block.Close())
	fails(t, pool.Free(ptr, 0), gpupool.ErrInvalidArgument) // with the last block, the pool has gone
}

// second is the error of a call with a result.
func second[T any](_ T, err error) error { return err }

// Blocks outlive their pool, with their content, and streams that blocks were made for go with the last of them.
func TestBlocksOfAClosedPool(t *testing.T) {
	free := func() uint64 { return must(gpupool.DeviceInfo(gpupool.BackendSim, 6))(t).FreeBytes }
	before := free()
	pool := must(gpupool.New(gpupool.WithDevice("sim:6")))(t)
	stream := must(pool.NewStream())(t)
	block, other := must(pool.Alloc(mib, stream.Stream))(t), must(pool.Alloc(mib, 0))(t)
	must(block.WriteAt([]byte("text"), 8))(t)
	ok(t, pool.Close())
	_, err := pool.Alloc(1, 0)
	fails(t, err, gpupool.ErrClosed)

	text := make([]byte, 4)
	equal(t, must(block.ReadAt(text, 8))(t), 4)
	equal(t, string(text), "text")
	ok(t, other.Fill('x'))
	ok(t, block.RecordStream(0))
	ok(t, other.Close())
	equal(t, must(block.WriteAt(text, 0))(t), 4)
	ok(t, block.Close())
	fails(t, block.Fill(1), gpupool.ErrFreed)
	equal(t, free(), before)
	fails(t, gpupool.SimWork(6, stream.Stream, 0, 0, 1), gpupool.ErrDriver) // the stream has gone
}

func TestPoolTakesItsStreamsAlong(t *testing.T) {
	pool := newPool(t, gpupool.WithDevice(6))
	stream, closed := must(pool.NewStream())(t), must(pool.NewStream())(t)
	ok(t, closed.Close())
	ok(t, gpupool.SimWork(6, stream.Stream, 0, 0, 1))
	ok(t, pool.Close())
	fails(t, gpupool.SimWork(6, stream.Stream, 0, 0, 1), gpupool.ErrDriver)
	fails(t, stream.Close(), gpupool.ErrClosed)
}

// A nil or zero value is as good as one that was closed.
func TestNilAndZeroValues(t *testing.T) {
	for _, pool := range []*gpupool.Pool{nil, {}} {
		for _, err := range []error{
			second(pool.Alloc(1, 0)), second(pool.AllocAligned(1, 1, 0)), second(pool.Malloc(1, 0)), pool.Free(512, 0),
			second(pool.NewStream()), second(pool.Stats()), second(pool.DeviceInfo()), pool.SetOOMHandler(nil),
			pool.Synchronize(), pool.SetLimit(1),
		} {
			fails(t, err, gpupool.ErrClosed)
			says(t, err, "the pool is nil or a zero value")
		}
		ok(t, pool.Close())
		equal(t, pool.Handle(), nil)
		equal(t, pool.String(), "no pool")
	}
	for _, block := range []*gpupool.Block{nil, {}} {
		for _, err := range []error{
			block.Fill(1), block.RecordStream(0), second(block.WriteAt(nil, 0)), second(block.ReadAt(nil, 0)),
			second(block.Release()),
		} {
			fails(t, err, gpupool.ErrClosed)
			says(t, err, "the block is nil or a zero value")
		}
		ok(t, block.Close())
		ok(t, block.CloseOn(gpupool.StreamUnknown))
		equal(t, block.Ptr(), 0)
		equal(t, block.Size(), 0)
		equal(t, block.Stream(), 0)
		equal(t, block.String(), "no block")
	}
	for _, stream := range []*gpupool.OwnedStream{nil, {}} {
		ok(t, stream.Close())
		says(t, stream.Synchronize(), "the stream is nil or a zero value")
	}
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
		streams := []*gpupool.OwnedStream{must(pool.NewStream())(t), must(pool.NewStream())(t)}
		blocks := make(chan *gpupool.Block, 64)
		var group sync.WaitGroup
		for n := range 4 {
			group.Add(1)
			go func() {
				defer group.Done()
				for i := range 2000 {
					block, err := pool.Alloc(rand.Uint64N(100_000), streams[n%2].Stream)
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

// Blocks that nobody can reach any more make room before an allocation fails, without waiting for the collector.
func TestGCBeforeOOM(t *testing.T) {
	pool := newPool(t, gpupool.WithLimit(64*mib), gpupool.WithGCBeforeOOM())
	for range 10 * 64 {
		_ = must(pool.Alloc(mib, 0))(t)
	}
	if calls := must(pool.Stats())(t).OOMHandlerCalls; calls < 1 || calls > 12 {
		t.Errorf("the collector was asked %d times", calls)
	}

	// What is reachable stays; then the program's own handler is asked, which counts from 1, and then it fails.
	var attempts []int
	ok(t, pool.SetOOMHandler(func(_ uint64, attempt int) bool {
		attempts = append(attempts, attempt)
		return attempt == 1
	}))
	kept := must(pool.Alloc(32*mib, 0))(t)
	_, err := pool.Alloc(33*mib, 0)
	fails(t, err, gpupool.ErrOverLimit)
	if !slices.Equal(attempts, []int{1, 2}) {
		t.Error(attempts)
	}
	ok(t, pool.SetOOMHandler(nil))
	for range 2 * 32 {
		_ = must(pool.Alloc(mib, 0))(t)
	}
	ok(t, kept.Close())
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
