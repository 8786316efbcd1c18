// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

const simDevice = 7

type block struct {
	ptr    gpupool.Ptr
	stream gpupool.Stream
}

// world is what the steps of a scenario work on.
type world struct {
	backend    gpupool.Backend
	device     int
	totalBytes uint64 // of the device
	pools      map[string]*gpupool.Pool
	streams    map[string]*gpupool.OwnedStream
	blocks     map[string]block
	saved      map[string]uint64
	last       gpupool.Ptr // what the last malloc gave
	failure    string      // of the last step, in words
}

func newWorld(f file) (*world, error) {
	w := &world{
		pools:   map[string]*gpupool.Pool{},
		streams: map[string]*gpupool.OwnedStream{},
		blocks:  map[string]block{},
		saved:   map[string]uint64{},
	}
	if f.Sim != nil {
		w.backend, w.device = gpupool.BackendSim, simDevice
		config := gpupool.SimConfig{CapacityBytes: f.Sim.CapacityBytes, WithoutData: true}
		if err := gpupool.SimConfigure(simDevice, config); err != nil {
			return nil, err
		}
	}
	device, err := gpupool.DeviceInfo(w.backend, w.device)
	w.totalBytes = device.TotalBytes
	return w, err
}

func (w *world) close() {
	for _, stream := range w.streams {
		_ = stream.Close() // some are closed already
	}
	for _, pool := range w.pools {
		_ = pool.Close()
	}
}

func (w *world) do(s step) error {
	if s.For == nil {
		return errors.Join(w.attempt(s), w.look(s))
	}
	name := s.Block
	for i := s.For[0]; i < s.For[1]; i += s.For[2] {
		s.Block = strings.Replace(name, "#", strconv.Itoa(i), 1)
		if err := w.attempt(s); err != nil {
			return err
		}
	}
	return w.look(s)
}

// attempt does the step's operation, which must end in the status that is expected.
func (w *world) attempt(s step) error {
	w.last, w.failure = 0, ""
	found := gpupool.Success
	if err := w.operate(s); err != nil {
		failure := new(gpupool.Error)
		if !errors.As(err, &failure) {
			return err
		}
		found, w.failure = failure.Status, failure.Message
	}
	expected := gpupool.Success.String()
	if s.Expect != nil && s.Expect.Status != "" {
		expected = s.Expect.Status
	}
	if found.String() != expected {
		return fmt.Errorf("expected %s, found %v %s", expected, found, w.failure)
	}
	return nil
}

func (w *world) operate(s step) error {
	if s.Op == "create" {
		return w.create(s)
	}
	pool, ok := w.pools[s.Pool]
	if !ok {
		return fmt.Errorf("there is no pool %q", s.Pool)
	}
	b, stream, err := w.operands(s)
	if err != nil {
		return err
	}
	switch s.Op {
	case "destroy":
		delete(w.pools, s.Pool)
		return pool.Close()
	case "stream":
		w.streams[*s.Stream], err = pool.NewStream()
	case "destroy_stream":
		return w.streams[*s.Stream].Close()
	case "malloc":
		return w.malloc(pool, s, stream)
	case "free":
		return pool.Free(b.ptr+gpupool.Ptr(s.Offset), stream)
	case "record_stream":
		return pool.RecordStream(b.ptr, stream)
	case "release_stream":
		return pool.ReleaseStream(stream)
	case "synchronize":
		return pool.Synchronize()
	case "empty":
		_, err = pool.Empty()
	case "reset_peaks":
		return pool.ResetPeaks()
	case "validate":
		return pool.Validate()
	case "trim":
		_, err = pool.Trim(w.bytes(s.TargetBytes))
	case "reserve":
		return pool.Reserve(w.bytes(s.TargetBytes), stream)
	case "set_fraction":
		return pool.SetFraction(s.Fraction)
	case "set_limit":
		return pool.SetLimit(w.bytes(s.LimitBytes))
	case "look":
	default:
		return fmt.Errorf("unknown operation %q", s.Op)
	}
	return err
}

// operands gives the block and the stream that a step names.
func (w *world) operands(s step) (b block, stream gpupool.Stream, err error) {
	if s.Address != nil {
		b.ptr = gpupool.Ptr(*s.Address)
	} else if s.Block != "" && s.Op != "malloc" {
		var ok bool
		if b, ok = w.blocks[s.Block]; !ok {
			return b, 0, fmt.Errorf("there is no block %q", s.Block)
		}
	}
	if s.Stream == nil || s.Op == "stream" {
		return b, b.stream, nil
	}
	if *s.Stream == "unknown" {
		return b, gpupool.StreamUnknown, nil
	}
	owned, ok := w.streams[*s.Stream]
	if !ok {
		return b, 0, fmt.Errorf("there is no stream %q", *s.Stream)
	}
	return b, owned.Stream, nil
}

var (
	modes = map[string]gpupool.Mode{"": gpupool.ModeAuto, "vmm": gpupool.ModeVMM, "driver": gpupool.ModeDriver}
	kinds = map[string]gpupool.Kind{
		"": gpupool.KindDevice, "device": gpupool.KindDevice, "pinned": gpupool.KindPinned, "managed": gpupool.KindManaged,
	}
)

func (w *world) create(s step) error {
	mode, hasMode := modes[s.Mode]
	kind, hasKind := kinds[s.Kind]
	if !hasMode || !hasKind {
		return fmt.Errorf("unknown mode %q or kind %q", s.Mode, s.Kind)
	}
	pool, err := gpupool.New(gpupool.WithBackend(w.backend), gpupool.WithDevice(w.device),
		gpupool.WithFraction(s.Fraction), gpupool.WithLimit(w.bytes(s.LimitBytes)), gpupool.WithSlack(s.Slack),
		gpupool.WithMaxChunk(s.MaxChunkBytes), gpupool.WithMode(mode), gpupool.WithKind(kind))
	if err == nil {
		w.pools[s.Pool] = pool
	}
	return err
}

func (w *world) malloc(pool *gpupool.Pool, s step, stream gpupool.Stream) (err error) {
	if s.Alignment != nil {
		w.last, err = pool.MallocAligned(w.bytes(s.Size), *s.Alignment, stream)
	} else {
		w.last, err = pool.Malloc(w.bytes(s.Size), stream)
	}
	if err == nil {
		w.blocks[s.Block] = block{w.last, stream}
	}
	return err
}
