#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every layer depends only on those below it.

    wire   <-  watch, share, and cli, which reads what they write
    os     <-  base, and all above it but core
    base   <-  core   <-  pool  <-  abi  <-  cli, bindings, examples
    base   <-  device <-  pool
    base   <-  watch  <-  pool
    base   <-  share  <-  pool
    libgpupool's installed header  <-  frameworks, of which frameworks/inject has what records too, watch,
                                         and frameworks/audit sees base and share, for what needs no library

The devices, src/device/cuda and src/device/sim, do not see each other, and the code they share sees neither. The
folders of src/cli have an order of their own, and so have the rooms of src/pool, where it counts too if a file only
declares a class of a room above. Names each violation as file:line. What core must not include directly,
it must not include through another header of ours either. Besides includes, it checks that extern "C" and catch (...)
appear only in src/abi, in src/frameworks and where user functions are called, and that only src/abi names a concrete
device. And tests mirror src: each layer, framework and room of the pool has tests of its own.
"""

import re
import sys
from pathlib import Path

# Which folders of ours each folder of src may include. A path to one header allows only that header.
MAY_SEE = {
    "wire": {"wire"},
    "os": {"os"},
    "base": {"os", "base"},
    "core": {"base", "core"},
    "device": {"os", "base", "device"},
    "watch": {"wire", "os", "base", "watch"},
    "share": {"wire", "os", "base", "share"},
    "pool": {"os", "base", "core", "watch", "share", "pool", "device/device.hpp"},
    "abi": {"os", "base", "core", "device", "watch", "share", "pool", "abi"},
    "cli": {"cli", "wire"},
    "frameworks": {"frameworks"},
    "frameworks/inject": {"frameworks", "os", "base", "watch"},
    "frameworks/audit": {"frameworks", "os", "base", "share"},
}
# Which folders of src/cli each of them may include. main.cpp, which is in none, may include all.
COMMAND_MAY_SEE = {
    "base": {"base"},
    "help": {"base", "help"},
    "recording": {"base", "recording"},
    "formats": {"base", "recording", "formats"},
    "measure": {"base", "recording", "measure"},
    "report": {"base", "recording", "measure", "report"},
    "processes": {"base", "recording", "processes"},
    "top": {"base", "recording", "processes", "top"},
    "share": {"base", "share"},
    "commands": {"base", "recording", "formats", "measure", "report", "processes", "top", "share", "commands"},
}
# The rooms of src/pool, from the top: each may include itself and those below it. "" are the files in no folder.
POOL_ORDER = ("process", "", "observe", "sleep", "debug", "request", "memory", "stream", "cache", "rules")
# Where the tests of a room are that are not in tests/ROOM, of a layer, or tests/pool/ROOM_room_test.cpp.
TESTS_OF = {
    "pool/process": "tests/process",
    "frameworks/audit": "tests/audit",
    "frameworks/inject": "tests/inject",
    "frameworks/kokkos": "tests/hosts/kokkos.cpp",
    "frameworks/torch": "tests/torch_shim",
}
LIBRARY = ("wire", "os", "base", "core", "device", "watch", "share", "pool", "abi")
# The contract: C types only, so every layer may see it.
CONTRACT = "gpupool/gpupool.h"
INSTALLED = {
    "gpupool/gpupool.h",
    "gpupool/gpupool.hpp",
    "gpupool/debug.hpp",
    "gpupool/share.hpp",
    "gpupool/sim.hpp",
    "gpupool/torch.h",
    "gpupool/cuda_mr.hpp",
    "gpupool/onnxruntime.hpp",
    "gpupool/ggml.hpp",
    "gpupool/mem_handler.hpp",
    "gpupool/nccl.hpp",
    "gpupool/opencv.hpp",
    "gpupool/plug.hpp",
    "gpupool/tensorrt.hpp",
    "gpupool/umf.hpp",
    "gpupool/umpire.hpp",
}
# The library's own sources again, as includes: written by packaging/go/amalgamate.py, and by cargo in its folder.
LIBRARY_AS_ONE = ("bindings/go/internal/native", "bindings/rust/target")
# Folders outside src that use only the installed headers, and the folders whose helpers they may share.
OUTSIDE = ("bindings", "examples", "tests/abi", "tests/cpp", "tests/process", "tests/install")

THREADS_CLOCK_AND_SYSTEM = frozenset(
    """
    barrier chrono condition_variable csignal ctime filesystem fstream future iostream latch mutex semaphore
    shared_mutex stop_token syncstream thread
