# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PLC0415  a case imports its framework itself
"""Programs for compute-sanitizer, with a kernel of their own. Each is one argument; the pool is a default one.

sanitizer_cases.py NAME       runs one; GPUPOOL_LIBRARY is the library
"""

import ctypes
import os
import sys

u64, u32, P = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_void_p

# Writes a byte to each address from `first` on, `count` of them.
KERNEL = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry write_bytes(.param .u64 first, .param .u32 count)
{
    .reg .pred %p<2>;
    .reg .u32 %r<6>;
    .reg .u64 %a<4>;
    ld.param.u64 %a1, [first];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra done;
    cvt.u64.u32 %a2, %r5;
    add.u64 %a3, %a1, %a2;
    st.global.u8 [%a3], 7;
done:
    ret;
}
"""

gpupool = ctypes.CDLL(os.environ.get("GPUPOOL_LIBRARY", "libgpupool.so.0.2"))
cuda = ctypes.CDLL("libcuda.so.1")


def ok(status):
    if status != 0:
        raise RuntimeError(f"status {status}")


class Lab:
    def __init__(self):
        self.pool = P()
        ok(gpupool.gpupool_default_pool(0, ctypes.byref(self.pool)))
        device = ctypes.c_int()
        ok(cuda.cuDeviceGet(ctypes.byref(device), 0))
        context, module = P(), P()
        ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        ok(cuda.cuCtxSetCurrent(context))
        ok(cuda.cuModuleLoadData(ctypes.byref(module), KERNEL))
        self.kernel = P()
        ok(cuda.cuModuleGetFunction(ctypes.byref(self.kernel), module, b"write_bytes"))

    def malloc(self, size):
        address = u64()
        ok(gpupool.gpupool_malloc(self.pool, u64(size), u64(0), ctypes.byref(address)))
        return address.value

    def free(self, address):
        ok(gpupool.gpupool_free(self.pool, u64(address), u64(0)))

    def write(self, address, count):
        first, number = u64(address), u32(count)
        arguments = (P * 2)(ctypes.addressof(first), ctypes.addressof(number))
        blocks = (count + 255) // 256
        ok(cuda.cuLaunchKernel(self.kernel, blocks, 1, 1, 256, 1, 1, 0, None, arguments, None))

    def wait(self):
        return cuda.cuCtxSynchronize()


def right():
    """Frees while the work is queued, and takes the memory again for other sizes."""
    lab = Lab()
    kept = lab.malloc(1000)
    for round_number in range(50):
        size = 1000 + 4096 * (round_number % 7)
        block = lab.malloc(size)
        lab.write(block, size)
        lab.write(kept, 1000)
        lab.free(block)
    lab.free(kept)
    ok(lab.wait())
    ok(gpupool.gpupool_empty(lab.pool, None))


def past_the_end():
    lab = Lab()
    block = lab.malloc(1000)
    lab.write(block, 1001)
    lab.wait()


def past_a_tensor():
    import gpupool.torch
    import torch

    gpupool.torch.install()
    tensor = torch.empty(1000, dtype=torch.uint8, device="cuda")
    lab = Lab()
    lab.write(tensor.data_ptr(), 1001)
    lab.wait()


def after_the_free():
    lab = Lab()
    block = lab.malloc(1000)
    lab.write(block, 1000)
    lab.free(block)
    lab.write(block, 1000)
    lab.wait()


def before_the_begin():
    lab = Lab()
    blocks = [lab.malloc(1000) for _ in range(2)]
    lab.write(max(blocks) - 1, 1)
    lab.wait()


def leak():
    lab = Lab()
    lab.malloc(1000)
    ok(lab.wait())
    cuda.cuDevicePrimaryCtxReset_v2(0)  # the tool looks for leaks when a context ends


if __name__ == "__main__":
    {f.__name__: f for f in (right, past_the_end, past_a_tensor, after_the_free, before_the_begin, leak)}[sys.argv[1]]()
