// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

func TestOOMHandler(t *testing.T) {
	pool := newPool(t, gpupool.WithLimit(64*mib))
	cache := []*gpupool.Block{must(pool.Alloc(32*mib, 0))(t), must(pool.Alloc(32*mib, 0))(t)}
	var attempts []int
	ok(t, pool.SetOOMHandler(func(size uint64, attempt int) bool {
		equal(t, size, 48*mib)
		attempts = append(attempts, attempt)
		if len(cache) == 0 {
			return false
		}
		ok(t, cache[0].Close())
		cache = cache[1:]
		return true
	}))
	block := must(pool.Alloc(48*mib, 0))(t)
	if !slices.Equal(attempts, []int{1, 2}) {
		t.Error(attempts)
	}
	_, err := pool.Alloc(48*mib, 0)
	fails(t, err, gpupool.ErrOverLimit)
	if !slices.Equal(attempts, []int{1, 2, 1}) {
		t.Error(attempts)
	}
	ok(t, pool.SetOOMHandler(nil))
	_, err = pool.Alloc(48*mib, 0)
	fails(t, err, gpupool.ErrOverLimit)
	equal(t, must(pool.Stats())(t).OOMHandlerCalls, 3)
	ok(t, block.Close())
}

// A handler is inside a call, so that the pool may go only when that call has ended.
func TestCloseInOOMHandler(t *testing.T) {
	pool := newPool(t, gpupool.WithLimit(16*mib))
	ok(t, pool.SetOOMHandler(func(uint64, int) bool {
		ok(t, pool.Close())
		return false
	}))
	_, err := pool.Malloc(32*mib, 0)
	fails(t, err, gpupool.ErrOverLimit)
	_, err = pool.Malloc(1, 0)
	fails(t, err, gpupool.ErrClosed)
}

func TestPanicInHandler(t *testing.T) {
	pool := newPool(t, gpupool.WithLimit(16*mib))
	cause := errors.New("my own bug")
	ok(t, pool.SetOOMHandler(func(size uint64, _ int) bool {
		if size == 48*mib {
			panic("no error")
		}
		panic(cause)
	}))
	_, err := pool.Malloc(32*mib, 0)
	fails(t, err, gpupool.ErrOverLimit)
	fails(t, err, cause)
	says(t, err, "my own bug")
	_, err = pool.Alloc(48*mib, 0)
	fails(t, err, gpupool.ErrOverLimit)
	var panicked *gpupool.PanicError
	if !errors.As(err, &panicked) || panicked.Value != "no error" ||
		!strings.Contains(string(panicked.Stack), "TestPanic") {
		t.Errorf("%+v", panicked)
	}

	// It belongs to that call alone.
	ok(t, pool.SetOOMHandler(nil))
	_, err = pool.Malloc(32*mib, 0)
	fails(t, err, gpupool.ErrOverLimit)
	if errors.As(err, &panicked) {
		t.Error(err)
	}
	ok(t, pool.Free(must(pool.Malloc(mib, 0))(t), 0))
}

// A handler may use the pool, and its own calls may fail by a panic of their own.
func TestPanicInsideAHandlersCall(t *testing.T) {
	pool, other := newPool(t, gpupool.WithLimit(16*mib)), newPool(t, gpupool.WithLimit(16*mib))
	ok(t, other.SetOOMHandler(func(uint64, int) bool { panic("inner") }))
	ok(t, pool.SetOOMHandler(func(uint64, int) bool {
		says(t, second(other.Malloc(32*mib, 0)), "inner")
		panic("outer")
	}))
	err := second(pool.Malloc(32*mib, 0))
	says(t, err, "outer")
	if strings.Contains(err.Error(), "inner") {
		t.Error(err)
	}
}

// panicking is an upstream with a bug, until it is mended.
type panicking struct{ isMended *bool }

func (p panicking) Malloc(uint64, gpupool.Stream) (gpupool.Ptr, error) {
	if *p.isMended {
		return 1 << 40, nil
	}
	panic("a broken upstream")
}

func (panicking) Free(gpupool.Ptr, uint64, gpupool.Stream) {}

func TestPanicInUpstream(t *testing.T) {
	pool := newPool(t, gpupool.WithUpstream(panicking{new(bool)}))
	err := second(pool.Malloc(32*mib, 0))
	fails(t, err, gpupool.ErrOutOfMemory)
	says(t, err, "a broken upstream")
}

// There is no error that could tell of a panic if the pool finds memory after it.
func TestPanicInUpstreamThatIsMended(t *testing.T) {
	isMended := false
	pool := newPool(t, gpupool.WithUpstream(panicking{&isMended}))
	ok(t, pool.SetOOMHandler(func(uint64, int) bool {
		isMended = true
		return true
	}))
	words := standardError(t, func() { ok(t, pool.Free(must(pool.Malloc(mib, 0))(t), 0)) })
	if !strings.HasPrefix(words, "gpupool: a callback panicked: a broken upstream\n") {
		t.Errorf("found %q", words)
	}
	equal(t, standardError(t, func() { _ = must(pool.Stats())(t) }), "")
}

