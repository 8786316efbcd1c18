#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prepares the tree for a release: RELEASING.md says what comes before and after.

    tools/release.py VERSION [DATE]    0.3.0 2027-01-31; DATE, of the section in CHANGELOG.md, is by default today

Writes the version into the header and every file that names it. Dates the section of CHANGELOG.md. Stores the header
and the export map under tests/abi/released, where a test builds an old program with them. Refuses a version that is not
above the last release, a CHANGELOG.md with no section for it, and a tree with uncommitted changes.
"""

import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = "include/gpupool/gpupool.h"
MAP = "src/abi/gpupool.map"
RELEASED = "tests/abi/released"
# The text around the version, or around its first two numbers, in each place. tools/apigen.py derives other mentions
# from the header, or they read it; tests/tools/test_versions.py finds any that are missing here.
WHOLE = {
    "bindings/rust/Cargo.toml": r'^version = "{}"',
    "bindings/rust/gpupool/Cargo.toml": r'gpupool-sys = \{{ path = "../gpupool-sys", version = "{}"',
    "bindings/rust/Cargo.lock": r'name = "gpupool(?:-sys)?"\nversion = "{}"',
}
MINOR = {
    "README.md": (r"^Version {}, for 64-bit Linux",),
    "docs/install.md": (r"libgpupool\.so\.{}", r"find_package\(gpupool {}"),
    "docs/embedding.md": (r"libgpupool\.so\.{}",),
    "docs/abi.md": (r"`libgpupool\.so\.{}`\)",),
    "examples/node/dlopen.js": (r"libgpupool\.so\.{}",),
    "examples/python/ctypes_dlopen.py": (r"libgpupool\.so\.{}",),
    "examples/c/dlopen.c": (r"libgpupool\.so\.{}",),
    "tests/install/find_package/CMakeLists.txt": (r"find_package\(gpupool {}",),
    "tests/gpu/test_others.py": (r"libgpupool\.so\.{}",),
    "bindings/python/tests/test_scenarios.py": (r"libgpupool\.so\.{}",),
    "bindings/rust/check_build.sh": (r"libgpupool {}",),
    "bindings/rust/gpupool-sys/build.rs": (r"libgpupool {}",),
}


class Refused(Exception):
    """Nothing has been changed."""


def version_of(text):
    return tuple(int(re.search(rf"_VERSION_{part} (\d+)", text).group(1)) for part in ("MAJOR", "MINOR", "PATCH"))


def dotted(version):
    return ".".join(map(str, version))


def replaced(text, pattern, old, new, where):
    """The text with `new` where the pattern has `old`, in each place."""
    before, behind = pattern.split("{}", 1)
    whole = re.compile(rf"({before.replace('{{', '{').replace('}}', '}')}){re.escape(old)}(?![\d])"
                       rf"(?={behind.replace('{{', '{').replace('}}', '}')})", re.MULTILINE)  # fmt: skip
    text, count = whole.subn(rf"\g<1>{new}", text)
    if count == 0:
        raise Refused(f"{where} does not name {old} where tools/release.py looks for it")
    return text


def changes(root, version, date):
    """path -> new text, for every file that a release of this version changes."""
    header = (root / HEADER).read_text(encoding="utf-8")
    old = version_of(header)
    released = [tuple(map(int, path.name.split("."))) for path in (root / RELEASED).iterdir()]
    if version in released or (released and version < max(released)):
        raise Refused(f"{dotted(version)} is not above the last release, {dotted(max(released))}")
    if version < old:
        raise Refused(f"{dotted(version)} is below the header's version, {dotted(old)}")
    texts = {}
    for part, number in zip(("MAJOR", "MINOR", "PATCH"), version, strict=True):
        header = re.sub(rf"(#define GPUPOOL_VERSION_{part}) \d+", rf"\g<1> {number}", header)
    texts[HEADER] = header
    for name, pattern in WHOLE.items():
        text = (root / name).read_text(encoding="utf-8")
        texts[name] = replaced(text, pattern, dotted(old), dotted(version), name)
    for name, patterns in MINOR.items():
        text = (root / name).read_text(encoding="utf-8")
        for pattern in patterns:
            text = replaced(text, pattern, dotted(old[:2]), dotted(version[:2]), name)
        texts[name] = text
    build = "bindings/rust/gpupool-sys/build.rs"
    bounds = rf'"{dotted((*version[:2], 0))}".."{dotted((version[0], version[1] + 1, 0))}"'
    texts[build], count = re.subn(r'"\d+\.\d+\.0"\.\."\d+\.\d+\.0"', bounds, texts[build])
    if count != 1:
        raise Refused(f"{build} has no range of versions")
    log = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    texts["CHANGELOG.md"], count = re.subn(
        rf"^## {re.escape(dotted(version))}, not yet released$",
        f"## {dotted(version)}, {date}",
        log,
        flags=re.MULTILINE,
    )
    if count != 1:
        raise Refused(f"CHANGELOG.md has no section `## {dotted(version)}, not yet released`")
    return texts


def keep(root, version):
    """Stores what old programs were built with where tests/abi/old_program.c finds it."""
    folder = root / RELEASED / dotted(version)
    (folder / "gpupool").mkdir(parents=True)
    (folder / "gpupool/gpupool.h").write_text((root / HEADER).read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "gpupool.map").write_text((root / MAP).read_text(encoding="utf-8"), encoding="utf-8")


def main(arguments):
    today = datetime.date.today().isoformat()
    text, date = (*arguments, today)[:2] if arguments else ("", today)
    if not re.fullmatch(r"\d+\.\d+\.\d+", text) or not re.fullmatch(r"\d{4}-\d\d-\d\d", date) or len(arguments) > 2:
        print("usage: tools/release.py MAJOR.MINOR.PATCH [YYYY-MM-DD]", file=sys.stderr)
        return 2
    version = tuple(map(int, text.split(".")))
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout:
        print("release: the tree has changes that are not committed", file=sys.stderr)
        return 1
    try:
        texts = changes(ROOT, version, date)
    except Refused as reason:
        print(f"release: {reason}", file=sys.stderr)
        return 1
    for name, new in texts.items():
        (ROOT / name).write_text(new, encoding="utf-8")
    subprocess.run([sys.executable, ROOT / "tools/apigen.py"], check=True)
    keep(ROOT, version)
    print(f"The tree is ready for {text}. Next: make test, then\n"
          f"  git commit -am 'release: {text}' && git tag v{text} && packaging/go/tag.sh")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
