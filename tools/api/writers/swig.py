# SPDX-License-Identifier: Apache-2.0
"""What SWIG cannot derive from the header by itself: native names, and the exceptions of Java and C#."""

import re
import textwrap

from ..model import Callback, Define, Enum, Function, Opaque, Struct

# Types whose plain name is taken by an object of the binding.
_RENAMED = {"gpupool_block_t": "BlockInfo"}
# gpupool_t becomes an object, gpupool_error_t an exception.
_HIDDEN_STRUCTS = {"gpupool_error_t"}
# Over the limit is a kind of out of memory.
_PARENTS = {"OverLimit": "OutOfMemory"}

_NOTE = "Written by tools/apigen.py."


def swig_names(api):
    """names.swg: each declaration of the header under its name in each language, or hidden."""
    hidden = [item.name for kind in (Define, Opaque, Callback, Function) for item in api.of(kind)]
    hidden += [item.name for item in api.of(Struct) if item.name in _HIDDEN_STRUCTS]
    lines = [f"// SPDX-License-Identifier: Apache-2.0\n// {_NOTE} The header's names in each language.\n"]
    lines += [f"%ignore {name};" for name in hidden]
    for enum in api.of(Enum):
        lines.append(f"\n%rename({_type_name(enum)}) {enum.name};")
        lines += [_enumerator(enum, value) for value in enum.values]
    for struct in api.of(Struct):
        if struct.name not in hidden:
            lines.append(f"\n%rename({_type_name(struct)}) {struct.name};")
            lines += [line for line in (_field(struct, member) for member in struct.fields) if line]
    return "\n".join(lines) + "\n"


def java_exceptions(api):
    """GpuPoolException.java: nested in it, one class for each status."""
    classes = "\n".join(
        _JAVA_CLASS.format(name=name + "Exception", parent=parent, doc=_wrapped(f"/** {value.doc} */", "   * "))
        for name, parent, value in _failures(api, "GpuPoolException", "{}Exception")
    )
    cases = "\n".join(
        f"      case {_constant_name(value)}:\n        return new {name}Exception(status, driverCode, message);"
        for name, _, value in _failures(api)
    )
    return _JAVA.replace("NOTE", _NOTE).replace("CASES", cases).replace("CLASSES", classes)


def csharp_exceptions(api):
    """GpuPoolException.cs: with it, one class for each status."""
    classes = "\n".join(
        _CSHARP_CLASS.format(
            name=f"GpuPool{name}Exception",
            parent=parent,
            doc=_wrapped(f"<summary>{value.doc}</summary>", "/// "),
        )
        for name, parent, value in _failures(api, "GpuPoolException", "GpuPool{}Exception")
    )
    cases = "\n".join(
        f"      case Status.{name}:\n        return new GpuPool{name}Exception(status, driverCode, message);"
        for name, _, value in _failures(api)
    )
    return _CSHARP.replace("NOTE", _NOTE).replace("CASES", cases).replace("CLASSES", classes)


def _type_name(item):
    return _RENAMED.get(item.name, _camel(item.name.removeprefix("gpupool_").removesuffix("_t")))


def _camel(name):
    return "".join(part.capitalize() for part in name.split("_"))


def _constant(name, prefix):
    """Script languages have one namespace and get BACKEND_SIM; Java and C# get Backend.SIM and Backend.Sim."""
    short = name.removeprefix(prefix)
    return f"%gpupool_constant({name}, {name.removeprefix('GPUPOOL_')}, {short}, {_camel(short)})"


def _constant_name(value):
    return value.name.removeprefix("GPUPOOL_ERROR_")


def _enumerator(enum, value):
    if value.name.endswith("_FORCE32"):
        return f"%ignore {value.name};"
    stem = next(other.name for other in enum.values if other.name.endswith("_FORCE32")).removesuffix("FORCE32")
    prefixes = [stem, "GPUPOOL_ERROR_", "GPUPOOL_"]
    return _constant(value.name, next(prefix for prefix in prefixes if value.name.startswith(prefix)))


def _field(struct, member):
    """Structs that the library fills are readable, those it takes are writable; gpupool.i handles callbacks and
    lists."""
    name = f"{struct.name}::{member.name}"
    is_ours = re.fullmatch(r"struct_size|flags|reserved\d*|peers|peer_count|share|upstream_\w+", member.name)
    if is_ours:
        return f"%ignore {name};"
    return None if struct.name.endswith("config_t") else f"%immutable {name};"


def _failures(api, base="", pattern=""):
    """Name, parent and enumerator of each status except success."""
    for value in api.find("gpupool_status_t").values:
        if value.name.startswith("GPUPOOL_ERROR_"):
            name = _camel(_constant_name(value))
            yield name, pattern.format(_PARENTS[name]) if name in _PARENTS else base, value


def _in_one_line(doc):
    return " ".join(doc.split())


def _wrapped(comment, mark):
    """All lines but the first start with the mark, which is no shorter than what stands before the first."""
    return f"\n{mark}".join(textwrap.wrap(_in_one_line(comment), 120 - len(mark)))


_JAVA = """\
// SPDX-License-Identifier: Apache-2.0
// NOTE One class for each status of the library.
package org.gpupool;

/** A call of the library that failed; the message explains why. Each status has a class of its own. */
public class GpuPoolException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private final Status status;
  private final int driverCode;

  protected GpuPoolException(Status status, int driverCode, String message) {
    super(message);
    this.status = status;
    this.driverCode = driverCode;
  }

  /** The status of the call. */
  public Status getStatus() {
    return status;
  }

  /** The driver's own number, or 0. */
  public int getDriverCode() {
    return driverCode;
  }

  /** For the native code. */
  static GpuPoolException of(int number, int driverCode, String message) {
    Status status = Status.swigToEnum(number);
    switch (status) {
CASES
      default:
        return new GpuPoolException(status, driverCode, message);
    }
  }

CLASSES}
"""

_JAVA_CLASS = """\
  {doc}
  public static class {name} extends {parent} {{
    private static final long serialVersionUID = 1;

    protected {name}(Status status, int driverCode, String message) {{
      super(status, driverCode, message);
    }}
  }}
"""

_CSHARP = """\
// SPDX-License-Identifier: Apache-2.0
// NOTE One class for each status of the library.
namespace GpuPool {

/// <summary>A call of the library that failed; the message explains why. Each status has a class of its own.
/// </summary>
public class GpuPoolException : System.Exception {
  /// <summary>The call's status.</summary>
  public Status Status { get; private set; }

  /// <summary>The driver's own number, or 0.</summary>
  public int DriverCode { get; private set; }

  protected internal GpuPoolException(Status status, int driverCode, string message) : base(message) {
    Status = status;
    DriverCode = driverCode;
  }

  /// <summary>For the native code.</summary>
  internal static GpuPoolException Of(Status status, int driverCode, string message) {
    switch (status) {
CASES
      default:
        return new GpuPoolException(status, driverCode, message);
    }
  }
}

CLASSES}
"""

_CSHARP_CLASS = """\
/// {doc}
public class {name} : {parent} {{
  protected internal {name}(Status status, int driverCode, string message)
      : base(status, driverCode, message) {{}}
}}
"""
