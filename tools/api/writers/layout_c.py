# SPDX-License-Identifier: Apache-2.0
"""A C file that compiles only if the header has the contract's layout and numbers."""

from ..model import Define, Enum, Struct

_HEAD = """\
/* SPDX-License-Identifier: Apache-2.0 */
/* Written by tools/apigen.py. The layout and the numbers that every binding relies on, on LP64 machines. */
/* clang-format off */
#include <gpupool/gpupool.h>
"""


def layout_c(api):
    lines = [_HEAD]
    for struct in api.of(Struct):
        lines.append(_assert(f"sizeof({struct.name}) == {struct.size}"))
        for member in struct.fields:
            lines.append(_assert(f"offsetof({struct.name}, {member.name}) == {member.offset}"))
            lines.append(_assert(f"sizeof((({struct.name}*)0)->{member.name}) == {member.size}"))
        lines.append("")
    for enum in api.of(Enum):
        lines.append(_assert(f"sizeof({enum.name}) == 4"))
        lines += [_assert(f"{value.name} == {value.value}") for value in enum.values]
        lines.append("")
    lines += [_assert(f"{define.name} == {define.value}") for define in api.of(Define)]
    return "\n".join(lines) + "\n"


def _assert(condition):
    return f'_Static_assert({condition}, "layout");'
