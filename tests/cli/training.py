# SPDX-License-Identifier: Apache-2.0
"""A program to record: the memory use of a training run on the simulated device, with tags, stacks, marks, two streams
and two threads. GPUPOOL_LIBRARY is the library.

    training.py [leak] [fail] [hostile] [fragment]
"""

import ctypes
import os
import sys
import threading
import time

MIB = 1 << 20
HOSTILE = '</script><img src=x onerror=alert(1)>"\'\u202egnp.exe'
HOSTILE_FILE = '"><img src=f onerror=alert(2)>\u202e.py'
HOSTILE_THREAD = "<img src=t>\u202e"  # the system keeps 15 bytes
HOSTILE_MARK = '</option><img src=m onerror=alert(3)>\u202e'
library = ctypes.CDLL(os.environ["GPUPOOL_LIBRARY"])
u64 = ctypes.c_uint64
library.gpupool_malloc.argtypes = [ctypes.c_void_p, u64, u64, ctypes.POINTER(u64)]
library.gpupool_free.argtypes = [ctypes.c_void_p, u64, u64]
library.gpupool_stream_create.argtypes = [ctypes.c_void_p, ctypes.POINTER(u64)]
WANTS = set(sys.argv[1:])


def check(status):
    if status != 0:
        raise RuntimeError(status)


def frames(frame):
    """A line for each frame, innermost first."""
    lines = []
    while frame is not None and len(lines) < 30:
        name, file = frame.f_code.co_name, os.path.basename(frame.f_code.co_filename)
        if "hostile" in WANTS and name == "forward":
            name, file = HOSTILE, HOSTILE_FILE
        lines.append(f"{name} ({file}:{frame.f_lineno})")
        frame = frame.f_back
    return "\n".join(lines)


@ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
def tell_stack(_, text, capacity):
    # This function's own frame, and malloc's, say nothing.
    said = frames(sys._getframe(2)).encode()[: capacity - 1]
    ctypes.memmove(text, said + b"\0", len(said) + 1)
    return len(said)


class Tag:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        check(library.gpupool_tag_push(self.name.encode()))

    def __exit__(self, *_):
        check(library.gpupool_tag_pop())


def malloc(size, stream=0):
    address = u64()
    check(library.gpupool_malloc(pool, size, stream, ctypes.byref(address)))
    return address.value, stream


def free(block):
    check(library.gpupool_free(pool, *block))


def load_weights(layers):
    with Tag("weights"):
        return [malloc(24 * MIB + 4096 * layer) for layer in range(layers)]


def attention(size):
    scores = malloc(size * 2)
    out = malloc(size)
    free(scores)
    return out


def forward(layers, size):
    with Tag(HOSTILE if "hostile" in WANTS else "activations"):
        kept = []
        for _ in range(layers):
            kept.append(attention(size))
            kept.append(malloc(size // 2))
        return kept


def backward(kept):
    with Tag("gradients"):
        gradients = []
        while kept:
            gradients.append(malloc(6 * MIB))
            free(kept.pop())
            if len(gradients) > 8:
                free(gradients.pop(0))
        return gradients


def log_loss(history):
    """Keeps what it should not."""
    with Tag("loss history"):
        history.append(malloc(4 * MIB))


def prefetch(batches, stream):
    if "hostile" in WANTS:
        with open("/proc/thread-self/comm", "w", encoding="utf-8") as name:
            name.write(HOSTILE_THREAD)
    with Tag("batches"):
        for step in range(batches):
            turns.acquire()
            block = malloc((3 + step % 5) * MIB, stream)
            time.sleep(0.002)
            free(block)


def train(layers, steps):
    weights = load_weights(layers)
    with Tag("optimizer"):
        weights += [malloc(16 * MIB) for _ in range(layers)]
    history, pins = [], []
    for step in range(steps):
        turns.release()
        for gradient in backward(forward(layers, (8 + step % 4) * MIB)):
            free(gradient)
        if "leak" in WANTS:
            log_loss(history)
        if "fragment" in WANTS:
            # Many small ones are allocated together, and one in twenty lives on.
            small = [malloc(100 << 10) for _ in range(400)]
            pins += small[::20]
            for i, block in enumerate(small):
                if i % 20:
                    free(block)
        check(library.gpupool_mark(f"{HOSTILE_MARK if 'hostile' in WANTS else 'step'} {step}".encode()))
        time.sleep(0.001)
    if "fail" in WANTS:
        with Tag("evaluation"):
            try:
                malloc(1 << 40)
            except RuntimeError:
                check(library.gpupool_mark(b"evaluation left out"))
    for block in weights + ([] if "leak" in WANTS else history) + pins:
        free(block)


pool = ctypes.c_void_p()
check(library.gpupool_default_pool(0, ctypes.byref(pool)))
check(library.gpupool_set_stack_fn(tell_stack, None))
second = u64()
check(library.gpupool_stream_create(pool, ctypes.byref(second)))
turns = threading.Semaphore(0)  # a batch for each step, however slow one of the threads is
loader = threading.Thread(target=prefetch, args=(20, second.value), daemon=True)
loader.start()
train(12, 20)
loader.join()
check(library.gpupool_set_stack_fn(None, None))
