#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the reader of a report can choose: a span of time, which frames, a link to all of it, what two runs differ in,
and lines of source. Most recordings are written here, so that each figure is known. GPUPOOL_COMMAND is the command,
GPUPOOL_LIBRARY the library."""

import json
import os
import time
import unittest

import test_bounds
import test_report
from command import run

MIB = 1 << 20
MS = 10**6
TEXT = "document.getElementById(%r).textContent"
ROWS = """[...document.querySelectorAll("#%s tbody tr, tbody#%s tr")].map((row) =>
  [...row.cells].map((cell) => cell.textContent))"""
BOXES = "[...document.querySelectorAll('#%s [role=treeitem]')].map((box) => box.title)"
SET = """(([[part, label], value]) => { const control = [...document.querySelectorAll(part + " label")]
  .find((each) => each.textContent.includes(label)).querySelector("select, input");
  if (control.type === "checkbox") control.click();
  else { control.value = value; control.dispatchEvent(new Event(control.tagName === "SELECT" ? "change" : "input")); }
})(%s)"""


class Written:
    """A recording of one pool: each step says when it is, in ms."""

    def __init__(self):
        self.events = [test_bounds.named(11, 1, b"sim:0\nsimulated\n85899345920\n0")]
        self.names, self.now, self.last, self.next = {}, 0, 0, 4096

    def name(self, kind, text):
        if (kind, text) not in self.names:
            self.names[kind, text] = len(self.names) + 1
            self.events.append(test_bounds.named(kind, self.names[kind, text], text.encode()))
        return self.names[kind, text]

    def event(self, kind, ms, address, *rest, tag="", stack=""):
        ns, self.now = int(ms * MS) - self.now, int(ms * MS)
        move, self.last = address - self.last, address
        numbers = [ns, 1, 1, self.name(9, tag) if tag else 0, *([self.name(10, stack)] if stack else []),
                   move << 1 if move >= 0 else (-move << 1) - 1, *rest]
        self.events.append(bytes([kind | (0x40 if stack else 0)]) + b"".join(map(test_bounds.number, numbers)))

    def malloc(self, ms, size, *frames, tag=""):
        address, self.next = self.next, self.next + (size + 511) // 512
        self.event(1, ms, address, size, stack="\n".join(frames), tag=tag)
        return address

    def free(self, ms, address):
        self.event(2, ms, address)

    def fail(self, ms, size):
        self.event(4, ms, 0, size)

    def save(self, path):
        path.write_bytes(test_bounds.recording_of(b"".join(self.events)))
        return path


def phases():
    """Of 100 ms: weights stay; in the first half `early` holds most, and is freed; in the second `late` grows by 1 MiB
    each ms, and a malloc fails."""
    written = Written()
    written.malloc(0, 10 * MIB, "load (model.py:3)", "main (main.py:9)", tag="weights")
    early = [written.malloc(5 + i, 8 * MIB, "early (model.py:7)", "main (main.py:10)") for i in range(10)]
    for i, block in enumerate(early):
        written.free(20 + i, block)
    for ms in range(30, 50):
        written.free(ms + 0.5, written.malloc(ms, 3000, "scratch (model.py:9)", "main (main.py:11)"))
    for i in range(40):
        written.malloc(55 + i, MIB, "late (model.py:12)", "main (main.py:12)")
    written.fail(97, 1 << 40)
    written.malloc(100, 512, "last (model.py:20)", "main (main.py:13)")
    return written


class Case(test_report.BrowserCase):
    def page_of(self, written, *options, name="written"):
        return self.report("--no-fit", *options, written.save(self.folder / f"{name}.gpt"), name=f"{name}.html")

    def text(self, identity):
        return self.page.evaluate(TEXT % identity)

    def rows(self, table):
        return self.page.evaluate(ROWS % (table, table))

    def boxes(self, graph="flame"):
        return self.page.evaluate(BOXES % graph)

    def set(self, part, label, value=None):
        """A control, as the reader does."""
        self.page.evaluate(SET % json.dumps([[f"#{part}-controls", label], value]))

    def drag(self, begin, end, chart="live"):
        """Over these parts of a chart's width."""
        left, top, width, height = self.page.evaluate(
            f"(() => {{ const over = document.querySelector('#{chart}-chart .u-over'); "
            "over.scrollIntoView({ behavior: 'instant', block: 'center' }); "
            "const box = over.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; })()")
        self.page.drag((left + begin * width, top + height / 2), (left + end * width, top + height / 2))
        self.page.wait_for("!document.getElementById('span').hidden")


