# SPDX-License-Identifier: Apache-2.0
"""For Rust: a proof that bindgen's committed output matches the header, and the error kinds."""

from ..model import Callback, Define, Enum, Function, Struct

_HEAD = "// SPDX-License-Identifier: Apache-2.0\n// Written by tools/apigen.py.\n"

_TYPES = {
    "void": "c_void",
    "char": "c_char",
    "int8_t": "i8",
    "uint8_t": "u8",
    "int16_t": "i16",
    "uint16_t": "u16",
    "int32_t": "i32",
    "uint32_t": "u32",
    "int64_t": "i64",
    "uint64_t": "u64",
    "size_t": "usize",
    "uintptr_t": "usize",
    "float": "f32",
    "double": "f64",
}


def layout_rs(api):
    """Compiles only against bindings with the header's structs, numbers and signatures."""
    lines = [_HEAD]
    for struct in api.of(Struct):
        lines.append(_assert(f"size_of::<{struct.name}>() == {struct.size}"))
        for member in struct.fields:
            kind = _type(member.type) if member.length is None else f"[{_type(member.type)}; {member.length}]"
            lines.append(f"field!({struct.name}, {member.name}: {kind}, at {member.offset});")
        lines.append("")
    for enum in api.of(Enum):
        lines.append(_assert(f"size_of::<{enum.name}>() == 4"))
        lines += [_assert(f"{value.name}.0 == {value.value}") for value in enum.values]
        lines.append("")
    lines += [_assert(f"{define.name} as u64 == {define.value}") for define in api.of(Define)]
    lines.append("")
    for callback in api.of(Callback):
        lines.append(f"const _: fn({_signature(callback)}) -> {callback.name} = Some;")
    lines += [f"const _: {_signature(function)} = {function.name};" for function in api.of(Function)]
    return "\n".join(lines) + "\n"


def error_kind_rs(api):
    """One kind for each status except success."""
    kinds = [
        (value, _camel_case(value.name.removeprefix("GPUPOOL_ERROR_")))
        for value in api.find("gpupool_status_t").values
        if value.name.startswith("GPUPOOL_ERROR_")
    ]
    lines = [
        _HEAD,
        "use gpupool_sys as sys;",
        "",
        "/// What kind of failure an [`Error`](crate::Error) is. Later versions may add kinds.",
        "#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]",
        "#[non_exhaustive]",
        "pub enum ErrorKind {",
    ]
    for value, kind in kinds:
        lines += [f"    /// {line}" for line in value.doc.split("\n")]
        lines.append(f"    {kind},")
    lines += [
        "    /// A status that this version of the crate does not know.",
        "    Unknown,",
        "}",
        "",
        "impl ErrorKind {",
        "    pub(crate) fn from_status(status: sys::gpupool_status_t) -> ErrorKind {",
        "        match status {",
        *(f"            sys::{value.name} => ErrorKind::{kind}," for value, kind in kinds),
        "            _ => ErrorKind::Unknown,",
        "        }",
        "    }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _assert(condition):
    return f"const _: () = assert!({condition});"


def _signature(item):
    parameters = ", ".join(_type(parameter.type) for parameter in item.parameters)
    returns = "" if str(item.returns) == "void" else f" -> {_type(item.returns)}"
    return f'unsafe extern "C" fn({parameters}){returns}'


def _type(of_type):
    """Only what the innermost star points to can be const in our headers."""
    text = _TYPES.get(of_type.name, of_type.name)
    for star in range(of_type.stars):
        text = f"*{'const' if of_type.is_const and star == 0 else 'mut'} {text}"
    return text


def _camel_case(name):
    return "".join(word.capitalize() for word in name.split("_"))
