# SPDX-License-Identifier: Apache-2.0
"""Every function of the contract that can fail is called with bad input somewhere in tests/abi."""

import json
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def refused_functions(text):
    """The functions that a program calls inside FAILS or FAILS_EITHER."""
    return set(re.findall(r"\bFAILS(?:_EITHER)?\([^;]*?\b(gpupool_[a-z_]+)\(", text))


class Covers(unittest.TestCase):
    def test_every_function_is_called_with_bad_input(self):
        contract = json.loads((ROOT / "docs/api.json").read_text(encoding="utf-8"))
        can_fail = {f["name"] for f in contract["functions"] if f["return"] == "gpupool_status_t"}
        called = set()
        for path in (ROOT / "tests/abi").glob("bad_*.c"):
            called |= refused_functions(path.read_text(encoding="utf-8"))
        self.assertEqual(can_fail - called, set())

    def test_a_call_that_must_succeed_does_not_count(self):
        text = "OK(gpupool_free(p, 0, 0)); FAILS(X,\n gpupool_empty(NULL, NULL)); OK(gpupool_trim(p, 0, 0));"
        self.assertEqual(refused_functions(text), {"gpupool_empty"})


if __name__ == "__main__":
    unittest.main()
