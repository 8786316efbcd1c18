# SPDX-License-Identifier: Apache-2.0
"""PyTorch's memory that goes and comes back, by tag: a trainer and a server on one card, several models on one card,
and a notebook that gives its memory back while nobody uses it. Tensors and graphs keep their addresses.

    python elastic.py [IDLE_SECONDS]

Needs a GPU. IDLE_SECONDS: after how long the notebook gives its memory back; ten minutes where it is for real.
"""

import sys
import threading

import torch
from gpupool.torch import sleep

MIB = 1 << 20


def new_tensor(tag, size, keep):
    with sleep.region(tag, enable_cpu_backup=keep):
        return torch.empty(size, dtype=torch.uint8, device="cuda")


def reinforcement_learning(steps):
    """A step swaps two programs' worth of memory: weights must come back unchanged, the cache is rebuilt anyway."""
    weights = new_tensor("weights", 16 * MIB, True)
    cache = new_tensor("kv_cache", 64 * MIB, False)
    trainer = new_tensor("trainer", 48 * MIB, True)
    for step in range(steps):
        given_back = sleep.pause("weights").released_bytes + sleep.pause("kv_cache").released_bytes
        sleep.resume("trainer")
        trainer.fill_(step)  # trains
        sleep.pause("trainer")
        sleep.resume("weights")
        weights.fill_(step)  # the new weights, before the cache takes its room
        sleep.resume("kv_cache")
        cache.fill_(0)
        print(f"step {step}: the trainer had {given_back // MIB} MiB more")
    sleep.resume()


def several_models(count, requests):
    """Each model has a tag, and only that of the last request is awake."""
    sleep.torch_memory_saver.retain_cpu_backup = True
    models = []
    for number in range(count):
        models.append(new_tensor(f"model {number}", 80 * MIB, True).fill_(number))
        sleep.pause(f"model {number}")
    awake = None
    for request in range(requests):
        wanted = request * 3 % count
        if wanted != awake:
            if awake is not None:
                sleep.pause(f"model {awake}")
            woken = sleep.resume(f"model {wanted}")
            print(f"request {request}: model {wanted} is back with {woken.saved_bytes // MIB} MiB")
            awake = wanted
        # answers
    sleep.resume()
    sleep.torch_memory_saver.retain_cpu_backup = False


class Idle:
    """Puts all tags to sleep when no cell has run for a while."""

    def __init__(self, seconds):
        self.seconds, self.timer = seconds, None
        self.slept = threading.Event()

    def __enter__(self):
        """Runs before a cell."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer.join()
        sleep.resume()
        self.slept.clear()

    def __exit__(self, *_):
        """Runs after a cell."""
        self.timer = threading.Timer(self.seconds, self.pause)
        self.timer.daemon = True
        self.timer.start()

    def pause(self):
        released = sleep.pause().released_bytes
        print(f"nobody works: {released // MIB} MiB went back to the device")
        self.slept.set()


def notebook(seconds):
    """In IPython, __enter__ and __exit__ are for the events pre_run_cell and post_run_cell."""
    cell = Idle(seconds)
    with cell:
        data = new_tensor("notebook", 200 * MIB, True).fill_(7)
    cell.slept.wait()
    with cell:
        print(f"someone does: {data.numel() // MIB} MiB are back")


def main():
    reinforcement_learning(steps=3)
    several_models(count=4, requests=8)
    notebook(float(sys.argv[1]) if len(sys.argv) > 1 else 0.2)


if __name__ == "__main__":
    main()
