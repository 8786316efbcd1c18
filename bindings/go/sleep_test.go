// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"bytes"
	"errors"
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
	if count, err := pool.ReadBackup(ptr, saved); err != nil || count != 100 || !bytes.Equal(saved, bytes.Repeat([]byte{7}, 100)) {
		t.Fatal(count, err)
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
