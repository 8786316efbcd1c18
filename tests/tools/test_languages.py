# SPDX-License-Identifier: Apache-2.0
"""tools/toolchains.sh says which toolchain is missing or too old; what needs it is left out, by name."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools/toolchains.sh"
RUST, CARGO = "rustc 1.95.0 (f2d3ce0bd 2026-03-21)", "cargo 1.95.0 (8f1cb8b04 2026-03-02)"


class Toolchains(unittest.TestCase):
    def lacks(self, language, **tools):
        """What `lacks` says where there are these tools only, which answer so."""
        with tempfile.TemporaryDirectory() as folder:
            for tool, answer in tools.items():
                path = Path(folder) / tool.replace("_", ".")
                path.write_text(f"#!/bin/sh\necho '{answer}'\n")
                path.chmod(0o755)
            command = f"set -euo pipefail\n. {SCRIPT}\nlacks '{language}'\nfits '{language}' && echo fits || true"
            environment = os.environ | {"PATH": folder}
            done = subprocess.run(["/bin/bash", "-c", command], env=environment, stdout=subprocess.PIPE, check=True)
        return done.stdout.decode().strip()

    def test_rust(self):
        for answer, fits in (
            (RUST, True),
            ("rustc 1.88.0", True),
            ("rustc 2.0.0", True),
            ("rustc 1.87.9", False),
            ("rustc 1.9.0", False),
            ("rustc 1.63.0 (Debian)", False),
            ("", False),
        ):
            self.assertEqual(self.lacks("Rust", rustc=answer, cargo=CARGO) == "fits", fits, answer)

    def test_is_named(self):
        self.assertEqual(self.lacks("Rust"), "rustc is not here")
        self.assertEqual(self.lacks("Rust", rustc=RUST), "cargo is not here")
        self.assertEqual(
            self.lacks("Rust", rustc=RUST, cargo="cargo 1.85.0"), "cargo is 1.85.0, and 1.88 or later is needed"
        )
        self.assertEqual(
            self.lacks("Rust", rustc=RUST, cargo="no such toolchain"),
            "cargo is of no known version, and 1.88 or later is needed",
        )
        self.assertEqual(
            self.lacks("Go", go="go version go1.19.8 linux/amd64"), "go is 1.19.8, and 1.24 or later is needed"
        )
        self.assertEqual(self.lacks("Python", python3="Python 3.9.2"), "python3 is 3.9.2, and 3.10 or later is needed")

    def test_fits(self):
        self.assertEqual(self.lacks("Go", go="go version go1.24 linux/amd64"), "fits")
        self.assertEqual(self.lacks("Lua", swig="SWIG Version 4.1.0", lua5_4="Lua 5.4.4"), "fits")
        self.assertEqual(self.lacks("C#", swig="SWIG Version 4.1.0", mcs="", mono=""), "fits")


if __name__ == "__main__":
    unittest.main()
