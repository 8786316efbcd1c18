// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

// Option says how a pool should differ from the default.
type Option func(*options)

type options struct {
	config   C.gpupool_config_t
	peers    []int32
	upstream Upstream
}

// WithDevice takes the device with this number, instead of the first.
func WithDevice(device int) Option {
	return func(o *options) { o.config.device = clamp(device) }
}

// WithBackend takes devices of this backend. The default is CUDA where there is a usable GPU, else the simulated
// device; GPUPOOL_BACKEND=cuda|sim in the environment decides instead.
func WithBackend(backend Backend) Option {
	return func(o *options) { o.config.backend = C.int32_t(backend) }
}

// WithMode says how memory is obtained from the backend.
func WithMode(mode Mode) Option {
	return func(o *options) { o.config.mode = C.int32_t(mode) }
}

// WithKind says what kind of memory the pool is of.
func WithKind(kind Kind) Option {
	return func(o *options) { o.config.kind = C.int32_t(kind) }
}

// WithFraction limits reserved memory to a fraction of the device's, in (0, 1]. Of two limits, the smaller holds.
func WithFraction(fraction float64) Option {
	return func(o *options) { o.config.fraction = C.double(fraction) }
}

// WithLimit limits reserved memory in bytes; 0: no such limit.
func WithLimit(bytes uint64) Option {
	return func(o *options) { o.config.limit_bytes = C.uint64_t(bytes) }
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
			o.peers = append(o.peers, int32(clamp(device)))
		}
	}
}

// WithCaptureAware asks the driver at every allocation and free whether the stream is capturing a graph. What is
// allocated and freed while capturing is then reused within that capture only. Costs a query of the driver a call.
func WithCaptureAware() Option {
	return func(o *options) { o.config.flags |= C.GPUPOOL_FLAG_CAPTURE_AWARE }
}

// WithUpstream gets memory from upstream instead of the driver, and sets ModeUpstream.
func WithUpstream(upstream Upstream) Option {
	return func(o *options) {
		o.upstream = upstream
		o.config.mode = C.GPUPOOL_MODE_UPSTREAM
	}
}

// clamp keeps a number that is out of range out of range: no device has number -1.
func clamp(device int) C.int32_t {
	if int(int32(device)) != device {
		return -1
	}
	return C.int32_t(device)
}
