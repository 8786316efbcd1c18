// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

func TestWhatIsPrinted(t *testing.T) {
	pool := newPool(t, gpupool.WithLimit("64MiB"))
	block := must(pool.Alloc(1000, 0))(t)
	equal(t, fmt.Sprint(pool), "pool on sim:0: 2 MiB of 64 MiB reserved, 1 block live")
	equal(t, fmt.Sprint(block), fmt.Sprintf("block of 1000 bytes at %#x on stream 0", uint64(block.Ptr())))
	ok(t, block.Close())
	equal(t, fmt.Sprint(block), fmt.Sprintf("freed block of 1000 bytes at %#x on stream 0", uint64(block.Ptr())))
	ok(t, pool.SetLimit(0))
	_ = must(pool.Empty())(t)
	equal(t, fmt.Sprint(pool), "pool on sim:0: 0 bytes reserved, 0 blocks live")
	stream := must(pool.NewStream())(t)
	equal(t, fmt.Sprint(stream), fmt.Sprintf("stream %#x", uintptr(stream.Stream)))
	ok(t, pool.Close())
	equal(t, fmt.Sprint(pool), "closed pool")

	equal(t, fmt.Sprintf("%v, %s, %#x, %d, %v", gpupool.Stream(0x1001), gpupool.Stream(0), gpupool.Stream(0x1001),
		gpupool.Stream(16), gpupool.StreamUnknown), "stream 0x1001, stream 0, 0x1001, 16, any stream")
	equal(t, fmt.Sprint(gpupool.BackendSim, gpupool.BackendCUDA, gpupool.ModeVMM, gpupool.KindPinned, gpupool.LogInfo),
		"sim cuda vmm pinned info")
	equal(t, fmt.Sprint(gpupool.BlockPending, gpupool.FlagCaptureAware, gpupool.FeatureSim|gpupool.FeatureCUDA),
		"pending capture_aware sim|cuda")
	equal(t, fmt.Sprint(gpupool.CapabilityVMM|gpupool.CapabilityManaged|64, gpupool.Capability(0), gpupool.Mode(9)),
		"vmm|managed|0x40 none Mode(9)")
}

// The names are those of the command and of all other languages.
func TestJSON(t *testing.T) {
	pool := newPool(t, gpupool.WithLimit("64MiB"))
	text := string(must(json.Marshal(must(pool.Stats())(t)))(t))
	for _, part := range []string{
		`"limit_bytes":67108864`, `"all":{"requested_bytes":{"current":0,"peak":0,"total_allocated":0,"total_freed":0}`,
		`"oom_handler_calls":0`, `"driver":{"create":{"count":0,"nanoseconds":0}`,
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	if strings.Contains(text, "struct_size") {
		t.Error(text)
	}
}
