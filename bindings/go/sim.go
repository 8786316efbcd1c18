// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import "unsafe"

// SimConfig says how a simulated device behaves. Zero means default.
type SimConfig struct {
	// Addresses only, for speed. Otherwise blocks are real host memory.
	WithoutData bool
	// Default: 150754820096, an H200's.
	CapacityBytes uint64
	// Multiplies the measured prices of driver calls. Default: 1.
	PriceScale float64
	// Only 0 and streams that a pool created are streams; any other number is a fault. Since 0.2.
	StrictStreams bool
	// How much host memory can be page-locked. Default: 1 TiB. Since 0.2.
	HostBytes uint64
}

// SimConfigure sets how a simulated device behaves. Possible only while no pool uses it.
func SimConfigure(device int, config SimConfig) error {
	c := C.gpupool_sim_config_t{
		data:           1,
		capacity_bytes: C.uint64_t(config.CapacityBytes),
		price_scale:    C.double(config.PriceScale),
		host_bytes:     C.uint64_t(config.HostBytes),
	}
	if config.WithoutData {
		c.data = 2
	}
	if config.StrictStreams {
		c.streams = 2
	}
	if err := checkVersion(); err != nil {
		return err
	}
	return onDevice(device, func(number C.int32_t) C.bridge_result { return C.bridge_sim_configure(number, c) })
}

// SimScript makes calls of the simulated driver fail: a comma-separated list of "CALL:NUMBER[=ERROR]", as in gpupool.h,
// such as "create:1=out_of_memory,map:*". An empty script ends all failures.
func SimScript(device int, script string) error {
	text, err := cString("script", script)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(text))
	return onDevice(device, func(number C.int32_t) C.bridge_result { return C.bridge_sim_script(number, text) })
}

// SimWork queues work that takes nanoseconds of virtual time on a stream, and reads and writes size bytes at ptr. An
// access that a GPU would not survive is counted: see SimFaults.
func SimWork(device int, stream Stream, ptr Ptr, size, nanoseconds uint64) error {
	return onDevice(device, func(number C.int32_t) C.bridge_result {
		return C.bridge_sim_work(number, C.uintptr_t(stream), C.uint64_t(ptr), C.uint64_t(size), C.uint64_t(nanoseconds))
	})
}

// SimAdvance lets virtual time pass.
func SimAdvance(device int, nanoseconds uint64) error {
	return onDevice(device, func(number C.int32_t) C.bridge_result {
		return C.bridge_sim_advance(number, C.uint64_t(nanoseconds))
	})
}

// SimCapture begins or ends the capture of a graph on a stream. Work, fills and copies queued meanwhile are recorded
// for SimLaunch, not done.
func SimCapture(device int, stream Stream, begin bool) error {
	var begins C.int32_t
	if begin {
		begins = 1
	}
	return onDevice(device, func(number C.int32_t) C.bridge_result {
		return C.bridge_sim_capture(number, C.uintptr_t(stream), begins)
	})
}

// SimLaunch queues on a stream of the device what an ended capture recorded, any number of times: at the addresses of
// the capture, which must be mapped now. capture is what Pool.CaptureID returned during the capture. Host memory that
// recorded copies use must still be there. Since 0.2.
//
// Errors: ErrInvalidArgument (no such device, no such capture on it, or one in progress); ErrDriver and ErrUnsupported
// as for work, fills and copies.
func SimLaunch(device int, capture uint64, stream Stream) error {
	return onDevice(device, func(number C.int32_t) C.bridge_result {
		return C.bridge_sim_launch(number, C.uint64_t(capture), C.uintptr_t(stream))
	})
}

// SimHold holds the physical memory mapped at ptr as another library such as NCCL would: it does not return to the
// device until SimHold(device, 0). Since 0.2.
func SimHold(device int, ptr Ptr) error {
	return onDevice(device, func(number C.int32_t) C.bridge_result { return C.bridge_sim_hold(number, C.uint64_t(ptr)) })
}

// SimFaults counts the device's rules broken so far: use of unmapped memory, races between streams, calls that are
// illegal during capture. It also describes the last one.
func SimFaults(device int) (count uint64, last string, err error) {
	text := make([]byte, 1024)
	err = onDevice(device, func(number C.int32_t) C.bridge_result {
		result := C.bridge_sim_faults(number, (*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text)))
		count = uint64(result.value)
		return result
	})
	if err != nil {
		return 0, "", err
	}
	return count, C.GoString((*C.char)(unsafe.Pointer(&text[0]))), nil
}

// onDevice makes a call with the number of a device.
func onDevice(device int, call func(number C.int32_t) C.bridge_result) error {
	number, err := deviceNumber(device)
	if err != nil {
		return err
	}
	return check(call(number))
}
