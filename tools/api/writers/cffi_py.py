# SPDX-License-Identifier: Apache-2.0
"""For Python: the declarations that cffi compiles, enums, structs as classes, and one exception per status."""

import re

from ..model import Alias, Callback, Define, Enum, Function, Opaque, Struct

_NOTE = "# SPDX-License-Identifier: Apache-2.0\n# Written by tools/apigen.py.\n"

# The prefixes removed from enum members, if not the name of the enum.
_ENUM_PREFIXES = {
    "gpupool_record_flag_t": "GPUPOOL_RECORD_",
    "gpupool_status_t": r"GPUPOOL_(ERROR_)?",
    "gpupool_capability_t": r"GPUPOOL_CAPABILITY_",
    "gpupool_block_state_t": r"GPUPOOL_BLOCK_",
    "gpupool_log_level_t": r"GPUPOOL_LOG_",
}
# Structs that Python code fills in, or that become something other than data.
_HIDDEN_STRUCTS = {"gpupool_error_t", "gpupool_config_t", "gpupool_sim_config_t"}
_SCALARS = {"double": "float"}
# Statuses that are a special case of another exception.
_PARENTS = {
    "INVALID_ARGUMENT": "Error, ValueError",
    "UNKNOWN_POINTER": "Error, ValueError",
    "OUT_OF_MEMORY": "Error, MemoryError",
    "HOST_OUT_OF_MEMORY": "Error, MemoryError",
    "OVER_LIMIT": "OutOfMemoryError",
}


def cffi_cdef(api):
    """The header's declarations as cffi reads them: no comments, no GPUPOOL_API."""
    lines = ["/* SPDX-License-Identifier: Apache-2.0 */", "/* Written by tools/apigen.py for cffi. */"]
    for item in api.items:
        lines += _DECLARE[type(item)](item)
    return "\n".join(lines) + "\n"


def python_enums(api):
    """_enums.py: each enum, and the defines without their prefix."""
    lines = [_NOTE + '"""Numbers of the C interface."""\n', "from enum import IntEnum, IntFlag", ""]
    for define in api.of(Define):
        value = define.value if define.number < 10**6 else f"0x{define.number:X}"
        lines += [f"{define.name.removeprefix('GPUPOOL_')} = {value}", *_docstring(define.doc, "")]
    for enum in api.of(Enum):
        kind = "IntFlag" if enum.doc.startswith("Bits of ") else "IntEnum"
        prefix = _ENUM_PREFIXES.get(enum.name, f"GPUPOOL_{_short(enum.name).upper()}_")
        lines += ["", "", f"class {_class_name(enum.name)}({kind}):", *_docstring(enum.doc), ""]
        for value in enum.values:
            if not value.name.endswith("_FORCE32"):
                lines += [f"    {re.sub(f'^{prefix}', '', value.name)} = {value.value}", *_docstring(value.doc)]
    return "\n".join(lines) + "\n"


def python_structs(api):
    """_structs.py: each struct that the library fills, as a class built from the C struct."""
    structs = [struct for struct in api.of(Struct) if struct.name not in _HIDDEN_STRUCTS]
    fields = {struct.name: [_field(api, f) for f in struct.fields if _is_data(f)] for struct in structs}
    kinds = {kind for each in fields.values() for _, kind, _ in each}
    enums = sorted(_class_name(enum.name) for enum in api.of(Enum) if _class_name(enum.name) in kinds)
    lines = [
        _NOTE + '"""What the library reports about itself, as data."""\n',
        "from __future__ import annotations\n",
        "from typing import Any\n",
        f"from ._enums import {', '.join(enums)}",
        "from ._native import ffi",
        "from ._record import Record",
    ]
    for struct in structs:
        names = sorted(name for name, _, _ in fields[struct.name])
        lines += ["", "", f"class {_class_name(struct.name)}(Record):", *_docstring(struct.doc), ""]
        lines += ["    __slots__ = (", *(f'        "{name}",' for name in names), "    )", ""]
        for member, (name, kind, _) in zip(filter(_is_data, struct.fields), fields[struct.name], strict=True):
            lines += [f"    {name}: {kind}", *_docstring(member.doc)]
        lines += ["", "    @classmethod", f"    def _of(cls, c: Any) -> {_class_name(struct.name)}:"]
        values = [f"            {name}={value}," for name, _, value in fields[struct.name]]
        lines += ["        return cls(", *values, "        )"]
    return "\n".join(lines) + "\n"


def python_errors(api):
    """_status_errors.py: one exception for each status except success."""
    statuses = [
        (value.name.removeprefix("GPUPOOL_ERROR_"), value.doc)
        for value in api.find("gpupool_status_t").values
        if value.name.startswith("GPUPOOL_ERROR_")
    ]
    lines = [_NOTE + '"""One exception for each status of the library."""\n', "from ._enums import Status"]
    lines.append("from ._error import Error")
    for name, doc in statuses:
        head = f"class {_error_name(name)}({_PARENTS.get(name, 'Error')}, status=Status.{name}):"
        lines += ["", "", head, *_docstring(doc)]
    return "\n".join(lines) + "\n"


def _declare_struct(struct):
    members = [f"  {f.type} {f.name}{'' if f.length is None else f'[{f.length}]'};" for f in struct.fields]
    return [f"typedef struct {struct.name} {{", *members, f"}} {struct.name};"]


def _declare_enum(enum):
    return ["typedef enum {", *(f"  {value.name} = {value.value}," for value in enum.values), f"}} {enum.name};"]


def _parameters(item):
    return ", ".join(f"{parameter.type} {parameter.name}" for parameter in item.parameters) or "void"


_DECLARE = {
    Define: lambda item: [f"#define {item.name} {item.value}"],
    Opaque: lambda item: [f"typedef struct {item.name} {item.name};"],
    Alias: lambda item: [f"typedef {item.type} {item.name};"],
    Enum: _declare_enum,
    Struct: _declare_struct,
    Callback: lambda item: [f"typedef {item.returns} (*{item.name})({_parameters(item)});"],
    Function: lambda item: [f"{item.returns} {item.name}({_parameters(item)});"],
}


def _is_data(member):
    return not re.fullmatch(r"struct_size|reserved\d*", member.name)


def _field(api, member):
    """The name, the type and the value of a field in Python."""
    value = f"c.{member.name}"
    named = re.search(r"\b(?:A|Bits of) (gpupool_\w+_t)\b", member.doc)
    if named and isinstance(api.find(named.group(1)), Enum):
        kind = _class_name(named.group(1))
        return member.name, kind, f"{kind}({value})"
    if member.length is not None:
        return member.name, "str", f'ffi.string({value}).decode(errors="replace")'
    if isinstance(api.find(member.type.name), Struct):
        kind = _class_name(member.type.name)
        return member.name, kind, f"{kind}._of({value})"
    return member.name, _SCALARS.get(member.type.name, "int"), value


def _docstring(doc, indent="    "):
    """Docstrings, which follow what they describe."""
    if not doc:
        return []
    first, *others = doc.replace("\\", "\\\\").split("\n")
    if not others:
        return [f'{indent}"""{first}{" " if first.endswith(chr(34)) else ""}"""']
    return [f'{indent}"""{first}', *(f"{indent}{line}".rstrip() for line in others), f'{indent}"""']


def _short(name):
    return name.removeprefix("gpupool_").removesuffix("_t")


def _class_name(name):
    return "".join(part.capitalize() for part in _short(name).split("_"))


def _error_name(status):
    name = "".join(part.capitalize() for part in status.split("_"))
    return name if name.endswith("Error") else f"{name}Error"
