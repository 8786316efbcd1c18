#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every layer sees only what lies below it.

    base   <-  core   <-  pool  <-  abi  <-  cli, bindings, examples
    base   <-  device <-  pool
    base   <-  watch  <-  pool
    libgpupool's installed header  <-  frameworks

The devices, src/device/cuda and src/device/sim, do not see each other, and what they share sees neither. Names each
violation as file:line. What core may not see, it may not see through another header of ours either. Besides the
includes it checks that extern "C" and catch (...) stand in src/abi and src/frameworks only, but where the user is
called, and that only src/abi names a concrete device.
"""

import re
import sys
from pathlib import Path

# What each folder of src may include of ours. A folder with one header stands for that header alone.
MAY_SEE = {
    "base": {"base"},
    "core": {"base", "core"},
    "device": {"base", "device"},
    "watch": {"base", "watch"},
    "pool": {"base", "core", "watch", "pool", "device/device.hpp"},
    "abi": {"base", "core", "device", "watch", "pool", "abi"},
    "cli": {"cli"},
    "frameworks": {"frameworks"},
}
LIBRARY = ("base", "core", "device", "watch", "pool", "abi")
# The contract: C types only, so every layer may see it.
CONTRACT = "gpupool/gpupool.h"
INSTALLED = {"gpupool/gpupool.h", "gpupool/gpupool.hpp", "gpupool/sim.hpp", "gpupool/torch.h", "gpupool/cuda_mr.hpp"}
# The library's own sources once more, as includes: written by packaging/go/amalgamate.py.
LIBRARY_AS_ONE = "bindings/go/internal/native"
# Folders outside src that live on the installed headers, and the folders whose helpers they may share.
OUTSIDE = ("bindings", "examples", "tests/abi", "tests/cpp", "tests/process", "tests/install")

THREADS_CLOCK_AND_SYSTEM = frozenset("""
    barrier chrono condition_variable csignal ctime filesystem fstream future iostream latch mutex semaphore
    shared_mutex stop_token syncstream thread
""".split())
STANDARD = THREADS_CLOCK_AND_SYSTEM | frozenset("""
    algorithm any array atomic bit bitset cassert cctype cerrno cfenv cfloat charconv cinttypes climits clocale
    cmath compare complex concepts coroutine csetjmp cstdarg cstddef cstdint cstdio cstdlib cstring cuchar cwchar
    cwctype deque exception execution format forward_list functional initializer_list iomanip ios iosfwd istream
    iterator limits list locale map memory memory_resource new numbers numeric optional ostream queue random
    ranges ratio regex scoped_allocator set source_location span sstream stack stdexcept streambuf string
    string_view strstream system_error tuple type_traits typeindex typeinfo unordered_map unordered_set utility
    valarray variant vector version
""".split())

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
SOURCES = {".c", ".cc", ".cpp", ".h", ".hpp", ".inc"}


def without_comments(text):
    """The text with comments blanked, lines kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)

    def blank(match):
        found = match.group()
        return re.sub(r"[^\n]", " ", found) if found.startswith("/") else found

    return pattern.sub(blank, text)


def layer_violation(layer, quote, name):
    """Why a file of this layer of src must not include `name`, or None."""
    top = name.split("/")[0]
    if layer in ("cli", "frameworks"):
        if quote == '"' and top not in MAY_SEE[layer] and name not in INSTALLED:
            return f'{layer} may include the installed headers and its own only, not "{name}"'
        return f"{layer} must not include <{name}>" if quote == "<" and top in LIBRARY and "/" in name else None
    if name == CONTRACT:
        return None
    if quote == "<":
        if layer in ("base", "core") and name not in STANDARD:
            return f"{layer} may use the C++ library only, not <{name}>"
        if layer == "core" and name in THREADS_CLOCK_AND_SYSTEM:
            return f"core has no threads, clock or operating system, so not <{name}>"
        if "/" in name and top not in ("sys", "linux", "bits"):
            return f"the library depends on nothing but the system, not on <{name}>"
        return None
    if "/" not in name or ".." in name:
        return f'write includes relative to src, not "{name}"'
    if top in MAY_SEE[layer] or name in MAY_SEE[layer]:
        return None
    if layer == "pool" and top == "device":
        return f'pool may include device/device.hpp only, not "{name}"'
    return f'{layer} must not include "{name}"'