""".split()
)
STANDARD = THREADS_CLOCK_AND_SYSTEM | frozenset(
    """
    algorithm any array atomic bit bitset cassert cctype cerrno cfenv cfloat charconv cinttypes climits clocale
    cmath compare complex concepts coroutine csetjmp cstdarg cstddef cstdint cstdio cstdlib cstring cuchar cwchar
    cwctype deque exception execution format forward_list functional initializer_list iomanip ios iosfwd istream
    iterator limits list locale map memory memory_resource new numbers numeric optional ostream queue random
    ranges ratio regex scoped_allocator set source_location span sstream stack stdexcept streambuf string
    string_view strstream system_error tuple type_traits typeindex typeinfo unordered_map unordered_set utility
    valarray variant vector version
""".split()
)

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
SOURCES = {".c", ".cc", ".cpp", ".h", ".hpp", ".inc"}

NAMESPACE = re.compile(r"^namespace ([\w:]+) \{")
DECLARATION = re.compile(r"^(?:struct|class) (\w+);")
CLASS = re.compile(r"^(?:struct|class) (?:alignas\(\w+\) )?(\w+)(?: final)?(?: : [^;]*)? \{")


def without_comments(text):
    """The text with comments blanked and lines kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)

    def blank(match):
        found = match.group()
        return re.sub(r"[^\n]", " ", found) if found.startswith("/") else found

    return pattern.sub(blank, text)


def layer_violation(layer, quote, name):
    """Why a file of this layer of src must not include `name`, or None."""
    top = name.split("/")[0]
    if layer == "cli" or layer.startswith("frameworks"):
        if quote == '"' and top not in MAY_SEE[layer] and name not in INSTALLED:
            return f'{layer} may include only the installed headers and its own, not "{name}"'
        return f"{layer} must not include <{name}>" if quote == "<" and top in LIBRARY and "/" in name else None
    if name == CONTRACT:
        return None
    if quote == "<":
        if layer in ("base", "core") and name not in STANDARD:
            return f"{layer} may use only the C++ library, not <{name}>"
        if layer == "core" and name in THREADS_CLOCK_AND_SYSTEM:
            return f"core has no threads, clock or operating system, so it must not include <{name}>"
        if "/" in name and top not in ("sys", "linux", "bits", "mach-o"):
            return f"the library depends only on the system, not on <{name}>"
        return None
    if "/" not in name or ".." in name:
        return f'write includes relative to src, not "{name}"'
    if top in MAY_SEE[layer] or name in MAY_SEE[layer]:
        return None
    if layer == "pool" and top == "device":
        return f'pool may include only device/device.hpp, not "{name}"'
    return f'{layer} must not include "{name}"'


def device_violation(room, name):
    """Why a file in this subfolder of src/device must not include `name`, or None. Shared files are in no subfolder."""
    other = name.split("/")[1] if name.startswith("device/") and name.count("/") > 1 else None
    return f"only device/{other} itself and src/abi may include it" if other not in (None, room) else None


def command_violation(rooms, name):
    """Why a file of src/cli must not include `name`, or None; `rooms`: the folders that the file is in."""
    if rooms and rooms[0] not in COMMAND_MAY_SEE:
        return f"src/cli/{rooms[0]} has no place in the order of src/cli's folders"
    if not rooms or not name.startswith("cli/") or name.split("/")[1] in COMMAND_MAY_SEE[rooms[0]]:
        return None
    return f'cli/{rooms[0]} must not include "{name}"'


def pool_place(relative):
    """Where a file of src/pool is in the order of rooms, from the top; None: in a folder that has no place there."""
    room = relative.parts[2] if len(relative.parts) > 3 else ""
    return POOL_ORDER.index(room) if room in POOL_ORDER else None


def pool_violations(root, path, classes):
    """(line, reason) of what a file of src/pool includes or declares of rooms above its own."""
    relative = path.relative_to(root)
    place = pool_place(relative)
    if place is None:
        yield 1, f"{relative.parent} has no place in the order of src/pool's rooms"
        return
    for number, _, name in includes_of(path):
        above = pool_place(Path("src", name)) if name.startswith("pool/") else None
        if above is not None and above < place:
            yield number, f'a room must not include "{name}", of a room above it'
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        declared = DECLARATION.match(line)
        home = classes.get(declared.group(1)) if declared else None
        if home is not None and pool_place(home) < place:
            yield number, f"a room must not know {declared.group(1)}, of a room above it"


def pool_classes(root):
    """class -> the header of src/pool that defines it."""
    found = {}
    for path in sorted((root / "src/pool").rglob("*.hpp")):
        for line in path.read_text(encoding="utf-8").split("\n"):
            if (defined := CLASS.match(line)) and pool_place(path.relative_to(root)) is not None:
                found[defined.group(1)] = path.relative_to(root)
    return found


