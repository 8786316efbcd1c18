# SPDX-License-Identifier: Apache-2.0
"""A program in two versions, to record and compare: between them a comment comes in, a site grows, a site is new, one
is gone, and a file gets another name. GPUPOOL_LIBRARY is the library.

    two_versions.py FOLDER 1|2     writes the version into the folder, and runs it
"""

import pathlib
import runpy
import sys

COMMON = '''
import ctypes, os, sys
library = ctypes.CDLL(os.environ["GPUPOOL_LIBRARY"])
u64 = ctypes.c_uint64
library.gpupool_malloc.argtypes = [ctypes.c_void_p, u64, u64, ctypes.POINTER(u64)]
pool = ctypes.c_void_p()
assert library.gpupool_default_pool(0, ctypes.byref(pool)) == 0

@ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
def tell_stack(_, text, capacity):
    lines, frame = [], sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        lines.append(f"{code.co_name} ({os.path.basename(code.co_filename)}:{frame.f_lineno})")
        frame = frame.f_back
    said = "\\n".join(lines).encode()[: capacity - 1]
    ctypes.memmove(text, said + b"\\0", len(said) + 1)
    return len(said)

assert library.gpupool_set_stack_fn(tell_stack, None) == 0

def malloc(mib):
    address = u64()
    assert library.gpupool_malloc(pool, mib << 20, 0, ctypes.byref(address)) == 0
'''

MODEL = {1: '''
from common import malloc
def load():
    malloc(10)
    malloc(20)
    malloc(30)
def warm_up():
    malloc(5)
''', 2: '''
from common import malloc
# A comment that is new.
def load():
    # And another one.
    malloc(10)
    malloc(4)
    malloc(20)
    malloc(33)
'''}

CACHE = '''
from common import malloc
def reserve():
    malloc(7)
'''

MAIN = {1: '''
import cache, model
model.load(); model.warm_up(); cache.reserve()
''', 2: '''

import kv_cache, model
model.load(); kv_cache.reserve()
'''}

if __name__ == "__main__":
    folder, version = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir()
    (folder / "common.py").write_text(COMMON)
    (folder / "model.py").write_text(MODEL[version])
    (folder / ("cache.py" if version == 1 else "kv_cache.py")).write_text(CACHE)
    (folder / "main.py").write_text(MAIN[version])
    sys.path.insert(0, str(folder))
    runpy.run_path(str(folder / "main.py"), run_name="__main__")
