// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"io"
	"math"
	"slices"
	"testing"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

func TestArray(t *testing.T) {
	pool := newPool(t)
	array := must(gpupool.ArrayOf(pool, []float32{1, 2, 3, 4}, 0))(t)
	equal(t, array.Len(), 4)
	equal(t, array.Block().Size(), 16)
	part := must(array.Part(1, 3))(t)
	equal(t, part.Ptr(), array.Ptr()+4)
	if found := must(part.Slice())(t); !slices.Equal(found, []float32{2, 3}) {
		t.Errorf("found %v", found)
	}
	inner := must(part.Part(1, 2))(t)
	ok(t, inner.Write([]float32{30}, 0))
	if found := must(array.Slice())(t); !slices.Equal(found, []float32{1, 2, 30, 4}) {
		t.Errorf("found %v", found)
	}
	says(t, second(array.Part(3, 5)), "elements 3 to 5 are not inside 4 elements")
	fails(t, part.Write([]float32{1, 2}, 1), gpupool.ErrInvalidArgument)
	fails(t, part.Read(make([]float32, 1), -1), gpupool.ErrInvalidArgument)
	ok(t, array.Close())
	fails(t, array.Close(), gpupool.ErrFreed)
	fails(t, second(part.Slice()), gpupool.ErrFreed)
}

func TestArraysThatCannotBe(t *testing.T) {
	pool := newPool(t)
	says(t, second(gpupool.NewArray[int64](pool, -1, 0)), "the length -1 is negative")
	fails(t, second(gpupool.NewArray[int64](pool, math.MaxInt/4, 0)), gpupool.ErrOutOfMemory)
	empty := must(gpupool.NewArray[uint8](pool, 0, 0))(t)
	equal(t, empty.Ptr(), 0)
	equal(t, len(must(empty.Slice())(t)), 0)
	ok(t, empty.Close())
	ok(t, (*gpupool.Array[int8])(nil).Close())
}

func TestTransfer(t *testing.T) {
	pool := newPool(t)
	array := must(gpupool.NewArray[int32](pool, 1000, must(pool.NewStream())(t).Stream))(t)
	sent, found := make([]int32, 1000), make([]int32, 500)
	for i := range sent {
		sent[i] = int32(i * i)
	}
	there := must(array.WriteAsync(sent, 0))(t)
	back := must(array.ReadAsync(found, 500))(t)
	ok(t, array.Close()) // with the last of the two
	fails(t, second(array.ReadAsync(found, 0)), gpupool.ErrFreed)
	ok(t, there.Wait())
	equal(t, must(pool.Stats())(t).All.AllocatedBlocks.Current, 1)
	ok(t, back.Wait())
	ok(t, back.Wait())
	if !slices.Equal(found, sent[500:]) {
		t.Error("what came back is not what was sent")
	}
	equal(t, must(pool.Stats())(t).All.AllocatedBlocks.Current, 0)
}

func TestTransfersThatCannotBe(t *testing.T) {
	pool := newPool(t)
	block := must(pool.Alloc(10, 0))(t)
	fails(t, second(block.WriteAsync(make([]byte, 11), 0)), io.ErrShortWrite)
	fails(t, second(block.ReadAsync(make([]byte, 1), 10)), io.ErrUnexpectedEOF)
	fails(t, second(block.ReadAsync(make([]byte, 1), -1)), gpupool.ErrInvalidArgument)
	ok(t, must(block.WriteAsync(nil, 10))(t).Wait())
	ok(t, (*gpupool.Transfer)(nil).Wait())
	ok(t, block.Close())
	equal(t, must(pool.Stats())(t).All.AllocatedBlocks.Current, 0)
}

// A transfer that nobody waits for keeps its memory until it is done, and then gives the block back.
func TestForgottenTransfer(t *testing.T) {
	pool := newPool(t)
	block := must(pool.Alloc(mib, 0))(t)
	func() { must(block.WriteAsync(make([]byte, mib), 0))(t) }()
	ok(t, block.Close())
	collected(t, func() bool { return must(pool.Stats())(t).All.AllocatedBlocks.Current == 0 })
}
