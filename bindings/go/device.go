// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

// Device is a GPU, or a simulated one.
type Device struct {
	// BackendCUDA or BackendSim.
	Backend Backend
	Number  int
	Name    string
	// Its capabilities.
	Capabilities Capability
	TotalBytes   uint64
	// What the device itself reports as free now, whoever holds the rest.
	FreeBytes uint64
	// Sizes of chunks are multiples of this.
	GranularityBytes uint64
	// As the driver reports it: 13000 is 13.0. 0 for a simulated device.
	DriverVersion int
	// 90 is 9.0.
	ComputeCapability int
}

// DeviceCount counts the devices of a backend; the simulated one has 8.
// Errors: ErrInvalidArgument; ErrUnavailable, with the reason.
func DeviceCount(backend Backend) (int, error) {
	if err := checkVersion(); err != nil {
		return 0, err
	}
	result := C.bridge_device_count(C.int32_t(backend))
	return int(result.value), check(result)
}

// DeviceInfo describes a device as it is now.
// Errors: ErrInvalidArgument (no such device), ErrUnavailable, ErrDriver.
func DeviceInfo(backend Backend, number int) (Device, error) {
	if err := checkVersion(); err != nil {
		return Device{}, err
	}
	device, err := deviceNumber(number)
	if err != nil {
		return Device{}, err
	}
	info := C.gpupool_device_info_t{struct_size: C.sizeof_gpupool_device_info_t}
	if err := check(C.bridge_device_info(C.int32_t(backend), device, &info)); err != nil {
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

// DeviceInfo describes the pool's device as it is now. Since 0.2.
func (p *Pool) DeviceInfo() (Device, error) {
	stats, err := p.Stats()
	if err != nil {
		return Device{}, err
	}
	return DeviceInfo(p.core.backend, int(stats.Device))
}

// deviceNumber checks a device's number for the library.
func deviceNumber(device int) (C.int32_t, error) {
	if int(int32(device)) != device {
		return 0, refuse("there is no device %d: devices are numbered from 0", device)
	}
	return C.int32_t(device), nil
}
