// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package gpupool

import (
	"runtime"
	"sync"
	"weak"
)

// forgotten finds the blocks of a pool that nobody can reach any more, for WithGCBeforeOOM. The collector's own
// cleanups would free them too, but only some time after a collection, when the allocation has already failed.
type forgotten struct {
	mutex sync.Mutex
	live  map[*blockLife]weak.Pointer[Block]
}

func newForgotten() *forgotten { return &forgotten{live: map[*blockLife]weak.Pointer[Block]{}} }

func (f *forgotten) watch(b *Block) {
	pointer := weak.Make(b)
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.live[b.life] = pointer
}

func (f *forgotten) drop(life *blockLife) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	delete(f.live, life)
}

// collect runs the collector once and frees what it finds.
func (f *forgotten) collect() {
	runtime.GC()
	for _, life := range f.unreachable() {
		_ = life.close(life.stream) // or its cleanup is about to do it
	}
}

func (f *forgotten) unreachable() []*blockLife {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var found []*blockLife
	for life, pointer := range f.live {
		if pointer.Value() == nil {
			found = append(found, life)
		}
	}
	return found
}
