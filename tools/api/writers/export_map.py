# SPDX-License-Identifier: Apache-2.0
"""The linker's version scripts: the explicit lists of exported functions, by the version that added them."""

from ..frameworks import TORCH_FUNCTIONS
from ..model import Function


def export_map(api):
    return version_script({function.name: function.since for function in api.of(Function)})


def torch_export_map(_api):
    return version_script(TORCH_FUNCTIONS)


def version_script(functions):
    versions = sorted(set(functions.values()), key=lambda v: [int(part) for part in v.split(".")])
    lines = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        "/* Written by tools/apigen.py. A function never changes its node. */",
    ]
    previous = ""
    for version in versions:
        lines.append(f"GPUPOOL_{version} {{")
        lines.append("  global:")
        lines += [f"    {name};" for name, since in functions.items() if since == version]
        if not previous:
            lines += ["  local:", "    *;"]
        lines.append(f"}}{previous};")
        previous = f" GPUPOOL_{version}"
    return "\n".join(lines) + "\n"