// standardError is what is written there while f runs.
func standardError(t *testing.T, f func()) string {
	t.Helper()
	before := os.Stderr
	defer func() { os.Stderr = before }()
	file := must(os.Create(filepath.Join(t.TempDir(), "stderr")))(t)
	defer file.Close()
	os.Stderr = file
	f()
	return string(must(os.ReadFile(file.Name()))(t))
}

// A panic belongs to the call whose callback it was in, whatever other callbacks of that call do.
func TestPanicInUpstreamBeforeAHandler(t *testing.T) {
	pool, other := newPool(t, gpupool.WithUpstream(panicking{new(bool)})), newPool(t)
	ok(t, pool.SetOOMHandler(func(uint64, int) bool {
		ok(t, other.Free(must(other.Malloc(mib, 0))(t), 0))
		_, err := other.Malloc(1<<60, 0)
		var panicked *gpupool.PanicError
		if fails(t, err, gpupool.ErrOutOfMemory); errors.As(err, &panicked) {
			t.Error(err)
		}
		return false
	}))
	says(t, second(pool.Malloc(32*mib, 0)), "a broken upstream")
}

// No call could tell of these.
func TestPanicInLog(t *testing.T) {
	if os.Getenv("GPUPOOL_TEST_PANIC") != "" {
		ok(t, gpupool.SetLog(func(gpupool.LogLevel, string) { panic("in a log function") }, gpupool.LogDebug))
		defer func() { _ = recover() }()
		_ = newPool(t)
		return
	}
	program := exec.Command(os.Args[0], "-test.run=^TestPanicInLog$")
	program.Env = append(os.Environ(), "GPUPOOL_TEST_PANIC=1")
	output, err := program.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(output), "in a log function") {
		t.Errorf("%v: %s", err, output)
	}
}

// lender lends blocks of another pool.
type lender struct {
	pool  *gpupool.Pool
	mutex sync.Mutex
	lent  map[gpupool.Ptr]uint64
}

func (l *lender) Malloc(size uint64, stream gpupool.Stream) (gpupool.Ptr, error) {
	ptr, err := l.pool.Malloc(size, stream)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if err == nil {
		l.lent[ptr] = size
	}
	return ptr, err
}

func (l *lender) Free(ptr gpupool.Ptr, size uint64, stream gpupool.Stream) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.lent[ptr] != size {
		panic("another size comes back")
	}
	delete(l.lent, ptr)
	_ = l.pool.Free(ptr, stream)
}

func TestUpstream(t *testing.T) {
	bank := &lender{pool: newPool(t, gpupool.WithLimit(64*mib)), lent: map[gpupool.Ptr]uint64{}}
	pool := newPool(t, gpupool.WithUpstream(bank))
	block := must(pool.Alloc(16*mib, 0))(t)
	if len(bank.lent) == 0 {
		t.Error("nothing is lent")
	}
	_, err := pool.Alloc(128*mib, 0)
	fails(t, err, gpupool.ErrOutOfMemory)
	ok(t, pool.Close())
	ok(t, block.Close()) // the last one brings everything back
	equal(t, len(bank.lent), 0)
	equal(t, must(bank.pool.Stats())(t).All.AllocatedBlocks.Current, 0)
}

func TestLog(t *testing.T) {
	var mutex sync.Mutex
	var lines []string
	asked := 0
	watched := newPool(t)
	ok(t, gpupool.SetLog(func(level gpupool.LogLevel, message string) {
		mutex.Lock()
		defer mutex.Unlock()
		lines = append(lines, message)
		ok(t, watched.Free(must(watched.Malloc(mib, 0))(t), 0))
		asked++
	}, gpupool.LogDebug))
	pool := newPool(t)
	ok(t, pool.Free(must(pool.Malloc(mib, 0))(t), 0))
	_ = must(pool.Empty())(t)
	_, err := newPool(t, gpupool.WithLimit(2*mib)).Malloc(64*mib, 0)
	fails(t, err, gpupool.ErrOverLimit)
	ok(t, gpupool.SetLog(nil, gpupool.LogOff))
	if len(lines) == 0 {
		t.Error("nothing was logged")
	}
	equal(t, len(lines), asked) // and nothing of what the function did itself
	equal(t, must(watched.Stats())(t).All.AllocatedBlocks.TotalAllocated, uint64(asked))
	fails(t, gpupool.SetLog(nil, 9), gpupool.ErrInvalidArgument)
}
