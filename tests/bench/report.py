# SPDX-License-Identifier: Apache-2.0
"""Turns the results of compare_gpu.sh into results.json, table.md and plots: python3 report.py FOLDER FILE...

A file holds lines of JSON: what the peers, `gpupool replay --find-cap` and busy_gpu print, in any order. If two lines
measure the same, the later one counts, so the files of several runs make one report.
"""

import json
import statistics
import sys
from pathlib import Path

import svg

# Seconds that the recorded workloads took when they ran live: tests/data/README.md.
LIVE_SECONDS = {
    "lm_train": 20.1,
    "lm_train_checkpoint": 25.5,
    "fsdp_train": 7.0,
    "lm_serve": 38.9,
    "detect_multiscale": 9.3,
    "streams_prefetch": 4.3,
    "zero_gather": 0.74,
}
YARDSTICKS = {"mutex": "lock and unlock of a mutex", "ring": "the handing over of free_elsewhere, alone"}
QUANTILES = {
    "p50_ns": "50 %",
    "p99_ns": "99 %",
    "p9999_ns": "99.99 %",
    "nothing_p9999_ns": "99.99 %, of waits as long as the mean",
    "most_ns": "all",
    "nothing_most_ns": "all, of such waits",
}


class Results:
    """The lines, sorted by what they are about."""

    def __init__(self, lines):
        self.machine, self.versions, self.bench, self.latency = {}, {}, {}, {}
        self.free, self.capped, self.timed, self.caps, self.busy = {}, {}, {}, {}, {}
        for line in lines:
            self.add(line)
        self.peers = list(self.versions)
        self.traces = list(dict.fromkeys(trace for _, trace in self.free | self.capped | self.timed))
        self.traces.sort(key=lambda name: name not in LIVE_SECONDS)

    def add(self, line):
        peer, trace = line.get("peer"), line.get("trace")
        if "machine" in line:
            self.machine = line["machine"]
        elif "version" in line:
            self.versions[peer] = line["version"]
        elif "busy" in line:
            self.busy[line["busy"], line["pools"], line["cap_over_live"]] = line
        elif "pattern" in line:
            pass  # slower.py compares them
        elif line.get("case") == "latency":
            self.latency[peer, line["live_blocks"]] = line
        elif "case" in line:
            self.bench[peer, line["case"], line["size"], line["threads"], line["live_blocks"]] = line
        elif peer is None:
            where = " (simulated)" if line["device"].startswith("sim") else ""
            self.caps[trace] = number(line["cap_over_live"], 4) + where
        elif line["timed"]:
            self.timed[peer, trace] = line
        else:
            (self.capped if line["cap_over_live"] else self.free)[peer, trace] = line

    def of(self, kind, trace):
        """A line a peer, None for those that have none."""
        return [getattr(self, kind).get((peer, trace)) for peer in self.peers]


def steady(line):
    """Nanoseconds an event once warm: the median of the passes after the first."""
    passes = line["ns_per_event"]
    return statistics.median(passes[1:] or passes)


