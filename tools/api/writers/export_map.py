# SPDX-License-Identifier: Apache-2.0
"""The linker's version script: the explicit list of exported functions, by the version that added them."""

from ..model import Function


def export_map(api):
    functions = api.of(Function)
    versions = sorted({function.since for function in functions}, key=lambda v: [int(part) for part in v.split(".")])
    lines = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        "/* Written by tools/apigen.py. A function never changes its node. */",
    ]
    previous = ""
    for version in versions:
        lines.append(f"GPUPOOL_{version} {{")
        lines.append("  global:")
        lines += [f"    {function.name};" for function in functions if function.since == version]
        if not previous:
            lines += ["  local:", "    *;"]
        lines.append(f"}}{previous};")
        previous = f" GPUPOOL_{version}"
    return "\n".join(lines) + "\n"
