# SPDX-License-Identifier: Apache-2.0
"""Runs Python in a separate process, because each process decides once what gpupool serves."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import traceback
from pathlib import Path

_package = importlib.util.find_spec("gpupool")
# The command of the installed package.
COMMAND = Path(_package.origin).parent / "bin" / "gpupool" if _package else Path("gpupool")
DAMAGE = re.compile(r"^.* w(?:as|ere) written (?:beyond the end|after the free) of a block.*$", re.MULTILINE)


def run(*arguments, **environment):
    """Runs Python with these arguments, and these variables added to the environment. Where GPUPOOL_DEBUG gives every
    pool its debug modes, what they find is a failure."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | environment,
    )
    if os.environ.get("GPUPOOL_DEBUG"):
        assert not (found := DAMAGE.findall(done.stdout + done.stderr)), found[:3]
    return done


def report_cases(namespace):
    """Calls each case_... in a program's globals, and prints a JSON object for it: its name, and what went wrong."""
    for name, case in list(namespace.items()):
        if name.startswith("case_"):
            failure = ""
            try:
                case()
            except Exception:
                failure = traceback.format_exc()
            # In one write, since several processes may print to the same pipe.
            sys.stdout.write(json.dumps({"case": name, "failure": failure}) + "\n")
            sys.stdout.flush()


def read_cases(process):
    """What the cases of such a program came to, by name."""
    lines = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    return {line["case"]: line["failure"] for line in lines}
