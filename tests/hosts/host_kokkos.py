# SPDX-License-Identifier: Apache-2.0
"""A program of Kokkos, with Debian's build of it for the host, recorded by the tool."""

import re
from pathlib import Path

import kit

PACKAGE = "libtrilinos-kokkos-dev"


def attempt(libraries: Path, work: Path) -> list[kit.Tried]:
    headers = kit.debian(PACKAGE) / "usr/include/trilinos"
    depends = kit.ask("apt-cache", "depends", PACKAGE)
    runtime = kit.debian(re.search(r"Depends: (libtrilinos-kokkos-[\d.]+)", depends)[1])
    library = next(runtime.glob("usr/lib/*/libtrilinos_kokkoscore.so.*"))
    # Kokkos's own headers have unused parameters, in macros that a program's source expands.
    options = ["-isystem", headers, "-Wno-unused-parameter", library, f"-Wl,-rpath,{library.parent}", "-ldl"]
    for source in (kit.ROOT / "tests/hosts/kokkos.cpp", kit.ROOT / "examples/frameworks/kokkos/views.cpp"):
        kit.compile_program(source, work / source.stem, *options, libraries=libraries)
        recording = work / f"{source.stem}.gpt"
        recording.unlink(missing_ok=True)
        tool = str(libraries / "libgpupool_kokkos.so")
        # The first name is that of Kokkos before 4.0.
        kit.run(
            libraries / "gpupool",
            "record",
            "-o",
            recording,
            "--",
            work / source.stem,
            KOKKOS_PROFILE_LIBRARY=tool,
            KOKKOS_TOOLS_LIBS=tool,
        )
        kit.run(libraries / "gpupool", "report", recording, "-o", work / "page.html")
    leaks = kit.run(libraries / "gpupool", "leaks", work / "kokkos.gpt")
    if "3 MiB in 1 blocks" not in leaks or "forgotten" not in leaks or "scratch" in leaks:
        raise kit.Failed(leaks)
    number = int(re.search(r"define KOKKOS_VERSION (\d+)", (headers / "KokkosCore_config.h").read_text())[1])
    return [kit.Tried(f"{number // 10000}.{number // 100 % 100}", "ran on CPU (recorded)")]
