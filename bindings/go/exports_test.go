// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"errors"
	"testing"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

func TestABlockIsExportedAndImported(t *testing.T) {
	pool, other := newPool(t), newPool(t)
	ptr := must(pool.Malloc(3<<20, 0))(t)
	handle := must(pool.Export(ptr))(t)
	there, size, err := other.Import(handle)
	if err != nil || size != 3<<20 || there == 0 || there == ptr {
		t.Fatal(there, size, err)
	}
	if err := pool.Free(ptr, 0); err != nil {
		t.Error(err)
	}
	if active := must(pool.Stats())(t).All.ActiveBytes.Current; active != 3<<20 {
		t.Error(active)
	}
	if err := other.CloseImport(there); err != nil {
		t.Error(err)
	}
	if err := other.CloseImport(there); !errors.Is(err, gpupool.ErrUnknownPointer) {
		t.Error(err)
	}
	if active := must(pool.Stats())(t).All.ActiveBytes.Current; active != 0 {
		t.Error(active)
	}
	if _, _, err := other.Import(handle); !errors.Is(err, gpupool.ErrUnavailable) {
		t.Error(err)
	}
	if _, _, err := other.Import("gpupool"); !errors.Is(err, gpupool.ErrInvalidArgument) {
		t.Error(err)
	}
	if _, err := pool.Export(ptr + 512); !errors.Is(err, gpupool.ErrUnknownPointer) {
		t.Error(err)
	}
}
