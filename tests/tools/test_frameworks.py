# SPDX-License-Identifier: Apache-2.0
"""The list of functions for PyTorch is that of their header."""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from api.frameworks import TORCH_FUNCTIONS


class Frameworks(unittest.TestCase):
    def test_the_list_is_the_headers(self):
        header = (ROOT / "src/frameworks/torch/include/gpupool/torch.h").read_text(encoding="utf-8")
        declared = re.findall(r"^GPUPOOL_API [^(]*?(\w+)\(", header, re.MULTILINE)
        self.assertEqual(list(TORCH_FUNCTIONS), declared)

    def test_all_are_exported(self):
        names = (ROOT / "src/frameworks/torch/gpupool_torch.map").read_text(encoding="utf-8")
        for name in TORCH_FUNCTIONS:
            self.assertIn(f"    {name};\n", names)


if __name__ == "__main__":
    unittest.main()
