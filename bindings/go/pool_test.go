// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"errors"
	"strings"
	"testing"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

const mib = 1 << 20

func TestMallocAndFree(t *testing.T) {
	pool := newPool(t)
	ptr := must(pool.Malloc(1000, 0))(t)
	stats := must(pool.Stats())(t)
	equal(t, stats.All.RequestedBytes.Current, 1000)
	equal(t, stats.All.AllocatedBytes.Current, 1024)
	info := must(pool.BlockInfo(ptr + 100))(t)
	equal(t, info.Address, ptr)
	equal(t, info.State, gpupool.BlockLive)
	ok(t, pool.Free(ptr, 0))
	equal(t, must(pool.Stats())(t).All.AllocatedBytes.Current, 0)
	aligned := must(pool.MallocAligned(1000, mib, 0))(t)
	equal(t, aligned%mib, 0)
	ok(t, pool.Free(aligned, 0))
	equal(t, must(pool.Malloc(0, 0))(t), 0)
	ok(t, pool.Free(0, 0))
}

func TestWrongFrees(t *testing.T) {
	pool, other := newPool(t), newPool(t)
	ptr := must(pool.Malloc(4096, 0))(t)
	fails(t, pool.Free(ptr+512, 0), gpupool.ErrUnknownPointer)
	fails(t, pool.Free(4096, 0), gpupool.ErrUnknownPointer)
	fails(t, other.Free(ptr, 0), gpupool.ErrUnknownPointer)
	ok(t, pool.Free(ptr, 0))
	fails(t, pool.Free(ptr, 0), gpupool.ErrUnknownPointer)
	fails(t, pool.RecordStream(ptr, 0), gpupool.ErrUnknownPointer)
	_, err := pool.BlockInfo(ptr)
	fails(t, err, gpupool.ErrUnknownPointer)
}

func TestOptions(t *testing.T) {
	configure(t, 1, gpupool.SimConfig{CapacityBytes: 1 << 30})
	stats := must(newPool(t, gpupool.WithDevice(1), gpupool.WithFraction(0.5)).Stats())(t)
	equal(t, stats.Device, 1)
	equal(t, stats.LimitBytes, 1<<29)
	pool := newPool(t, gpupool.WithDevice(1), gpupool.WithFraction(0.5), gpupool.WithLimit(64*mib),
		gpupool.WithSlack(0.5), gpupool.WithMaxChunk(4*mib), gpupool.WithPeers(2, 3), gpupool.WithCaptureAware(),
		gpupool.WithMode(gpupool.ModeVMM), gpupool.WithKind(gpupool.KindDevice))
	equal(t, must(pool.Stats())(t).LimitBytes, 64*mib)
	block := must(pool.Alloc(32*mib, 0))(t)
	for _, segment := range must(pool.Snapshot())(t).Segments {
		if segment.SizeBytes > 4*mib {
			t.Errorf("a chunk of %d bytes", segment.SizeBytes)
		}
	}
	ok(t, block.Close())
	for _, kind := range []gpupool.Kind{gpupool.KindPinned, gpupool.KindManaged} {
		block := must(newPool(t, gpupool.WithKind(kind)).Alloc(mib, 0))(t)
		ok(t, block.Close())
	}
}

func TestBadOptions(t *testing.T) {
	for _, c := range []struct {
		with   gpupool.Option
		status gpupool.Status
	}{
		{gpupool.WithDevice(-1), gpupool.ErrInvalidArgument},
		{gpupool.WithDevice(8), gpupool.ErrInvalidArgument},
		{gpupool.WithDevice(1 << 32), gpupool.ErrInvalidArgument},
		{gpupool.WithFraction(1.5), gpupool.ErrInvalidArgument},
		{gpupool.WithSlack(11), gpupool.ErrInvalidArgument},
		{gpupool.WithMaxChunk(3 * mib), gpupool.ErrInvalidArgument},
		{gpupool.WithBackend(9), gpupool.ErrInvalidArgument},
		{gpupool.WithMode(9), gpupool.ErrInvalidArgument},
		{gpupool.WithKind(9), gpupool.ErrInvalidArgument},
		{gpupool.WithPeers(0, 99), gpupool.ErrInvalidArgument},
		{gpupool.WithMode(gpupool.ModeUpstream), gpupool.ErrInvalidArgument},
		{gpupool.WithPeers(1 << 40), gpupool.ErrInvalidArgument},
		{gpupool.WithDevice("gpu"), gpupool.ErrInvalidArgument},
		{gpupool.WithDevice("sim:1\x00"), gpupool.ErrInvalidArgument},
		{gpupool.WithLimit("8 bananas"), gpupool.ErrInvalidArgument},
		{gpupool.WithLimit("140%"), gpupool.ErrInvalidArgument},
		{gpupool.WithLimit(-1), gpupool.ErrInvalidArgument},
	} {
		_, err := gpupool.New(gpupool.WithBackend(gpupool.BackendSim), c.with)
		fails(t, err, c.status)
	}
	_, err := gpupool.New(gpupool.WithBackend(gpupool.BackendSim), gpupool.WithMode(gpupool.ModeVMM),
		gpupool.WithKind(gpupool.KindPinned))
	fails(t, err, gpupool.ErrUnsupported)
	if gpupool.Features()&gpupool.FeatureCUDA == 0 {
		_, err := gpupool.New(gpupool.WithBackend(gpupool.BackendCUDA))
		fails(t, err, gpupool.ErrUnavailable)
	}
}