def includes_of(path):
    """(line, quote, name) of each include of a file."""
    for number, line in enumerate(without_comments(path.read_text(encoding="utf-8")).split("\n"), 1):
        include = INCLUDE.match(line)
        if include:
            yield number, *include.groups()


def way_to_system(root, name, seen):
    """How a header of ours reaches threads, clocks or the system: the headers on the way; [] if it does not."""
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
    """Why a file that uses only the installed headers must not include `name`, or None."""
    if name.startswith(tuple(f"{layer}/" for layer in LIBRARY)) or "src" in name.split("/"):
        return f"this file may include only the installed headers, not {name}"
    if name.startswith("gpupool/") and name not in INSTALLED:
        return f"{name} is not an installed header"
    return None


# Calls user functions, which may throw anything, and turns that into a status at once.
CALLS_THE_USER = "src/device/upstream.cpp"


def text_violations(layer, relative, line):
    if layer in ("abi", "frameworks"):
        return
    if re.search(r'\bextern\s+"C"', line):
        yield 'extern "C" belongs in src/abi'
    if re.search(r"\bcatch\s*\(\s*\.\.\.\s*\)", line) and str(relative) != CALLS_THE_USER:
        yield "catch (...) belongs in src/abi"


def check_file(path, root, classes):
    """All violations in a file, as file:line: reason. `classes`: as pool_classes() gives them."""
    relative = path.relative_to(root)
    layer = relative.parts[1] if relative.parts[0] == "src" else None
    if layer is not None and layer not in MAY_SEE:
        yield f"{relative}:1: src/{layer} is not a layer"
        return
    for number, quote, name in includes_of(path):
        room = "/".join(relative.parts[1:3])
        reason = layer_violation(room if room in MAY_SEE else layer, quote, name) if layer else outside_violation(name)
        if not reason and layer == "device":
            reason = device_violation(relative.parts[2], name)
        if not reason and layer == "cli":
            reason = command_violation(relative.parts[2:-1], name)
        if reason:
            yield f"{relative}:{number}: {reason}"
        elif layer == "core" and quote == '"' and (way := way_to_system(root, name, set())):
            yield f"{relative}:{number}: core has no threads, clock or operating system, and gets {' -> '.join(way)}"
    if layer == "pool":
        for number, reason in pool_violations(root, path, classes):
            yield f"{relative}:{number}: {reason}"
    if layer:
        for number, line in enumerate(without_comments(path.read_text(encoding="utf-8")).split("\n"), 1):
            for reason in text_violations(layer, relative, line):
                yield f"{relative}:{number}: {reason}"


def twins(root):
    """Classes that two headers define under one name: each is the other where a linker merges their functions."""
    first = {}
    for path in sorted((root / "src").rglob("*.hpp")):
        namespace = ""
        relative = path.relative_to(root)
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if opened := NAMESPACE.match(line):
                namespace = opened.group(1)
            elif found := CLASS.match(line):
                name = f"{namespace}::{found.group(1)}"
                if first.setdefault(name, relative) != relative:
                    yield f"{relative}:{number}: {name} is a class of {first[name]} too"


def untested(root):
    """Layers, frameworks and rooms of the pool without tests of their own."""
    folders = [path for rooms in ("*", "pool/*", "frameworks/*") for path in sorted((root / "src").glob(rooms))]
    for room in (path.relative_to(root / "src").as_posix() for path in folders if path.is_dir()):
        if room == "frameworks":
            continue
        usual = f"tests/pool/{room[5:]}_room_test.cpp" if room.startswith("pool/") else f"tests/{room}"
        tests = root / TESTS_OF.get(room, usual)
        if not tests.is_file() and not any(tests.glob("*.[cp]*")):
            yield f"src/{room} has no tests: {tests.relative_to(root)}"


def check(root):
    """All violations in a repository, and the number of files checked."""
    files = []
    for folder in ("src", *OUTSIDE):
        files += sorted(p for p in (root / folder).rglob("*") if p.is_file() and p.suffix in SOURCES)
    written = {root / folder for folder in LIBRARY_AS_ONE}
    files = [path for path in files if not written & set(path.parents)]
    classes = pool_classes(root)
    return [reason for path in files for reason in check_file(path, root, classes)] + list(twins(root)), len(files)


def main(arguments):
    root = Path(arguments[0]).resolve() if arguments else Path(__file__).resolve().parent.parent
    violations, count = check(root)
    violations += untested(root)
    print("\n".join(violations) if violations else f"{count} files respect their layers")
    return 1 if violations or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
