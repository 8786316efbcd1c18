// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

// Version is that of the loaded library: major * 10000 + minor * 100 + patch.
func Version() int { return int(C.gpupool_version()) }

// VersionString is the same in words, such as "0.1.0".
func VersionString() string { return C.GoString(C.gpupool_version_string()) }

// Features tells what this build of the library can do. The first call may load the CUDA driver.
func Features() Feature { return Feature(C.gpupool_features()) }

// Device is a GPU, or a simulated one.
type Device struct {
	// BackendCUDA or BackendSim.
	Backend Backend
	Number  int
	Name    string
	// What it can do.
	Capabilities Capability
	TotalBytes   uint64
	// What the device itself says is free now, whoever holds the rest.
	FreeBytes uint64
	// Sizes of chunks are multiples of this.
	GranularityBytes uint64
	// As the driver gives it: 13000 is 13.0. 0 for a simulated device.
	DriverVersion int
	// 90 is 9.0.
	ComputeCapability int
}

// DeviceCount counts the devices of a backend; the simulated one has 8.
// Errors: ErrInvalidArgument; ErrUnavailable, with the reason.
func DeviceCount(backend Backend) (int, error) {
	result := C.bridge_device_count(C.int32_t(backend))
	return int(result.value), check(result)
}

// DeviceInfo describes a device as it is now.
// Errors: ErrInvalidArgument (no such device), ErrUnavailable, ErrDriver.
func DeviceInfo(backend Backend, number int) (Device, error) {
	info := C.gpupool_device_info_t{struct_size: C.sizeof_gpupool_device_info_t}
	if err := check(C.bridge_device_info(C.int32_t(backend), clamp(number), &info)); err != nil {
		return Device{}, err
	}
	return Device{
		Backend:           Backend(info.backend),
		Number:            int(info.device),
		Name:              C.GoString(&info.name[0]),
		Capabilities:      Capability(info.capabilities),
		TotalBytes:        uint64(info.total_bytes),
		FreeBytes:         uint64(info.free_bytes),
		GranularityBytes:  uint64(info.granularity_bytes),
		DriverVersion:     int(info.driver_version),
		ComputeCapability: int(info.compute_capability),
	}, nil
}
