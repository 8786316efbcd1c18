// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import "unsafe"

// Stats returns the pool's figures now.
func (p *Pool) Stats() (Stats, error) {
	stats := Stats{structSize: uint32(unsafe.Sizeof(Stats{}))}
	err := p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_stats(pool, unsafe.Pointer(&stats)) })
	return stats, err
}

// ResetPeaks sets every peak to the current value.
func (p *Pool) ResetPeaks() error {
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_reset_peaks(pool) })
}

// Snapshot is what is mapped and what is in it, at one moment, sorted by address.
type Snapshot struct {
	Segments []Segment
	Blocks   []BlockInfo
}

// Snapshot lists what is mapped and what is in it.
func (p *Pool) Snapshot() (Snapshot, error) {
	var s Snapshot
	for {
		var counts C.bridge_counts
		err := p.do(func(pool C.uintptr_t) C.bridge_result {
			counts = C.bridge_snapshot(pool,
				unsafe.Pointer(unsafe.SliceData(s.Segments)), C.size_t(unsafe.Sizeof(Segment{})), C.size_t(len(s.Segments)),
				unsafe.Pointer(unsafe.SliceData(s.Blocks)), C.size_t(unsafe.Sizeof(BlockInfo{})), C.size_t(len(s.Blocks)))
			return counts.result
		})
		if err != nil {
			return Snapshot{}, err
		}
		if int(counts.segments) <= len(s.Segments) && int(counts.blocks) <= len(s.Blocks) {
			return Snapshot{s.Segments[:counts.segments], s.Blocks[:counts.blocks]}, nil
		}
		// Others may add to the lists between asking for the counts and for the contents.
		s = Snapshot{make([]Segment, counts.segments), make([]BlockInfo, counts.blocks)}
	}
}

// Report explains in words where the pool's memory is.
func (p *Pool) Report() (string, error) {
	text := make([]byte, 1024)
	for {
		length, err := p.inside(func(pool C.uintptr_t) C.bridge_result {
			return C.bridge_report(pool, (*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text)))
		})
		if err != nil {
			return "", err
		}
		if length < uint64(len(text)) {
			return string(text[:length]), nil
		}
		text = make([]byte, length+1)
	}
}

// Validate checks every promise that the pool's records make to each other. Slow; for tests. ErrInternal says what is
// wrong.
func (p *Pool) Validate() error {
	return p.do(func(pool C.uintptr_t) C.bridge_result { return C.bridge_validate(pool) })
}
