#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report as a page, read as text and shown by a real browser. GPUPOOL_COMMAND is the command, GPUPOOL_LIBRARY the
library."""

import base64
import gzip
import html.parser
import json
import os
import pathlib
import re
import shutil
import sys
import unittest
import zlib

import browser
import test_watch

HERE = pathlib.Path(__file__).resolve().parent
TRAINING = HERE / "training.py"
TRACES = sorted((HERE.parent / "data").glob("*.trace.gz"))
PAGE_FOLDER = HERE.parents[1] / "src/cli/report/page"
MIB = 1 << 20
run = test_watch.run


class Elements(html.parser.HTMLParser):
    """What a page is made of."""

    def __init__(self, text):
        super().__init__()
        self.found, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


def data_of(page):
    packed = re.search(r'<script type="application/octet-stream" id="data">([^<]*)</script>', page).group(1)
    return json.loads(gzip.decompress(base64.b64decode(packed)))


class Case(test_watch.Case):
    def record_training(self, *wants, name="training.gpt"):
        path = self.folder / name
        status, _, said = run("record", "-o", path, "--", sys.executable, TRAINING, *wants)
        self.assertEqual(status, 0, said)
        return path

    def record_replay(self, path, *arguments):
        replay = [os.environ["GPUPOOL_COMMAND"], "replay", "--device", "sim", "--passes", "1", *arguments]
        status, _, said = run("record", "-o", path, "--", *replay)
        self.assertIn(status, (0, 1), said)  # 1: under a limit, some mallocs have failed

    def record_versions(self, program="edited"):
        """Two versions of a program."""
        for version in ("1", "2"):
            path = self.folder / f"version{version}.gpt"
            status, _, said = run("record", "-o", path, "--", sys.executable, HERE / "two_versions.py", program,
                                  self.folder / f"v{version}", version)
            self.assertEqual(status, 0, said)
            yield path

    def record_pools(self, *sizes, name):
        """Pools that hold so many MiB."""
        return self.record("".join(f"""
pool = ctypes.c_void_p()
check(lib.gpupool_create(None, ctypes.byref(pool)))
if {mib}: malloc({mib} << 20)
""" for mib in sizes), name=name)

    def report(self, *arguments, name="report.html"):
        path = self.folder / name
        status, out, said = run("report", *arguments, "-o", path)
        self.assertEqual((status, out), (0, ""), said)
        return path


class Structure(Case):
    def test_one_file_that_asks_for_nothing(self):
        text = self.report(self.record_training("leak", "fail", "hostile")).read_text(encoding="utf-8")
        elements = Elements(text).found
        for tag, attributes in elements:
            self.assertNotIn(tag, ("link", "iframe", "object", "embed", "img", "base", "form"))
            self.assertNotIn("style", attributes)
            self.assertFalse([name for name in attributes if name.startswith("on")], attributes)
            for name in ("src", "href", "action"):
                self.assertTrue(attributes.get(name, "#").startswith("#"), attributes)
        policy = next(one["content"] for tag, one in elements if one.get("http-equiv") == "Content-Security-Policy")
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        self.assertEqual([tag for tag, _ in elements].count("script"), 2)
        self.assertIn("Permission is hereby granted", text)  # uPlot's licence
        self.assertNotIn("\u202e", text)
        self.assertIn("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;", text)

    def test_figures_are_those_of_a_replay(self):
        recording = self.record_training("leak")
        data = data_of(self.report(recording).read_text(encoding="utf-8"))
        (told,) = data["runs"]
        trace = self.folder / "x.trace"
        run("export", recording, "-o", trace)
        _, said, _ = run("replay", "--device", "sim", "--passes", "1", "--find-cap", "--json", trace)
        replayed = json.loads(said)
        self.assertEqual(told["peak_live"], replayed["peak_live_bytes"])
        self.assertAlmostEqual(told["fits"] / replayed["peak_live_bytes"], replayed["cap_over_live"], delta=0.003)
        timeline = told["timeline"]
        live = [sum(timeline["live"][: i + 1]) * 512 for i in range(len(timeline["live"]))]
        self.assertEqual(max(live), told["peak_live"])
        self.assertEqual(live[timeline["peak"]], told["peak_live"])
        self.assertEqual(live[-1], told["end_live"])
        for group in timeline["groups"]:
            at_peak = sum(sum(column[: timeline["peak"] + 1]) for column in group["bytes"]) * 512
            self.assertEqual(at_peak, told["peak_live"], group["what"])
        self.assertEqual(told["end_live"], 20 * 4 * MIB)
        self.assertEqual(sum(site[8] for site in told["sites"]), told["end_live"])
        self.assertEqual(sum(site[6] for site in told["sites"]), told["peak_live"])
        self.assertEqual(sum(site[2] for site in told["sites"]), told["mallocs"])
        self.assertEqual([site[1] for site in told["sites"] if site[12]], ["loss history"])
        peak = next(moment for moment in told["moments"] if moment["name"] == "at the peak")
        self.assertEqual(sum((block[1] + 511) // 512 * 512 for block in peak["blocks"]), told["peak_live"])
        self.assertEqual(sum(chunk[1] for chunk in peak["chunks"]), peak["reserved"])
        self.assertEqual(sum(chunk[3] for chunk in peak["chunks"]), told["peak_live"])

    def test_who_held_it_as_json(self):
        path = self.record("""
