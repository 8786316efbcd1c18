// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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
