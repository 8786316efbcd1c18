// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"errors"
	"os"
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

func TestAGroupIsSeenAndSetFromOutside(t *testing.T) {
	t.Setenv("GPUPOOL_SHARE_DIR", t.TempDir())
	newPool(t, gpupool.WithShare("seen"), gpupool.WithGuaranteed(8<<30), gpupool.WithPriority(1))
	group := must(gpupool.ShareInfo("seen", gpupool.BackendSim, 0))(t)
	equal(t, group.UsedBytes, 8<<30)
	equal(t, group.LimboBytes, 0)
	equal(t, len(group.Members), 1)
	member := group.Members[0]
	equal(t, member.State, gpupool.ShareMemberStateLive)
	equal(t, member.PID, uint64(os.Getpid()))
	equal(t, member.GuaranteedBytes, 8<<30)
	equal(t, member.Priority, 1)
	ok(t, gpupool.ShareSet(gpupool.ShareFigureMemberPriority, -3, member.Slot, "seen", gpupool.BackendSim, 0))
	ok(t, gpupool.ShareSet(gpupool.ShareFigureMemberLimit, 32<<30, member.Slot, "seen", gpupool.BackendSim, 0))
	t.Setenv("GPUPOOL_SHARE", "seen")
	set := must(gpupool.ShareInfo("", gpupool.BackendSim, 0))(t).Members[0]
	equal(t, set.Priority, -3)
	equal(t, set.LimitBytes, 32<<30)
	equal(t, must(gpupool.ShareRepair("seen", gpupool.BackendSim, 0))(t), 0)
	fails(t, gpupool.ShareSet(gpupool.ShareFigureMemberPriority, 9, member.Slot, "seen", gpupool.BackendSim, 0),
		gpupool.ErrInvalidArgument)
	fails(t, second(gpupool.ShareInfo("nobodys", gpupool.BackendSim, 0)), gpupool.ErrUnavailable)
	fails(t, second(gpupool.ShareInfo("a/b", gpupool.BackendSim, 0)), gpupool.ErrInvalidArgument)
	says(t, second(gpupool.ShareInfo("a\x00b", gpupool.BackendSim, 0)), "with a zero inside")
	fails(t, second(gpupool.ShareRepair("seen", gpupool.BackendSim, 1<<32)), gpupool.ErrInvalidArgument)
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
