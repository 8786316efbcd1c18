// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package gpupool

import (
	"fmt"
	"strconv"
	"strings"
)

// String returns, for example, "pool on sim:0: 2 MiB of 64 MiB reserved, 1 block live".
func (p *Pool) String() string {
	if p == nil || p.core == nil {
		return "no pool"
	}
	if !p.core.isOpen() {
		return "closed pool"
	}
	stats, err := p.Stats()
	if err != nil {
		return fmt.Sprintf("pool (%v)", err)
	}
	device, err := p.DeviceInfo()
	if err != nil {
		return fmt.Sprintf("pool (%v)", err)
	}
	limit := ""
	if stats.LimitBytes != 0 {
		limit = " of " + sizeInWords(stats.LimitBytes)
	}
	blocks := stats.All.AllocatedBlocks.Current
	plural := "s"
	if blocks == 1 {
		plural = ""
	}
	return fmt.Sprintf("pool on %v:%d: %s%s reserved, %d block%s live", device.Backend, device.Number,
		sizeInWords(stats.All.ReservedBytes.Current), limit, blocks, plural)
}

// String returns, for example, "block of 1000 bytes at 0x7f0000000200 on stream 0".
func (b *Block) String() string {
	if b == nil || b.life == nil {
		return "no block"
	}
	freed := ""
	if b.life.closed.Load() {
		freed = "freed "
	}
	return fmt.Sprintf("%sblock of %d bytes at %#x on %v", freed, b.size, uint64(b.life.ptr), b.life.stream)
}

// String returns, for example, "stream 0x1000".
func (s Stream) String() string {
	switch s {
	case 0:
		return "stream 0"
	case StreamUnknown:
		return "any stream"
	}
	return fmt.Sprintf("stream %#x", uintptr(s))
}

// Format writes String for %v and %s, and the number for all other verbs: otherwise %#x would spell out the letters.
func (s Stream) Format(f fmt.State, verb rune) {
	if verb == 'v' || verb == 's' {
		fmt.Fprintf(f, fmt.FormatString(f, 's'), s.String())
	} else {
		fmt.Fprintf(f, fmt.FormatString(f, verb), uintptr(s))
	}
}

// sizeInWords returns, for example, "1.5 MiB".
func sizeInWords(bytes uint64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	size, unit := float64(bytes), 0
	for ; size >= 1024 && unit < len(units)-1; unit++ {
		size /= 1024
	}
	text := strconv.FormatFloat(size, 'f', 2, 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + " " + units[unit]
}

// nameOf is the name of an enum's value, or Type(number) for one that this package does not know.
func nameOf[Enum ~int32](names map[Enum]string, kind string, value Enum) string {
	if name, ok := names[value]; ok {
		return name
	}
	return fmt.Sprintf("%s(%d)", kind, int32(value))
}

// namesOf are those of the bits that are set, from the lowest on, such as "vmm|rdma"; "none" without any.
func namesOf[Bits ~uint64](names map[Bits]string, bits Bits) string {
	var found []string
	for bit := Bits(1); bit != 0; bit <<= 1 {
		if bits&bit == 0 {
			continue
		}
		if name, ok := names[bit]; ok {
			found = append(found, name)
		} else {
			found = append(found, fmt.Sprintf("%#x", uint64(bit)))
		}
	}
	if found == nil {
		return "none"
	}
	return strings.Join(found, "|")
}
