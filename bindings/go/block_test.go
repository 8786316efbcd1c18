// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"bytes"
	"io"
	"math"
	"testing"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

func TestBlock(t *testing.T) {
	pool := newPool(t)
	stream := must(pool.NewStream())(t)
	block := must(pool.AllocAligned(1000, 4096, stream.Stream))(t)
	equal(t, block.Ptr()%4096, 0)
	equal(t, block.Size(), 1000)
	equal(t, block.Stream(), stream.Stream)
	ok(t, block.RecordStream(0))
	ok(t, block.CloseOn(gpupool.StreamUnknown))
	equal(t, must(pool.Stats())(t).All.AllocatedBlocks.Current, 0)
	ok(t, stream.Close())
}

func TestFreedBlock(t *testing.T) {
	pool := newPool(t)
	block := must(pool.Alloc(1000, 0))(t)
	ok(t, block.Close())
	fails(t, block.Close(), gpupool.ErrFreed)
	fails(t, block.RecordStream(0), gpupool.ErrFreed)
	fails(t, block.Fill(1), gpupool.ErrFreed)
	_, err := block.WriteAt([]byte{1}, 0)
	fails(t, err, gpupool.ErrFreed)
	_, err = block.ReadAt([]byte{1}, 0)
	fails(t, err, gpupool.ErrFreed)
	_, err = block.Release()
	fails(t, err, gpupool.ErrFreed)
	equal(t, must(pool.Stats())(t).All.AllocatedBlocks.TotalFreed, 1)
}

func TestRelease(t *testing.T) {
	pool := newPool(t)
	block := must(pool.Alloc(1000, 0))(t)
	ptr := must(block.Release())(t)
	fails(t, block.Close(), gpupool.ErrFreed)
	ok(t, pool.Free(ptr, 0))
}

func TestCopies(t *testing.T) {
	pool := newPool(t)
	block := must(pool.Alloc(10000, 0))(t)
	defer block.Close()
	data := bytes.Repeat([]byte("gpupool "), 1250)
	equal(t, must(block.WriteAt(data, 0))(t), 10000)
	found := make([]byte, 10000)
	equal(t, must(block.ReadAt(found, 0))(t), 10000)
	if !bytes.Equal(found, data) {
		t.Error("what is read is not what was written")
	}
	equal(t, must(block.WriteAt([]byte("XY"), 9998))(t), 2)
	text := must(io.ReadAll(io.NewSectionReader(block, 9992, math.MaxInt64-9992)))(t)
	equal(t, string(text), "gpupooXY")

	ok(t, block.Fill('z'))
	equal(t, must(block.ReadAt(found, 0))(t), 10000)
	if !bytes.Equal(found, bytes.Repeat([]byte("z"), 10000)) {
		t.Error("it is not filled")
	}

	other := must(pool.Alloc(10000, 0))(t)
	ok(t, pool.Fill(other.Ptr(), 'a', 10000, 0))
	ok(t, pool.Copy(other.Ptr()+5000, block.Ptr(), 5000, 0))
	equal(t, must(other.ReadAt(found[:2], 4999))(t), 2)
	equal(t, string(found[:2]), "az")
	ok(t, other.Close())
}

func TestCopiesThatDoNotFit(t *testing.T) {
	pool := newPool(t)
	block := must(pool.Alloc(1000, 0))(t)
	defer block.Close()
	for _, c := range []struct {
		length, offset, copied int
		err                    error
	}{
		{1001, 0, 0, io.ErrShortWrite},
		{1, 1000, 0, io.ErrShortWrite},
		{1, math.MaxInt64, 0, io.ErrShortWrite},
		{1, -1, 0, gpupool.ErrInvalidArgument},
	} {
		n, err := block.WriteAt(make([]byte, c.length), int64(c.offset))
		equal(t, n, c.copied)
		fails(t, err, c.err)
	}
	for _, c := range []struct {
		length, offset, copied int
		err                    error
	}{
		{1001, 0, 1000, io.EOF},
		{500, 600, 400, io.EOF},
		{1, 1000, 0, io.EOF},
		{1, math.MaxInt64, 0, io.EOF},
		{1, -1, 0, gpupool.ErrInvalidArgument},
	} {
		n, err := block.ReadAt(make([]byte, c.length), int64(c.offset))
		equal(t, n, c.copied)
		fails(t, err, c.err)
	}
	equal(t, must(block.ReadAt(nil, 0))(t), 0)
	equal(t, must(block.WriteAt(nil, 1000))(t), 0)
}

func TestBlockOfNoBytes(t *testing.T) {
	pool := newPool(t)
	block := must(pool.Alloc(0, 0))(t)
	equal(t, block.Ptr(), 0)
	ok(t, block.Fill(1))
	_, err := block.ReadAt(make([]byte, 1), 0)
	fails(t, err, io.EOF)
	ok(t, block.Close())
	fails(t, block.Close(), gpupool.ErrFreed)
}

