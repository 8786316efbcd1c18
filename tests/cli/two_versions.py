# SPDX-License-Identifier: Apache-2.0
"""Two programs in two versions each, to record and compare. Between those of "edited" a comment comes in, a site grows,
a site is new, one is gone, and a file gets another name; between those of "moved" files are in other folders, and
functions have other names or call themselves more often. GPUPOOL_LIBRARY is the library.

    two_versions.py edited|moved FOLDER 1|2     writes the version into the folder, and runs it
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
        lines.append(f"{code.co_name} ({os.path.relpath(code.co_filename, sys.path[0])}:{frame.f_lineno})")
        frame = frame.f_back
    said = "\\n".join(lines).encode()[: capacity - 1]
    ctypes.memmove(text, said + b"\\0", len(said) + 1)
    return len(said)

assert library.gpupool_set_stack_fn(tell_stack, None) == 0

def malloc(mib):
    address = u64()
    assert library.gpupool_malloc(pool, mib << 20, 0, ctypes.byref(address)) == 0
'''

CACHE = """
from common import malloc
def reserve():
    malloc(7)
"""
FORWARD = """
from common import malloc
def forward(mib):
    malloc(mib)
"""
TREE = """
from common import malloc
def grow(depth, mib):
    if depth:
        graft(depth, mib)
    else:
        malloc(mib)
def graft(depth, mib):
    grow(depth - 1, mib)
"""
SCRATCH = """
from common import malloc
def prepare():
    scratch()
    staging()
def scratch():
    malloc(8)
    malloc(2)
def staging():
    malloc(12)
"""

# Of each version, the text of each file.
PROGRAMS = {"edited": ({
    "model.py": """
from common import malloc
def load():
    malloc(10)
    malloc(20)
    malloc(30)
def warm_up():
    malloc(5)
""",
    "cache.py": CACHE,
    "main.py": """
import cache, model
model.load(); model.warm_up(); cache.reserve()
""",
}, {
    "model.py": """
from common import malloc
# A comment that is new.
def load():
    # And another one.
    malloc(10)
    malloc(4)
    malloc(20)
    malloc(33)
""",
    "kv_cache.py": CACHE,
    "main.py": """

import kv_cache, model
model.load(); kv_cache.reserve()
""",
}), "moved": ({
    "net/encoder/block.py": FORWARD,
    "net/decoder/block.py": FORWARD,
    "net/tree.py": TREE,
    "bush.py": TREE,
    "buffers.py": SCRATCH,
    "main.py": """
import net.encoder.block, net.decoder.block, net.tree, bush, buffers
def train():
    encode(6)
    decode(9)
    net.tree.grow(2, 3)
def encode(mib):
    net.encoder.block.forward(mib)
def decode(mib):
    net.decoder.block.forward(mib)
train()
bush.grow(1, 4)
buffers.prepare()
""",
}, {
    "nets/text/decoder/block.py": "# It has moved.\n" + FORWARD,
    "nets/text/encoder/block.py": FORWARD,
    "nets/tree.py": TREE,
    "shrub.py": TREE,
    "buffers.py": SCRATCH.replace("scratch", "workspace").replace("malloc(12)", "malloc(1); malloc(1)"),
    "main.py": """
import nets.text.encoder.block, nets.text.decoder.block, nets.tree, shrub, buffers
def fit():
    encode(7)
    decode(9)
    nets.tree.grow(6, 3)
def encode(mib):
    nets.text.encoder.block.forward(mib)
def decode(mib):
    nets.text.decoder.block.forward(mib)
fit()
shrub.grow(9, 4)
buffers.prepare()
""",
})}

if __name__ == "__main__":
    program, folder, version = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    for name, text in (PROGRAMS[program][version - 1] | {"common.py": COMMON}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    sys.path.insert(0, str(folder))
    runpy.run_path(str(folder / "main.py"), run_name="__main__")
