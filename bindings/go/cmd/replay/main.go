// SPDX-License-Identifier: Apache-2.0

// Replay plays a recorded workload twice through a pool, and ends with the figures of `gpupool replay --json`.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime"
	"time"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

type line struct {
	Language     string     `json:"language"`
	Device       string     `json:"device"`
	Trace        string     `json:"trace"`
	Events       int        `json:"events"`
	NsPerEvent   [2]float64 `json:"ns_per_event"`
	PeakLive     uint64     `json:"peak_live_bytes"`
	PeakReserved uint64     `json:"peak_reserved_bytes"`
	DriverCalls  [2]uint64  `json:"driver_calls"`
	Hits         [2]uint64  `json:"hits"`
	Misses       [2]uint64  `json:"misses"`
	Steals       [2]uint64  `json:"steals"`
}

func main() {
	log.SetFlags(0)
	runtime.LockOSThread() // the pool's caches are threads', and the figures are to be exact
	if len(os.Args) != 2 {
		log.Fatal("usage: replay TRACE.gz")
	}
	t, err := load(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	result, err := replay(t)
	if err != nil {
		log.Fatal(err)
	}
	_ = json.NewEncoder(os.Stdout).Encode(result)
}

func replay(t *trace) (*line, error) {
	device, err := gpupool.DeviceInfo(gpupool.BackendAuto, 0)
	if err != nil {
		return nil, err
	}
	label := fmt.Sprintf("cuda:%d", device.Number)
	if device.Backend == gpupool.BackendSim {
		label = fmt.Sprintf("sim:%d", device.Number)
		if err := gpupool.SimConfigure(device.Number, gpupool.SimConfig{WithoutData: true}); err != nil {
			return nil, err
		}
	}
	pool, err := gpupool.New()
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	streams := make([]gpupool.Stream, t.streams)
	for i := range streams {
		stream, err := pool.NewStream()
		if err != nil {
			return nil, err
		}
		defer stream.Close()
		streams[i] = stream.Stream
	}

	result := &line{Language: "go", Device: label, Trace: t.name, Events: len(t.events), PeakLive: t.peakLive}
	blocks := make([]gpupool.Ptr, t.slots)
	play := func(events []event) error {
		for _, e := range events {
			if e.isFree {
				err = pool.Free(blocks[e.slot], streams[e.stream])
			} else {
				blocks[e.slot], err = pool.Malloc(e.bytes, streams[e.stream])
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	var before, after gpupool.Stats
	for pass := range 2 {
		start := time.Now()
		if err := play(t.events); err != nil {
			return nil, err
		}
		result.NsPerEvent[pass] = float64(time.Since(start).Nanoseconds()) / float64(len(t.events))
		if err := play(t.leftovers); err != nil {
			return nil, err
		}
		if after, err = pool.Stats(); err != nil {
			return nil, err
		}
		result.DriverCalls[pass] = driverCalls(after.Driver) - driverCalls(before.Driver)
		result.Hits[pass] = after.Hits - before.Hits
		result.Misses[pass] = after.Misses - before.Misses
		result.Steals[pass] = after.Steals - before.Steals
		before = after
	}
	result.PeakReserved = after.All.ReservedBytes.Peak
	return result, pool.Validate()
}

func driverCalls(d gpupool.DriverStats) uint64 {
	return d.Create.Count + d.Release.Count + d.Map.Count + d.SetAccess.Count + d.Unmap.Count + d.Address.Count +
		d.Malloc.Count + d.Free.Count + d.EventRecord.Count + d.Query.Count + d.StreamWait.Count + d.HostWait.Count
}
