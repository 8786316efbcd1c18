// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package gpupool

import (
	"fmt"
	"slices"
	"strings"
)

// TB is what NoLeaks needs of a testing.TB.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, values ...any)
}

// NoLeaks fails a test if more blocks of the pool are live when it ends than when NoLeaks was called, and names the call
// sites and tags that hold more, as far as samples tell: with SetSampling(1) in TestMain, or GPUPOOL_SAMPLE=1, those are
// nearly all. A block that only the garbage collector would close counts. What the test gives to Cleanup afterwards runs first.
// Since 0.2.
func NoLeaks(t TB, pool *Pool) {
	t.Helper()
	held := pool.heldBySite()
	before, err := pool.Stats()
	if err != nil {
		t.Errorf("%v", err)
		return
	}
	t.Cleanup(func() {
		t.Helper()
		after, err := pool.Stats()
		if err != nil {
			t.Errorf("%v", err)
		} else if was, is := before.All, after.All; is.AllocatedBlocks.Current > was.AllocatedBlocks.Current {
			bytes := is.AllocatedBytes.Current - min(is.AllocatedBytes.Current, was.AllocatedBytes.Current)
			t.Errorf("gpupool: %s more are live than when the test began; blocks: %d more%s", sizeInWords(bytes),
				is.AllocatedBlocks.Current-was.AllocatedBlocks.Current, pool.heldSince(held))
		}
	})
}

type site struct{ tag, stack string }

// heldBySite gives live bytes as samples estimate them; none if that fails, as the figures say enough without.
func (p *Pool) heldBySite() map[site]uint64 {
	held := map[site]uint64{}
	holders, _ := p.Holders()
	for _, holder := range holders {
		held[site{holder.Tag, holder.Stack}] = holder.LiveBytes
	}
	return held
}

// heldSince lists whose bytes have grown.
func (p *Pool) heldSince(before map[site]uint64) string {
	var lines []string
	for site, bytes := range p.heldBySite() {
		if bytes > before[site] {
			stack := strings.ReplaceAll("\n"+site.stack, "\n", "\n    ")
			lines = append(lines, fmt.Sprintf("\n  %s more, tag %q%s", sizeInWords(bytes-before[site]), site.tag, stack))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
