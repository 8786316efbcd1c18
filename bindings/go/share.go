// SPDX-License-Identifier: Apache-2.0

package gpupool

// #include "bridge.h"
import "C"

import "unsafe"

// ShareGroup is a group of processes that share a device's memory, at one moment: see docs/sharing.md. Since 0.2.
type ShareGroup struct {
	LimitBytes   uint64 // what all members may have together
	UsedBytes    uint64 // what they have, guarantees included
	TotalBytes   uint64 // what the device has
	LimboBytes   uint64 // the part of UsedBytes that dead members held, until the device shows it free
	ForeignBytes uint64 // what no member held at the last quiet moment
	Path         string // where the region is
	Members      []ShareMember
}

// ShareMember is a process of a group. All but ChargedBytes is what it says of itself, and may lag. Since 0.2.
type ShareMember struct {
	Slot            uint32 // its number, for ShareSet
	State           ShareMemberState
	PID             uint64 // as its own namespace sees it
	UID             uint64
	Priority        int
	IsWaiting       bool // for WantBytes
	WantBytes       uint64
	ReservedBytes   uint64
	ChargedBytes    uint64 // what counts for the group: the larger of ReservedBytes and GuaranteedBytes
	LiveBytes       uint64 // in live blocks, when it was asked last
	GuaranteedBytes uint64
	LimitBytes      uint64 // 0: none but the group's
	GivenBytes      uint64
	TakenBytes      uint64
	Name            string // the program
}

// ShareInfo describes a group of a device, its members in the order of their numbers; "": the group that GPUPOOL_SHARE
// names. The caller need not be a member. Since 0.2.
//
// Errors: ErrInvalidArgument; ErrUnavailable (no such group, or its region cannot be used).
func ShareInfo(group string, backend Backend, device int) (ShareGroup, error) {
	var list *C.gpupool_share_member_t
	defer func() { C.free(unsafe.Pointer(list)) }()
	info := C.gpupool_share_t{struct_size: C.sizeof_gpupool_share_t}
	capacity := uint64(0)
	for {
		result, err := onGroup(group, device, func(name *C.char, number C.int32_t) C.bridge_result {
			return C.bridge_share_info(name, C.int32_t(backend), number, &info, list, C.size_t(capacity))
		})
		if err != nil {
			return ShareGroup{}, err
		}
		if result <= capacity {
			capacity = result
			break
		}
		// Members may join between asking for the count and for the contents.
		C.free(unsafe.Pointer(list))
		list = (*C.gpupool_share_member_t)(C.calloc(C.size_t(result), C.sizeof_gpupool_share_member_t))
		if capacity = result; list == nil {
			capacity = 0
		}
	}
	members := make([]ShareMember, capacity)
	for i, c := range unsafe.Slice(list, capacity) {
		members[i] = ShareMember{
			Slot: uint32(c.slot), State: ShareMemberState(c.state), PID: uint64(c.pid), UID: uint64(c.uid),
			Priority: int(c.priority), IsWaiting: c.is_waiting != 0, WantBytes: uint64(c.want_bytes),
			ReservedBytes: uint64(c.reserved_bytes), ChargedBytes: uint64(c.charged_bytes),
			LiveBytes: uint64(c.live_bytes), GuaranteedBytes: uint64(c.guaranteed_bytes),
			LimitBytes: uint64(c.limit_bytes), GivenBytes: uint64(c.given_bytes), TakenBytes: uint64(c.taken_bytes),
			Name: C.GoString(&c.name[0]),
		}
	}
	return ShareGroup{
		LimitBytes: uint64(info.limit_bytes), UsedBytes: uint64(info.used_bytes), TotalBytes: uint64(info.total_bytes),
		LimboBytes: uint64(info.limbo_bytes), ForeignBytes: uint64(info.foreign_bytes),
		Path: C.GoString(&info.path[0]), Members: members,
	}, nil
}

// ShareSet sets a figure of a group or, by its slot, of a member: bytes, or a priority. The group is named as for
// ShareInfo. Since 0.2.
//
// Errors: ErrInvalidArgument (no such member, or a value out of range), ErrOverLimit (the group cannot guarantee that),
// ErrUnavailable (no such group, or the member does not answer).
func ShareSet(what ShareFigure, value int64, slot uint32, group string, backend Backend, device int) error {
	_, err := onGroup(group, device, func(name *C.char, number C.int32_t) C.bridge_result {
		return C.bridge_share_set(name, C.int32_t(backend), number, C.int32_t(what), C.uint32_t(slot), C.int64_t(value))
	})
	return err
}

// ShareRepair takes back what dead members have left, corrects the group's used bytes, and returns by how much they
// were too high. Since 0.2.
//
// Errors: ErrInvalidArgument; ErrUnavailable (no such group).
func ShareRepair(group string, backend Backend, device int) (int64, error) {
	off, err := onGroup(group, device, func(name *C.char, number C.int32_t) C.bridge_result {
		return C.bridge_share_repair(name, C.int32_t(backend), number)
	})
	return int64(off), err
}

// onGroup makes a call with the names of a group and of a device for C.
func onGroup(group string, device int, call func(name *C.char, number C.int32_t) C.bridge_result) (uint64, error) {
	if err := checkVersion(); err != nil {
		return 0, err
	}
	number, err := deviceNumber(device)
	if err != nil {
		return 0, err
	}
	var name *C.char // none: the environment's
	if group != "" {
		if name, err = cString("group", group); err != nil {
			return 0, err
		}
		defer C.free(unsafe.Pointer(name))
	}
	result := call(name, number)
	return uint64(result.value), check(result)
}