// An error names the argument, its value and what is allowed.
func TestMistakesAreNamed(t *testing.T) {
	pool := newPool(t)
	for words, err := range map[string]error{
		"no device 99":                        second(gpupool.New(gpupool.WithDevice("sim:99"))),
		"no device 4294967296":                second(gpupool.New(gpupool.WithDevice(1 << 32))),
		"no device 8589934592":                gpupool.SimAdvance(1<<33, 1),
		"fraction is 50":                      second(gpupool.New(gpupool.WithFraction(50))),
		`limit is "8 bananas"`:                second(gpupool.New(gpupool.WithLimit("8 bananas"))),
		`limit is "much", not a size such as`: pool.SetLimitTo("much"),
		`"gpu"`:                               second(gpupool.New(gpupool.WithDevice("gpu"))),
		"the limit of -5 bytes is negative":   second(gpupool.New(gpupool.WithLimit(-5))),
		"alignment is 3, not a power of two":  second(pool.AllocAligned(10, 3, 0)),
		"0 is the number of no capture":       pool.ReleaseCapture(0),
		"no capture is announced":             pool.AnnounceCapture(false),
		`script is "map:1\x00", with a zero`:  gpupool.SimScript(1, "map:1\x00"),
	} {
		fails(t, err, gpupool.ErrInvalidArgument)
		says(t, err, words)
	}
	fails(t, second(pool.Alloc(1<<50, 0)), gpupool.ErrOutOfMemory)
	fails(t, second(pool.Alloc(1<<63, 0)), gpupool.ErrOutOfMemory)
}

func TestSizesAndDevicesInWords(t *testing.T) {
	bytes, share, err := gpupool.ParseSize("1.5 GiB")
	ok(t, err)
	equal(t, bytes, 3<<29)
	equal(t, share, 0)
	bytes, share, err = gpupool.ParseSize("40%")
	ok(t, err)
	equal(t, bytes, 0)
	equal(t, share, 0.4)
	for _, bad := range []string{"", "0", "-1", "8 bananas", "8GiB\x00"} {
		_, _, err = gpupool.ParseSize(bad)
		fails(t, err, gpupool.ErrInvalidArgument)
	}
	for text, expected := range map[string]gpupool.Device{
		"cuda": {Backend: gpupool.BackendCUDA}, "cuda:1": {Backend: gpupool.BackendCUDA, Number: 1},
		"sim:3": {Backend: gpupool.BackendSim, Number: 3}, "auto": {}, "5": {Number: 5},
	} {
		backend, number, err := gpupool.ParseDevice(text)
		ok(t, err)
		equal(t, gpupool.Device{Backend: backend, Number: number}, expected)
	}
	_, _, err = gpupool.ParseDevice("gpu")
	fails(t, err, gpupool.ErrInvalidArgument)

	configure(t, 1, gpupool.SimConfig{CapacityBytes: 1 << 30})
	pool := must(gpupool.New(gpupool.WithDevice("sim:1"), gpupool.WithLimit("50%")))(t)
	equal(t, must(pool.Stats())(t).LimitBytes, 1<<29)
	ok(t, pool.SetLimitTo("16 MiB"))
	equal(t, must(pool.Stats())(t).LimitBytes, 16*mib)
	ok(t, pool.SetLimitTo("25%"))
	equal(t, must(pool.Stats())(t).LimitBytes, 1<<28)
	equal(t, must(pool.DeviceInfo())(t).Number, 1)
	ok(t, pool.Close())
	pool = newPool(t, gpupool.WithDevice("2"), gpupool.WithLimit("64MiB")) // of the backend that newPool asks for
	equal(t, must(pool.DeviceInfo())(t).Backend, gpupool.BackendSim)
	equal(t, must(pool.DeviceInfo())(t).Number, 2)
}

