#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings in other tools' formats, read by those tools: what they say is what the report says. Go's pprof is used if
Go is installed, and promtool if tools/setup.sh could fetch it. PyTorch's memory_viz is used if GPUPOOL_MEMORY_VIZ names
a folder with _memory_viz.py, MemoryViz.js and, for the latter, D3 version 5 as d3.min.js; the first also if PyTorch is
installed. GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY the library."""

import base64
import importlib.util
import json
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections import Counter

import browser
import test_report
import top_target

run = test_report.run
HERE = test_report.HERE
BUILD = HERE.parents[1] / "build"
MIB = 1 << 20


def find_program(name, *places):
    """What is in PATH, or what tools/setup.sh has fetched."""
    return shutil.which(name) or next((str(found) for place in places for found in BUILD.glob(place)), None)


GO = find_program("go", "venv/lib/python3*/site-packages/go/bin/go")
PROMTOOL = find_program("promtool", "checkers/promtool")


def find_viewer(name):
    """A file of PyTorch's memory_viz, or of what that loads; None if it is not here."""
    folder = os.environ.get("GPUPOOL_MEMORY_VIZ")
    path = pathlib.Path(folder, name) if folder else None
    if path is None and name == "_memory_viz.py" and importlib.util.find_spec("torch"):
        path = pathlib.Path(importlib.util.find_spec("torch").origin).parent / "cuda" / name
    return path if path and path.is_file() else None


class Case(test_report.Case):
    def export(self, recording, form, *options):
        out = self.folder / f"{recording.stem}.{form}"
        status, _, said = run("export", recording, "--format", form, "-o", out, *options)
        self.assertEqual(status, 0, said)
        return out

    def told(self, recording):
        """What the report's tables have of each call site."""
        path = self.report(recording, "--no-fit", name="told.html")
        (about,) = test_report.data_of(path.read_text(encoding="utf-8"))["runs"]
        self.assertEqual(about["sites_left_out"], 0)
        names = ("stack", "tag", "calls", "alloc_space", "waste_space", "_", "peak_space", "inuse_objects",
                 "inuse_space")
        sites = [dict(zip(names, site, strict=False)) for site in about["sites"]]
        for site in sites:
            site["function"] = about["frames"][about["stacks"][site["stack"]][0]].split(" (")[0]
        return about, sites


def sums(sites, key, value):
    found = Counter()
    for site in sites:
        found[site[key]] += site[value]
    return +found


