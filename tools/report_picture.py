#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/report.png: records the tests' training on the simulated device, writes its report and takes a screenshot
with Chromium.

    tools/report_picture.py [BUILD_FOLDER [OUT.png]]
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/cli"))
import browser  # noqa: E402

WIDTH, HEIGHT = 1280, 1480


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release").resolve()
    out = Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "docs/report.png")
    if not browser.find_program():
        sys.exit("report_picture: no Chromium is here")
    environment = os.environ | {"GPUPOOL_LIBRARY": str(build / "libgpupool.so"), "GPUPOOL_BACKEND": "sim"}
    with tempfile.TemporaryDirectory() as folder:
        def run(*arguments):
            subprocess.run([build / "gpupool", *arguments], cwd=folder, env=environment, check=True)

        program = [sys.executable, str(ROOT / "tests/cli/training.py"), "leak", "fail"]
        run("record", "-o", "train.gpt", "--", *program)
        run("report", "train.gpt")
        page = browser.Page()
        page.look(width=WIDTH)
        page.open(Path(folder) / "report.html")
        page.wait_for("document.documentElement?.dataset.ready")
        # The command contains paths of this machine.
        page.evaluate("document.querySelector('.about').remove()")
        # Events are the same on any machine; times are not.
        page.evaluate("""(() => { const over = document.querySelectorAll("#live-controls select")[1];
          over.value = "1"; over.dispatchEvent(new Event("change")); })()""")
        page.picture(out, {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT})
        page.close()


if __name__ == "__main__":
    main()