func TestCaptures(t *testing.T) {
	pool := newPool(t, gpupool.WithDevice(5), gpupool.WithCaptureAware())
	stream := must(pool.NewStream())(t)
	equal(t, must(pool.CaptureID(stream.Stream))(t), 0)
	ok(t, gpupool.SimCapture(5, stream.Stream, true))
	capture := must(pool.CaptureID(stream.Stream))(t)
	if capture == 0 {
		t.Error("the capture has no number")
	}
	ok(t, pool.Free(must(pool.Malloc(mib, stream.Stream))(t), stream.Stream))
	fails(t, pool.ReleaseCapture(capture), gpupool.ErrInvalidArgument)
	ok(t, gpupool.SimCapture(5, stream.Stream, false))
	_ = must(pool.Empty())(t)
	if must(pool.Stats())(t).All.ReservedBytes.Current == 0 {
		t.Error("the graph's memory is gone")
	}
	ok(t, pool.ReleaseCapture(capture))
	ok(t, pool.AnnounceCapture(true))
	ok(t, pool.AnnounceCapture(false))
	_ = must(pool.Empty())(t)
	equal(t, must(pool.Stats())(t).All.ReservedBytes.Current, 0)
}

func TestSimLaunch(t *testing.T) {
	configure(t, 5, gpupool.SimConfig{})
	pool := newPool(t, gpupool.WithDevice(5), gpupool.WithCaptureAware())
	stream, other := must(pool.NewStream())(t), must(pool.NewStream())(t)
	block := must(pool.Alloc(4, stream.Stream))(t)
	_ = must(block.WriteAt([]byte("then"), 0))(t)
	ok(t, gpupool.SimCapture(5, stream.Stream, true))
	capture := must(pool.CaptureID(stream.Stream))(t)
	ok(t, gpupool.SimWork(5, stream.Stream, block.Ptr(), 4, 1e6))
	ok(t, block.Fill('n'))
	fails(t, gpupool.SimLaunch(5, capture, other.Stream), gpupool.ErrInvalidArgument)
	ok(t, gpupool.SimCapture(5, stream.Stream, false))
	bytes := make([]byte, 4)
	_ = must(block.ReadAt(bytes, 0))(t)
	equal(t, string(bytes), "then")
	ok(t, gpupool.SimLaunch(5, capture, other.Stream))
	ok(t, other.Synchronize())
	_ = must(block.ReadAt(bytes, 0))(t)
	equal(t, string(bytes), "nnnn")
	fails(t, gpupool.SimLaunch(5, capture+1, other.Stream), gpupool.ErrInvalidArgument)
	fails(t, gpupool.SimLaunch(1<<40, capture, other.Stream), gpupool.ErrInvalidArgument)
	count, last, err := gpupool.SimFaults(5)
	ok(t, err)
	if count != 0 {
		t.Error(last)
	}
	ok(t, pool.Close())
	ok(t, block.Close())
}

func TestStrictStreams(t *testing.T) {
	configure(t, 6, gpupool.SimConfig{StrictStreams: true})
	pool := newPool(t, gpupool.WithDevice(6))
	stream := must(pool.NewStream())(t)
	ok(t, gpupool.SimWork(6, stream.Stream, 0, 0, 1))
	fails(t, gpupool.SimWork(6, 12345, 0, 0, 1), gpupool.ErrDriver)
	ok(t, pool.Close())
}

func TestPeers(t *testing.T) {
	pool := newPool(t)
	ok(t, pool.EnablePeer(1))
	ok(t, pool.EnablePeer(0))
	fails(t, pool.EnablePeer(99), gpupool.ErrInvalidArgument)
	fails(t, pool.EnablePeer(1<<40), gpupool.ErrInvalidArgument)
}

func TestChildrenShareTheLimit(t *testing.T) {
	pool := newPool(t, gpupool.WithLimit(16*mib))
	child := must(pool.NewChild())(t)
	address := must(child.Malloc(12*mib, 0))(t)
	_, err := pool.Malloc(8*mib, 0)
	fails(t, err, gpupool.ErrOverLimit)
	fails(t, child.SetLimit(mib), gpupool.ErrInvalidArgument)
	_, err = child.NewChild()
	fails(t, err, gpupool.ErrInvalidArgument)
	ok(t, child.Free(address, 0))
	ok(t, child.Close())
	ok(t, pool.Free(must(pool.Malloc(8*mib, 0))(t), 0))
	_, err = child.NewChild()
	fails(t, err, gpupool.ErrClosed)
}

func TestErrorsExplain(t *testing.T) {
	pool := newPool(t, gpupool.WithLimit(16*mib))
	_, err := pool.Malloc(32*mib, 0)
	fails(t, err, gpupool.ErrOverLimit)
	fails(t, err, gpupool.ErrOutOfMemory)
	var detail *gpupool.Error
	if !errors.As(err, &detail) || !strings.Contains(detail.Message, "limit of 16") {
		t.Errorf("no explanation: %v", err)
	}
	if !strings.Contains(err.Error(), "GPUPOOL_ERROR_OVER_LIMIT: ") {
		t.Errorf("no status: %v", err)
	}

	configure(t, 1, gpupool.SimConfig{CapacityBytes: 16 * mib, WithoutData: true})
	_, err = newPool(t, gpupool.WithDevice(1)).Malloc(32*mib, 0)
	fails(t, err, gpupool.ErrOutOfMemory)
	if errors.Is(err, gpupool.ErrOverLimit) {
		t.Error("there is no limit")
	}
}

