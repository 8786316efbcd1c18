#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that git tracks no file that .gitignore names: what was built, or what a crashed program left.

    tools/check_tracked.py [ROOT]
"""

import subprocess
import sys
from pathlib import Path


def strays(root):
    """The tracked files that .gitignore names."""
    command = ["git", "-C", root, "ls-files", "--cached", "--ignored", "--exclude-per-directory=.gitignore"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def main():
    found = strays(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent))
    for name in found:
        print(f"{name}: .gitignore names it, yet it is tracked (git rm --cached)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
