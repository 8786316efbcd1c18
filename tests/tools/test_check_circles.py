# SPDX-License-Identifier: Apache-2.0
"""tools/check_circles.py finds circles of includes and of imports, and nothing else."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_circles

PACKAGE = "bindings/python/src/gpupool"


class Circles(unittest.TestCase):
    def found(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            for name, text in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            circles, count = check_circles.check(root)
        self.assertEqual(count, len(files))
        return circles

    def test_includes(self):
        files = {
            "src/pool/a.hpp": '#include "pool/b.hpp"\n',
            "src/pool/b.hpp": '#include "pool/c.hpp"\n',
            "src/pool/c.hpp": "#include <vector>\n",
        }
        self.assertEqual(self.found(files), [])
        files["src/pool/c.hpp"] = '#  include "pool/a.hpp"\n'
        self.assertEqual(self.found(files), ["src/pool/a -> src/pool/b -> src/pool/c -> src/pool/a"])

    def test_a_header_and_its_sources_are_one_room(self):
        files = {
            "src/pool/a.hpp": '#include "pool/b.hpp"\n',
            "src/pool/b.hpp": "",
            "src/pool/b.cpp": '#include "pool/b.hpp"\n',
            "src/pool/b_linux.cpp": '#include "pool/b.hpp"\n',
        }
        self.assertEqual(self.found(files), [])
        for source in ("src/pool/b.cpp", "src/pool/b_linux.cpp"):
            circle = files | {source: '#include "pool/b.hpp"\n#include "pool/a.hpp"\n'}
            self.assertEqual(self.found(circle), ["src/pool/a -> src/pool/b -> src/pool/a"], source)

    def test_beside_the_file(self):
        files = {"src/cli/a.hpp": '#include "b.hpp"\n', "src/cli/b.hpp": '#include "a.hpp"\n'}
        self.assertEqual(len(self.found(files)), 1)

    def test_imports(self):
        files = {
            f"{PACKAGE}/__init__.py": "from ._a import A\nfrom .more import c\n",
            f"{PACKAGE}/_a.py": "from ._b import B\n",
            f"{PACKAGE}/_b.py": "import os\n",
            f"{PACKAGE}/more/__init__.py": "",
            f"{PACKAGE}/more/c.py": "from .. import _b\nfrom .._a import A\n",
        }
        self.assertEqual(self.found(files), [])
        for hidden in (
            "from ._a import A\n",
            "def f():\n    from ._a import A\n",
            "def f():\n    from . import _a\n",
            "import gpupool._a\n",
            "def f():\n    from .more import c\n",
            "if TYPE_CHECKING:\n    pass\nelse:\n    from ._a import A\n",
        ):
            files[f"{PACKAGE}/_b.py"] = hidden
            self.assertTrue(self.found(files), hidden)

    def test_types_only(self):
        files = {
            f"{PACKAGE}/_a.py": "from ._b import B\n",
            f"{PACKAGE}/_b.py": "if TYPE_CHECKING:\n    from ._a import A\n",
        }
        self.assertEqual(self.found(files), [])

    def test_nothing_is_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(check_circles.main([folder]), 1)


if __name__ == "__main__":
    unittest.main()