@unittest.skipUnless(GO, "Go is not here")
class Pprof(Case):
    def ask(self, *options):
        done = subprocess.run([GO, "tool", "pprof", "-unit=B", "-nodecount=0", "-nodefraction=0", *options],
                              capture_output=True, text=True, check=False, cwd=self.folder,
                              env=os.environ | {"PPROF_TMPDIR": str(self.folder)})
        if "no such tool" in done.stderr:
            self.skipTest("this Go has no pprof")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def top(self, *options):
        """What each function allocated itself."""
        lines = re.findall(r"^ *(-?\d+)B? +-?[\d.]+% +-?[\d.]+% +-?\d+B? +-?[\d.]+%  (\S+)", self.ask("-top", *options),
                           re.MULTILINE)
        return {name: int(value) for value, name in lines if value != "0"}

    def test_its_table_is_the_reports(self):
        recording = self.record_training("leak", "fail")
        profile = self.export(recording, "pprof")
        _, sites = self.told(recording)
        for column in ("alloc_space", "peak_space", "inuse_space", "inuse_objects"):
            with self.subTest(column):
                self.assertEqual(self.top(f"-sample_index={column}", profile), sums(sites, "function", column))
        self.assertEqual(self.top("-sample_index=alloc_objects", profile), sums(sites, "function", "calls"))
        # Without being asked, it shows what is live at the end.
        self.assertEqual(self.top(profile), {"log_loss": 80 * MIB})
        activations = [site for site in sites if site["tag"] == "activations"]
        self.assertEqual(self.top("-sample_index=alloc_space", "-tagfocus=tag=activations", profile),
                         sums(activations, "function", "alloc_space"))

    def test_what_rounding_costs_is_the_reports(self):
        recording = self.record("""
for number in range(1, 200):
    push(f"size {number % 7}")
    free(malloc(number * 300))
    pop()
""")
        _, sites = self.told(recording)
        text = self.ask("-tags", "-sample_index=waste_space", self.export(recording, "pprof"))
        (values,) = re.findall(r"^ tag: Total .*\n((?: +\d.*\n)+)", text, re.MULTILINE)
        found = {tag: int(value) for value, tag in re.findall(r"^ +(\d+)B? \(.*%\): (.*)$", values, re.MULTILINE)}
        self.assertEqual(found, sums(sites, "tag", "waste_space"))
        self.assertEqual(sum(found.values()), sum(-number * 300 % 512 for number in range(1, 200)))

    def test_its_tags_are_the_reports(self):
        recording = self.record_training("leak")
        profile = self.export(recording, "pprof")
        about, sites = self.told(recording)
        text = self.ask("-tags", "-sample_index=peak_space", profile)
        found = {}
        for name, values in re.findall(r"^ (\w+): Total .*\n((?: +\d.*\n)+)", text, re.MULTILINE):
            found[name] = {label: int(value) for value, label in re.findall(r"^ +(\d+)B? \(.*%\): (.*)$", values,
                                                                            re.MULTILINE) if value != "0"}
        self.assertEqual(set(found), {"tag", "stream", "thread", "bytes"})
        self.assertEqual(found["tag"], sums(sites, "tag", "peak_space"))
        for label, values in found.items():
            self.assertEqual(sum(values.values()), about["peak_live"], label)
        self.assertEqual(len(found["stream"]), 2)
        self.assertTrue(all(value % int(size[:-1]) == 0 for size, value in found["bytes"].items()), found["bytes"])

    def test_its_difference_is_the_leak(self):
        before, after = self.record_training(name="before.gpt"), self.record_training("leak", name="after.gpt")
        base, profile = self.export(before, "pprof"), self.export(after, "pprof")
        for column in ("inuse_space", "alloc_space", "alloc_objects"):
            difference = self.top(f"-sample_index={column}", f"-diff_base={base}", profile)
            self.assertEqual(difference, {"log_loss": 20 if column == "alloc_objects" else 80 * MIB})
        turned = self.top("-sample_index=inuse_space", f"-diff_base={profile}", base)
        self.assertEqual(turned, {"log_loss": -80 * MIB})


@unittest.skipUnless(PROMTOOL, "promtool is not here: tools/setup.sh fetches it from Debian's package prometheus")
class Prometheus(Case):
    def check_metrics(self, text):
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_of_a_recording(self):
        for number, wants in enumerate(((), ("leak", "fail", "hostile"))):
            recording = self.record_training(*wants, name=f"{number}.gpt")
            self.assertEqual(self.check_metrics(run("export", recording, "--prometheus")[1]), (0, ""))

    def test_broken_ones_are_refused(self):
        text = run("export", self.record_training(), "--prometheus")[1]
        self.assertNotEqual(self.check_metrics(text.replace('"} ', '} ', 1))[0], 0)
        self.assertNotEqual(self.check_metrics(text + text)[0], 0)


@unittest.skipUnless(PROMTOOL, "promtool is not here: tools/setup.sh fetches it from Debian's package prometheus")
class PrometheusOfTop(top_target.TopTest):
    def test_of_running_processes(self):
        for name in ("serving", '"\\\n} 1\udcff'):
            self.start_pool(POOL_NAME=name)
        code, text, _ = self.run_top("--prometheus")
        self.assertEqual(code, 0)
        self.assertIn("gpupool_live_bytes", text)
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))


