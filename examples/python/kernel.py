# SPDX-License-Identifier: Apache-2.0
"""A custom kernel on a pool's memory: PTX, which the driver compiles for the actual GPU. The simulated device has no
kernels, so there the host does the same. Needs NumPy."""

import ctypes

import numpy as np

import gpupool

SCALE = b"""
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
"""


def driver(name: str, *arguments: object) -> None:
    """Calls the driver, which the pool has already loaded."""
    result = getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments)
    if result != 0:
        raise RuntimeError(f"{name} gives {result}")


def load_scale(device: int) -> ctypes.c_void_p:
    """The kernel, loaded into the context that the pool uses: the device's primary one."""
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    driver("cuCtxSetCurrent", context)
    driver("cuModuleLoadData", ctypes.byref(module), SCALE)
    driver("cuModuleGetFunction", ctypes.byref(function), module, b"scale")
    return function


def launch(function: ctypes.c_void_p, array: gpupool.Array, factor: float, stream: gpupool.Stream) -> None:
    values = ctypes.c_uint64(array.address), ctypes.c_float(factor), ctypes.c_uint32(len(array))
    arguments = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in values))
    blocks = (len(array) + 255) // 256
    driver("cuLaunchKernel", function, blocks, 1, 1, 256, 1, 1, 0, ctypes.c_void_p(int(stream)), arguments, None)


def main() -> None:
    numbers = np.arange(1000, dtype=np.float32)
    with gpupool.Pool() as pool, pool.stream() as stream, pool.array(numbers, stream) as array:
        info = pool.device_info()
        if info.backend == gpupool.Backend.CUDA:
            launch(load_scale(info.device), array, 1.5, stream)  # the copy back waits for it, on the same stream
        else:
            print("the simulated device has no kernels: the host scales")
            array.copy_from_host(array.to_numpy() * np.float32(1.5))
        assert np.array_equal(array.to_numpy(), numbers * np.float32(1.5))
        print(f"{len(array)} numbers scaled on {info.name}")


if __name__ == "__main__":
    main()
