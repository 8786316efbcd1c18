// SPDX-License-Identifier: Apache-2.0

package gpupool

import (
	"errors"
	"fmt"
	"testing"
)

func TestNamesOfStatuses(t *testing.T) {
	for status, name := range statusNames {
		if c := nameInC(status); c != name {
			t.Errorf("%d is %s in Go and %s in C", status, name, c)
		}
	}
	if name := Status(999).String(); name != "unknown status" {
		t.Errorf("999 is %s", name)
	}
}

func TestEachStatusIsFound(t *testing.T) {
	for status := range statusNames {
		err := fmt.Errorf("wrapped: %w", &Error{Status: status, Message: "why"})
		for other := range statusNames {
			expected := status == other || status == ErrOverLimit && other == ErrOutOfMemory
			if errors.Is(err, other) != expected {
				t.Errorf("%v is %v: %v", status, other, !expected)
			}
		}
	}
}
