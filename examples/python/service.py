# SPDX-License-Identifier: Apache-2.0
"""A service with threads: one pool, a stream per worker, and requests refused when memory is short."""

import threading
from concurrent.futures import ThreadPoolExecutor

import gpupool

WORKERS, REQUESTS, LIMIT = 4, 400, "64MiB"


class Service:
    """Answers requests. Any thread may use all of the pool; what a stream does has an order, so that each
    worker has its own."""

    def __init__(self) -> None:
        # Between bursts of requests, what they needed goes back to the device.
        self.pool = gpupool.Pool(limit=LIMIT, idle_seconds=30)
        self._mine = threading.local()
        self._workers = ThreadPoolExecutor(WORKERS, initializer=self._start_worker)
        self.turned_away = 0
        self._count = threading.Lock()

    def _start_worker(self) -> None:
        self._mine.stream = self.pool.stream()

    def answer(self, size: int) -> bytes | None:
        """The answer to a request of this size; None if there is no memory for it."""
        try:
            with self.pool.alloc(size, self._mine.stream) as scratch:  # freed in stream order: nothing waits
                scratch.fill(size % 256)
                return scratch.copy_to_host(offset=size - 4, size=4)
        except gpupool.OutOfMemoryError:
            with self._count:
                self.turned_away += 1
            return None

    def run(self, sizes: list[int]) -> list[bytes | None]:
        return list(self._workers.map(self.answer, sizes))

    def close(self) -> None:
        self._workers.shutdown()
        self.pool.close()


def main() -> None:
    service = Service()
    # Most are small; one in fifty is more than the limit allows.
    sizes = [(200 << 20) if i % 50 == 49 else (1 + i % 7) << 20 for i in range(REQUESTS)]
    answers = service.run(sizes)
    for size, answer in zip(sizes, answers, strict=True):
        assert answer == (None if size > 64 << 20 else bytes([size % 256] * 4))
    stats = service.pool.stats()
    peak = stats.all.reserved_bytes.peak
    assert service.turned_away == REQUESTS // 50
    assert peak <= 64 << 20
    print(f"{REQUESTS} requests on {WORKERS} threads, {service.turned_away} turned away, at most {peak >> 20} MiB held")
    service.close()


if __name__ == "__main__":
    main()
