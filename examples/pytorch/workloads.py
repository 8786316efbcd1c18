# SPDX-License-Identifier: Apache-2.0
"""Real training and serving under PyTorch's allocator, as it is and with expandable segments, and under gpupool: step
time, memory and losses in one table. The models are those of models.py; sizes change from step to step.

    python workloads.py [--repeats N] [NAME...]
"""

import argparse
import os
import statistics
import sys
import time

import models
import side_by_side

GIB = 1 << 30


def measure(names):
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    side_by_side.use_allocator()
    import torch  # noqa: PLC0415

    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.enable_cudnn_sdp(False)  # whose results vary from run to run
    # Filling uninitialised memory would cost the same everywhere and show nothing.
    torch.utils.deterministic.fill_uninitialized_memory = False
    results = {}
    for name in names:
        begin = time.perf_counter()
        torch.manual_seed(1)
        steps, step = models.WORKLOADS[name](torch)
        times, losses = [], []
        for number in range(steps):
            torch.cuda.synchronize()
            start = time.perf_counter()
            loss = step(number)
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1000)
            losses.append(float(loss))
        results[name] = {
            "ms": statistics.mean(times[steps // 3 :]),
            "total_s": sum(times) / 1000,
            "reserved": torch.cuda.max_memory_reserved(),
            "allocated": torch.cuda.max_memory_allocated(),
            "losses": losses,
        }
        del step
        models.clear(torch)
        print(f"{name}: {time.perf_counter() - begin:.1f} s", file=sys.stderr)
    side_by_side.report(results)


def main(names, repeats):
    found = side_by_side.run_in_turn(repeats, *names, tell=print_run)
    for name in names:
        report(name, {setting: [run[name] for run in runs] for setting, runs in found.items()})
    failures = [text for name in names for text in shortcomings(name, found)]
    print("\n" + "\n".join(failures or ["gpupool is as fast, reserves least, and trains to the same losses."]))
    assert not failures


def print_run(setting, results):
    """Writes the figures now, in case a later run is cut off."""
    for name, result in results.items():
        ratio = result["reserved"] / result["allocated"]
        print(f"{setting}, {name}: {result['ms']:.2f} ms a step, reserved / allocated {ratio:.3f}", flush=True)


def report(name, found):
    live = min(result["allocated"] for result in found["expandable"])

    def row(write):
        return [write(results) for results in found.values()]

    def spread(results, key):
        return side_by_side.spread(result[key] for result in results)

    rows = [
        ("mean step once warm, ms", row(lambda results: spread(results, "ms"))),
        ("all steps, s", row(lambda results: spread(results, "total_s"))),
        ("peak reserved, GiB", row(lambda results: f"{max(each['reserved'] for each in results) / GIB:.3f}")),
        ("reserved / live", row(lambda results: f"{max(each['reserved'] for each in results) / live:.3f}")),
        ("last loss", row(lambda results: f"{results[0]['losses'][-1]:.6f}")),
    ]
    side_by_side.print_table(f"{name}, {live / GIB:.3f} GiB live", rows, list(found))


def shortcomings(name, found):
    """All deviations. Compares losses only if PyTorch's own are the same from run to run."""
    runs = {setting: [run[name] for run in results] for setting, results in found.items()}
    best = {setting: min(each["ms"] for each in results) for setting, results in runs.items()}
    spread = max(each["ms"] for each in runs["native"]) - best["native"]
    if best["gpupool"] > min(best["native"], best["expandable"]) + max(spread, 0.05 * best["native"]):
        yield f"{name}: gpupool takes {best['gpupool']:.2f} ms a step, native {best['native']:.2f}"
    ours = max(each["reserved"] for each in runs["gpupool"])
    theirs = min(each["reserved"] for setting in ("native", "expandable") for each in runs[setting])
    if ours > theirs:
        yield f"{name}: gpupool reserves {ours / GIB:.3f} GiB, PyTorch {theirs / GIB:.3f}"
    wanted = runs["native"][0]["losses"]
    if all(each["losses"] == wanted for each in runs["native"][1:] + runs["expandable"]):
        if any(each["losses"] != wanted for each in runs["gpupool"]):
            yield f"{name}: other losses under gpupool"
    else:
        print(f"{name}: the losses vary from run to run under PyTorch's own allocator too")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(models.WORKLOADS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    measure(given.names) if given.child else main(given.names, given.repeats)
