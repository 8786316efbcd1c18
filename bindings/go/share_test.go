// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"errors"
	"testing"
	"time"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

func TestAPoolOfAGroup(t *testing.T) {
	t.Setenv("GPUPOOL_SHARE_DIR", t.TempDir())
	pool := newPool(t, gpupool.WithShare("team"), gpupool.WithGuaranteed(1<<30), gpupool.WithPriority(2),
		gpupool.WithShareWait(time.Millisecond))
	if stats := must(pool.Stats())(t); stats.ShareState != gpupool.ShareStateShared {
		t.Error(stats.ShareState)
	}
	if err := pool.ShareRequest(1<<20, 0); err != nil {
		t.Error(err)
	}
	if err := pool.AllowSleep(gpupool.SleepConfig{}); err != nil {
		t.Error(err)
	}
	if woken := must(pool.Wake(gpupool.WakeConfig{}))(t); woken.Pools != 0 {
		t.Error(woken.Pools)
	}
	if err := pool.ShareRequest(1<<60, time.Millisecond); !errors.Is(err, gpupool.ErrOverLimit) {
		t.Error(err)
	}
}

func TestSharingIsRefusedInWords(t *testing.T) {
	t.Setenv("GPUPOOL_SHARE_DIR", t.TempDir())
	for _, option := range []gpupool.Option{
		gpupool.WithShare("a/b"), gpupool.WithPriority(9), gpupool.WithShareWait(time.Minute),
	} {
		_, err := gpupool.New(gpupool.WithBackend(gpupool.BackendSim), gpupool.WithShare("team"), option)
		if !errors.Is(err, gpupool.ErrInvalidArgument) {
			t.Error(err)
		}
	}
}

func TestAnEmptyGroupIsNoneWhateverTheEnvironmentSays(t *testing.T) {
	t.Setenv("GPUPOOL_SHARE_DIR", t.TempDir())
	t.Setenv("GPUPOOL_SHARE", "team")
	pool := newPool(t, gpupool.WithShare(""))
	if stats := must(pool.Stats())(t); stats.ShareState != gpupool.ShareStateOff {
		t.Error(stats.ShareState)
	}
	if err := pool.ShareRequest(1, 0); !errors.Is(err, gpupool.ErrUnavailable) {
		t.Error(err)
	}
}
