#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which shapes of growth gpupool leaks finds, and which it does not call growth. GPUPOOL_COMMAND is the command,
GPUPOOL_LIBRARY the library."""

import json
import random
import sys
import unittest

import played
import test_bounds
import test_report
import test_watch

run = test_watch.run
KIB, MIB = 1 << 10, 1 << 20

# Each step of a shape, 200 of them with a mark behind each unless it says otherwise. `keep` leaks, `kept` is what is
# kept, and all of it is freed before the program ends, as an interpreter does.
BEFORE = """
import random
pick = random.Random(7)
kept, cache = [], []
def keep(size=1 << 20, name="planted", stream=0):
    push(name); kept.append((malloc(size, stream), stream)); pop()
def work():
    push("work"); blocks = [malloc(8 << 20) for _ in range(3)]; pop()
    for block in blocks: free(block)
"""
AFTER = """
for block, stream in kept: free(block, stream)
for block in cache: free(block)
"""
LOOP = "for step in range(200):\n    work()\n    {}\n    mark(f'step {{step}}')\n"


def steps(body):
    return LOOP.format(body.replace("\n", "\n    "))


# Without marks, time passes, as it does between the requests of a service.
UNMARKED = "for step in range(400):\n    work(); time.sleep(0.0005)\n    {}\n"

SITES = """
@ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
def tell(user, text, capacity):
    ctypes.memmove(text, site, len(site))
    return len(site)
