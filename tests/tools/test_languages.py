# SPDX-License-Identifier: Apache-2.0
"""tools/languages.sh says which Rust is recent enough; without one, what needs it is left out."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools/languages.sh"


class Rust(unittest.TestCase):
    def fits(self, answer):
        """What rust_fits says where rustc answers so; None: where there is no rustc."""
        function = re.search(r"^rust_fits\(\) \{.*?^\}", SCRIPT.read_text(), re.MULTILINE | re.DOTALL).group()
        with tempfile.TemporaryDirectory() as folder:
            if answer is not None:
                rustc = Path(folder) / "rustc"
                rustc.write_text(f"#!/bin/sh\necho '{answer}'\n")
                rustc.chmod(0o755)
            for tool in ("cut", "sort", "head"):
                (Path(folder) / tool).symlink_to(Path("/usr/bin") / tool)
            command = f"set -euo pipefail\n{function}\nrust_fits && echo yes || echo no"
            environment = os.environ | {"PATH": folder}
            done = subprocess.run(["/bin/bash", "-c", command], env=environment, stdout=subprocess.PIPE, check=True)
        return done.stdout.decode().strip()

    def test_versions(self):
        for answer, fits in (
            ("rustc 1.95.0 (f2d3ce0bd 2026-03-21)", "yes"),
            ("rustc 1.88.0", "yes"),
            ("rustc 2.0.0", "yes"),
            ("rustc 1.87.9", "no"),
            ("rustc 1.9.0", "no"),
            ("rustc 1.63.0 (Debian)", "no"),
            ("", "no"),
            (None, "no"),
        ):
            self.assertEqual(self.fits(answer), fits, answer)


if __name__ == "__main__":
    unittest.main()
