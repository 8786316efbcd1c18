#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the program that README.md shows for a language, with what it takes for granted around it.

    readme.py java|csharp|lua|ruby
"""

import re
import sys
from pathlib import Path

# What the text of a language goes into: its names `bytes` and `cache` are the reader's own.
PROGRAMS = {
    "java": """{imports}
public final class Readme {{
  interface Cache {{ boolean drop(long size); }}
  public static void main(String[] arguments) {{
    byte[] bytes = {{1, 2, 3}};
    Cache cache = size -> false;
{rest}  }}
}}
""",
    "csharp": """{imports}
public static class Readme {{
  private class Cache {{ public bool Drop(ulong size) {{ return false; }} }}
  public static void Main() {{
    var bytes = new byte[] {{ 1, 2, 3 }};
    var cache = new Cache();
{rest}  }}
}}
""",
    "lua": """local cache = {{ drop = function() return false end }}
{imports}{rest}""",
    "ruby": """{imports}
cache = Object.new
def cache.drop(size) = size < 0
{rest}""",
}
IMPORT = re.compile(r"(import|using|require)\b.*\S$")


def main(language):
    text = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    if len(blocks) != 1:
        sys.exit(f"README.md has {len(blocks)} blocks of {language}, not one")
    lines = blocks[0].splitlines(keepends=True)
    # `using (...)` of C# opens a resource.
    imports = [line for line in lines if IMPORT.match(line) and not line.startswith("using (")]
    rest = [line for line in lines if line not in imports]
    print(PROGRAMS[language].format(imports="".join(imports), rest="".join(rest)), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