func TestDriverErrors(t *testing.T) {
	pool := newPool(t, gpupool.WithDevice(2))
	ok(t, gpupool.SimScript(2, "create:*"))
	_, err := pool.Malloc(mib, 0)
	fails(t, err, gpupool.ErrDriver)
	var detail *gpupool.Error
	if errors.As(err, &detail); detail.DriverCode == 0 {
		t.Errorf("no number of the driver's: %v", err)
	}
	ok(t, gpupool.SimScript(2, ""))
	ok(t, pool.Free(must(pool.Malloc(mib, 0))(t), 0))
	fails(t, gpupool.SimScript(2, "nonsense"), gpupool.ErrInvalidArgument)
	fails(t, gpupool.SimScript(99, ""), gpupool.ErrInvalidArgument)
}

func TestKeepingAndGivingBack(t *testing.T) {
	pool := newPool(t)
	ok(t, pool.Reserve(64*mib, 0))
	reserved := must(pool.Stats())(t).All.ReservedBytes.Current
	if reserved < 64*mib {
		t.Errorf("reserved %d", reserved)
	}
	released := must(pool.Trim(32 * mib))(t)
	equal(t, must(pool.Stats())(t).All.ReservedBytes.Current, reserved-released)
	released += must(pool.Empty())(t)
	equal(t, released, reserved)
	ok(t, pool.SetFraction(0.5))
	ok(t, pool.SetLimit(64*mib))
	fails(t, pool.Reserve(65*mib, 0), gpupool.ErrOverLimit)
	fails(t, pool.SetFraction(2), gpupool.ErrInvalidArgument)
	ok(t, pool.SetLimit(0))
	equal(t, must(pool.Stats())(t).LimitBytes, 0)
	ok(t, pool.ResetPeaks())
}

func TestWatching(t *testing.T) {
	pool := newPool(t)
	small := must(pool.Alloc(700, 0))(t)
	large := must(pool.Alloc(100*mib, 0))(t)
	snapshot := must(pool.Snapshot())(t)
	var live, mapped uint64
	for _, block := range snapshot.Blocks {
		if block.State == gpupool.BlockLive {
			live += block.RequestedBytes
		}
	}
	for _, segment := range snapshot.Segments {
		mapped += segment.SizeBytes
	}
	equal(t, live, 700+100*mib)
	equal(t, mapped, must(pool.Stats())(t).All.ReservedBytes.Current)
	if report := must(pool.Report())(t); !strings.Contains(report, "2 live blocks") {
		t.Error(report)
	}
	ok(t, small.Close())
	ok(t, large.Close())
}

func TestDefaultPool(t *testing.T) {
	t.Setenv("GPUPOOL_BACKEND", "sim")
	pool := must(gpupool.DefaultPool(3))(t)
	same := must(gpupool.DefaultPool(3))(t)
	equal(t, pool.Handle(), same.Handle())
	block := must(pool.Alloc(1000, 0))(t)
	ok(t, pool.Close())
	fails(t, pool.Validate(), gpupool.ErrClosed)
	equal(t, must(same.Stats())(t).All.AllocatedBlocks.Current, 1)
	ok(t, block.Close())
	equal(t, must(same.Stats())(t).All.AllocatedBlocks.Current, 0)
	_, err := gpupool.DefaultPool(-1)
	fails(t, err, gpupool.ErrInvalidArgument)
}

func TestDevices(t *testing.T) {
	equal(t, must(gpupool.DeviceCount(gpupool.BackendSim))(t), 8)
	device := must(gpupool.DeviceInfo(gpupool.BackendSim, 4))(t)
	equal(t, device.Backend, gpupool.BackendSim)
	equal(t, device.Number, 4)
	equal(t, device.FreeBytes, device.TotalBytes)
	if device.Capabilities&gpupool.CapabilityVMM == 0 || device.Name == "" || device.GranularityBytes == 0 {
		t.Errorf("%+v", device)
	}
	_, err := gpupool.DeviceInfo(gpupool.BackendSim, 8)
	fails(t, err, gpupool.ErrInvalidArgument)
	_, err = gpupool.DeviceCount(9)
	fails(t, err, gpupool.ErrInvalidArgument)
	if gpupool.Features()&gpupool.FeatureSim == 0 || gpupool.Version() < 100 || gpupool.VersionString() == "" {
		t.Error(gpupool.Features(), gpupool.Version(), gpupool.VersionString())
	}
}
