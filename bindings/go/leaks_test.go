// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

// trial is a test within a test: it ends when its cleanups are run.
type trial struct {
	cleanups []func()
	said     []string
}

func (t *trial) Helper()          {}
func (t *trial) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }
func (t *trial) Errorf(format string, values ...any) {
	t.said = append(t.said, fmt.Sprintf(format, values...))
}

// run gives what a test that does this has to say.
func run(pool *gpupool.Pool, work func(t *trial)) string {
	t := &trial{}
	gpupool.NoLeaks(t, pool)
	work(t)
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
	return strings.Join(t.said, "\n")
}

//go:noinline
func grow(t *testing.T, pool *gpupool.Pool) gpupool.Ptr { return must(pool.Malloc(64<<20, 0))(t) }

func TestNoLeaksNamesWhatStaysLive(t *testing.T) {
	pool := newPool(t)
	old := must(pool.Malloc(128<<20, 0))(t)
	var left gpupool.Ptr
	said := run(pool, func(*trial) {
		ok(t, gpupool.Tag("kv cache", func() { left = grow(t, pool) }))
	})
	wanted := regexp.MustCompile(`^gpupool: 64 MiB more are live than when the test began; blocks: 1 more
  64 MiB more, tag "kv cache"
    .*grow \(.*leaks_test.go:\d+\)
`)
	if !wanted.MatchString(said) || strings.Contains(said, "128 MiB") {
		t.Error(said)
	}
	ok(t, pool.Free(left, 0))
	ok(t, pool.Free(old, 0))
}

func TestNoLeaksIsSilentAboutWhatIsFreed(t *testing.T) {
	pool := newPool(t)
	old := must(pool.Malloc(1<<20, 0))(t)
	equal(t, run(pool, func(inner *trial) {
		block := must(pool.Alloc(1<<20, 0))(t)
		inner.Cleanup(func() { ok(t, block.Close()) })
		ok(t, pool.Free(old, 0))
	}), "")
}

func TestNoLeaksNeedsThePool(t *testing.T) {
	pool := newPool(t)
	said := run(pool, func(*trial) { ok(t, pool.Close()) })
	if !strings.Contains(said, "the pool is closed") {
		t.Error(said)
	}
	equal(t, run(pool, func(*trial) {}), said)
}