def device_violation(room, name):
    """Why a file in this room of src/device must not include `name`, or None. What is shared is in no room."""
    other = name.split("/")[1] if name.startswith("device/") and name.count("/") > 1 else None
    return f"device/{other} is seen by itself and by src/abi only" if other not in (None, room) else None


def includes_of(path):
    """(line, quote, name) of each include of a file."""
    for number, line in enumerate(without_comments(path.read_text(encoding="utf-8")).split("\n"), 1):
        include = INCLUDE.match(line)
        if include:
            yield number, *include.groups()


def way_to_system(root, name, seen):
    """How a header of ours comes to threads, clocks or the system: the headers on the way; [] if it does not."""
    header = root / "src" / name
    if name in seen or not header.is_file():
        return []
    seen.add(name)
    for _, quote, inner in includes_of(header):
        if quote == "<" and inner in THREADS_CLOCK_AND_SYSTEM:
            return [name, f"<{inner}>"]
        way = way_to_system(root, inner, seen) if quote == '"' else []
        if way:
            return [name, *way]
    return []


def outside_violation(name):
    """Why a file that lives on the installed headers must not include `name`, or None."""
    if name.startswith(tuple(f"{layer}/" for layer in LIBRARY)) or "src/" in name:
        return f"only the installed headers may be included here, not {name}"
    if name.startswith("gpupool/") and name not in INSTALLED:
        return f"{name} is no installed header"
    return None


# Calls the user's own functions, which may throw what they like, and turns it into a status at once.
CALLS_THE_USER = "src/device/upstream.cpp"


def text_violations(layer, relative, line):
    if layer in ("abi", "frameworks"):
        return
    if re.search(r'\bextern\s+"C"', line):
        yield 'extern "C" belongs in src/abi'
    if re.search(r"\bcatch\s*\(\s*\.\.\.\s*\)", line) and str(relative) != CALLS_THE_USER:
        yield "catch (...) belongs in src/abi"


def check_file(path, root):
    """All violations in a file, as file:line: reason."""
    relative = path.relative_to(root)
    layer = relative.parts[1] if relative.parts[0] == "src" else None
    if layer is not None and layer not in MAY_SEE:
        yield f"{relative}:1: src/{layer} is no layer"
        return
    for number, quote, name in includes_of(path):
        reason = layer_violation(layer, quote, name) if layer else outside_violation(name)
        if not reason and layer == "device":
            reason = device_violation(relative.parts[2], name)
        if reason:
            yield f"{relative}:{number}: {reason}"
        elif layer == "core" and quote == '"' and (way := way_to_system(root, name, set())):
            yield f"{relative}:{number}: core has no threads, clock or operating system, and gets {' -> '.join(way)}"
    if layer:
        for number, line in enumerate(without_comments(path.read_text(encoding="utf-8")).split("\n"), 1):
            for reason in text_violations(layer, relative, line):
                yield f"{relative}:{number}: {reason}"


def check(root):
    """All violations in a repository, and how many files were looked at."""
    files = []
    for folder in ("src", *OUTSIDE):
        files += sorted(p for p in (root / folder).rglob("*") if p.is_file() and p.suffix in SOURCES)
    files = [path for path in files if (root / LIBRARY_AS_ONE) not in path.parents]
    return [reason for path in files for reason in check_file(path, root)], len(files)


def main(arguments):
    root = Path(arguments[0]).resolve() if arguments else Path(__file__).resolve().parent.parent
    violations, count = check(root)
    print("\n".join(violations) if violations else f"{count} files keep to their layers")
    return 1 if violations or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
