# SPDX-License-Identifier: Apache-2.0
"""Comments for Java and C#, where SWIG has none: it knows Doxygen's comments for Java only, and the header's are not
written that way. Structs have the header's text, and objects in C# that of bindings/swig, which Java gets by itself."""

import re
from pathlib import Path
from xml.sax.saxutils import escape

from ..model import Struct
from .swig import _HIDDEN_STRUCTS, _NOTE, _field, _type_name

_FOLDER = Path(__file__).resolve().parents[3] / "bindings/swig"
_OBJECTS = ["src/library.hpp", "src/share.hpp", "src/slices.hpp", "src/blocks.hpp", "src/objects.hpp", "gpupool.i"]


def swig_comments(api):
    """comments.swg: what comes before each declaration in the language's file."""
    java, csharp = [], []
    for struct in api.of(Struct):
        if struct.name in _HIDDEN_STRUCTS:
            continue
        java += _on_class("java", struct.name, _javadoc(api, struct.doc, ""))
        csharp += _on_class("cs", struct.name, _summary(api, struct.doc, ""))
        for field in struct.fields:
            if field.doc and "%ignore" not in (_field(struct, field) or ""):
                name = f"{struct.name}::{field.name}"
                java += _on_method("java", name, _javadoc(api, field.doc))
                csharp += _on_method("cs", name, _summary(api, field.doc))
    for path in _OBJECTS:
        for owner, name, arguments, doc in declarations((_FOLDER / path).read_text(encoding="utf-8")):
            if name is None:
                csharp += _on_class("cs", owner, _summary(api, doc, ""))
            else:
                csharp += _on_method("cs", f"{owner}::{name}{arguments}", _summary(api, doc))
    return "\n".join([
        "// SPDX-License-Identifier: Apache-2.0",
        f"// {_NOTE} Comments for Java and C#.",
        "#if defined(SWIGJAVA)", *java, "#elif defined(SWIGCSHARP)", *csharp, "#endif", "",
    ])


def declarations(text):
    """(class, None, "", comment) and (class, function, arguments, comment) of what has a /// comment and SWIG wraps.
    The first function of a name is without arguments, so that it speaks for others that have no comment."""
    owner, comment, seen = "binding", [], set()
    text = re.sub(r"(?ms)^#ifndef SWIG\n.*?^#endif\n", "", text)
    text = re.sub(r",\n(?! *///) +", ", ", text)  # a list of arguments on one line
    for line in text.splitlines():
        if found := re.match(r"%extend ([\w:]+) \{|class (\w+)", line):
            owner = found[1] or f"binding::{found[2]}"
            if comment:
                yield owner, None, "", " ".join(comment)
            comment = []
        elif line.strip().startswith("/// "):
            comment.append(line.strip()[4:])
        elif comment:
            doc, comment = " ".join(comment), []
            found = re.match(r"[^(]*?(\w+)(\(.*?\))(?: const)? [:{]", line)
            name = found and found[1]
            if name and name not in ("to_string", "operator"):
                yield owner, name, found[2] if (owner, name) in seen else "", doc
                seen.add((owner, name))
        if line == "};" or (line == "}" and owner.startswith("gpupool_")):
            owner = "binding"


def _plain(api, doc):
    """In one paragraph, where types have their names in Java and C#, without what is for C alone."""
    text = re.sub(r" \(after struct_size\)|; see (gpupool_\w+|WORDS above)", "", " ".join(doc.split()))
    for item in api.items:
        text = re.sub(rf"\b{item.name}\b", _type_name(item), text) if item.name.endswith("_t") else text
    return escape(text)


def _wrapped(text, start, margin):
    lines, line = [], start
    for word in text.split():
        if len(line) + len(word) > 112:
            lines.append(line)
            line = margin
        line += word if line == start else f" {word}"
    return [*lines, line]


def _javadoc(api, doc, indent="  "):
    return f"\n{indent}".join(_wrapped(_plain(api, doc), "/** ", " *")) + " */" if doc else ""


def _summary(api, doc, indent="  "):
    return f"\n{indent}".join(_wrapped(_plain(api, doc), "/// <summary>", "///")) + "</summary>" if doc else ""


def _on_class(language, name, comment):
    words = "public final class" if language == "java" else "public sealed class"
    return [f"%typemap({language}classmodifiers) {name} %{{{comment}\n{words}%}}"] if comment else []


def _on_method(language, name, comment):
    return [f"%{language}methodmodifiers {name} %{{{comment}\n  public%}};"] if comment else []
