# SPDX-License-Identifier: Apache-2.0
"""Memory that goes and comes back: a trainer and a server on one card, several models on one card, and a notebook that
gives its memory back while nobody uses it.

    python elastic.py [IDLE_SECONDS]

Runs on the GPU, or without one on the simulated device. IDLE_SECONDS: after how long the notebook gives its memory
back; ten minutes where it is for real.
"""

import sys
import threading
import time

import gpupool

MIB = 1 << 20


def reinforcement_learning(steps: int) -> None:
    """A step swaps two programs' worth of memory: weights must come back unchanged, the cache is rebuilt anyway."""
    with gpupool.Pool() as weights, gpupool.Pool() as cache, gpupool.Pool() as trainer:
        weights.name, cache.name, trainer.name = "weights", "kv_cache", "trainer"
        parameters, pages = weights.malloc(16 * MIB), cache.malloc(64 * MIB)
        state = trainer.malloc(48 * MIB)
        for step in range(steps):
            given_back = gpupool.sleep_tag("weights").released_bytes
            given_back += gpupool.sleep_tag("kv_cache", "drop").released_bytes
            gpupool.wake_tag("trainer", timeout=5)
            trainer.fill(state, step, 48 * MIB)  # trains
            gpupool.sleep_tag("trainer")
            gpupool.wake_tag("weights", timeout=5)
            weights.fill(parameters, step, 16 * MIB)  # the new weights, before the cache takes its room
            gpupool.wake_tag("kv_cache", timeout=5)
            print(f"step {step}: the trainer had {given_back // MIB} MiB more")
        gpupool.wake_tag("trainer")
        for pool, block in ((weights, parameters), (cache, pages), (trainer, state)):
            pool.free(block)


def several_models(count: int, requests: int) -> None:
    """Each model has a pool, and only that of the last request is awake."""
    pools = [gpupool.Pool() for _ in range(count)]
    blocks = []
    for number, pool in enumerate(pools):
        blocks.append(pool.malloc(80 * MIB))
        pool.fill(blocks[-1], number, 80 * MIB)
        pool.sleep()
    awake = None
    for request in range(requests):
        wanted = pools[request * 3 % count]
        if wanted is not awake:
            if awake is not None:
                awake.sleep()
            woken = wanted.wake(timeout=5, retain_backup=True)
            print(f"request {request}: model {pools.index(wanted)} is back with {woken.saved_bytes // MIB} MiB")
            awake = wanted
        # answers
    for pool, block in zip(pools, blocks, strict=True):
        pool.wake()
        pool.free(block)
        pool.close()


class Idle:
    """Puts a pool to sleep when no cell has run for a while. Meanwhile other threads' mallocs wait."""

    def __init__(self, pool: gpupool.Pool, seconds: float) -> None:
        self._pool, self._seconds = pool, seconds
        self._timer: threading.Timer | None = None

    def __enter__(self) -> None:
        """Runs before a cell."""
        self.stop()
        self._pool.wake(timeout=60)

    def __exit__(self, *_: object) -> None:
        """Runs after a cell."""
        self._timer = threading.Timer(
            self._seconds, self._pool.sleep, kwargs={"sync_context": True, "hold_mallocs": True}
        )
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """From now on the pool stays as it is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()  # it may be at it


def notebook(seconds: float) -> None:
    """In IPython, __enter__ and __exit__ are for the events pre_run_cell and post_run_cell."""
    with gpupool.Pool() as pool:
        cell = Idle(pool, seconds)
        with cell:
            block = pool.malloc(200 * MIB)
        print(f"someone works: {pool.memory_reserved() // MIB} MiB are reserved")
        while pool.sleep_state != gpupool.SleepState.ASLEEP:
            time.sleep(seconds / 10)
        print(f"nobody does: {pool.memory_reserved() // MIB} MiB are reserved")
        with cell:
            pool.free(block)
        cell.stop()


def main() -> None:
    reinforcement_learning(steps=3)
    several_models(count=4, requests=8)
    notebook(float(sys.argv[1]) if len(sys.argv) > 1 else 0.2)


if __name__ == "__main__":
    main()
