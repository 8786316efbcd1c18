// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// event is a malloc of bytes, or a free. Slots and streams are indices into small tables.
type event struct {
	slot, stream int
	bytes        uint64
	isFree       bool
}

type trace struct {
	name      string
	events    []event
	leftovers []event // frees of what is live at the end, in the order of their slots
	slots     int
	streams   int
	peakLive  uint64 // with each block rounded up to 512
}

// load reads a trace: lines "a ID BYTES STREAM" and "f ID" for mallocs and frees, and comments that start with #.
func load(path string) (*trace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".txt")
	t := &trace{name: strings.TrimSuffix(name, ".trace")}
	live, streams := map[uint64]event{}, map[uint64]int{}
	var unused []int // slots, of which the last is the next to be used again
	var liveBytes uint64
	lines := bufio.NewScanner(text)
	for number := 1; lines.Scan(); number++ {
		var id, bytes, stream uint64
		line := lines.Text()
		if _, err := fmt.Sscanf(line, "a %d %d %d", &id, &bytes, &stream); err == nil {
			if _, known := streams[stream]; !known {
				streams[stream] = len(streams)
			}
			if len(unused) == 0 {
				unused = []int{t.slots}
				t.slots++
			}
			e := event{slot: unused[len(unused)-1], stream: streams[stream], bytes: bytes}
			unused = unused[:len(unused)-1]
			live[id] = e
			liveBytes += (bytes + 511) / 512 * 512
			t.peakLive = max(t.peakLive, liveBytes)
			t.events = append(t.events, e)
		} else if _, err := fmt.Sscanf(line, "f %d", &id); err == nil {
			e, ok := live[id]
			if !ok {
				return nil, fmt.Errorf("%s:%d: block %d is freed and is not live", path, number, id)
			}
			delete(live, id)
			liveBytes -= (e.bytes + 511) / 512 * 512
			unused = append(unused, e.slot)
			e.isFree = true
			t.events = append(t.events, e)
		} else if line != "" && line[0] != '#' {
			return nil, fmt.Errorf("%s:%d: neither a malloc nor a free: %.40q", path, number, line)
		}
	}
	for _, e := range live {
		e.isFree = true
		t.leftovers = append(t.leftovers, e)
	}
	slices.SortFunc(t.leftovers, func(a, b event) int { return a.slot - b.slot })
	t.streams = len(streams)
	return t, lines.Err()
}