def table(titles, rows):
    out = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return "\n".join(out + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def number(value, digits=0):
    return "-" if value is None else f"{value:,.{digits}f}"


def size_name(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB" if size >= 1024 else f"{size} B"


def bench_table(results):
    rows = []
    for case, size, threads, live in dict.fromkeys(key[1:] for key in results.bench):
        lines = [results.bench.get((peer, case, size, threads, live)) for peer in results.peers]
        known = next(filter(None, lines), {})
        most = "up to " if live or known.get("sizes", 1) > 1 else ""
        name = f"{case}, {live:,} live, " if live else f"{case}, "
        name = f"{'floor: ' if known.get('floor') else ''}{name}{most}{size_name(size)}"
        name = YARDSTICKS.get(case, name)
        rows.append([name, str(threads), *(number(line and line["ns"], 1) for line in lines)])
    return table(["case", "threads", *results.peers], rows)


def latency_table(results):
    rows = []
    for live in dict.fromkeys(live for _, live in results.latency):
        for quantile, name in QUANTILES.items():
            lines = [results.latency.get((peer, live)) for peer in results.peers]
            known = [line.get(quantile) if line and line["mallocs"] else None for line in lines]
            is_floor = any(line and line.get("floor") for line in lines)
            rows.append([f"{'floor: ' if is_floor else ''}{live:,}", name, *map(number, known)])
    return table(["live blocks", "at most, for", *results.peers], rows)


def failure(line):
    return f"out of memory in pass {line['passes']}" if line["out_of_memory"] else "too slow"


def reserved_cell(line):
    if line is None or not line["completed"]:
        return "-" if line is None else failure(line)
    first, last = line["reserved_over_live"][:2][-1], line["reserved_over_live"][-1]
    return f"{first:.3f}, {last:.3f} ({line['passes']})" if first else "-"


def cost_cell(line):
    if line is None:
        return "-"
    if line["out_of_memory"]:
        return failure(line)
    return f"{number(line['ns_per_event'][0])}, {number(steady(line))}" + ("" if line["completed"] else " (too slow)")


def slow_cell(line, trace):
    if line is None or not line["completed"]:
        return "-"
    parts = []
    for slow in line["slow_ms"][:2]:
        share = f" ({slow / LIVE_SECONDS[trace] / 10:.2f} %)" if trace in LIVE_SECONDS else ""
        parts.append(f"{slow:.1f}{share}")
    return ", ".join(parts)


def trace_table(results, kind, cell):
    rows = []
    for trace in results.traces:
        lines = results.of(kind, trace)
        if any(lines):
            rows.append([trace, *(cell(line) if cell is not slow_cell else cell(line, trace) for line in lines)])
    return table(["trace", *results.peers], rows)


def gpupool_table(results):
    rows = []
    for trace in results.traces:
        line, capped = results.free.get(("gpupool", trace)), results.capped.get(("gpupool", trace))
        if line is None:
            continue
        reserved = line["reserved_over_live"]
        metadata = sum(line["metadata_bytes"]) / (reserved[-1] * line["peak_live_bytes"])
        waits = sum(line["host_waits"]) + sum(capped["host_waits"] if capped else [])
        share = [
            f"{ms:.1f}" + (f" ({ms / LIVE_SECONDS[trace] / 10:.2f} %)" if trace in LIVE_SECONDS else "")
            for ms in (line["driver_ms"][0], line["driver_ms"][1])
        ]
        rows.append([trace, f"{line['peak_live_bytes'] / 1e9:.2f}", f"{reserved[1]:.4f}", f"{reserved[-1]:.4f}",
                     results.caps.get(trace, "-"), *share, f"{metadata * 100:.3f} %", number(waits)])  # fmt: skip
    titles = ["trace", "live GB", "reserved / live", "after 50 passes", "cap / live", "driver ms, pass 1", "pass 2",
              "metadata", "host waits"]  # fmt: skip
    return table(titles, rows)


def busy_table(results):
    rows = []
    for line in results.busy.values():
        ahead = ", ".join(f"{ms:.0f}" for ms in line["ahead_ms"]) if "ahead_ms" in line else "-"
        rows.append([line["busy"], line["pools"], number(line["cap_over_live"] or None, 2), ahead,
                     f"{line['busy_share'] * 100:.0f} %" if "busy_share" in line else "-",
                     f"{line['reserved_over_live'][-1]:.3f}", number(line["stream_steals"][-1]),
                     number(line["host_waits"][-1]), number(line["failed"]), number(line["mismatches"])])  # fmt: skip
    return table(["trace", "pools", "cap / live", "ahead ms", "stream busy", "reserved / live", "from other streams",
                  "host waits", "failed", "mismatches"], rows)  # fmt: skip


def write_table(results):
    machine = results.machine
    versions = ", ".join(f"{peer} {version}" for peer, version in results.versions.items())
    caps = "1.02 times the live peak (1.05 where less than 4 GB is live)"
    sections = [
        f"Measured by tests/bench/compare_gpu.sh on {machine.get('gpu')}, {machine.get('cores')} cores, "
        f"{machine.get('date')}: {versions}. What each table says, and what it cannot say, is in "
        "tests/bench/README.md.",
    ]
    if results.bench:
        sections += ["## Cached calls: nanoseconds for a malloc and its free", bench_table(results)]
    if results.latency:
        sections += ["## Single mallocs while nothing is created, ns", latency_table(results)]
    if results.free:
        sections += [
            "## No cap: reserved / live after 2 passes, and after the last one (which)",
            trace_table(results, "free", reserved_cell),
            "## No cap: nanoseconds an event, driver time included: first pass, median of the others",
            trace_table(results, "free", cost_cell),
            "## gpupool by its own counters",
            gpupool_table(results),
        ]
    if results.capped:
        sections += [
            f"## At a cap of {caps}: nanoseconds an event: first pass, median of the others",
            trace_table(results, "capped", cost_cell),
        ]
    if results.timed:
        sections += [
            "## Milliseconds in calls of 3 us or more, pass 1 and 2 (share of the recorded workload's duration)",
            trace_table(results, "timed", slow_cell),
        ]
    if results.busy:
        sections += ["## While the GPU is busy (gpupool)", busy_table(results)]
    return "\n\n".join(section.rstrip() for section in sections) + "\n"


def plots(results):
    """{file name: text}"""
    files = {}
    for case in ("pair_own_streams", "pair_one_stream"):
        curves = {}
        for (peer, name, _, threads, _), line in results.bench.items():
            if name == case:
                curves.setdefault(peer, {})[threads] = line["ns"]
        if curves:
            title = f"{case}: ns for a cached malloc and free of 64 KiB, as each thread sees it"
            files[f"{case}.svg"] = svg.lines(title, curves, "threads")
    pairs = {}
    for (peer, case, size, _, live), line in results.bench.items():
        if case in ("pair", "churn"):
            label = f"churn, {live:,} live" if live else f"pair, {size_name(size)}"
            pairs.setdefault(label, {})[peer] = line["ns"]
    if pairs:
        files["pair_churn.svg"] = svg.bars("ns for a malloc and its free, one thread (logarithmic)", pairs, digits=0)

    def group(kind, value):
        lines = {trace: results.of(kind, trace) for trace in results.traces}
        groups = {
            trace: {peer: value(line) for peer, line in zip(results.peers, each, strict=True) if line}
            for trace, each in lines.items()
        }
        return {trace: each for trace, each in groups.items() if any(v is not None for v in each.values())}

    def excess(line):
        reserved = line["reserved_over_live"][:2][-1]
        return max(0.1, 100 * (reserved - 1)) if line["completed"] and reserved else None

    def cost(line):
        return steady(line) if line["completed"] else None

    warm = "ns an event, warm, driver time included"
    for name, kind, value, digits, title in (
        ("reserved", "free", excess, 1, "per cent reserved beyond the live peak, no cap, 2 passes"),
        ("cost", "free", cost, 0, f"{warm}, no cap"),
        ("capped", "capped", cost, 0, f"{warm}, at a cap of 1.02 or 1.05 times live (-: did not complete)"),
    ):
        groups = group(kind, value)
        if groups:
            files[f"{name}.svg"] = svg.bars(f"{title} (logarithmic)", groups, digits=digits)
    return files


def main(folder, *files):
    folder = Path(folder)
    lines = [json.loads(line) for file in files for line in Path(file).read_text(encoding="utf-8").splitlines()]
    results = Results(lines)
    text = ",\n".join(json.dumps(line) for line in lines)
    (folder / "results.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")
    (folder / "table.md").write_text(write_table(results), encoding="utf-8")
    for name, picture in plots(results).items():
        (folder / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
