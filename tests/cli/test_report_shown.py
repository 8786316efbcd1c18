#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the report's page shows, in a real browser: figures, names, and that each choice shows something else.
GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY the library."""

import json
import os
import pathlib
import re
import sys
import time
import unittest

import browser
import test_report
import test_watch

COMMAND = os.environ["GPUPOOL_COMMAND"]
MIB = 1 << 20
REPLAY = ("replay", "--device", "sim", "--passes", "1", "--json")
run = test_watch.run

PIXELS = """(() => { const canvas = document.querySelector(%r); const data =
  canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let i = 0; i < data.length; i += 16) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  return [...seen].length; })()"""
CHOOSE = """(([selector, value]) => { const select = document.querySelector(selector); select.value = value;
  select.dispatchEvent(new Event("change")); })(%s)"""
TEXTS = "[...document.querySelectorAll(%r)].map((e) => e.textContent)"
PICTURE = "document.querySelector('#live-chart canvas').toDataURL()"
# What the chart's plot draws: a list a column, after the axis.
SERIES = "gpupoolReport.parts[0].chart.plot.data.slice(1).map((column) => [...column])"


def bytes_text(count):
    """As people read it, and as the page says it."""
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.{0 if value == int(value) else 2 if value < 100 else 1}f} {units[0]}"


class Shown(test_report.BrowserCase):
    def texts(self, selector):
        return self.page.evaluate(TEXTS % selector)

    def choose(self, part, value):
        self.page.evaluate(CHOOSE % json.dumps([f"#{part}-controls select", value]))

    def summary(self):
        return self.page.evaluate("document.getElementById('summary').innerText")

    def test_call_sites_of_two_versions_are_matched(self):
        """By function and line nearby, though every line has moved, and a file has another name."""
        self.open(self.report("--no-fit", *self.record_versions()))
        rows = self.page.evaluate("[...document.querySelectorAll('#compare-table tbody tr')].map((row) => "
                                  "[...row.cells].map((cell) => cell.textContent))")
        self.assertEqual({row[0]: (row[2], row[3]) for row in rows}, {
            "load (model.py:6), before: load (model.py:4)": ("10 MiB", "10 MiB"),
            "load (model.py:8), before: load (model.py:5)": ("20 MiB", "20 MiB"),
            "load (model.py:9), before: load (model.py:6)": ("30 MiB", "33 MiB"),
            "reserve (kv_cache.py:4), before: reserve (cache.py:4)": ("7 MiB", "7 MiB"),
            "load (model.py:7) (only in the second)": ("0 B", "4 MiB"),
            "warm_up (model.py:8) (only in the first)": ("5 MiB", "0 B"),
        })
        self.assert_calm(self.folder / "report.html")

    def test_each_pool_of_two_runs_is_shown(self):
        runs = self.record_pools(3, 0, 5, name="first.gpt"), self.record_pools(4, 0, 6, name="second.gpt")
        self.open(self.report("--no-fit", *runs))
        seen = {}
        for i, words in enumerate(self.texts("#compare-controls option")[:2]):
            self.choose("compare", str(i))
            seen[words] = self.texts("#compare-table tbody td")[2:4]
            self.assertIn(seen[words][0], self.texts("#difference-caption")[0])
        self.assertEqual(seen, {"Pool 2": ["3 MiB", "4 MiB"], "Pool 4": ["5 MiB", "6 MiB"]})

    def test_the_summary_says_what_a_replay_says(self):
        for trace in test_report.TRACES:
            with self.subTest(trace.name):
                recording, again = self.folder / f"{trace.name}.gpt", self.folder / f"{trace.name}.trace"
                status, told, said = run("record", "-o", recording, "--", COMMAND, *REPLAY, trace)
                self.assertEqual(status, 0, said)
                told = json.loads(told)
                self.assertEqual(run("export", recording, "-o", again)[0], 0)
                replayed = json.loads(run(*REPLAY, "--find-cap", again)[1])
                self.open(self.report(recording))
                shown = self.summary()
                live, most, limit, ratio = re.search(
                    r"recording began, (\S+ \wi?B) were live in .* and (\S+ \wi?B) at most\.[^$]*"
                    r"under a limit of (\S+ \wi?B), (\S+) times", shown).groups()
                self.assertEqual((live, most),
                                 (bytes_text(told["peak_live_bytes"]), bytes_text(told["peak_reserved_bytes"])))
                self.assertEqual(live, bytes_text(replayed["peak_live_bytes"]))
                self.assertEqual((told["failed_allocations"], "failed" in shown), (0, False))
                self.assertAlmostEqual(float(ratio), replayed["cap_over_live"], delta=0.003)
                fits = self.page.evaluate("gpupoolReport.run.fits")
                self.assertEqual(limit, bytes_text(fits))
                self.assertAlmostEqual(fits / told["peak_live_bytes"], float(ratio), delta=0.0006)

    def test_the_summary_says_how_many_mallocs_failed(self):
        recording = self.folder / "short.gpt"
        trace = next(trace for trace in test_report.TRACES if trace.name.startswith("streams"))
        status, told, said = run("record", "-o", recording, "--", COMMAND, *REPLAY, "--cap", "0.9x", trace)
        self.assertEqual(status, 1, said)
        failed = json.loads(told)["failed_allocations"]
        self.open(self.report(recording, "--no-fit"))
        self.assertRegex(self.summary(), rf"\b{failed:,} malloc(s have| has) failed")

    def test_half_a_million_events_are_there_at_once(self):
        recording = self.folder / "serve.gpt"
        self.record_replay(recording, test_report.HERE.parent / "data/lm_serve.trace.gz")
        path = self.report(recording, "--no-fit")
        page = browser.Page()
        self.addCleanup(page.close)
        page.ask("Performance.enable")
        begun = time.monotonic()
        page.open(path)
        page.wait_for("document.documentElement?.dataset.ready")
        took = time.monotonic() - begun
        about = {one["name"]: one["value"] for one in page.ask("Performance.getMetrics")["metrics"]}
        print(f"half a million events: the page was ready after {took:.2f} s, of which its process took "
              f"{about['ProcessTime']:.2f} s of processor, with its start", file=sys.stderr)
        # Of the page's own process, its start included: the machine may have other things to do.
        self.assertLess(about["ProcessTime"], 1)
        self.assertLess(about["JSHeapUsedSize"], 50 * MIB)
        self.assertLess(took, 20)

    def test_hostile_names_are_shown_as_they_are(self):
        recording = self.record_training("hostile", name='<img src=n onerror=alert(4)>"\u202e.gpt')
        self.open(self.report(recording))
        self.assertTrue(any("<img src=n onerror=alert(4)>\"?.gpt" in title for title in self.texts("h1, title")),
                        self.texts("h1, title"))
        self.assertIn("<img src=n onerror=alert(4)>", self.summary())
        self.assertTrue(any(name.startswith("</script><img src=x onerror=alert(1)>")
                            for name in self.texts("#live-legend .name")))
        self.assertIn("</script><img src=x onerror=alert(1)>\"'?gnp.exe (\"><img src=f onerror=alert(2)>?.py:",
                      " ".join(self.texts("#flame [role=treeitem]")))
        self.assertTrue(any("</option><img src=m onerror=alert(3)>? 1" in name
                            for name in self.texts("#chunk-controls option")), self.texts("#chunk-controls option"))
        self.choose("live", "3")
        self.assertTrue(any(name.startswith("<img src=t>?") for name in self.texts("#live-legend .name")),
                        self.texts("#live-legend .name"))
        self.assertEqual(self.page.evaluate("document.querySelectorAll('img').length"), 0)
        self.assertNotIn("\u202e", self.page.evaluate("document.documentElement.outerHTML"))
        self.assertEqual(self.page.problems, [])  # no dialog either

    def test_what_can_be_chosen_changes_what_is_shown(self):
        path = self.report(self.record_training("leak", "fail"))
        self.open(path)
        self.assertIn("weights", self.texts("#live-legend .name"))
        for value, expected in (("1", "up to 16 MiB"), ("2", "stream 0x0"), ("3", "python")):
            self.choose("live", value)
            names = self.texts("#live-legend .name")
            self.assertTrue([name for name in names if expected in name], names)
        for canvas in ("#live-chart canvas", "#map-canvas", "#chunk-canvas"):
            self.assertGreater(self.page.evaluate(PIXELS % canvas), 4)
        moments = self.texts("#chunk-controls option")
        self.assertTrue([name for name in moments if name.startswith("when 1 TiB could not be had")], moments)
        self.assert_calm(path)

    def test_a_chart_by_stream_is_another_chart(self):
        path = self.report(self.record_training("leak"))
        self.open(path)
        by_tag, series_by_tag = self.page.evaluate(PICTURE), self.page.evaluate(SERIES)
        self.choose("live", "2")
        by_stream, series = self.page.evaluate(PICTURE), self.page.evaluate(SERIES)
        self.assertTrue(by_stream != by_tag, "the picture is the same")
        (told,) = test_report.data_of(pathlib.Path(path).read_text(encoding="utf-8"))["runs"]
        group = next(group for group in told["timeline"]["groups"] if group["what"] == "stream")
        self.assertEqual(len(group["names"]), 2)
        # Areas are stacked, the highest first: all streams together are what is live, and the lowest is one of them.
        self.assertEqual(series[0], series_by_tag[0])
        self.assertEqual(series[1], [512 * sum(group["bytes"][0][: at + 1]) for at in range(len(series[1]))])
        self.assertNotEqual(series[1], series[0])
        self.page.evaluate("document.querySelector('#live-legend input').click()")
        self.assertTrue(self.page.evaluate(PICTURE) not in (by_stream, by_tag), "the picture is the same")
        self.choose("live", "0")
        self.assertEqual(self.page.evaluate(SERIES), series_by_tag)
        self.assertTrue(self.page.evaluate(PICTURE) == by_tag, "it is another picture")
        self.assert_calm(path)

    def test_each_flame_graph_has_its_own_total(self):
        path = self.report(self.record_training("leak"))
        self.open(path)
        (told,) = test_report.data_of(pathlib.Path(path).read_text(encoding="utf-8"))["runs"]
        totals = {}
        for value, column, said in (
                ("peak", 6, "live at the peak"), ("end", 8, "live at the end"), ("bytes", 3, "allocated in all"),
                ("temporary", 10, "temporary: freed again at once"), ("rounding", 4, "lost by rounding to 512")):
            self.choose("flame", value)
            totals[value] = sum(site[column] for site in told["sites"])
            caption = self.page.evaluate("document.getElementById('flame-caption').textContent")
            self.assertIn(f"{bytes_text(totals[value])} {said}" if totals[value] else f"Nothing is {said}", caption)
            if totals[value]:
                self.assertIn(f"all: {bytes_text(totals[value])}, 100.0 %", self.texts("#flame [role=treeitem]"))
        self.assertEqual(len(set(totals.values())), len(totals), totals)
        self.assertEqual(totals["peak"], told["peak_live"])
        # Of the activations, each layer's scores are freed before the second malloc behind them, unless one of the 20
        # batches comes between; and at the end of each step one more is.
        temporary = sum(site[10] for site in told["sites"] if site[1] == "activations")
        scores = sum(2 * (8 + step % 4) * MIB for step in range(20)) * 12
        self.assertTrue(0.9 * scores < temporary < 1.05 * scores, temporary / scores)
        self.choose("flame", "grown")
        self.assertIn("80 MiB grows from mark to mark", self.texts("#flame-caption")[0])
        self.assert_calm(path)


if __name__ == "__main__":
    unittest.main()