push("early")
first = malloc(3 << 20)
pop()
check(lib.gpupool_record_stop())
check(lib.gpupool_record_start(sys.argv[1].encode(), 0))
push("weights")
second = malloc(2 << 20)
pop()
free(first)
malloc(1000)
""".replace("sys.argv[1]", repr(str(self.folder / "second.gpt"))))
        self.assertTrue(path.exists())
        status, said, wrong = run("report", "--json", "--no-fit", self.folder / "second.gpt")
        self.assertEqual((status, wrong), (0, ""))
        told = json.loads(said)

        def held(moment):
            return [(one["bytes"], one["blocks"], one["before"], one["tag"]) for one in told[moment]]

        self.assertEqual((told["peak_live_bytes"], told["end_live_bytes"]), (5 * MIB, 2 * MIB + 1024))
        self.assertEqual(held("at_peak"), [(3 * MIB, 1, True, "early"), (2 * MIB, 1, False, "weights")])
        self.assertEqual(held("at_end"), [(2 * MIB, 1, False, "weights"), (1024, 1, False, "")])
        status, _, said = run("report", "--json", "-o", "x.html", self.folder / "second.gpt")
        self.assertEqual(status, 2)
        self.assertIn("excludes", said)

    def test_what_two_versions_differ_in_as_json(self):
        before, after = self.record_versions()
        status, said, wrong = run("report", "--json", "--no-fit", before, after)
        self.assertEqual((status, wrong), (0, ""))
        *held, told = map(json.loads, said.splitlines())
        self.assertEqual([one["file"] for one in held], [str(before), str(after)])
        for side, of_pool, mib in (("before", held[0], 72), ("after", held[1], 74)):
            self.assertEqual((told[side]["peak_live_bytes"], told[side]["sites_left_out"]), (mib * MIB, 0))
            for name in ("file", "pool", "peak_live_bytes", "peak_reserved_bytes", "end_live_bytes", "mallocs"):
                self.assertEqual(told[side][name], of_pool[name], name)

        def figures(mib, blocks):
            return {"peak_bytes": mib * MIB, "peak_blocks": blocks, "end_bytes": mib * MIB, "end_blocks": blocks,
                    "mallocs": blocks}  # fmt: skip

        def side(site, mib):
            return {"site": site} | figures(mib, 1)

        self.assertEqual(told["sites"], [
            {"tag": "", "before": side("warm_up (model.py:8)", 5), "after": None, "more": figures(-5, -1)},
            {"tag": "", "before": None, "after": side("load (model.py:7)", 4), "more": figures(4, 1)},
            {"tag": "", "before": side("load (model.py:6)", 30), "after": side("load (model.py:9)", 33),
             "more": figures(3, 0)},
            {"tag": "", "before": side("load (model.py:5)", 20), "after": side("load (model.py:8)", 20),
             "more": figures(0, 0)},
            {"tag": "", "before": side("load (model.py:4)", 10), "after": side("load (model.py:6)", 10),
             "more": figures(0, 0)},
            {"tag": "", "before": side("reserve (cache.py:4)", 7), "after": side("reserve (kv_cache.py:4)", 7),
             "more": figures(0, 0)},
        ])  # fmt: skip

    def test_what_has_moved_is_matched(self):
        """Into other folders, with callers renamed too; where recursion is deeper; under another name of its own."""
        status, said, wrong = run("report", "--json", "--no-fit", *self.record_versions("moved"))
        self.assertEqual((status, wrong), (0, ""))
        sites = json.loads(said.splitlines()[-1])["sites"]

        def side(told):
            return told and (told["site"], told["peak_bytes"] // MIB)

        self.assertEqual({(side(one["before"]), side(one["after"])) for one in sites}, {
            (("forward (net/encoder/block.py:4)", 6), ("forward (nets/text/encoder/block.py:4)", 7)),
            (("forward (net/decoder/block.py:4)", 9), ("forward (nets/text/decoder/block.py:5)", 9)),
            (("grow (net/tree.py:7)", 3), ("grow (nets/tree.py:7)", 3)),
            (("grow (bush.py:7)", 4), ("grow (shrub.py:7)", 4)),
            (("scratch (buffers.py:7)", 8), ("workspace (buffers.py:7)", 8)),
            (("scratch (buffers.py:8)", 2), ("workspace (buffers.py:8)", 2)),
            (("staging (buffers.py:10)", 12), ("staging (buffers.py:10)", 2)),
        })  # fmt: skip

    def test_each_pool_of_two_runs_is_compared(self):
        """With the one of the same device and number or else, by the order, with another of that device."""
        first, second = self.record_pools(3, 0, 5, name="first.gpt"), self.record_pools(4, 9, 6, 1, name="second.gpt")
        status, said, wrong = run("report", "--json", "--no-fit", first, second)
        self.assertEqual((status, wrong), (0, ""))
        told = [one for one in map(json.loads, said.splitlines()) if "sites" in one]

        def peaks(one):
            return tuple(side and side["peak_live_bytes"] // MIB for side in (one["before"], one["after"]))

        self.assertEqual([peaks(one) for one in told], [(3, 4), (5, 6), (None, 9), (None, 1)])
        self.assertEqual([[site["more"]["peak_bytes"] // MIB for site in one["sites"]] for one in told],
                         [[1], [1], [9], [1]])  # fmt: skip
        text = self.report(first, second, "--no-fit").read_text(encoding="utf-8")
        data = data_of(text)
        self.assertEqual([[data["runs"][place]["peak_live"] // MIB for place in both["runs"]]
                          for both in data["compare"]], [[3, 4], [5, 6]])  # fmt: skip
        self.assertEqual(len(data["runs"]), 6)
        told = " ".join(Elements(text).texts)
        self.assertIn("The peak of what is live is 6 MiB in the second run and 5 MiB in the first: 1 MiB more.", told)
        self.assertIn("is in the second run only; its peak of what is live is 9 MiB.", told)

    def test_no_command_replaces_what_it_reads(self):
        recording, link = self.record_pools(3, name="read.gpt"), self.folder / "link.gpt"
        link.symlink_to(recording)
        before = recording.read_bytes()
        for words in (("report", recording, "--no-fit"), ("export", recording), ("import", recording)):
            for output in (recording, link):
                status, _, said = run(*words, "-o", output)
                self.assertEqual((status, recording.read_bytes()), (2, before), words)
                self.assertIn("is read by this command, and stays: name another file", said)
        self.assertEqual(sorted(each.name for each in self.folder.iterdir() if each.name.startswith("read.gpt")),
                         ["read.gpt"])  # fmt: skip

    def test_half_a_million_events_stay_small(self):
        trace = HERE.parent / "data/lm_serve.trace.gz"
        recording = self.folder / "serve.gpt"
        self.record_replay(recording, trace)
        self.assertLess(recording.stat().st_size, 2_000_000)
        page = self.report(recording)
        self.assertLess(page.stat().st_size, 400_000)
        (told,) = data_of(page.read_text(encoding="utf-8"))["runs"]
        self.assertGreater(told["events"], 514_000)

    def test_two_recordings_are_compared_and_three_are_refused(self):
        first = self.record_training(name="first.gpt")
        second = self.record_training("leak", name="second.gpt")
        text = self.report(first, second).read_text(encoding="utf-8")
        self.assertEqual([both["runs"] for both in data_of(text)["compare"]], [[0, 1]])
        self.assertIn("What is live at the end is 80 MiB in the second run and 0 B in the first: 80 MiB more.", text)
        status, _, said = run("report", first, second, first, "-o", self.folder / "three.html")
        self.assertEqual((status, said), (2, "gpupool: a report is of one recording, or compares two\n"))
        self.assertFalse((self.folder / "three.html").exists())

    def test_several_pools_and_none(self):
        path = self.record("""
