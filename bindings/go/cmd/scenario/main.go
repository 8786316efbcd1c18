// SPDX-License-Identifier: Apache-2.0

// Scenario runs the scenarios of tests/scenario, and prints what each one ends with; the README there says how.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
)

// file is a scenario as it is written.
type file struct {
	Name        string
	Description string
	Sim         *struct {
		CapacityBytes uint64 `json:"capacity_bytes"`
	}
	Steps []json.RawMessage
}

type step struct {
	Op            string
	Pool          string
	Block         string
	Stream        *string
	Size          *size
	Alignment     *uint64
	Offset        uint64
	Address       *uint64
	TargetBytes   *size `json:"target_bytes"`
	LimitBytes    *size `json:"limit_bytes"`
	Fraction      float64
	Slack         float64
	MaxChunkBytes uint64 `json:"max_chunk_bytes"`
	Mode          string
	Kind          string
	For           *[3]int
	Expect        *expectation
	Save          map[string]string
}

// size is a number of bytes, or a part of the device's.
type size struct {
	Bytes   uint64
	OfTotal float64 `json:"of_total"`
}

func (s *size) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		return json.Unmarshal(text, &s.Bytes)
	}
	type plain size // without this method
	return decode(text, (*plain)(s))
}

type expectation struct {
	Status          string
	Stats           map[string]value
	SameAddress     *string `json:"same_address"`
	OtherAddress    *string `json:"other_address"`
	AddressZero     *bool   `json:"address_zero"`
	MessageContains string  `json:"message_contains"`
}

// value is what a figure must be: from Min to Max, which are the same for exactly one.
type value struct{ Min, Max *bound }

type bound struct {
	Number uint64
	Saved  string
	Plus   int64
}

func (v *value) UnmarshalJSON(text []byte) error {
	type plain value
	if err := decode(text, (*plain)(v)); err == nil {
		return nil
	}
	exactly := new(bound)
	*v = value{exactly, exactly}
	return json.Unmarshal(text, exactly)
}

func (b *bound) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		return json.Unmarshal(text, &b.Number)
	}
	type plain bound
	return decode(text, (*plain)(b))
}

// decode refuses what it does not know.
func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// run gives the line that a scenario ends with.
func run(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f file
	if err := decode(text, &f); err != nil {
		return nil, err
	}
	w, err := newWorld(f)
	if err != nil {
		return nil, err
	}
	defer w.close()
	for i, raw := range f.Steps {
		var s step
		if err := errors.Join(decode(raw, &s), w.do(s)); err != nil {
			return nil, fmt.Errorf("step %d: %s: %w", i+1, raw, err)
		}
	}
	pools, err := w.figures()
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"name": f.Name, "pools": pools})
}

func main() {
	// The pool's caches are threads', and figures such as hits depend on who runs where.
	runtime.LockOSThread()
	status := 0
	if len(os.Args) == 1 {
		fmt.Fprintln(os.Stderr, "usage: scenario FILE...")
		status = 1
	}
	for _, path := range os.Args[1:] {
		line, err := run(path)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			status = 1
			continue
		}
		fmt.Printf("%s\n", line)
	}
	os.Exit(status)
}