class Chosen(Case):
    def test_a_span_of_time_is_shown_by_all_parts(self):
        path = self.page_of(phases())
        self.open(path)
        whole = {part: self.rows(part) for part in ("sites-table", "sizes-table", "sizes-bars")}
        self.assertEqual(self.rows("sites-table")[0][:4], ["early (model.py:7)", "", "80 MiB", "10"])
        left, right = self.page.evaluate("(({ plot }) => [0.052, 0.0965].map((at) => plot.valToPos(at, 'x') / "
                                         "plot.over.clientWidth))(gpupoolReport.parts[0].chart)")
        self.drag(left, right)
        rows = {row[0]: row[2:7] for row in self.rows("sites-table")}
        # At its peak, blocks then, at its end, mallocs in it, bytes in it.
        self.assertEqual(rows, {"late (model.py:12)": ["40 MiB", "40", "40 MiB", "40", "40 MiB"],
                                "load (model.py:3)": ["10 MiB", "1", "10 MiB", "0", "0 B"]})
        self.assertRegex(self.text("flame-caption"), r"^50 MiB live at the peak from 49\.5 ms to 97\.0 ms, in 2 ")
        self.assertNotIn("early", " ".join(self.boxes()))
        self.assertEqual([row[0] for row in self.rows("leaks-table")], ["late (model.py:12)"])
        self.assertEqual(self.rows("leaks-table")[0][4], "40 MiB")
        self.assertEqual(self.rows("sizes-bars"), [["to 1 MiB", "40", ""]])
        self.assertEqual([row[2] for row in self.rows("failed-table")], [""])
        sizes = {row[0]: row[1:3] for row in self.rows("sizes-table")}
        self.assertEqual(sizes, {"1,048,576": ["40", "40"], "10,485,760": ["0", "1"]})
        free = self.page.evaluate("gpupoolReport.parts[3].chart.plot.scales.x.min")
        self.assertAlmostEqual(free, 0.052, delta=0.002)
        self.assertRegex(self.text("span"), r"^Only from 49\.5 ms to 97\.0 ms\.\s+Show all the time")
        self.assertIn("from 49.5 ms", self.text("tables-title"))
        self.page.evaluate("document.getElementById('span-all').click()")
        for part, rows in whole.items():
            self.assertEqual(self.rows(part), rows)
        self.assertTrue(self.page.evaluate("document.getElementById('span').hidden"))
        self.assert_calm(path)

    def test_the_map_shows_the_span(self):
        path = self.report("--no-fit", self.record_training("leak"))
        self.open(path)
        picture = "document.getElementById('map-canvas').toDataURL()"
        whole = self.page.evaluate(picture)
        self.drag(0.5, 0.75)
        part = self.page.evaluate(picture)
        self.assertTrue(part != whole, "the map is the same")
        columns = self.page.evaluate("gpupoolReport.run.grid.seconds")
        begin, end = self.page.evaluate("span.chosen")
        self.page.evaluate("document.getElementById('map-canvas').focus()")
        for _ in range(3):
            self.page.press("ArrowLeft")
        after = float(self.text("map-readout").split()[1]) / 1000
        self.assertGreaterEqual(after, max(each for each in columns if each <= begin) * 0.99)
        options = "[...document.querySelectorAll('#chunk-controls option')]"
        moments = self.page.evaluate(f"{options}.map(({{ value }}) => value)")
        seconds = self.page.evaluate("gpupoolReport.run.moments.map((moment) => moment.us / 1e6)")
        within = [str(i) for i, each in enumerate(seconds) if begin <= each <= end]
        self.assertEqual(moments, within or [str(i) for i in range(len(seconds))])
        self.assert_calm(path)

    def test_a_span_by_keys_and_over_events(self):
        path = self.page_of(phases())
        self.open(path)
        self.page.evaluate("document.getElementById('live-chart').focus()")
        self.page.press("End", "End")
        self.page.press("+")
        begin, end = self.page.evaluate("span.chosen")
        self.assertAlmostEqual(begin, 0.075, delta=0.001)
        self.page.press("ArrowLeft", shift=True)
        moved = self.page.evaluate("span.chosen")
        self.assertLess(moved[1], end)
        self.assertAlmostEqual(moved[1] - moved[0], end - begin, delta=1e-5)
        self.page.press("0")
        self.assertIsNone(self.page.evaluate("span.chosen"))
        self.set("live", "over", "1")
        self.drag(0.6, 0.8)  # of 103 events, which are in the second half of the time
        begin, end = self.page.evaluate("span.chosen")
        self.assertTrue(0.05 < begin < end < 0.09, (begin, end))
        self.assertEqual({row[0] for row in self.rows("sites-table")}, {"late (model.py:12)", "load (model.py:3)"})
        self.assert_calm(path)

    def test_any_span_has_the_figures_of_its_events(self):
        """Windows of a busy run added up, beside the same from the events themselves."""
        recording = self.folder / "train.gpt"
        self.record_replay(recording, test_report.HERE.parent / "data/zero_gather.trace.gz")
        path = self.report("--no-fit", recording)
        (told,) = test_report.data_of(path.read_text(encoding="utf-8"))["runs"]
        self.open(path)
        moments = self.page.evaluate("(({ seconds, live }) => seconds.map((each, i) => [each, live[i]]))"
                                     "(gpupoolReport.run.timeline)")
        ends = [end for _, end in told["windows"]]
        for part in ((0, 0.01), (0.3, 0.6), (0.8, 0.9)):
            self.page.evaluate(f"span.choose({json.dumps([each * moments[-1][0] for each in part])})")
            sites, windows = self.page.evaluate("[gpupoolReport.view.sites, windowsOf(gpupoolReport.run, span.chosen)]")
            begin = ends[windows["first"] - 1] if windows["first"] else 0
            inside = [live for _, live in moments[begin : ends[windows["last"]] + 1]]
            self.assertEqual(sum(site["peak"] for site in sites), max(inside))
            self.assertEqual(sum(site["end"] for site in sites), inside[-1])
        whole = self.page.evaluate("siteIn(gpupoolReport.run.sites[0], windowsOf(gpupoolReport.run, [0, 1e9]))")
        row = told["sites"][0]
        names = ("mallocs", "bytes", "rounding", "peakBlocks", "peak", "endBlocks", "end", "temporaryMallocs",
                 "temporary")
        self.assertEqual([whole[name] for name in names], row[2:11])

    def test_frames_are_folded_hidden_and_turned_round(self):
        written = Written()
        frames = ["forward (/site/lib/python3.11/site-packages/torch/nn.py:5)", "wrap (/home/me/app/wrap.py:2)",
                  "run (/usr/lib/python3.11/runpy.py:86)", "_run (<frozen runpy>:198)", "main+0x12 (python3.11)"]
        written.malloc(1, MIB, *frames)
        path = self.page_of(written)
        self.open(path)
        names = lambda: [title.rsplit(": ", 1)[0] for title in self.boxes()]  # noqa: E731
        self.assertEqual(names(), ["all", *reversed(frames)])
        self.set("flame", "inverted")
        self.assertEqual(names(), ["all", *frames])
        self.set("flame", "inverted")
        self.set("flame", "interpreter", "folded")
        self.assertEqual(names(), ["all", "[interpreter]", frames[1], frames[0]])
        self.set("flame", "interpreter", "hidden")
        self.set("flame", "frameworks", "folded")
        self.assertEqual(names(), ["all", frames[1], "[frameworks]"])
        self.set("flame", "frames with", "WRAP.py|nothing")
        self.assertEqual(names(), ["all", "[wrap.py or nothing]", "[frameworks]"])
        self.set("flame", "are", "hidden")
        self.assertEqual(names(), ["all", "[frameworks]"])
        self.assert_calm(path)

    def test_a_link_shows_what_was_chosen(self):
        first = phases().save(self.folder / "first.gpt")
        second = phases()
        second.malloc(101, 7 * MIB, "late (model.py:14)", "main (main.py:12)")
        path = self.report("--no-fit", first, second.save(self.folder / "second.gpt"))
        self.open(path)
        self.page.evaluate(SET % json.dumps([["#run-controls", "Charts"], "1"]))
        self.drag(0.5, 0.9)
        self.set("flame", "bytes", "end")
        self.set("flame", "inverted")
        self.set("live", "over", "1")
        self.set("sizes", "bars show", "end")
        self.page.evaluate("document.querySelector('#flame [aria-level=\"2\"]').click()")
        self.page.evaluate("document.querySelectorAll('#sites-table th button')[5].click()")
        self.set("difference", "bytes", "end")
        shown = """[...document.querySelectorAll("p:not(.readout), table, [role=treeitem]")]
          .map((each) => each.textContent)"""
        scale = "(() => { const { min, max } = gpupoolReport.parts[0].chart.plot.scales.x; return [min, max]; })()"
        before, address, zoom = map(self.page.evaluate, (shown, "location.href", scale))
        self.assertIn("span=", address)
        self.assertIn("run=1", address)
        self.open(path)
        self.assertNotEqual(self.page.evaluate(shown), before)
        self.open(path, address.removeprefix(path.as_uri()))
        self.assertEqual(self.page.evaluate(shown), before)
        self.assertEqual(self.page.evaluate(scale), zoom)
        self.assertEqual(self.page.evaluate("location.href"), address)
        # A link to a part keeps what was chosen, and the usual has no fragment.
        self.page.evaluate("document.querySelector('nav a[href=\"#who\"]').click()")
        self.page.wait_for("location.hash.includes('at=who')")
        self.assertIn("run=1", self.page.evaluate("location.hash"))
        self.open(path, "#at=who")
        self.page.wait_for("document.getElementById('who').getBoundingClientRect().top < innerHeight / 2")
        self.open(path, "#run=9&span=x&flame=none&over=%3Cb%3E&moment=-1&flame.zoom=no%0Abody&__proto__=1")
        self.assertEqual(self.page.evaluate("location.hash.replace('flame.zoom=no%0Abody', '')"), "#")
        self.assert_calm(path)

    def test_two_runs_in_one_flame_graph(self):
        before, after = Written(), Written()
        before.malloc(1, 4 * MIB, "load (model.py:3)", "main (main.py:9)")
        before.malloc(2, 6 * MIB, "cache (old_name.py:3)", "main (main.py:10)")
        before.malloc(3, 1 * MIB, "gone (model.py:30)", "main (main.py:11)", tag="old")
        before.malloc(4, 3 * MIB, "attend (model.py:33)", "main (main.py:12)")
        after.malloc(1, 6 * MIB, "load (model.py:5)", "main (main.py:19)")
        after.malloc(2, 4 * MIB, "cache (new_name.py:4)", "main (main.py:20)")
        after.malloc(3, 2 * MIB, "fresh (model.py:40)", "main (main.py:21)", tag="new")
        after.malloc(4, 3 * MIB, "attention (model.py:44)", "main (main.py:22)")
        path = self.report("--no-fit", before.save(self.folder / "a.gpt"), after.save(self.folder / "b.gpt"))
        self.open(path)
        self.assertEqual(sorted(self.boxes("difference")), [
            "all: +1 MiB (14 MiB before, 15 MiB after)",
            "attention (model.py): 3 MiB in both",
            "cache (new_name.py): -2 MiB (6 MiB before, 4 MiB after)",
            "fresh (model.py): +2 MiB (0 B before, 2 MiB after)",
            "gone (model.py): -1 MiB (1 MiB before, 0 B after)",
            "load (model.py): +2 MiB (4 MiB before, 6 MiB after)",
            "main (main.py): +1 MiB (14 MiB before, 15 MiB after)",
            "tag: new: +2 MiB (0 B before, 2 MiB after)",
            "tag: old: -1 MiB (1 MiB before, 0 B after)",
        ])
        wide = self.page.evaluate("[...document.querySelectorAll('#difference [aria-level=\"3\"]')].map((box) => "
                                  "[box.title.split(' ')[0], box.offsetWidth, getComputedStyle(box).backgroundColor])")
        total = sum(width for _, width, _ in wide)
        widths = {"load": 6, "cache": 6, "attention": 3, "fresh": 2, "gone": 1}
        for name, width, _ in wide:  # as wide as the larger of both, in MiB
            self.assertAlmostEqual(width / total, widths[name] / sum(widths.values()), delta=0.01)
        colours = {name: colour for name, _, colour in wide}
        self.assertEqual(len(set(colours.values())), 5, colours)
        self.set("difference", "inverted")
        self.assertIn("main (main.py): +2 MiB (4 MiB before, 6 MiB after)", self.boxes("difference"))
        self.assert_calm(path)

    def test_sizes_are_a_histogram(self):
        written = Written()
        for i, size in enumerate((1, 512, 513, 1024, 5000, MIB, MIB + 1, 2 * MIB)):
            written.malloc(i + 1, size, "here (a.py:1)")
        self.open(self.page_of(written))
        rows = {row[0]: row[1] for row in self.rows("sizes-bars")}
        self.assertEqual({name: count for name, count in rows.items() if count != "0"},
                         {"to 512 B": "2", "to 1 KiB": "2", "to 8 KiB": "1", "to 1 MiB": "1", "to 2 MiB": "2"})
        self.assertEqual(len(rows), 13)  # the empty ones between them, too
        widths = self.page.evaluate("[...document.querySelectorAll('.bar')].map((bar) => bar.style.width)")
        self.assertEqual(widths[:3], ["100%", "100%", "0%"])
        self.set("sizes", "bars show", "end")
        self.assertEqual({row[0]: row[1] for row in self.rows("sizes-bars")}["to 2 MiB"], "3.00 MiB")  # and 512 bytes

    def test_nothing_is_wider_than_the_page(self):
        first, second = self.record_training(name="a.gpt"), self.record_training("leak", "fail", name="b.gpt")
        path = self.report("--no-fit", "--sources", test_report.HERE, first, second)
        for look in ({"width": 375, "height": 800}, {"width": 375, "height": 800, "scheme": "dark"}, {"width": 1400},
                     {"media": "print", "width": 800}):
            with self.subTest(look=look):
                self.open(path, "#run=1&span=0.01,0.03&difference=end", **look)
                self.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
                self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), look["width"])
                self.assertEqual(self.page.evaluate(test_report.NAMELESS), [])
                self.assertGreater(self.page.evaluate("document.querySelector('#sites-table summary').offsetWidth"), 0)
        self.page.look()

    @unittest.skipUnless(test_report.AXE.is_file(), "no axe-core is here")
    def test_what_is_chosen_is_for_everybody(self):
        first, second = self.record_training(name="a.gpt"), self.record_training("leak", "fail", name="b.gpt")
        path = self.report("--no-fit", "--sources", test_report.HERE, first, second)
        for scheme in ("light", "dark"):
            self.open(path, "#run=1&span=0.01,0.03&difference=bytes", scheme=scheme)
            self.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            self.page.evaluate(test_report.AXE.read_text(encoding="utf-8") + ";0")
            self.assertEqual(self.page.evaluate(test_report.BARRIERS % test_report.EACH_RULE), [], scheme)


