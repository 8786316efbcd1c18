// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import (
	"math"
	"time"
)

// Option sets how a pool differs from the default.
type Option func(*options)

type options struct {
	config   C.gpupool_config_t
	peers    []int32
	upstream Upstream
	share    *string
	collects bool
	err      error // the first of an option
}

// WithDevice uses this device instead of the first: a number, or a name that ParseDevice reads, such as "cuda:1". A
// name with a backend chooses it, as WithBackend does; the last option counts.
func WithDevice[D int | string](device D) Option {
	return func(o *options) {
		switch device := any(device).(type) {
		case int:
			number, err := deviceNumber(device)
			o.config.device = number
			o.fail(err)
		case string:
			backend, number, err := ParseDevice(device)
			o.config.device = C.int32_t(number)
			if backend != BackendAuto {
				o.config.backend = C.int32_t(backend)
			}
			o.fail(err)
		}
	}
}

// WithBackend uses devices of this backend. The default is CUDA if there is a usable GPU, else the simulated device;
// GPUPOOL_BACKEND=cuda|sim|host in the environment overrides it.
func WithBackend(backend Backend) Option {
	return func(o *options) { o.config.backend = C.int32_t(backend) }
}

// WithMode says how memory is obtained from the backend.
func WithMode(mode Mode) Option {
	return func(o *options) { o.config.mode = C.int32_t(mode) }
}

// WithKind sets the kind of the pool's memory.
func WithKind(kind Kind) Option {
	return func(o *options) { o.config.kind = C.int32_t(kind) }
}

// WithFraction limits reserved memory to a fraction of the device's, in (0, 1]. Of two limits, the smaller applies.
func WithFraction(fraction float64) Option {
	return func(o *options) { o.config.fraction = C.double(fraction) }
}

// WithLimit limits reserved memory to a number of bytes, where 0 means no such limit, or to a string that ParseSize
// reads, such as "8GiB", or "40%" of the device's memory.
func WithLimit[L int | int64 | uint64 | string](limit L) Option {
	return func(o *options) {
		switch limit := any(limit).(type) {
		case int:
			o.limit(int64(limit))
		case int64:
			o.limit(limit)
		case uint64:
			o.config.limit_bytes = C.uint64_t(limit)
		case string:
			bytes, share, err := ParseSize(limit)
			o.config.limit_bytes = C.uint64_t(bytes)
			if share > 0 {
				o.config.fraction = C.double(share)
			}
			o.fail(err)
		}
	}
}

func (o *options) limit(bytes int64) {
	if bytes < 0 {
		o.fail(refuse("the limit of %d bytes is negative", bytes))
	}
	o.config.limit_bytes = C.uint64_t(bytes)
}

func (o *options) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// WithGCBeforeOOM runs the garbage collector once before an allocation fails, and before an OOMHandler is called, and
// frees the blocks that it finds unreachable: the collector does not see how much GPU memory they hold. An allocation
// costs more, because the pool keeps a list of its blocks. Since 0.2.
func WithGCBeforeOOM() Option {
	return func(o *options) { o.collects = true }
}

// WithSlack says how much more than the live peak may be reserved to save calls of the driver, as a fraction in
// [0, 10]: 0.1 allows 10 per cent. The default is 0, the tightest.
func WithSlack(slack float64) Option {
	return func(o *options) { o.config.slack = C.double(slack) }
}

// WithMaxChunk sets the size of the largest chunk, a power of two from 2 MiB.
func WithMaxChunk(bytes uint64) Option {
	return func(o *options) { o.config.max_chunk_bytes = C.uint64_t(bytes) }
}

// WithPeers gives other devices access to the pool's memory. Modes vmm and driver.
func WithPeers(devices ...int) Option {
	return func(o *options) {
		o.peers = nil
		for _, device := range devices {
			number, err := deviceNumber(device)
			o.peers = append(o.peers, int32(number))
			o.fail(err)
		}
	}
}

// WithCaptureAware asks the driver at every allocation and free whether the stream is capturing a graph. Memory
// allocated and freed while capturing is then reused only within that capture. Costs one driver query per call.
func WithCaptureAware() Option {
	return func(o *options) { o.config.flags |= C.GPUPOOL_FLAG_CAPTURE_AWARE }
}

// WithShare names the group of processes to share the device's memory with; "" is none, whatever GPUPOOL_SHARE in the
// environment says. Since 0.2.
func WithShare(group string) Option {
	return func(o *options) { o.share = &group }
}

// WithGuaranteed sets this pool's guaranteed part of the group's memory, in bytes. Since 0.2.
func WithGuaranteed(bytes uint64) Option {
	return func(o *options) { o.config.guaranteed_bytes = C.uint64_t(bytes) }
}

// WithShareWait sets how long an allocation waits for neighbours to give memory back; 0 means 50 ms. Since 0.2.
func WithShareWait(wait time.Duration) Option {
	return func(o *options) { o.config.share_wait_ns = C.uint64_t(max(wait, 0)) }
}

// WithPriority decides which member gives first and which gets first, from -8 to 8. Since 0.2.
func WithPriority(priority int) Option {
	return func(o *options) { o.config.priority = C.int32_t(min(max(priority, math.MinInt32), math.MaxInt32)) }
}

// WithIdle has the pool give its cached memory back to the device after so long without an allocation; a negative time
// means never, and 0 what GPUPOOL_IDLE says. Since 0.2.
func WithIdle(idle time.Duration) Option {
	return func(o *options) {
		o.config.idle_seconds = C.double(idle.Seconds())
		if idle < 0 {
			o.config.idle_seconds = -1
		}
	}
}

// WithUpstream gets memory from upstream instead of the driver, and sets ModeUpstream.
func WithUpstream(upstream Upstream) Option {
	return func(o *options) {
		o.upstream = upstream
		o.config.mode = C.GPUPOOL_MODE_UPSTREAM
	}
}
