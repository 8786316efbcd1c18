// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package gpupool

import (
	"fmt"
	"math"
	"unsafe"
)

// Element lists the element types of an Array: types for which every bit pattern is a value.
type Element interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64 | ~complex64 | ~complex128
}

// Array is a block of elements of one type, freed as a Block is. Since 0.2.
type Array[T Element] struct{ View[T] }

// View is a part of an Array, or all of it. It shares the array's block and keeps it from being collected; once the
// block is closed, it returns ErrFreed. Since 0.2.
type View[T Element] struct {
	block *Block
	start int // in elements
	count int
}

// NewArray allocates an array with undefined contents. It is a function because a method of Pool cannot have a type
// parameter.
func NewArray[T Element](pool *Pool, length int, stream Stream) (*Array[T], error) {
	var one T
	size := int(unsafe.Sizeof(one))
	if length < 0 {
		return nil, refuse("the length %d is negative", length)
	}
	if length > math.MaxInt/size {
		return nil, &Error{
			Status:  ErrOutOfMemory,
			Message: fmt.Sprintf("%d elements of %d bytes are more than any device has", length, size),
		}
	}
	block, err := pool.Alloc(uint64(length*size), stream)
	if err != nil {
		return nil, err
	}
	return &Array[T]{View[T]{block: block, count: length}}, nil
}

// ArrayOf allocates an array and copies elements to it. Waits for the stream.
func ArrayOf[T Element](pool *Pool, elements []T, stream Stream) (*Array[T], error) {
	array, err := NewArray[T](pool, len(elements), stream)
	if err != nil {
		return nil, err
	}
	if err := array.Write(elements, 0); err != nil {
		_ = array.Close()
		return nil, err
	}
	return array, nil
}

// Close frees the block: Block.Close.
func (a *Array[T]) Close() error {
	if a == nil {
		return nil
	}
	return a.block.Close()
}

// Len is the number of elements.
func (v View[T]) Len() int { return v.count }

// Block is the block that holds the elements.
func (v View[T]) Block() *Block { return v.block }

// Ptr is the address of the first element: see Block.Ptr.
func (v View[T]) Ptr() Ptr {
	if v.count == 0 {
		return 0
	}
	return v.block.Ptr() + Ptr(v.offset(0))
}

// Part is the part from one element up to, but not including, another, as in a Go slice.
func (v View[T]) Part(from, to int) (View[T], error) {
	if from < 0 || to < from || to > v.count {
		return View[T]{}, refuse("elements %d to %d are not inside %d elements", from, to, v.count)
	}
	return View[T]{block: v.block, start: v.start + from, count: to - from}, nil
}

// Write copies elements to the device, from element at on. Waits for the stream. If they do not fit, nothing is copied.
func (v View[T]) Write(elements []T, at int) error {
	part, err := v.Part(at, at+len(elements))
	if err != nil {
		return err
	}
	_, err = part.block.WriteAt(bytesOf(elements), part.offset(0))
	return err
}

// Read fills elements from element at of the device on. Waits for the stream. If there are fewer, nothing is copied.
func (v View[T]) Read(elements []T, at int) error {
	part, err := v.Part(at, at+len(elements))
	if err != nil {
		return err
	}
	_, err = part.block.ReadAt(bytesOf(elements), part.offset(0))
	return err
}

// Slice is a copy of all elements. Waits for the stream. What the host has no memory for, Read copies in parts: a
// program that asks Go for it ends.
func (v View[T]) Slice() ([]T, error) {
	elements := make([]T, v.count)
	if err := v.Read(elements, 0); err != nil {
		return nil, err
	}
	return elements, nil
}

// WriteAsync is Write without waiting: see Transfer.
func (v View[T]) WriteAsync(elements []T, at int) (*Transfer, error) {
	part, err := v.Part(at, at+len(elements))
	if err != nil {
		return nil, err
	}
	return part.block.WriteAsync(bytesOf(elements), part.offset(0))
}

// ReadAsync is Read without waiting: see Transfer.
func (v View[T]) ReadAsync(elements []T, at int) (*Transfer, error) {
	part, err := v.Part(at, at+len(elements))
	if err != nil {
		return nil, err
	}
	return part.block.ReadAsync(bytesOf(elements), part.offset(0))
}

// String describes the array, and never fails.
func (v View[T]) String() string {
	var one T
	return fmt.Sprintf("%d elements of %T in %v", v.count, one, v.block)
}

// offset of an element in the block, in bytes.
func (v View[T]) offset(element int) int64 {
	var one T
	return int64(v.start+element) * int64(unsafe.Sizeof(one))
}

func bytesOf[T Element](elements []T) []byte {
	if len(elements) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(elements))), len(elements)*int(unsafe.Sizeof(elements[0])))
}