func TestDeviceWithoutData(t *testing.T) {
	configure(t, 1, gpupool.SimConfig{WithoutData: true})
	block := must(newPool(t, gpupool.WithDevice(1)).Alloc(1000, 0))(t)
	_, err := block.WriteAt([]byte("text"), 0)
	fails(t, err, gpupool.ErrUnsupported)
	ok(t, block.Close())
}

func TestStreams(t *testing.T) {
	pool := newPool(t, gpupool.WithDevice(5))
	mine, other := must(pool.NewStream())(t), must(pool.NewStream())(t)
	block := must(pool.Alloc(4*mib, mine.Stream))(t)
	ok(t, gpupool.SimWork(5, other.Stream, block.Ptr(), block.Size(), 1e6))
	ok(t, block.RecordStream(other.Stream))
	ok(t, block.Close())
	stats := must(pool.Stats())(t)
	equal(t, stats.All.AllocatedBytes.Current, 0)
	equal(t, stats.All.ActiveBytes.Current, 4*mib)
	ok(t, gpupool.SimAdvance(5, 2e6))
	ok(t, pool.Synchronize())
	equal(t, must(pool.Stats())(t).All.ActiveBytes.Current, 0)
	ok(t, other.Synchronize())
	ok(t, pool.ParkStream(other.Stream))
	ok(t, must(pool.Alloc(4*mib, other.Stream))(t).Close())
	ok(t, pool.ReleaseStream(other.Stream))
	ok(t, other.Close())
	fails(t, other.Close(), gpupool.ErrClosed)
	fails(t, other.Synchronize(), gpupool.ErrClosed)

	ok(t, gpupool.SimCapture(5, mine.Stream, true))
	ok(t, gpupool.SimCapture(5, mine.Stream, false))
	before, _, err := gpupool.SimFaults(5)
	ok(t, err)
	fails(t, gpupool.SimWork(5, mine.Stream, 4096, 1, 1), gpupool.ErrDriver)
	after, last, err := gpupool.SimFaults(5)
	ok(t, err)
	equal(t, after, before+1)
	if last == "" {
		t.Error("the fault is not described")
	}
	ok(t, mine.Close())
}

func TestWritesThatDoNotFitSayWhy(t *testing.T) {
	block := must(newPool(t).Alloc(10, 0))(t)
	defer block.Close()
	_, err := block.WriteAt([]byte("text"), 8)
	fails(t, err, io.ErrShortWrite)
	says(t, err, "4 bytes at 8 are not inside a block of 10 bytes")
	_, err = block.ReadAt([]byte("text"), -3)
	says(t, err, "-3 is negative")
}

// A block that is closed while another goroutine copies to it is freed when that has left: its memory must not be
// another block's by then.
func TestCloseAmongCopies(t *testing.T) {
	pool := newPool(t)
	data := make([]byte, 64<<10)
	for range 300 {
		block := must(pool.Alloc(uint64(len(data)), 0))(t)
		started, done := make(chan bool, 1), make(chan error)
		go func() {
			for {
				if _, err := block.WriteAt(data, 0); err != nil {
					done <- err
					return
				}
				select {
				case started <- true:
				default:
				}
			}
		}()
		<-started
		ok(t, block.Close())
		_ = must(pool.Empty())(t)
		fails(t, <-done, gpupool.ErrFreed)
	}
	equal(t, must(pool.Stats())(t).All.AllocatedBlocks.Current, 0)
}

// What was made for a stream stays usable when that is closed.
func TestBlocksOfAClosedStream(t *testing.T) {
	pool := newPool(t, gpupool.WithDevice(5))
	stream := must(pool.NewStream())(t)
	block := must(pool.Alloc(1000, stream.Stream))(t)
	ok(t, stream.Close())
	fails(t, stream.Synchronize(), gpupool.ErrClosed)
	says(t, stream.Close(), "the stream is closed")
	ok(t, block.Fill('x'))
	text := make([]byte, 1)
	equal(t, must(block.ReadAt(text, 999))(t), 1)
	equal(t, string(text), "x")
	equal(t, must(pool.Stats())(t).Streams, 1)
	ok(t, block.Close())
	equal(t, must(pool.Stats())(t).Streams, 0)
}

func TestBadStreams(t *testing.T) {
	pool := newPool(t)
	_, err := pool.Alloc(1000, 2)
	fails(t, err, gpupool.ErrInvalidArgument)
	says(t, err, "stream 2")
	block := must(pool.Alloc(1000, 1))(t) // the legacy default stream, by its other number
	ok(t, block.CloseOn(0))
}