site = b"main (a:1)"
check(lib.gpupool_set_stack_fn(tell, None))
"""
SECOND = "other = u64()\ncheck(lib.gpupool_stream_create(pool, ctypes.byref(other)))\n"

LARGER = """push('planted')
if cache: free(cache.pop())
cache.append(malloc(step + 1 << 18)); pop()"""

# Name, program, and what grows and how, as words; None: nothing does.
GROWS = [
    ("steady", steps("keep()"), "1 MiB each mark"),
    ("every fifth mark", steps("if step % 5 == 0: keep(4 << 20)"), "4 MiB each 5 marks"),
    ("every twelfth mark", steps("if step % 12 == 0: keep()"), "1 MiB each 12 marks"),
    ("one request in four, at random", steps("if pick.random() < 0.25: keep()"), "1 MiB each "),
    ("since the middle", steps("if step >= 100: keep()"), "1 MiB each mark since mark 101"),
    ("since the last quarter", steps("if step >= 150: keep()"), "1 MiB each mark since mark 151"),
    ("since the last eighth of many", steps("if step >= 350: keep()").replace("200", "400"),
     "1 MiB each mark since mark 351"),
    ("up to a last part", steps("if step < 185: keep()"), "1 MiB each mark"),
    ("since mark 20, slow", steps("if step >= 19 and step % 5 == 4: keep(4 << 20)"),
     "4 MiB each 5 marks since mark 20"),
    ("in blocks of any size", steps("keep(pick.randrange(1 << 16, 1 << 20))"), " each mark"),
    ("below a sawtooth", steps("keep(1 << 16)\npush('planted'); cache.append(malloc(1 << 20)); pop()\n"
                               "if len(cache) == 7: [free(cache.pop()) for _ in range(7)]"), " each "),
    ("with noise ten times as large", steps("keep(1 << 16)\npush('planted'); block = malloc(pick.randrange(1 << 20)); "
                                            "pop()\ncache.append(block)\n"
                                            "if len(cache) > 3: free(cache.pop(pick.randrange(3)))"), " each "),
    ("after a warm-up of the same site", steps("keep(64 << 20) if step < 8 else keep(1 << 20)"), "1 MiB each mark"),
    ("collected now and then, not all", steps("push('planted'); cache.append(malloc(1 << 20)); pop()\n"
                                              "if step % 10 == 9: [free(cache.pop()) for _ in range(9)]"), " each "),
    ("by another thread", steps("other = threading.Thread(target=keep); other.start(); other.join()"),
     "1 MiB each mark"),
    ("through many sites of one tag", SITES + steps("site = b'handler %d (a:1)' % pick.randrange(60)\nkeep()"),
     "1 MiB each mark"),
    ("on a second stream, under many tags", SECOND + steps("keep(1 << 20, f'user {pick.randrange(60)}', other.value)"),
     " each mark"),
    ("not freed at the end", steps("keep()") + "kept = []\n", "1 MiB each mark"),
    ("killed in the middle", steps("keep()\nif step == 150: os.kill(os.getpid(), 9)"), "1 MiB each mark"),
    ("a last mark after the end", steps("keep()") + AFTER + "mark('done')\nkept, cache = [], []\n", "1 MiB each mark"),
    ("without marks", UNMARKED.format("keep()"), " a second"),
    ("slow, without marks", UNMARKED.format("if step % 8 == 0: keep()"), " a second"),
    ("eight times in 40 marks", steps("if step % 5 == 4: keep()").replace("200", "40"), "1 MiB each 5 marks"),
    ("five times in 110 marks", steps("if step % 20 == 19: keep()").replace("200", "110"), "1 MiB each 20 marks"),
    ("a buffer that is freed, then made larger", steps(LARGER), "256 KiB each mark"),
    ("the same without marks", UNMARKED.format(LARGER.replace("\n", "\n    ")), " a second"),
    ("after much was freed at once", "push('planted'); cache.append(malloc(300 << 20)); pop()\n" + steps(
        "if step == 20: free(cache.pop())\nif step >= 20: keep()").replace("200", "220"),
     "1 MiB each mark since mark 2"),
    ("with hardly any frees, without marks", "work()\nfor _ in range(200): keep(); time.sleep(5e-4)\n", " a second"),
]
STAYS = [
    ("nothing", steps("pass")),
    ("a bounded cache", steps("push('cache'); cache.append(malloc(1 << 20)); pop()\n"
                              "if len(cache) > 60: free(cache.pop(0))")),
    ("a warm-up, then flat", steps("if step < 90: keep()")),
    ("growth that has stopped", steps("if step < 165: keep()")),
    ("a warm-up in steps, then flat", steps("if step % 10 == 0 and step < 130: keep()")),
    ("a sawtooth", steps("keep()\nif step % 37 == 36: [free(kept.pop()[0]) for _ in range(len(kept))]")),
    ("two epochs and a half", steps("keep()\nif step % 80 == 79: [free(kept.pop()[0]) for _ in range(len(kept))]")),
    ("a long tooth and most of another", steps(
        "keep()\nif step == 109: [free(kept.pop()[0]) for _ in range(len(kept))]")),
    ("a tooth and one almost twice as long", steps(
        "keep()\nif step == 69: [free(kept.pop()[0]) for _ in range(len(kept))]")),
    ("a cache of what is new, which becomes rare", steps(
        "if step in (0, 1, 2, 3, 5, 6, 8, 10, 12, 15, 18, 21, 25, 30, 35, 41, 48, 57, 70, 94): keep(8 << 20)"
    ).replace("200", "100")),
    ("noise", steps("[free(kept.pop(pick.randrange(len(kept)))[0]) for _ in range(pick.randrange(len(kept) + 1))]\n"
                    "[keep(pick.randrange(1 << 20)) for _ in range(pick.randrange(9))]")),
    ("three late weights", steps("if step in (50, 120, 190): keep(64 << 20)")),
    ("few marks", steps("keep()\nif step == 4: break")),
    ("a sawtooth, without marks", UNMARKED.format(
        "keep()\n    if step % 37 == 36: [free(kept.pop()[0]) for _ in range(len(kept))]")),
    ("a cache that is full for the last fifth", steps("if step < 32: keep()").replace("200", "40")),
    ("a cache that is full, then a stream of work, without marks", UNMARKED.replace("400", "100").format(
        "if step % 2 and step < 64: keep()")),
    ("four late weights", steps("if step in (20, 80, 140, 199): keep(64 << 20)")),
    ("weights before few steps, without marks", "for _ in range(100): keep(1 << 20)\n" + UNMARKED.replace(
        "400", "4").format("pass")),
    ("weights, then work, without marks", "for _ in range(300): keep()\n" + UNMARKED.format("pass")),
]


TOO_LITTLE = "Note: with fewer than seven marks and 64 mallocs, nothing is said to grow.\n"


class Shapes(test_watch.Case):
    def told_of(self, number, program):
        path = self.folder / f"{number}.gpt"
        # A program that kills itself ends the command with its signal's status.
        status, _, said = run("record", "-o", path, "--", sys.executable, "-c",
                              test_watch.PROLOGUE + BEFORE + program + AFTER)
        self.assertIn(status, (0, 137), said)
        return path

    def test_what_grows_is_found_and_fails(self):
        for number, (name, program, words) in enumerate(GROWS):
            with self.subTest(name):
                path = self.told_of(number, program)
                status, text, said = run("leaks", path, "--growing", "--fail-over", "1MiB")
                self.assertEqual((status, said), (1, ""), text)
                self.assertIn(words, text)
                self.assertEqual(run("leaks", path, "--fail-over", "1MiB")[0], 1)
                _, lines = self.leaks(path, "--growing")
                self.assertTrue(all(line["grown_bytes"] >= MIB for line in lines), lines)

    def test_what_does_not_grow(self):
        for number, (name, program) in enumerate(STAYS):
            with self.subTest(name):
                status, text, said = run("leaks", self.told_of(number, program), "--growing", "--fail-over", "0")
                self.assertEqual((status, said, text.replace(TOO_LITTLE, "")), (0, "", "Nothing grows.\n"))

    def test_what_is_too_little_is_said(self):
        marked, plain = "for step in range({}): keep(); mark('step')\n", "for _ in range({}): keep()\n"
        for number, (program, is_little) in enumerate((
            (marked.format(6), True), (marked.format(8), False), (plain.format(60), True), (plain.format(70), False),
        )):  # fmt: skip
            path = self.told_of(number, program)
            for words in ((), ("--growing",)):
                text = run("leaks", path, *words)[1]
                self.assertEqual(TOO_LITTLE in text, is_little, text)

    def test_a_tag_or_a_stream_is_named_where_no_site_is(self):
        path = self.told_of(0, SECOND + steps("keep(1 << 20, f'user {pick.randrange(60)}', other.value)"))
        _, lines = self.leaks(path, "--growing")
        self.assertEqual([line["of"] for line in lines], ["stream"])
        self.assertEqual((lines[0]["bytes_per_mark"], lines[0]["bytes"]), (MIB, 0))
        path = self.told_of(1, steps("keep(1 << 20)"))
        _, lines = self.leaks(path, "--growing")
        self.assertEqual([(line["of"], line["tag"], line["since_mark"]) for line in lines], [("site", "planted", 1)])

    def test_neither_a_start_nor_the_top_of_a_tooth_is_growth(self):
        weights = "push('planted')\nfor _ in range(16): cache.append(malloc(64 << 20))\npop()\n"
        tooth = ("keep(2 << 20)\npush('planted'); cache.append(malloc(3 << 20)); pop()\n"
                 "if step % 40 == 39: [free(cache.pop()) for _ in range(40)]")
        for number, (program, wanted) in enumerate((
            (weights + steps("keep(1 << 17)"), 25 * MIB),
            (weights + UNMARKED.format("keep(1 << 18)"), 100 * MIB),
            (weights + UNMARKED.format("keep(1 << 18)").replace("400", "1"), None),
            (steps(tooth), 400 * MIB),
        )):  # fmt: skip
            with self.subTest(number=number):
                _, lines = self.leaks(self.told_of(number, program), "--growing")
                if wanted is None:
                    self.assertEqual(lines, [])
                else:
                    self.assertEqual(len(lines), 1, lines)
                    self.assertAlmostEqual(lines[0]["grown_bytes"] / wanted, 1, delta=0.25)

    def test_advice_and_report_see_what_was_freed_at_the_end(self):
        path = self.told_of(0, steps("keep(4 << 20)"))
        status, text, said = run("advise", path, "--json")
        self.assertEqual((status, said), (0, ""))
        (leak,) = [one for one in json.loads(text)["advice"] if one["kind"] == "leak"]
        self.assertIn('(tag "planted")', leak["text"])
        self.assertIn("4 MiB each mark", leak["text"])
        self.assertGreater(leak["saved_bytes"], 700 * MIB)
        page = self.folder / "report.html"
        self.assertEqual(run("report", path, "-o", page)[0], 0)
        text = page.read_text(encoding="utf-8")
        self.assertIn("grows by 4 MiB each mark", text)
        (told,) = test_report.data_of(text)["runs"]
        self.assertEqual([site[12] for site in told["sites"] if site[12]], [796 * MIB])


# Without marks: how many times as long an event takes on a busy machine, of the share of the program that is behind and
# of chance.
CLOCKS = {
    "busy now and then": lambda share, chance: 300 if chance < 0.02 else 1,
    "busy in its first half": lambda share, chance: 20 if share < 0.5 else 1,
    "busy in its second half": lambda share, chance: 20 if share >= 0.5 else 1,
    "busy in between": lambda share, chance: 30 if 0.4 < share < 0.5 else 1,
    "busier and busier": lambda share, chance: 1 + 20 * share,
    "stopped for long near the end": lambda share, chance: 3000 if 0.93 <= share < 0.935 else 1,
    "stopped for long at the begin": lambda share, chance: 3000 if 0.01 <= share < 0.015 else 1,
}


class AnyClock(test_watch.Case):
    """Without marks, the same events are the same finding, however long each of them took."""

    SHAPES = {
        "steady": (lambda step: [("keep", 1)], 400),
        "each eighth step": (lambda step: [("keep", 1)] if step % 8 == 0 else [], 50),
        "since the middle": (lambda step: [("keep", 1)] if step >= 200 else [], 200),
        "a sawtooth": (lambda step: [("keep", 1)] + [("free", 0)] * (37 if step % 37 == 36 else 0), None),
        "a warm-up, then flat": (lambda step: [("keep", 1)] if step < 180 else [], None),
        "weights, then work": (lambda step: [("keep", 1)] * (300 if step == 0 else 0), None),
        "five times": (lambda step: [("keep", 1)] if step % 80 == 40 else [], 4.3),  # by the slope between them
        "nothing": (lambda step: [], None),
    }

    def write_shape(self, shape, slower):
        """Each step rests for half a millisecond, if the machine is not busy."""
        pick = random.Random(7)
        written = test_bounds.Written([b"work (a:1)", b"planted (a:2)"])
        work, kept, end = [], [], 1
        for step in range(400):
            for i, (what, mib) in enumerate([("work", 8)] * 3 + [("done", 0)] * 3 + shape(step)):
                gap = int((10_000 if i else 500_000) * slower(step / 400, pick.random()))
                if what in ("work", "keep"):
                    (work if what == "work" else kept).append(end)
                    written.malloc(gap, end, mib * MIB, 1 if what == "work" else 2)
                    end += mib * MIB // 512
                else:
                    written.free(gap, (work if what == "done" else kept).pop(0))
        return self.write("shape.gpt", test_bounds.recording_of(bytes(written.events)))

    def found(self, shape, slower):
        _, lines = self.leaks(self.write_shape(shape, slower), "--growing")
        return [{name: line[name] for name in ("of", "stack", "grown_bytes")} for line in lines]

    def test_a_long_start_and_few_requests(self):
        """Of which time says that they are most of the program, though they are few events."""
        start = [("work", 1), ("done", 0), ("keep", 8)] * 2000
        self.assertEqual(self.found(lambda step: start if step == 0 else [], lambda share, chance: 1), [])

    def test_the_same_events_are_the_same_finding(self):
        for name, (shape, grown) in self.SHAPES.items():
            even = self.found(shape, lambda share, chance: 1)
            self.assertEqual(len(even), 0 if grown is None else 1, name)
            if grown is not None:
                self.assertAlmostEqual(even[0]["grown_bytes"] / (grown * MIB), 1, delta=0.05)
            for clock, slower in CLOCKS.items():
                with self.subTest(name, clock=clock):
                    self.assertEqual(self.found(shape, slower), even)


class Chance(test_watch.Case):
    def test_caches_that_evict_at_random(self):
        """Each is full after 40 of 130 requests, and is then larger or smaller by chance, for as long as two caches."""
        called = []
        for seed in range(30):
            pick = random.Random(seed)
            written = test_bounds.Written([b"work (a:1)", b"cache (a:2)"])
            cache, end = [], 1
            for _ in range(130):
                sizes = [(pick.randrange(1, 8) * MIB, 1), (pick.randrange(1, 64) << 14, 2)]
                for size, site in sizes:
                    written.malloc(10_000, end, size, site)
                    if site == 2:
                        cache.append(end)
                    else:
                        written.free(10_000, end)
                    end += size // 512
                if len(cache) > 40:
                    written.free(10_000, cache.pop(pick.randrange(40)))
                written.mark(10_000)
            path = self.write("cache.gpt", test_bounds.recording_of(bytes(written.events)))
            _, lines = self.leaks(path, "--growing")
            called += [seed] if lines else []
        self.assertLessEqual(len(called), 2, called)


class Workloads(test_report.Case):
    def test_no_recorded_workload_grows(self):
        """Played with marks and without, each has weights, caches and requests, and no leak."""
        for trace in test_report.TRACES:
            for marks in (0, 20, 200):
                with self.subTest(trace.name, marks=marks):
                    path = self.folder / f"{trace.name}.{marks}.gpt"
                    program = [sys.executable, played.__file__, trace, "whole", str(marks)]
                    status, _, said = run("record", "-o", path, "--stacks", "none", "--", *program)
                    self.assertEqual(status, 0, said)
                    status, text, _ = run("leaks", path, "--growing", "--fail-over", "0")
                    self.assertEqual((status, text), (0, "Nothing grows.\n"))


if __name__ == "__main__":
    unittest.main()
