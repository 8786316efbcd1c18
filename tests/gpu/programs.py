# SPDX-License-Identifier: Apache-2.0
"""Running Python in a process of its own: what gpupool serves is settled once a process."""

import os
import subprocess
import sys


def run(*arguments, **environment):
    """Runs Python with these arguments, and these variables added to the environment."""
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | environment,
    )
