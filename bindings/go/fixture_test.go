// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"errors"
	"strings"
	"testing"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

// newPool gives a pool on the simulated device, or the one that an option names, which is checked and closed at the
// end of the test.
func newPool(t testing.TB, with ...gpupool.Option) *gpupool.Pool {
	t.Helper()
	pool := must(gpupool.New(append([]gpupool.Option{gpupool.WithBackend(gpupool.BackendSim)}, with...)...))(t)
	t.Cleanup(func() {
		if err := pool.Validate(); err != nil && !errors.Is(err, gpupool.ErrClosed) {
			t.Error(err)
		}
		if err := pool.Close(); err != nil && !errors.Is(err, gpupool.ErrClosed) {
			t.Error(err)
		}
	})
	return pool
}

// must gives a result that comes without an error: must(f())(t).
func must[T any](result T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func fails(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("expected %v, found %v", target, err)
	}
}

// says checks the words of an error.
func says(t testing.TB, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Fatalf("expected %q, found %v", words, err)
	}
}

func equal[T comparable](t testing.TB, found, expected T) {
	t.Helper()
	if found != expected {
		t.Fatalf("expected %v, found %v", expected, found)
	}
}

// configure sets up a simulated device for a test that has it for itself.
func configure(t testing.TB, device int, config gpupool.SimConfig) {
	t.Helper()
	ok(t, gpupool.SimConfigure(device, config))
	t.Cleanup(func() { ok(t, gpupool.SimConfigure(device, gpupool.SimConfig{})) })
}