class Dashboard(top_target.TopTest):
    """examples/grafana: each query of each panel, over what `gpupool top --prometheus` says of running pools."""

    BOARD = HERE.parents[1] / "examples/grafana/gpupool.json"
    VARIABLES = {"$device": ".*", "$pool": ".*", "$pid": ".*", "$__rate_interval": "2m"}

    def setUp(self):
        super().setUp()
        self.board = json.loads(self.BOARD.read_text(encoding="utf-8"))

    def queries(self):
        for panel in self.board["panels"]:
            for target in panel["targets"]:
                query = target["expr"]
                for name, value in self.VARIABLES.items():
                    query = query.replace(name, value)
                self.assertNotIn("$", query, panel["title"])
                yield panel["title"], query

    def test_panels_lie_side_by_side(self):
        places = [panel["gridPos"] for panel in self.board["panels"]]
        cells = [(x, y) for place in places for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])]
        self.assertEqual(len(cells), len(set(cells)))
        self.assertLess(max(x for x, _ in cells), 24)
        self.assertEqual(len({panel["id"] for panel in self.board["panels"]}), len(places))
        chosen = {variable["name"] for variable in self.board["templating"]["list"]}
        self.assertEqual(chosen, {"datasource", "device", "pid", "pool"})

    @unittest.skipUnless(PROMTOOL, "promtool is not here: tools/setup.sh fetches it from Debian's package prometheus")
    def test_each_query_finds_something(self):
        process = self.start_pool(POOL_NAME="serving", GPUPOOL_LIMIT="4GiB")
        code, text, _ = self.run_top("--prometheus", "--pid", str(process.pid))
        self.assertEqual(code, 0)
        series = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
        checks = [{"expr": f"count({query}) > bool 0", "eval_time": "60m",
                   "exp_samples": [{"labels": "{}", "value": 1}]} for _, query in self.queries()]
        where = 'gpupool_%s{device=~".*",pool=~".*",pid=~".*"}'
        live = {"expr": f"sum({where % 'live_bytes'})", "eval_time": "60m",
                "exp_samples": [{"labels": "{}", "value": 2 << 30}]}
        self.assertIn(live["expr"], [query for _, query in self.queries()])
        self.assertEqual(self.judge(series, [*checks, live]), "")
        # A query of what there is none of would be found.
        wrong = {**checks[0], "expr": checks[0]["expr"].replace("gpupool_", "gpupol_")}
        self.assertIn("gpupol_", self.judge(series, [wrong]))

    def judge(self, series, checks):
        """What promtool finds wrong; it reads JSON as YAML."""
        told = [{"series": name, "values": f"{value}+0x120"} for name, value in series]
        rules = {"evaluation_interval": "30s", "tests": [{"interval": "30s", "input_series": told,
                                                          "promql_expr_test": checks}]}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "rules.yaml"
            path.write_text(json.dumps(rules), encoding="utf-8")
            done = subprocess.run([PROMTOOL, "test", "rules", path], capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stdout + done.stderr


class MemoryViz(Case):
    """PyTorch's programs for snapshots."""

    def snapshots(self):
        """Of a training, and of a real program under a limit at which chunks are taken from stream to stream."""
        yield self.export(self.record_training("leak", "fail", "fragment", "hostile"), "torch")
        recording = self.folder / "prefetch.gpt"
        self.record_replay(recording, "--cap", "1.05x", HERE.parent / "data/streams_prefetch.trace.gz")
        yield self.export(recording, "torch")
        yield self.export(recording, "torch", "--at-peak")

    def read(self, *arguments):
        done = subprocess.run([sys.executable, find_viewer("_memory_viz.py"), *map(str, arguments)],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @unittest.skipUnless(find_viewer("_memory_viz.py"), "PyTorch is not here, nor GPUPOOL_MEMORY_VIZ")
    def test_the_one_in_python(self):
        for path in self.snapshots():
            data = pickle.loads(path.read_bytes())
            (events,) = filter(None, data["device_traces"])
            stats, trace = self.read("stats", path), self.read("trace", path)
            self.assertIn(f"segments: {len(data['segments'])}\n", stats)
            for name, value in (("reserved", sum(segment["total_size"] for segment in data["segments"])),
                                ("allocated", sum(block["requested_size"] for segment in data["segments"]
                                                  for block in segment["blocks"]))):
                # As it writes sizes: with one decimal.
                unit = max((power for power in range(4) if value >= 1024**power), default=0)
                self.assertIn(f"total_{name}: {value / 1024**unit:.1f}{['B', 'KiB', 'MiB', 'GiB'][unit]}\n", stats)
            self.assertIn(f"{len(events)} entries\n", trace)
            for line, action in ((r"^\w+ = \w+\[\d+:", "alloc"), (r"^del ", "free_requested"),
                                 (r"^# free completed for ", "free_completed"), (r"^raise OutOfMemoryError", "oom")):
                self.assertEqual(len(re.findall(line, trace, re.MULTILINE)),
                                 sum(event["action"] == action for event in events), action)
            page = self.folder / "plot.html"
            self.read("trace_plot", path, "-o", page)
            packed = re.search(r'"base64": "([^"]+)"', page.read_text(encoding="utf-8")).group(1)
            self.assertEqual(pickle.loads(base64.b64decode(packed)), data)

    @unittest.skipUnless(browser.find_program(), "no Chromium is here: tools/setup.sh installs it")
    @unittest.skipUnless(find_viewer("MemoryViz.js") and find_viewer("d3.min.js"),
                         "GPUPOOL_MEMORY_VIZ names no folder with MemoryViz.js and d3.min.js")
    def test_the_one_in_a_browser(self):
        page = browser.Page()
        self.addCleanup(page.close)
        page.look()
        for path in self.snapshots():
            data = pickle.loads(path.read_bytes())
            (events,) = filter(None, data["device_traces"])
            page.open(memory_viz_page(path, "Active Memory Timeline"))
            page.wait_for("document.querySelectorAll('svg polygon').length > 100")
            self.assertEqual(page.problems, [])
            page.open(memory_viz_page(path, "Allocator State History"))
            page.wait_for("document.querySelector('pre')?.textContent")
            history = amounts(events)
            # Of blocks that are live at the end it takes what was requested.
            rounding = sum(block["size"] - block["requested_size"] for segment in data["segments"]
                           for block in segment["blocks"] if block["state"] != "inactive")
            lines = page.evaluate("document.querySelectorAll('pre').length - 1")
            self.assertEqual(lines, len(history))
            # What it finds for a moment by going backwards from the end is what a walk from the begin finds.
            for moment in range(0, lines, max(1, lines // 40)):
                page.evaluate(f"""document.querySelectorAll('pre')[{moment + 1}]
                  .dispatchEvent(new MouseEvent('mousedown', {{bubbles: true}}))""")
                said = page.evaluate("document.querySelector('pre').textContent")
                sizes = [int(size) for size in re.findall(r"\((\d+) bytes\)", said)]
                live, mapped = history[moment]
                self.assertEqual(sizes[1], mapped, said)
                self.assertTrue(live - rounding <= sizes[0] <= live, f"{live}, {said}")
                self.assertNotIn("before _record_history was enabled", said)
            self.assertEqual(page.problems, [])


def amounts(events):
    """The live and mapped bytes after each event. The completion of a free is not one of its own."""
    live = mapped = 0
    found = []
    for event in events:
        size = event["size"]
        live += {"alloc": size, "free_completed": -size}.get(event["action"], 0)
        mapped += {"segment_map": size, "segment_unmap": -size}.get(event["action"], 0)
        if event["action"] == "free_completed":
            found.pop()
        found.append((live, mapped))
    return found


def memory_viz_page(snapshot, view):
    """A page as _memory_viz.py writes it, but with everything in it instead of loaded from the network."""
    library = find_viewer("d3.min.js").read_text(encoding="utf-8")
    script = find_viewer("MemoryViz.js").read_text(encoding="utf-8")
    script, count = re.subn(r"^import .*;\n", "", script, flags=re.MULTILINE)
    if count == 0:
        raise RuntimeError("MemoryViz.js imports nothing")
    files = [{"name": snapshot.name, "base64": base64.b64encode(padded(snapshot.read_bytes())).decode()}]
    page = snapshot.with_suffix(".html")
    page.write_text(f"""<!DOCTYPE html><html><head><meta charset="utf-8"></head><body>
<script>{library}</script>
<script>{{ const {{axisLeft, scaleLinear, zoom, zoomIdentity, brushX}} = d3;
{script.replace("export function", "function")}
add_local_files({json.dumps(files)}, {json.dumps(view)}); }}</script></body></html>""", encoding="utf-8")
    return page


def padded(data):
    """Its reader of base64 knows no padding."""
    return data + b"\0" * (-len(data) % 3)


if __name__ == "__main__":
    unittest.main()
