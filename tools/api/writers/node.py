# SPDX-License-Identifier: Apache-2.0
"""For Node: structs as plain objects, enums and errors by name, and the types of all of them for TypeScript."""

import re

from ..model import Enum, Struct
from .swig import _camel, _failures, _in_one_line, _type_name

_NOTE = "Written by tools/apigen.py."
_OURS = re.compile(r"struct_size|flags|reserved\d*|peers|peer_count|share|upstream_\w+")


def node_records(api):
    """records.hpp: conversions of the structs, in the header's order."""
    lines = [f"// SPDX-License-Identifier: Apache-2.0\n// {_NOTE} The header's structs as plain objects.\n"
             '#pragma once\n\n#include "values.hpp"\n\nnamespace node {\n']
    for struct in _structs(api):
        lines.append(_reader(struct) if struct.name.endswith("config_t") else _writer(struct))
    return "\n".join(lines) + "\n}  // namespace node\n"


def node_names(api):
    """names.js: the enums, and the classes of errors."""
    lines = [f'// SPDX-License-Identifier: Apache-2.0\n// {_NOTE} The header\'s numbers by name, and its errors.\n'
             '"use strict";\n']
    for enum in api.of(Enum):
        values = "".join(f"  {name}: {value.value},\n" for name, value in _values(enum))
        lines.append(f"const {_type_name(enum)} = Object.freeze({{\n{values}}});\n")
    lines.append(_ERROR)
    failures = list(_failures(api, "GpuPoolError", "{}Error"))
    lines += [f"class {name}Error extends {parent} {{}}" for name, parent, _ in failures]
    classes = "".join(f"  {value.value}: {name}Error,\n" for name, _, value in failures)
    lines.append(f"\nconst errors = Object.freeze({{\n{classes}}});\n")
    names = [_type_name(enum) for enum in api.of(Enum)] + ["GpuPoolError"] + [f"{name}Error" for name, _, _ in failures]
    exported = "".join(f"  {name},\n" for name in names)
    lines.append(f"module.exports = {{\n{exported}  errors,\n}};")
    return "\n".join(lines) + "\n"


def node_types(api):
    """names.d.ts: the same, and the plain objects, for TypeScript."""
    lines = [f"// SPDX-License-Identifier: Apache-2.0\n// {_NOTE}\n"]
    for enum in api.of(Enum):
        values = "".join(f"  {_doc(value.doc)}readonly {name}: {value.value};\n" for name, value in _values(enum))
        lines.append(f"{_doc(enum.doc, '')}export declare const {_type_name(enum)}: {{\n{values}}};")
        words = " | ".join(f'"{name.lower()}"' for name, _ in _values(enum))
        lines.append(f"/** The same in words. */\nexport type {_type_name(enum)}Name = {words};\n")
    for struct in _results(api):
        fields = "".join(f"  {_doc(field.doc)}readonly {_property(field.name)}: {_ts(field)};\n"
                         for field in _fields(struct))
        lines.append(f"{_doc(struct.doc, '')}export interface {_type_name(struct)} {{\n{fields}}}\n")
    lines.append(_ERROR_TYPE)
    lines += [f"{_doc(value.doc, '')}export declare class {name}Error extends {parent} {{}}"
              for name, parent, value in _failures(api, "GpuPoolError", "{}Error")]
    return "\n".join(lines) + "\n"


def _structs(api):
    return [struct for struct in api.of(Struct) if struct.name != "gpupool_error_t"]


def _results(api):
    return [struct for struct in _structs(api) if not struct.name.endswith("config_t")]


def _fields(struct):
    return [field for field in struct.fields if not _OURS.fullmatch(field.name)]


def _property(name):
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _values(enum):
    stem = next(value.name for value in enum.values if value.name.endswith("_FORCE32")).removesuffix("FORCE32")
    for value in enum.values:
        if not value.name.endswith("_FORCE32"):
            prefix = next(each for each in (stem, "GPUPOOL_ERROR_", "GPUPOOL_") if value.name.startswith(each))
            yield value.name.removeprefix(prefix), value


def _doc(text, indent="  "):
    return f"/** {_in_one_line(text)} */\n{indent}" if text else ""


def _ts(field):
    if field.type.name == "char":
        return "string"
    return _camel(field.type.name.removeprefix("gpupool_").removesuffix("_t")) if _is_struct(field) else "number"


def _is_struct(field):
    return field.type.name.startswith("gpupool_") and field.type.name not in ("gpupool_ptr_t", "gpupool_stream_t")


def _writer(struct):
    sets = "".join(
        f'  set_field(env, object, "{_property(field.name)}", to_js(env, '
        + (f"std::string(record.{field.name})" if field.type.name == "char" else f"record.{field.name}") + "));\n"
        for field in _fields(struct))
    return (f"inline napi_value to_js(napi_env env, const {struct.name}& record) {{\n  napi_value object = nullptr;\n"
            f"  check(napi_create_object(env, &object));\n{sets}  return object;\n}}\n")


def _reader(struct):
    reads = "".join(f'  read_field(env, object, "{_property(field.name)}", record.{field.name});\n'
                    for field in _fields(struct))
    return (f"inline void read_fields(napi_env env, napi_value object, {struct.name}& record) {{\n{reads}}}\n")


_ERROR = """\
/** A call of the library that failed; the message explains why. Each status has a class of its own. */
class GpuPoolError extends Error {
  constructor(message, status, driverCode) {
    super(message);
    this.status = status;
    this.driverCode = driverCode;
  }
  get name() {
    return this.constructor.name;
  }
}
"""

_ERROR_TYPE = """\
/** A call of the library that failed; the message explains why. Each status has a class of its own. */
export declare class GpuPoolError extends Error {
  /** One of Status. */
  readonly status: number;
  /** The driver's own number, or 0. */
  readonly driverCode: number;
}
"""
