// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"io"
	"testing"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

const (
	gib = 1 << 30
	big = 4*gib + 5
)

// Memory that nobody touches takes none of the host's.
func TestSizesAndOffsetsOfMoreThan32Bits(t *testing.T) {
	pool := newPool(t)
	block := must(pool.Alloc(big, 0))(t)
	equal(t, block.Size(), big)
	equal(t, must(pool.BlockInfo(block.Ptr()+big-1))(t).RequestedBytes, big)
	equal(t, must(pool.Stats())(t).All.RequestedBytes.Current, big)
	equal(t, must(block.WriteAt([]byte("end"), big-3))(t), 3)
	ok(t, must(block.WriteAsync([]byte("ND"), big-2))(t).Wait())
	ok(t, pool.Fill(block.Ptr()+4*gib, 'A', 3, 0))
	end := make([]byte, 7)
	count, err := block.ReadAt(end, 4*gib)
	equal(t, string(end[:count]), "AAAND")
	equal(t, err, io.EOF)
	ok(t, must(block.ReadAsync(end[:3], big-3))(t).Wait())
	equal(t, string(end[:3]), "AND")
	says(t, second(block.WriteAsync(end, 4*gib)), "7 bytes at 4294967296 are not inside a block of 4294967301 bytes")
	says(t, second(block.WriteAt(end, -1)), "the offset -1 is negative")
	ok(t, block.Close())

	array := must(gpupool.NewArray[float64](pool, big, 0))(t)
	equal(t, array.Block().Size(), 8*big)
	ok(t, array.Write([]float64{1, 2, 3}, big-3))
	part := must(array.Part(big-2, big))(t)
	equal(t, part.Ptr(), array.Ptr()+8*(big-2))
	equal(t, must(part.Slice())(t)[1], 3)
	says(t, array.Write(make([]float64, 3), big-2), "elements 4294967299 to 4294967302 are not inside 4294967301 elements")
	ok(t, array.Close())
}