other = ctypes.c_void_p()
check(lib.gpupool_create(None, ctypes.byref(other)))
malloc(1 << 20)
first, pool = pool, other
malloc(2 << 20)
""")
        runs = data_of(self.report(path).read_text(encoding="utf-8"))["runs"]
        self.assertEqual(sorted(one["peak_live"] for one in runs), [MIB, 2 * MIB])
        runs = data_of(self.report(path, "--pool", "2", "--no-fit").read_text(encoding="utf-8"))["runs"]
        self.assertEqual([(one["peak_live"], one["fits"]) for one in runs], [(2 * MIB, None)])
        status, _, said = run("report", self.record("", name="none.gpt"), "-o", self.folder / "none.html")
        self.assertEqual(status, 2)
        self.assertIn("none.gpt: nothing was allocated", said)

    def test_one_event_and_names_that_are_no_text(self):
        path = self.record('check(lib.gpupool_tag_push(b"\\xff\\xfe weights"))\nmalloc(1)\n')
        text = self.report(path).read_text(encoding="utf-8")
        (told,) = data_of(text)["runs"]
        self.assertEqual((told["peak_live"], told["sites"][0][1]), (512, "\ufffd\ufffd weights"))

    def test_a_script_runs_in_every_javascript(self):
        if shutil.which("node") is None:
            self.skipTest("node is not here")
        for script in sorted(PAGE_FOLDER.glob("*.js")):
            done = test_watch.subprocess.run(["node", "--check", script], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)


LUMINANCE = """(() => { const style = getComputedStyle(document.documentElement); const of = (name) => {
  const hex = style.getPropertyValue(name).trim();
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const contrast = (a, b) => { const [x, y] = [of(a), of(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  return { groups: [...Array(11).keys()].map((i) => contrast(`--c${i}`, "--back")),
    texts: ["--text", "--soft", "--focus", "--bad"].map((name) => contrast(name, "--back")) }; })()"""
NAMELESS = """[...document.querySelectorAll("button, select, input, a, canvas.plain, [role]")].filter((element) => {
  const label = element.closest("label");
  return !(element.getAttribute("aria-label") || element.getAttribute("aria-labelledby") ||
    element.textContent.trim() || (label && label.textContent.trim()) || element.id === "problem");
}).map((element) => element.outerHTML.slice(0, 200))"""
# What axe-core finds that keeps people from using the page.
AXE = HERE.parents[1] / "build/checkers/axe.min.js"
BARRIERS = """axe.run(document, { resultTypes: ["violations"], preload: false, iframes: false,
  runOnly: %s }).then((found) => found.violations.filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => [id, ...nodes.map((node) => `${node.html.slice(0, 200)}: ${node.failureSummary}`)]))"""
EACH_RULE, RULES_OF_COLOURS = "undefined", '["cat.color"]'


@unittest.skipUnless(browser.find_program(), "no Chromium is here: tools/setup.sh installs it")
class BrowserCase(Case):
    @classmethod
    def setUpClass(cls):
        cls.page = browser.Page()
        cls.addClassCleanup(cls.page.close)

    def open(self, path, fragment="", **look):
        self.page.look(**look)
        self.page.open(path, fragment)
        self.page.wait_for("document.documentElement?.dataset.ready")
        self.assertEqual(self.page.evaluate("document.documentElement.dataset.ready"), "yes", self.page.problems)
        self.assert_calm(path)

    def assert_calm(self, path):
        self.assertEqual(self.page.problems, [])
        self.assertEqual(self.page.requests, [path.as_uri()])


class InBrowser(BrowserCase):
    def reports(self):
        """A report of each kind, by its name."""
        kinds = {
            "plain": [self.record_training(name="plain.gpt")],
            "hostile": [self.record_training("leak", "fail", "hostile", "fragment", name="hostile.gpt")],
            "one": [self.record("malloc(1)\n", name="one.gpt")],
        }
        kinds["two"] = kinds["plain"] + kinds["hostile"]
        kinds["imported"] = [self.folder / "imported.gpt"]
        snapshot = self.folder / "snapshot.pickle"
        self.assertEqual(run("export", kinds["hostile"][0], "--format", "torch", "-o", snapshot)[0], 0)
        self.assertEqual(run("import", snapshot, "--format", "recording", "-o", *kinds["imported"])[0], 0)
        for trace in TRACES:
            name = trace.name.removesuffix(".trace.gz")
            kinds[name] = [self.folder / f"{name}.gpt"]
            self.record_replay(*kinds[name], trace)
        return {name: self.report(*files, "--no-fit", name=f"{name}.html") for name, files in kinds.items()}

    def test_every_kind_of_recording_in_every_look(self):
        for name, page in self.reports().items():
            for look in ({}, {"scheme": "dark"}, {"width": 1400}, {"width": 375, "height": 800},
                         {"scheme": "dark", "width": 375, "height": 800}, {"media": "print", "width": 800}):
                with self.subTest(name=name, look=look):
                    self.open(page, **look)
                    width = look.get("width", 1280)
                    self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), width)
                    self.assertEqual(self.page.evaluate("document.querySelectorAll('img, iframe').length"), 0)
                    self.assertEqual(self.page.evaluate(NAMELESS), [])
                    contrast = self.page.evaluate(LUMINANCE)
                    self.assertGreaterEqual(min(contrast["groups"]), 3)
                    self.assertGreaterEqual(min(contrast["texts"]), 4.5)

    @unittest.skipUnless(AXE.is_file(), "no axe-core is here: tools/setup.sh fetches it if npm can reach its registry")
    def test_every_kind_of_recording_is_for_everybody(self):
        for name, page in self.reports().items():
            self.open(page)
            self.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            self.page.evaluate(AXE.read_text(encoding="utf-8") + ";0")
            for scheme, rules in (("light", EACH_RULE), ("dark", RULES_OF_COLOURS)):  # in the dark, only colours differ
                with self.subTest(name=name, scheme=scheme):
                    self.page.look(scheme=scheme)
                    self.assertEqual(self.page.evaluate(BARRIERS % rules), [])
            self.assert_calm(page)
        # And they would be found.
        self.page.evaluate("""document.getElementById("live-caption").style.color = "#555";
          document.querySelector("#flame-controls button").textContent = "";""")
        for rules, found in ((EACH_RULE, {"button-name", "color-contrast"}), (RULES_OF_COLOURS, {"color-contrast"})):
            self.assertEqual({rule for rule, *_ in self.page.evaluate(BARRIERS % rules)}, found)

    def test_two_runs_are_compared_over_time_or_events(self):
        first, second = self.record_training(name="first.gpt"), self.record_training("leak", name="second.gpt")
        self.open(self.report(first, second, "--no-fit"))
        # The first column of the table is the axis.
        last = "Number([...document.querySelectorAll('#compare-points tbody tr')].at(-1).cells[0].textContent" \
               ".replace(/[^0-9.]/g, ''))"
        self.assertIn("s", self.page.evaluate("document.querySelector('#compare-points tbody td').textContent"))
        self.page.evaluate("""(() => { const over = document.querySelector("#compare-controls select");
          over.value = "events"; over.dispatchEvent(new Event("change")); })()""")
        self.assertGreater(self.page.evaluate(last), 2000)
        self.page.evaluate("document.getElementById('compare-chart').focus()")
        self.page.press("End", "End")
        self.assertRegex(self.page.evaluate("document.getElementById('compare-readout').textContent"),
                         r"^After 2,\d\d\d events: (ended|0 B) live in the first, 80 MiB in the second\.$")

    def test_zoom_by_dragging_and_back(self):
        self.open(self.report(self.record_training()))
        box = self.page.evaluate("""(() => { const over = document.querySelector("#live-chart .u-over");
          over.scrollIntoView(); const box = over.getBoundingClientRect();
          return [box.left, box.top, box.width, box.height]; })()""")
        span = "(() => { const x = gpupoolReport.parts[0].chart.plot.scales.x; return x.max - x.min; })()"
        whole = self.page.evaluate(span)
        middle = box[1] + box[3] / 2
        self.page.drag((box[0] + box[2] * 0.25, middle), (box[0] + box[2] * 0.5, middle))
        self.page.wait_for(f"{span} < {whole} / 3")
        self.page.evaluate("document.getElementById('span-all').click()")
        self.assertAlmostEqual(self.page.evaluate(span), whole, delta=whole / 100)

    def test_the_keyboard_reaches_everything(self):
        path = self.report(self.record_training("leak"))
        self.open(path)
        wanted = self.page.evaluate("""[...document.querySelectorAll(
          "a, button, select, input, summary, [tabindex='0']")].filter((e) => e.offsetParent !== null)
          .filter((e) => !e.closest("details:not([open])") || e.matches("summary")).length""")
        focus = "(() => { const e = document.activeElement; e.dataset.seen = 'yes'; return e.id || e.tagName; })()"
        for _ in range(wanted + 5):
            self.page.press("Tab")
            self.page.evaluate(focus)
        seen = self.page.evaluate("document.querySelectorAll('[data-seen]:not(body)').length")
        self.assertGreaterEqual(seen, wanted)
        for part, kind in (("live", "chart"), ("free", "chart"), ("map", "canvas"), ("chunk", "canvas")):
            self.page.evaluate(f"document.getElementById('{part}-{kind}').focus()")
            self.page.press("ArrowUp" if part == "map" else "ArrowRight")
            told = self.page.evaluate(f"document.getElementById('{part}-readout').textContent")
            self.assertGreater(len(told), 10, part)
        self.page.evaluate("document.querySelector('#flame [tabindex=\"0\"]').focus()")
        self.page.press("ArrowDown")
        self.page.press("Enter")
        level = "Number(document.activeElement.getAttribute('aria-level'))"
        self.assertEqual(self.page.evaluate(level), 2)
        self.page.press("Escape")
        self.assertEqual(self.page.evaluate(level), 1)
        self.assert_calm(path)

    def test_tables_are_sorted_and_filtered(self):
        self.open(self.report(self.record_training("leak")))
        cells = "[...document.querySelectorAll('#sites-table tbody tr')].map((row) => row.children[%d].textContent)"
        self.page.evaluate("document.querySelectorAll('#sites-table th button')[1].click()")
        tags = self.page.evaluate(cells % 1)
        self.assertEqual(tags, sorted(tags))
        self.page.evaluate("document.querySelectorAll('#sites-table th button')[1].click()")
        self.assertEqual(self.page.evaluate(cells % 1), sorted(tags, reverse=True))
        self.page.evaluate("""(() => { const filter = document.querySelector("#sites-table input");
          filter.value = "loss"; filter.dispatchEvent(new Event("input")); })()""")
        self.assertEqual(set(self.page.evaluate(cells % 1)), {"loss history"})

    def test_without_scripts_the_summary_is_there(self):
        page = self.report(self.record_training("leak"))
        self.page.look(script=False)
        self.page.open(page)
        self.page.wait_for("document.querySelector('footer') !== null")
        self.assertIn("At the peak", self.page.evaluate("document.getElementById('summary').innerText"))
        self.assertIn("need JavaScript", self.page.evaluate("document.body.innerText"))

    def test_a_changed_script_does_not_run(self):
        page = self.report(self.record_training())
        text = page.read_text(encoding="utf-8").replace('"use strict"', '"use  strict"', 1)
        page.write_text(text, encoding="utf-8")
        self.page.look()
        self.page.open(page)
        self.page.wait_for("document.querySelector('footer') !== null")
        self.assertIsNone(self.page.evaluate("document.documentElement.dataset.ready || null"))
        self.assertIn("Content Security Policy", str(self.page.problems))


class Damaged(Case):
    def test_garbage_never_crashes_any_reader(self):
        whole = gzip.decompress(self.record_training("leak", "fail").read_bytes())
        pick = test_watch.random.Random(11)
        path = self.folder / "broken.gpt"
        commands = [("report", "--no-fit", "-o", self.folder / "x.html"), ("advise",), ("export", "--prometheus"),
                    ("export", "--format", "torch", "-o", self.folder / "x.pickle"), ("export", "--format", "chrome")]
        for round_ in range(60):
            data = bytearray(whole)
            for _ in range(pick.randrange(1, 8)):
                data[pick.randrange(4096, len(data))] = pick.randrange(256)
            path.write_bytes(data)
            command, *options = commands[round_ % len(commands)]
            status, _, said = run(command, path, *options)
            self.assertIn(status, (0, 2), said)
            if status == 2:
                self.assertRegex(said, r"at byte |choose one|nothing was allocated")

    def test_numbers_that_cannot_be(self):
        header = bytearray(gzip.decompress(self.record("malloc(1)\n").read_bytes())[:4096])
        header[16:20] = (1 << 16).to_bytes(4, "little")
        header[20:24] = (3).to_bytes(4, "little")  # ended, packed
        path = self.folder / "made.gpt"

        def number(value):
            told = b""
            while value >= 0x80:
                told += bytes([value & 0x7F | 0x80])
                value >>= 7
            return told + bytes([value])

        def refused(events, word, rate=None):
            told = bytearray(header)
            if rate is not None:
                told[32:40] = rate.to_bytes(8, "little")
                told[40:48] = bytes(8)
            head = b"GPCH" + (1).to_bytes(4, "little") + bytes(8) + len(events).to_bytes(4, "little") + bytes(20)
            path.write_bytes(gzip.compress(bytes(told) + head + events))
            status, _, said = run("leaks", path)
            self.assertEqual(status, 2, said)
            self.assertIn(word, said)

        refused(b"\x01\x00\x01\x00\x00" + number(2) + number(1 << 60), "bytes at 0x200 cannot be")
        refused(b"\x01\x00\x01\x00\x00" + number(1 << 50) + number(1), "cannot be")
        refused(b"\x05\x00\x01\x00\x00" + number(2) + number((1 << 64) - 1), "cannot be")
        refused(b"\x01" + number(1 << 58) + b"\x01\x00\x00" + number(2) + number(1), "the time of an event", rate=1)
        refused(zlib.compress(b"no events"), "at byte")


if __name__ == "__main__":
    unittest.main()
