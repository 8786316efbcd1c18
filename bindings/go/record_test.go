// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

func TestHoldersKnowTheTag(t *testing.T) {
	pool := newPool(t)
	var ptr gpupool.Ptr
	if err := gpupool.Tag("kv cache", func() { ptr = must(pool.Malloc(64<<20, 0))(t) }); err != nil {
		t.Fatal(err)
	}
	holders := must(pool.Holders())(t)
	if len(holders) == 0 || holders[0].Tag != "kv cache" || holders[0].LiveBytes < 60<<20 {
		t.Errorf("%+v", holders)
	}
	if report := must(pool.Report())(t); !strings.Contains(report, `of "kv cache"`) {
		t.Error(report)
	}
	if err := pool.Free(ptr, 0); err != nil {
		t.Error(err)
	}
	if err := gpupool.Tag("", func() { t.Error("this must not run") }); !errors.Is(err, gpupool.ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestRecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recording.gpt")
	if err := gpupool.StartRecording(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := gpupool.StartRecording(path+"2", 0); !errors.Is(err, gpupool.ErrInvalidArgument) {
		t.Error(err)
	}
	if err := gpupool.Mark("step 1"); err != nil {
		t.Error(err)
	}
	if err := gpupool.StopRecording(); err != nil {
		t.Error(err)
	}
	if err := gpupool.StopRecording(); !errors.Is(err, gpupool.ErrInvalidArgument) {
		t.Error(err)
	}
	if text := must(os.ReadFile(path))(t); !strings.Contains(string(text), "step 1") {
		t.Error("the mark is missing")
	}
}

//go:noinline
func loadWeights(t *testing.T, pool *gpupool.Pool, do func(*gpupool.Pool) gpupool.Ptr) gpupool.Ptr {
	t.Helper()
	return do(pool)
}

// checkFrames fails unless the first line of a stack is of this file and the second of loadWeights.
func checkFrames(t *testing.T, stack string) {
	t.Helper()
	lines := strings.Split(stack, "\n")
	for i, begin := range []string{"TestFramesAreGo", "loadWeights ("} {
		if len(lines) <= i || !strings.Contains(lines[i], "go_test."+begin) || !strings.Contains(lines[i], "record_test.go:") {
			t.Fatalf("line %d is not of %s:\n%s", i, begin, stack)
		}
	}
	if strings.Contains(stack, "runtime.goexit") {
		t.Error(stack)
	}
}

func TestFramesAreGo(t *testing.T) {
	pool := newPool(t)
	path := filepath.Join(t.TempDir(), "recording.gpt")
	if err := gpupool.StartRecording(path, gpupool.RecordLanguageStacks); err != nil {
		t.Fatal(err)
	}
	ptr := loadWeights(t, pool, func(pool *gpupool.Pool) gpupool.Ptr { return must(pool.Malloc(1<<30, 0))(t) })
	aligned := loadWeights(t, pool, func(pool *gpupool.Pool) gpupool.Ptr { return must(pool.MallocAligned(1<<29, 1<<21, 0))(t) })
	for _, holder := range must(pool.Holders())(t) {
		checkFrames(t, holder.Stack)
	}
	if report := must(pool.Report())(t); !strings.Contains(report, "from github.com/gpupool/gpupool/bindings/go_test.TestFramesAreGo.func1 (") {
		t.Error(report)
	}
	_, err := pool.Malloc(1<<50, 0)
	if err == nil || !strings.Contains(err.Error(), "record_test.go:") {
		t.Error(err)
	}
	if err := gpupool.StopRecording(); err != nil {
		t.Error(err)
	}
	recorded := string(must(os.ReadFile(path))(t))
	_, stack, _ := strings.Cut(recorded, "bindings/go_test.TestFrames")
	checkFrames(t, "go_test.TestFrames"+stack[:min(len(stack), 1000)])
	for _, each := range []gpupool.Ptr{ptr, aligned} {
		if err := pool.Free(each, 0); err != nil {
			t.Error(err)
		}
	}
}

// Deep stacks are cut between frames, and goroutines that allocate as the collector runs do not disturb each other.
func TestFramesOfManyGoroutines(t *testing.T) {
	pool := newPool(t)
	path := filepath.Join(t.TempDir(), "recording.gpt")
	if err := gpupool.StartRecording(path, gpupool.RecordLanguageStacks|gpupool.RecordNativeStacks); err != nil {
		t.Fatal(err)
	}
	var deep func(depth int, do func())
	deep = func(depth int, do func()) {
		if depth == 0 {
			do()
			return
		}
		deep(depth-1, do)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for turn := range 100 {
				deep(i*turn, func() {
					if ptr, err := pool.Malloc(1<<20, 0); err != nil {
						t.Error(err)
					} else if err := pool.Free(ptr, 0); err != nil {
						t.Error(err)
					}
				})
				if turn%10 == 0 {
					runtime.GC()
				}
			}
		}()
	}
	all.Wait()
	if err := gpupool.StopRecording(); err != nil {
		t.Error(err)
	}
}
