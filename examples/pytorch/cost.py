# SPDX-License-Identifier: Apache-2.0
"""The cost of an allocation: torch.empty and its free, from Python, on one thread and on eight.

python cost.py
"""

import statistics
import threading
import time

import side_by_side


def pair_ns(torch, size, count=20_000, rounds=7):
    """Nanoseconds to create and free a tensor; the median of several rounds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(count):
            torch.empty(size, dtype=torch.uint8, device="cuda")
        times.append((time.perf_counter_ns() - start) / count)
    return statistics.median(times)


def eight_threads_ms(torch, requests=150):
    """Milliseconds for eight threads, each on its stream, to serve their requests with a small network."""
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8))).cuda().half()

    def serve(number):
        generator = torch.Generator().manual_seed(number)
        with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream()):
            for rows in torch.randint(1, 64, (requests,), generator=generator).tolist():
                model(torch.ones(rows, 1024, device="cuda", dtype=torch.half)).sum().item()

    times = []
    for _ in range(5):
        threads = [threading.Thread(target=serve, args=(number,)) for number in range(8)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        times.append((time.perf_counter() - start) * 1000)
    return min(times)


def measure():
    side_by_side.use_allocator()
    import torch  # noqa: PLC0415

    result = {f"torch.empty, {size:,} bytes": pair_ns(torch, size) for size in (4096, 1 << 20, 32 << 20)}
    result["8 threads of inference"] = eight_threads_ms(torch)
    side_by_side.report(result)


def main():
    found = side_by_side.run_in_turn(3)
    names = list(found["gpupool"][0])
    rows = []
    for name in names:
        unit = "ms" if "threads" in name else "ns"
        spreads = [side_by_side.spread((result[name] for result in results), 0) for results in found.values()]
        rows.append((name, [f"{each} {unit}" for each in spreads]))
    side_by_side.print_table("cost of allocations, three runs", rows, list(found))
    for name in names:
        best = {setting: min(result[name] for result in results) for setting, results in found.items()}
        assert best["gpupool"] <= 1.1 * min(best["native"], best["expandable"]), name
    print("gpupool is as fast as PyTorch's own allocators, or faster.")


if __name__ == "__main__":
    measure() if side_by_side.is_child() else main()
