// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

func TestBlocksWakeAheadOfTheirPool(t *testing.T) {
	pool := newPool(t)
	var blocks [2]gpupool.Ptr
	for i := range blocks {
		ptr, err := pool.Malloc(4<<20, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := pool.Fill(ptr, byte(i+1), 4<<20, 0); err != nil {
			t.Fatal(err)
		}
		blocks[i] = ptr
	}
	if _, err := pool.Sleep(gpupool.SleepConfig{}); err != nil {
		t.Fatal(err)
	}
	if woken, err := pool.WakeBlock(blocks[1], gpupool.WakeConfig{}); err != nil || woken.SavedBytes != 4<<20 {
		t.Fatal(woken, err)
	}
	if err := pool.Fill(blocks[1], 9, 4<<20, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.WakeBlock(blocks[1]+512, gpupool.WakeConfig{}); !errors.Is(err, gpupool.ErrUnknownPointer) {
		t.Fatal(err)
	}
	if _, err := pool.Sleep(gpupool.SleepConfig{}); !errors.Is(err, gpupool.ErrUnavailable) {
		t.Fatal(err)
	}
	if woken, err := pool.Wake(gpupool.WakeConfig{}); err != nil || woken.SavedBytes != 4<<20 {
		t.Fatal(woken, err)
	}
	for _, ptr := range blocks {
		if err := pool.Free(ptr, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOneBlockSleepsAlone(t *testing.T) {
	pool := newPool(t, gpupool.WithMaxChunk(2<<20))
	ptr, err := pool.Malloc(4<<20, 0)
	if err != nil {
		t.Fatal(err)
	}
	if slept, err := pool.SleepBlock(ptr, gpupool.SleepConfig{}); err != nil || slept.ReleasedBytes != 4<<20 {
		t.Fatal(slept, err)
	}
	if state, err := pool.SleepState(); err != nil || state != gpupool.SleepStateAwake {
		t.Fatal(state, err)
	}
	if _, err := pool.SleepBlock(ptr+512, gpupool.SleepConfig{}); !errors.Is(err, gpupool.ErrUnknownPointer) {
		t.Fatal(err)
	}
	if woken, err := pool.WakeBlock(ptr, gpupool.WakeConfig{}); err != nil || woken.CreatedBytes != 4<<20 {
		t.Fatal(woken, err)
	}
	if err := pool.Free(ptr, 0); err != nil {
		t.Fatal(err)
	}
}

func TestSleepAndWake(t *testing.T) {
	pool := newPool(t)
	if err := pool.SetName("weights"); err != nil {
		t.Fatal(err)
	}
	ptr, err := pool.Malloc(3<<20, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.Fill(ptr, 7, 3<<20, 0); err != nil {
		t.Fatal(err)
	}
	slept, err := pool.Sleep(gpupool.SleepConfig{})
	if err != nil || slept.SavedBytes != 3<<20 || slept.Pools != 1 {
		t.Fatal(slept, err)
	}
	if _, err := pool.Malloc(512, 0); !errors.Is(err, gpupool.ErrAsleep) {
		t.Fatal(err)
	}
	if state, err := pool.SleepState(); err != nil || state != gpupool.SleepStateAsleep {
		t.Fatal(state, err)
	}
	saved := make([]byte, 100)
	if err := pool.ReadBackup(ptr, saved); err != nil || !bytes.Equal(saved, bytes.Repeat([]byte{7}, 100)) {
		t.Fatal(err)
	}
	if woken, err := gpupool.WakeTag("weights", gpupool.WakeConfig{}); err != nil || woken.Pools != 1 {
		t.Fatal(woken, err)
	}
	if err := pool.SetKeep(ptr, true); err != nil {
		t.Fatal(err)
	}
	if slept, err := gpupool.SleepTag("weights", gpupool.SleepConfig{Mode: gpupool.SleepModeDrop}); err != nil || slept.SavedBytes != 3<<20 {
		t.Fatal(slept, err)
	}
	if _, err := pool.Wake(gpupool.WakeConfig{RetainBackup: true}); err != nil {
		t.Fatal(err)
	}
	if err := pool.PrepareBackup(0); err != nil {
		t.Fatal(err)
	}
	if name, err := pool.Name(); err != nil || name != "weights" {
		t.Fatal(name, err)
	}
	if err := pool.Free(ptr, 0); err != nil {
		t.Fatal(err)
	}
}

// sleepers is a pool of blocks of 4 MiB, each of which can sleep wholly.
func sleepers(t *testing.T, count int) (*gpupool.Pool, []gpupool.Ptr) {
	t.Helper()
	pool := newPool(t, gpupool.WithMaxChunk(2*mib))
	blocks := make([]gpupool.Ptr, count)
	for i := range blocks {
		blocks[i] = must(pool.Malloc(4*mib, 0))(t)
		ok(t, pool.Fill(blocks[i], byte(i+1), 4*mib, 0))
	}
	return pool, blocks
}

func TestWhatWasSavedCanBeReadWhileItSleeps(t *testing.T) {
	pool, blocks := sleepers(t, 2)
	saved := make([]byte, 4*mib)
	fails(t, pool.ReadBackup(blocks[1], saved), gpupool.ErrUnavailable)
	ok(t, pool.SetKeep(blocks[1], true))
	fails(t, pool.SetKeep(blocks[1]+512, true), gpupool.ErrUnknownPointer)
	fails(t, pool.PrepareBackup(1<<60), gpupool.ErrHostOutOfMemory)
	equal(t, must(pool.Sleep(gpupool.SleepConfig{Mode: gpupool.SleepModeDrop}))(t).SavedBytes, 4*mib)
	ok(t, pool.ReadBackup(blocks[1], saved))
	equal(t, bytes.Equal(saved, bytes.Repeat([]byte{2}, len(saved))), true)
	ok(t, pool.ReadBackup(blocks[1]+4*mib-10, saved[:10]))
	ok(t, pool.ReadBackup(blocks[1], nil))
	fails(t, pool.ReadBackup(blocks[1]+1, saved), gpupool.ErrInvalidArgument)
	fails(t, pool.ReadBackup(blocks[0], saved), gpupool.ErrUnavailable)
	fails(t, pool.ReadBackup(4096, saved), gpupool.ErrUnknownPointer)
	must(pool.Wake(gpupool.WakeConfig{}))(t)
	fails(t, pool.ReadBackup(blocks[1], saved), gpupool.ErrUnavailable)
	equal(t, must(gpupool.WakeTag("nobody's", gpupool.WakeConfig{}))(t).Pools, 0)
}

func TestAPoolThatMaySleepsWhenAnotherOneIsShort(t *testing.T) {
	ok(t, gpupool.SimConfigure(5, gpupool.SimConfig{CapacityBytes: 64 * mib}))
	idle, busy := newPool(t, gpupool.WithDevice(5)), newPool(t, gpupool.WithDevice(5))
	block := must(idle.Malloc(40*mib, 0))(t)
	ok(t, idle.Fill(block, 3, 40*mib, 0))
	_, err := busy.Malloc(40*mib, 0)
	fails(t, err, gpupool.ErrOutOfMemory)
	ok(t, idle.AllowSleep(gpupool.SleepConfig{}))
	taken := must(busy.Malloc(40*mib, 0))(t)
	equal(t, must(idle.SleepState())(t), gpupool.SleepStateAsleep)
	saved := make([]byte, 1)
	ok(t, idle.ReadBackup(block+77, saved))
	equal(t, saved[0], 3)
	ok(t, busy.Free(taken, 0))
	must(idle.Wake(gpupool.WakeConfig{}))(t)
	ok(t, idle.Free(block, 0))
}

func TestSleepWithATarget(t *testing.T) {
	pool, blocks := sleepers(t, 3)
	ok(t, pool.SetName("some"))
	slept := must(pool.Sleep(gpupool.SleepConfig{Target: 5 * mib}))(t)
	equal(t, slept.ReleasedBytes, 8*mib)
	equal(t, slept.Pools, 0)
	equal(t, must(pool.SleepState())(t), gpupool.SleepStateAwake)
	for i, state := range []gpupool.BlockState{gpupool.BlockAsleep, gpupool.BlockAsleep, gpupool.BlockLive} {
		equal(t, must(pool.BlockInfo(blocks[i]))(t).State, state)
	}
	config := gpupool.SleepConfig{Mode: gpupool.SleepModeDrop, Target: 1 << 40}
	equal(t, must(gpupool.SleepTag("some", config))(t).DroppedBytes, 4*mib)
	equal(t, must(pool.Wake(gpupool.WakeConfig{}))(t).SavedBytes, 8*mib)
	fails(t, second(pool.SleepBlock(blocks[0], gpupool.SleepConfig{Target: 1})), gpupool.ErrInvalidArgument)
	for _, ptr := range blocks {
		ok(t, pool.Free(ptr, 0))
	}
}

func TestSleepHooks(t *testing.T) {
	pool, blocks := sleepers(t, 2)
	var calls []string
	hook := func(name string, answer *bool) gpupool.SleepHook {
		return func(ptr gpupool.Ptr) bool {
			at := slices.Index(blocks, ptr)
			calls = append(calls, fmt.Sprint(name, at))
			ok(t, pool.Free(must(pool.Malloc(mib, 0))(t), 0))
			fails(t, second(pool.Wake(gpupool.WakeConfig{})), gpupool.ErrUnavailable)
			return *answer
		}
	}
	called := func(want ...string) {
		t.Helper()
		if !slices.Equal(calls, want) {
			t.Errorf("called %v, not %v", calls, want)
		}
		calls = nil
	}
	before, after := true, true
	ok(t, pool.SetSleepHooks(hook("before ", &before), hook("after ", &after)))
	_ = must(pool.Sleep(gpupool.SleepConfig{}))(t)
	_ = must(pool.Wake(gpupool.WakeConfig{}))(t)
	called("before -1", "after -1")
	_ = must(pool.SleepBlock(blocks[1], gpupool.SleepConfig{}))(t)
	_ = must(pool.Wake(gpupool.WakeConfig{}))(t)
	called("before 1", "after 1")

	before = false
	fails(t, second(pool.Sleep(gpupool.SleepConfig{})), gpupool.ErrUnavailable)
	equal(t, must(pool.Sleep(gpupool.SleepConfig{Target: 1 << 40}))(t).SavedBytes, 0)
	equal(t, must(pool.SleepState())(t), gpupool.SleepStateAwake)
	called("before -1", "before 0", "before 1")
	before, after = true, false
	_ = must(pool.Sleep(gpupool.SleepConfig{}))(t)
	fails(t, second(pool.Wake(gpupool.WakeConfig{})), gpupool.ErrUnavailable)
	after = true
	_ = must(pool.Wake(gpupool.WakeConfig{}))(t)
	called("before -1", "after -1", "after -1")

	ok(t, pool.SetSleepHooks(nil, func(gpupool.Ptr) bool { calls = append(calls, "another"); return true }))
	_ = must(pool.Sleep(gpupool.SleepConfig{}))(t)
	_ = must(pool.Wake(gpupool.WakeConfig{}))(t)
	called("another")
	ok(t, pool.SetSleepHooks(nil, nil))
	_ = must(pool.Sleep(gpupool.SleepConfig{}))(t)
	_ = must(pool.Wake(gpupool.WakeConfig{}))(t)
	called()
	for _, ptr := range blocks {
		ok(t, pool.Free(ptr, 0))
	}
}

func TestPanicInSleepHook(t *testing.T) {
	pool, blocks := sleepers(t, 1)
	broken := func(gpupool.Ptr) bool { panic("a broken hook") }
	ok(t, pool.SetSleepHooks(broken, nil))
	err := second(pool.Sleep(gpupool.SleepConfig{}))
	fails(t, err, gpupool.ErrUnavailable)
	var panicked *gpupool.PanicError
	if !errors.As(err, &panicked) || panicked.Value != "a broken hook" {
		t.Error(err)
	}
	equal(t, must(pool.SleepState())(t), gpupool.SleepStateAwake)
	// With a target, the sleep goes on without the block, and no error can tell.
	words := standardError(t, func() { _ = must(pool.Sleep(gpupool.SleepConfig{Target: 1}))(t) })
	if !strings.HasPrefix(words, "gpupool: a callback panicked: a broken hook\n") {
		t.Errorf("found %q", words)
	}
	ok(t, pool.SetSleepHooks(nil, broken))
	_ = must(pool.Sleep(gpupool.SleepConfig{}))(t)
	says(t, second(pool.Wake(gpupool.WakeConfig{})), "a broken hook")
	equal(t, must(pool.SleepState())(t), gpupool.SleepStateAwake)
	ok(t, pool.SetSleepHooks(nil, nil))
	ok(t, pool.Free(blocks[0], 0))
}

// A pool may be closed with hooks, and inside one of them.
func TestCloseWithSleepHooks(t *testing.T) {
	pool, blocks := sleepers(t, 1)
	ok(t, pool.SetSleepHooks(func(gpupool.Ptr) bool { ok(t, pool.Close()); return true }, nil))
	_ = must(pool.Sleep(gpupool.SleepConfig{}))(t)
	fails(t, pool.SetSleepHooks(nil, nil), gpupool.ErrClosed)
	ok(t, pool.Free(blocks[0], 0))
}
