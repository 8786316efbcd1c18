#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the program that README.md shows, with what it takes for granted around it: readme.py"""

import re
from pathlib import Path

here = Path(__file__).resolve().parent
program, = re.findall(r"^```js\n(.*?)^```$", (here / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
package = (here / "index.mjs").as_uri()
print("const cache = { drop: () => false };\n" + program.replace('from "gpupool"', f'from "{package}"'))
