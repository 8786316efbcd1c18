// SPDX-License-Identifier: Apache-2.0

// Kernel runs a kernel of one's own on a pool's memory: PTX, which the driver compiles for the GPU that is there. The
// simulated device has no kernels, so there the host does the same.
package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
  const char* function;
  int code;
} result;

static void* driver(const char* name) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return library == NULL ? NULL : dlsym(library, name);
}

#define CALL(name, type, ...)                                    \
  do {                                                           \
    int (*call) type = (int (*) type)driver(#name);              \
    const int code = call == NULL ? -1 : call(__VA_ARGS__);      \
    if (code != 0) return (result){#name, code};                 \
  } while (0)

// Loads the kernel into the context that the pool uses, the device's primary one, and launches it.
static result launch(int device, const char* ptx, uint64_t numbers, float factor, uint32_t count, uintptr_t stream) {
  void *context, *module, *function;
  void* arguments[] = {&numbers, &factor, &count};
  CALL(cuDevicePrimaryCtxRetain, (void**, int), &context, device);
  CALL(cuCtxSetCurrent, (void*), context);
  CALL(cuModuleLoadData, (void**, const char*), &module, ptx);
  CALL(cuModuleGetFunction, (void**, void*, const char*), &function, module, "scale");
  CALL(cuLaunchKernel,
       (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**),
       function, (count + 255) / 256, 1, 1, 256, 1, 1, 0, (void*)stream, arguments, NULL);
  return (result){NULL, 0};
}
*/
import "C"

import (
	"fmt"
	"log"
	"unsafe"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

const scale = `
.version 6.0
.target sm_50
.address_size 64
.visible .entry scale(.param .u64 numbers, .param .f32 factor, .param .u32 count) {
  .reg .pred %outside;
  .reg .f32 %f<3>;
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [numbers];
  ld.param.f32 %f1, [factor];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4;
  setp.ge.u32 %outside, %r2, %r1;
  @%outside bra done;
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r2, 4;
  add.u64 %rd1, %rd1, %rd2;
  ld.global.f32 %f2, [%rd1];
  mul.f32 %f2, %f2, %f1;
  st.global.f32 [%rd1], %f2;
done:
  ret;
}
`

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	pool, err := gpupool.New()
	if err != nil {
		return err
	}
	defer pool.Close()
	stream, err := pool.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	numbers := make([]float32, 1000)
	for i := range numbers {
		numbers[i] = float32(i)
	}
	array, err := gpupool.ArrayOf(pool, numbers, stream.Stream)
	if err != nil {
		return err
	}
	defer array.Close()

	info, err := pool.DeviceInfo()
	if err != nil {
		return err
	}
	if info.Backend == gpupool.BackendCUDA {
		err = scaleOnGPU(info.Number, array, 1.5) // the copy back waits for it, on the same stream
	} else {
		fmt.Println("the simulated device has no kernels: the host scales")
		err = scaleOnHost(array, 1.5)
	}
	if err != nil {
		return err
	}
	scaled, err := array.Slice()
	if err != nil {
		return err
	}
	for i, number := range numbers {
		if scaled[i] != 1.5*number {
			return fmt.Errorf("number %d is %v", i, scaled[i])
		}
	}
	fmt.Printf("%d numbers scaled on %s\n", len(scaled), info.Name)
	return nil
}

func scaleOnGPU(device int, array *gpupool.Array[float32], factor float32) error {
	ptx := C.CString(scale)
	defer C.free(unsafe.Pointer(ptx))
	result := C.launch(C.int(device), ptx, C.uint64_t(array.Ptr()), C.float(factor), C.uint32_t(array.Len()),
		C.uintptr_t(array.Block().Stream()))
	if result.function != nil {
		return fmt.Errorf("%s gives %d", C.GoString(result.function), int(result.code))
	}
	return nil
}

func scaleOnHost(array *gpupool.Array[float32], factor float32) error {
	numbers, err := array.Slice()
	if err != nil {
		return err
	}
	for i := range numbers {
		numbers[i] *= factor
	}
	return array.Write(numbers, 0)
}
