// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

// model knows what is live, and nothing of how memory is managed.
type model struct {
	sizes map[gpupool.Ptr]uint64
	order []gpupool.Ptr
}

func (m *model) add(t *testing.T, ptr gpupool.Ptr, size uint64) {
	for other, length := range m.sizes {
		if ptr < other+gpupool.Ptr(length) && other < ptr+gpupool.Ptr(size) {
			t.Fatalf("%#x of %d bytes and %#x of %d bytes overlap", ptr, size, other, length)
		}
	}
	m.sizes[ptr] = size
	m.order = append(m.order, ptr)
}

func (m *model) take(number int) gpupool.Ptr {
	ptr := m.order[number%len(m.order)]
	m.order[number%len(m.order)] = m.order[len(m.order)-1]
	m.order = m.order[:len(m.order)-1]
	delete(m.sizes, ptr)
	return ptr
}

func (m *model) compare(t *testing.T, stats gpupool.Stats) {
	var requested, allocated uint64
	for _, size := range m.sizes {
		requested += size
		allocated += (size + 511) / 512 * 512
	}
	equal(t, stats.All.AllocatedBlocks.Current, uint64(len(m.sizes)))
	equal(t, stats.All.RequestedBytes.Current, requested)
	equal(t, stats.All.AllocatedBytes.Current, allocated)
	if stats.All.ReservedBytes.Current < allocated || stats.All.ReservedBytes.Current > stats.LimitBytes {
		t.Fatalf("%d bytes are reserved", stats.All.ReservedBytes.Current)
	}
}

// FuzzPool plays operations of four bytes, what and how much, on a pool and on the model.
func FuzzPool(f *testing.F) {
	configure(f, 4, gpupool.SimConfig{WithoutData: true})
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		seed := make([]byte, 4*400)
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, operations []byte) {
		pool := newPool(t, gpupool.WithDevice(4), gpupool.WithLimit(96*mib))
		other := must(pool.NewStream())(t)
		streams := []gpupool.Stream{0, other.Stream}
		m := model{sizes: map[gpupool.Ptr]uint64{}}
		for ; len(operations) >= 4; operations = operations[4:] {
			what, number := operations[0], int(binary.LittleEndian.Uint16(operations[2:]))
			stream := streams[operations[1]%2]
			switch {
			case what < 110:
				size := uint64(1+number) << (operations[1] % 8)
				ptr, err := pool.Malloc(size, stream)
				if err == nil {
					m.add(t, ptr, size)
				} else if !errors.Is(err, gpupool.ErrOverLimit) {
					t.Fatal(err)
				}
			case what < 220 && len(m.order) > 0:
				ptr := m.take(number)
				ok(t, pool.Free(ptr, stream))
				fails(t, pool.Free(ptr, stream), gpupool.ErrUnknownPointer)
			case what < 230 && len(m.order) > 0:
				ptr := m.order[number%len(m.order)]
				fails(t, pool.Free(ptr+1, stream), gpupool.ErrUnknownPointer)
				ok(t, pool.RecordStream(ptr, stream))
			case what < 240:
				_ = must(pool.Trim(uint64(number) << 12))(t)
			case what < 245:
				_ = must(pool.Empty())(t)
			default:
				m.compare(t, must(pool.Stats())(t))
			}
		}
		m.compare(t, must(pool.Stats())(t))
		for len(m.order) > 0 {
			ok(t, pool.Free(m.take(0), gpupool.StreamUnknown))
		}
		ok(t, pool.Synchronize())
		_ = must(pool.Empty())(t)
		equal(t, must(pool.Stats())(t).All.ReservedBytes.Current, 0)
		ok(t, other.Close())
	})
}
