# SPDX-License-Identifier: Apache-2.0
"""Writes the source of the extension module `gpupool._native`.

python emit.py OUTPUT
"""

import sys
from pathlib import Path

from cffi import FFI

# Functions of Python that C calls. callbacks.c stands between them and the library.
PYTHON_FUNCTIONS = """
extern "Python+C" {
  void gpupool_py_on_log(void* user, int32_t level, const char* message);
  int32_t gpupool_py_on_oom(void* user, gpupool_t* pool, uint64_t size, uint32_t attempt);
  int32_t gpupool_py_on_before(void* user, gpupool_t* pool, gpupool_ptr_t ptr);
  int32_t gpupool_py_on_after(void* user, gpupool_t* pool, gpupool_ptr_t ptr);
  int32_t gpupool_py_on_malloc(void* user, uint64_t size, gpupool_stream_t stream, gpupool_ptr_t* out_ptr);
  void gpupool_py_on_free(void* user, gpupool_ptr_t ptr, uint64_t size, gpupool_stream_t stream);
}
"""

SOURCE = """
#include <gpupool/gpupool.h>
#include "glue.h"

#include "dlpack.h"
"""


def main() -> None:
    here = Path(__file__).resolve().parent
    ffi = FFI()
    for name in ("gpupool.cdef.h", "glue.h", "dlpack.h"):
        ffi.cdef((here / name).read_text(encoding="utf-8"))
    ffi.cdef(PYTHON_FUNCTIONS)
    ffi.set_source("gpupool._native", SOURCE)
    ffi.emit_c_code(sys.argv[1])


if __name__ == "__main__":
    main()
