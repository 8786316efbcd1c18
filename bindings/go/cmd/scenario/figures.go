// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

// figuresOf gives all that must be the same in every language, under the names of C: no time, and no host memory.
func figuresOf(stats gpupool.Stats) map[string]uint64 {
	figures := map[string]uint64{}
	collect(figures, "", reflect.ValueOf(stats))
	return figures
}

func collect(figures map[string]uint64, prefix string, value reflect.Value) {
	for i := range value.NumField() {
		field := value.Type().Field(i)
		name := prefix + snake(field.Name)
		if name == "metadata_bytes" {
			return // This and what came later is no part of a scenario.
		}
		switch {
		case field.Type.Kind() == reflect.Struct:
			collect(figures, name+".", value.Field(i))
		case field.Type.Kind() == reflect.Uint64 && field.Name != "Nanoseconds":
			figures[name] = value.Field(i).Uint()
		}
	}
}

var wordStart = regexp.MustCompile(`[a-z][A-Z]|[A-Z][A-Z][a-z]`)

// snake turns OOMHandlerCalls into oom_handler_calls.
func snake(name string) string {
	return strings.ToLower(wordStart.ReplaceAllStringFunc(name, func(s string) string { return s[:1] + "_" + s[1:] }))
}

// figures of all pools, by name.
func (w *world) figures() (map[string]map[string]uint64, error) {
	all := map[string]map[string]uint64{}
	for name, pool := range w.pools {
		stats, err := pool.Stats()
		if err != nil {
			return nil, err
		}
		all[name] = figuresOf(stats)
	}
	return all, nil
}

func (w *world) figure(pool, path string) (uint64, error) {
	if path == "device.free_bytes" {
		device, err := gpupool.DeviceInfo(w.backend, w.device)
		return device.FreeBytes, err
	}
	if w.pools[pool] == nil {
		return 0, fmt.Errorf("there is no pool %q", pool)
	}
	stats, err := w.pools[pool].Stats()
	figure, ok := figuresOf(stats)[path]
	if err == nil && !ok {
		err = fmt.Errorf("there is no figure %q", path)
	}
	return figure, err
}

// bytes of an operand, which may be missing.
func (w *world) bytes(s *size) uint64 {
	if s == nil {
		return 0
	}
	if s.OfTotal == 0 {
		return s.Bytes
	}
	return uint64(s.OfTotal*float64(w.totalBytes)) / 512 * 512
}

// look checks what is expected after a step, and saves what is to be saved.
func (w *world) look(s step) error {
	if s.Expect != nil {
		if err := w.compare(s, *s.Expect); err != nil {
			return err
		}
	}
	for name, path := range s.Save {
		figure, err := w.figure(s.Pool, path)
		if err != nil {
			return err
		}
		w.saved[name] = figure
	}
	return nil
}

func (w *world) compare(s step, expect expectation) error {
	for path, value := range expect.Stats {
		figure, err := w.figure(s.Pool, path)
		if err != nil {
			return err
		}
		if value.Min != nil && figure < w.limit(value.Min) {
			return fmt.Errorf("%s: expected %d or more, found %d", path, w.limit(value.Min), figure)
		}
		if value.Max != nil && figure > w.limit(value.Max) {
			return fmt.Errorf("%s: expected %d or less, found %d", path, w.limit(value.Max), figure)
		}
	}
	if name := expect.SameAddress; name != nil && w.last != w.blocks[*name].ptr {
		return fmt.Errorf("expected the address %#x of %s, found %#x", uint64(w.blocks[*name].ptr), *name, uint64(w.last))
	}
	if name := expect.OtherAddress; name != nil && w.last == w.blocks[*name].ptr {
		return fmt.Errorf("expected another address than %#x of %s", uint64(w.last), *name)
	}
	if expect.AddressZero != nil && *expect.AddressZero != (w.last == 0) {
		return fmt.Errorf("address 0: expected %v, found %#x", *expect.AddressZero, uint64(w.last))
	}
	if !strings.Contains(w.failure, expect.MessageContains) {
		return fmt.Errorf("expected a message with %q, found %q", expect.MessageContains, w.failure)
	}
	return nil
}

func (w *world) limit(b *bound) uint64 {
	if b.Saved == "" {
		return b.Number
	}
	return w.saved[b.Saved] + uint64(b.Plus)
}
