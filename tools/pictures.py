#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of docs/watch.md: records the tests' training on the simulated device, and takes screenshots of
what the command makes of it with Chromium; gpupool top is shown by tmux. Needs Pillow, to write small files.

    tools/pictures.py [BUILD_FOLDER [OUT_FOLDER]]

memory_viz.png needs PyTorch's viewer and what that loads from the network: GPUPOOL_MEMORY_VIZ names a folder with
MemoryViz.js and D3 version 5 as d3.min.js. Without it that picture stays as it is.
"""

import html
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import PIL.Image

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release").resolve()
OUT = Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "docs").resolve()
COMMAND = str(BUILD / "gpupool")
os.environ |= {"GPUPOOL_COMMAND": COMMAND, "GPUPOOL_LIBRARY": str(BUILD / "libgpupool.so"), "GPUPOOL_BACKEND": "sim"}
sys.path.insert(0, str(ROOT / "tests/cli"))
import browser  # noqa: E402
import test_viewers  # noqa: E402
import top_target  # noqa: E402

WIDTH = 1000
MOST_BYTES = 150_000
COLUMNS, LINES = 132, 9

# What gpupool top looks at. Each has a pool of its own name.
HOLDS = """
name, *tags = os.environ["HOLDS"].split(",")
tags = [(tags[at], int(tags[at + 1]) << 20) for at in range(0, len(tags), 2)]
pool = default_pool()
lib.gpupool_set_name(pool, name.encode())
blocks = []
for tag, size in tags:
    lib.gpupool_tag_push(tag.encode())
    blocks += [take(pool, size // 8) for _ in range(8)]
    lib.gpupool_tag_pop()
print("ready", flush=True)
for step in range(1 << 30):
    time.sleep(0.05)
    lib.gpupool_free(pool, take(pool, tags[-1][1] // (1 + step % 3)), 0)
    if step % 10 == 9: lib.gpupool_empty(pool, None)
"""
PROCESSES = {
    "train.py": "llm-train,weights,9216,optimizer,18432,activations,6144",
    "serve.py": "llm-serve,weights,4096,kv cache,14336",
    "evaluate.py": "llm-eval,weights,4096,batches,640",
}

TERMINAL = """<!DOCTYPE html><meta charset="utf-8"><style>body {{ margin: 0; background: #16191d; }}
pre {{ font: 15px/1.35 "DejaVu Sans Mono", monospace; color: #e6e8ea; margin: 0; padding: 14px 16px;
width: max-content; }}</style><pre>{}</pre>"""


class Pictures:
    def __init__(self, folder):
        self.folder = folder
        self.page = browser.Page()
        self.page.look(width=WIDTH)

    def run(self, *arguments):
        subprocess.run([COMMAND, *arguments], cwd=self.folder, check=True)

    def record(self, name, *wants):
        self.run("record", "-o", name, "--", sys.executable, str(ROOT / "tests/cli/training.py"), *wants)

    def open_report(self, name):
        self.page.open(self.folder / name)
        self.page.wait_for("document.documentElement?.dataset.ready")
        # The command contains paths of this machine.
        self.page.evaluate("document.querySelectorAll('.about').forEach((one) => one.remove())")
        # Events are the same on any machine; times are not.
        self.choose("#live-controls", 1, "1")

    def choose(self, controls, number, value):
        self.page.evaluate(f"""(() => {{ const select = document.querySelectorAll("{controls} select")[{number}];
          select.value = "{value}"; select.dispatchEvent(new Event("change")); }})()""")

    def take(self, name, first, last=None):
        """From the top of one element to the bottom of another, and a little more."""
        top, bottom = self.page.evaluate(f"""(() => {{
          const box = (at) => document.querySelector(at).getBoundingClientRect();
          return [box("{first}").top + scrollY, box("{last or first}").bottom + scrollY]; }})()""")
        self.save(name, {"x": 0, "y": max(top - 16, 0), "width": WIDTH, "height": bottom - max(top - 16, 0) + 16})

    def save(self, name, clip):
        path = OUT / name
        self.page.picture(path, clip)
        with PIL.Image.open(path) as picture:
            picture.convert("RGB").quantize(128).save(path, optimize=True)
        size = path.stat().st_size
        print(f"{path}: {size} bytes")
        if size > MOST_BYTES:
            sys.exit(f"pictures: {path} has more than {MOST_BYTES} bytes")

    def report(self):
        self.record("train.gpt", "leak", "fail")
        self.run("report", "train.gpt")
        self.open_report("report.html")
        self.take("report.png", "body", "#map-canvas")
        self.take("flame.png", "#who")

    def comparison(self):
        self.record("before.gpt", "leak")
        self.record("after.gpt")
        self.run("report", "before.gpt", "after.gpt", "-o", "difference.html")
        self.open_report("difference.html")
        self.choose("#compare-controls", 0, "events")
        self.take("comparison.png", "#compare")

    def memory_viz(self):
        if not all(map(test_viewers.find_viewer, ("MemoryViz.js", "d3.min.js"))):
            print("pictures: GPUPOOL_MEMORY_VIZ names no folder with MemoryViz.js and d3.min.js: no memory_viz.png")
            return
        self.run("export", "train.gpt", "--format", "torch", "-o", "train.pickle")
        self.page.look(width=WIDTH, height=520)
        self.page.open(test_viewers.memory_viz_page(self.folder / "train.pickle", "Active Memory Timeline"))
        self.page.wait_for("document.querySelectorAll('svg polygon').length > 100")
        # The stack of a block appears below when the mouse is over it.
        self.page.evaluate("""(() => { const blocks = [...document.querySelectorAll("svg polygon")];
          for (const block of blocks) {
            block.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
            if (document.querySelector("pre").textContent.includes("log_loss")) break;
          } })()""")
        self.save("memory_viz.png", {"x": 0, "y": 0, "width": WIDTH, "height": 520})

    def top(self):
        processes = []
        try:
            for name, holds in PROCESSES.items():
                (self.folder / name).write_text(top_target.LIBRARY + HOLDS, encoding="utf-8")
                processes.append(subprocess.Popen(["python3", name], cwd=self.folder, stdout=subprocess.PIPE,
                                                  env=os.environ | SETTINGS | {"HOLDS": holds}))
                processes[-1].stdout.readline()
            text = screen_of([COMMAND, "top", "--name", "llm-"])
        finally:
            for process in processes:
                process.kill()
                process.wait()
        path = self.folder / "top.html"
        path.write_text(TERMINAL.format(html.escape(text)), encoding="utf-8")
        self.page.look(width=1600)
        self.page.open(path)
        self.page.wait_for("document.querySelector('pre') !== null")
        width, height = self.page.evaluate("""(() => {
          const box = document.querySelector("pre").getBoundingClientRect();
          return [box.width, box.height]; })()""")
        self.save("top.png", {"x": 0, "y": 0, "width": width, "height": height})


SETTINGS = {"GPUPOOL_SIM": "capacity=80GiB,data=0"}


def screen_of(command):
    """What a program shows on a terminal once it has looked a few times."""
    tmux = ["tmux", "-L", f"gpupool-pictures-{os.getpid()}"]
    start = [*tmux, "-f", os.devnull, "new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES)]
    subprocess.run([*start, "--", *command], check=True)
    try:
        time.sleep(5)
        done = subprocess.run([*tmux, "capture-pane", "-p"], check=True, capture_output=True, text=True)
    finally:
        subprocess.run([*tmux, "kill-server"], check=True)
    return done.stdout.rstrip()


def main():
    if not browser.find_program():
        sys.exit("pictures: no Chromium is here")
    if not shutil.which("tmux"):
        sys.exit("pictures: no tmux is here")
    with tempfile.TemporaryDirectory() as folder:
        pictures = Pictures(Path(folder))
        try:
            pictures.report()
            pictures.comparison()
            pictures.memory_viz()
            pictures.top()
        finally:
            pictures.page.close()


if __name__ == "__main__":
    main()
