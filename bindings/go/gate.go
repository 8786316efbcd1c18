// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package gpupool

import (
	"math"
	"sync/atomic"
)

// gate counts the callers inside something that may be closed at any time, even by one of them. Whoever leaves last
// ends it.
type gate struct{ inside atomic.Int64 }

const shut = math.MinInt64

// enter keeps the thing from being ended until leave; false: it is closed.
func (g *gate) enter() bool {
	for {
		inside := g.inside.Load()
		if inside < 0 {
			return false
		}
		if g.inside.CompareAndSwap(inside, inside+1) {
			return true
		}
	}
}

// leave returns true to the caller who must end it.
func (g *gate) leave() bool { return g.inside.Add(-1) == shut }

// isOpen may be out of date by the time it returns.
func (g *gate) isOpen() bool { return g.inside.Load() >= 0 }

// close refuses entry from now on. closed says that this call closed it; last says that the caller must end it.
func (g *gate) close() (closed, last bool) {
	for {
		inside := g.inside.Load()
		if inside < 0 {
			return false, false
		}
		if g.inside.CompareAndSwap(inside, inside+shut) {
			return true, inside == 0
		}
	}
}