class SourceLines(Case):
    def sources_of(self, *folders, frames, name="written"):
        """What the page has of a recording of these frames, by frame."""
        written = Written()
        written.malloc(1, MIB, *frames)
        page = self.page_of(written, *(word for folder in folders for word in ("--sources", folder)), name=name)
        (told,) = test_report.data_of(page.read_text(encoding="utf-8"))["runs"]
        return {told["frames"][frame]: (first, lines) for frame, first, lines in told["sources"]}

    def write(self, path, lines=20, word="line"):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{word} {i}\n" for i in range(1, lines + 1)), encoding="utf-8")
        os.utime(path, (0, 0))
        return path

    def test_lines_around_each_frame(self):
        self.write("app/pkg/model.py")
        self.write("secret/key.py")
        model = f"load ({self.folder}/app/pkg/model.py:7)"
        found = self.sources_of(self.folder / "app", frames=[
            model, "near (model.py:1)", "away (/elsewhere/build/pkg/model.py:20)", "other (/elsewhere/not/model.py:2)",
            f"secret ({self.folder}/secret/key.py:3)", f"up ({self.folder}/app/../secret/key.py:3)",
            "behind (model.py:21)", "native+0x10 (model.py)", "none (nowhere.py:1)"])
        self.assertEqual(found, {
            model: (4, [f"line {i}" for i in range(4, 11)]),
            "near (model.py:1)": (1, [f"line {i}" for i in range(1, 5)]),
            "away (/elsewhere/build/pkg/model.py:20)": (17, [f"line {i}" for i in range(17, 21)]),
        })
        self.assertEqual(self.sources_of(frames=[model]), {})

    def test_of_several_files_the_one_that_is_meant(self):
        for folder in ("a", "b"):
            self.write(f"app/{folder}/model.py", word=folder)
        self.write("app/.venv/only.py")
        found = self.sources_of(self.folder / "app", frames=["f (/x/b/model.py:1)", "g (model.py:2)", "h (only.py:1)"])
        self.assertEqual(found, {"f (/x/b/model.py:1)": (1, [f"b {i}" for i in range(1, 5)])})

    def test_the_page_shows_them(self):
        self.write("app/model.py", word="<b>x = malloc()</b> #")
        written = Written()
        written.malloc(1, MIB, "load (model.py:7)", "main (main.py:2)")
        path = self.page_of(written, "--sources", self.folder / "app")
        self.open(path)
        self.assertEqual(self.text("flame-source"), "")
        self.page.evaluate("document.querySelector('#flame [tabindex=\"0\"]').focus()")
        for _ in range(2):
            self.page.press("ArrowDown")
        self.assertIn("7  <b>x = malloc()</b> # 7\n", self.text("flame-source"))
        self.assertEqual(self.page.evaluate("document.querySelector('#flame-source mark').textContent.trim()"),
                         "7  <b>x = malloc()</b> # 7")
        self.assertIn("# 10\n", self.page.evaluate("document.querySelector('#sites-table details pre').textContent"))
        self.assertEqual(self.page.evaluate("document.querySelectorAll('b').length"), 0)
        self.assert_calm(path)

    def test_what_cannot_be_read_is_said(self):
        recording = phases().save(self.folder / "phases.gpt")
        page = self.folder / "r.html"
        status, _, said = run("report", "--no-fit", "--sources", self.folder / "none", recording, "-o", page)
        self.assertEqual((status, said), (2, f"gpupool: --sources {self.folder}/none: is not a folder\n"))
        self.assertFalse(page.exists())
        changed = self.write("app/model.py", lines=30)
        os.utime(changed, (time.time(), time.time()))
        status, _, said = run("report", "--no-fit", "--sources", self.folder / "app", recording, "-o", page)
        told = f"gpupool: {changed} was changed after {recording} was begun: its lines may be others\n"
        self.assertEqual((status, said), (0, told))


if __name__ == "__main__":
    unittest.main()
