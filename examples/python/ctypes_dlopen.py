# SPDX-License-Identifier: Apache-2.0
"""The pool from any Python, with only the shared library and the text of gpupool.h.

python ctypes_dlopen.py [libgpupool.so.0.2]
"""

import ctypes
import sys
from ctypes import POINTER, byref, c_char, c_int32, c_size_t, c_uint32, c_uint64, c_void_p


class ErrorDetails(ctypes.Structure):
    """gpupool_error_t"""

    _fields_ = [
        ("struct_size", c_uint32),
        ("status", c_int32),
        ("driver_code", c_int32),
        ("reserved0", c_uint32),
        ("message", c_char * 1024),
    ]


def load(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    signatures = {
        "gpupool_create": [c_void_p, POINTER(c_void_p)],
        "gpupool_malloc": [c_void_p, c_uint64, c_size_t, POINTER(c_uint64)],
        "gpupool_free": [c_void_p, c_uint64, c_size_t],
        "gpupool_empty": [c_void_p, POINTER(c_uint64)],
        "gpupool_destroy": [c_void_p],
        "gpupool_last_error": [POINTER(ErrorDetails)],
    }
    for name, arguments in signatures.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_int32
    library.gpupool_version_string.restype = ctypes.c_char_p
    return library


def main(path: str) -> None:
    gpupool = load(path)

    def check(status: int) -> None:
        if status:
            details = ErrorDetails(struct_size=ctypes.sizeof(ErrorDetails))
            gpupool.gpupool_last_error(byref(details))
            raise RuntimeError(f"status {status}: {details.message.decode()}")

    print(f"gpupool {gpupool.gpupool_version_string().decode()} through ctypes")
    pool, block, released = c_void_p(), c_uint64(), c_uint64()
    check(gpupool.gpupool_create(None, byref(pool)))
    check(gpupool.gpupool_malloc(pool, 1 << 20, 0, byref(block)))
    print(f"1 MiB at {block.value:#x}")
    check(gpupool.gpupool_free(pool, block, 0))
    try:
        check(gpupool.gpupool_free(pool, block, 0))
    except RuntimeError as error:
        print(f"freed twice: {error}")
    check(gpupool.gpupool_empty(pool, byref(released)))
    print(f"{released.value >> 20} MiB given back")
    check(gpupool.gpupool_destroy(pool))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "libgpupool.so.0.2")
