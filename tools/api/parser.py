# SPDX-License-Identifier: Apache-2.0
"""Reads the marked region of the header, and refuses anything that some binding could not read.

Allowed are comments, `#define NAME integer`, typedefs of opaque structs, structs, enums, function
pointers and names of builtin types, and functions that start with GPUPOOL_API. Everything else is reported with its
line, one message per declaration.
"""

import re

from . import model
from .tokens import banner_title, comment_text, marked_region, tokenize

_INTEGER = re.compile(r"0x[0-9a-f]+|\d+")
_SINCE = re.compile(r"\bSince (\d+\.\d+)\.")
FIRST_VERSION = "0.1"


class LintErrors(Exception):
    def __init__(self, messages):
        super().__init__("\n".join(messages))
        self.messages = messages


class _Refused(Exception):
    def __init__(self, line, reason):
        super().__init__(reason)
        self.line = line
        self.reason = reason


def parse(text, path="gpupool.h"):
    """The Api that the header's text declares. Raises LintErrors."""
    try:
        region, first_line = marked_region(text)
    except ValueError as error:
        raise LintErrors([f"{path}:1: {error}"]) from None
    parser = _Parser(tokenize(region, first_line))
    parser.run()
    if parser.errors:
        raise LintErrors([f"{path}:{line}: {reason}" for line, reason in sorted(parser.errors)])
    return parser.api


class _Parser:
    def __init__(self, tokens):
        self.tokens = tokens
        self.position = 0
        self.api = model.Api()
        self.errors = []
        self.group = ""

    # ---- tokens

    def peek(self):
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def refuse(self, reason, token=None):
        token = token or self.peek() or self.tokens[-1]
        raise _Refused(token.line, reason)

    def next(self):
        token = self.peek()
        if token is None:
            self.refuse("the region ends inside a declaration")
        self.position += 1
        return token

    def accept(self, text):
        token = self.peek()
        if token is not None and token.text == text:
            self.position += 1
            return True
        return False

    def expect(self, text):
        token = self.peek()
        if not self.accept(text):
            self.refuse(f"expected '{text}'" + (f" before '{token.text}'" if token else ""))

    def word(self, what):
        token = self.next()
        if token.kind != "word":
            self.refuse(f"expected {what} before '{token.text}'", token)
        return token

    def integer(self):
        token = self.next()
        if not _INTEGER.fullmatch(token.text):
            self.refuse(f"'{token.text}' is not a decimal or lower-case hexadecimal integer", token)
        return int(token.text, 0)

    def doc(self):
        """The comment that ends on the line before the next token, if there is one."""
        doc = ""
        while self.peek() is not None and self.peek().kind == "comment":
            comment = self.next()
            follows = self.peek() is not None and self.peek().line == comment.last_line + 1
            doc = comment_text(comment.text) if follows else ""
        return doc

    # ---- the region

    def run(self):
        while True:
            start = self.position
            try:
                token = self.peek()
                if token is None:
                    break
                title = banner_title(token.text) if token.kind == "comment" else None
                if title:
                    self.group = title
                    self.position += 1
                    continue
                doc = self.doc()
                if self.peek() is not None:
                    self.declaration(doc)
            except _Refused as error:
                self.errors.append((error.line, error.reason))
                self.skip_declaration(start)
        self.check_versions()

    def skip_declaration(self, start):
        """Continues after the refused declaration: its ';' outside braces, or its directive."""
        self.position = start
        while self.peek() is not None and self.peek().kind == "comment":
            self.position += 1
        if self.peek() is not None and self.peek().kind == "directive":
            self.position += 1
            return
        depth = 0
        while self.peek() is not None:
            text = self.next().text
            depth += (text == "{") - (text == "}")
            # A function body ends a declaration without ';'.
            if (text == ";" and depth <= 0) or (text == "}" and depth == 0 and not self.followed_by_name()):
                return

    def followed_by_name(self):
        token = self.peek()
        return token is not None and (token.text == ";" or token.kind == "word")

    def declaration(self, doc):
        token = self.next()
        if token.kind == "directive":
            self.define(token, doc)
        elif token.text == "typedef":
            self.typedef(token, doc)
        elif token.text == "GPUPOOL_API":
            self.function(token, doc)
        else:
            allowed = "only a comment, #define, typedef and, of a function, GPUPOOL_API do"
            self.refuse(f"'{token.text}' starts nothing that is allowed here: {allowed}", token)

    def add(self, item):
        if self.api.find(item.name):
            raise _Refused(item.line, f"'{item.name}' is declared twice")
        self.api.items.append(item)

    def common(self, name, doc):
        return {"name": name.text, "doc": doc, "line": name.line, "group": self.group}

    def require_doc(self, name, doc):
        if not doc:
            self.refuse(f"'{name.text}' has no comment on the line before it", name)

    def type_name(self):
        token = self.word("the name of a type")
        if not token.text.endswith("_t"):
            self.refuse(f"the name of the type '{token.text}' must end in _t", token)
        return token

    # ---- declarations

    def define(self, token, doc):
        match = re.fullmatch(r"#define (GPUPOOL_[A-Z0-9_]+) (\S+)", token.text)
        if not match or not _INTEGER.fullmatch(match.group(2)):
            self.refuse("only '#define GPUPOOL_NAME integer' is allowed here", token)
        self.add(model.Define(match.group(1), doc, token.line, self.group, match.group(2)))

    def typedef(self, token, doc):
        if self.accept("struct"):
            self.struct(doc)
        elif self.accept("enum"):
            self.enum(doc)
        else:
            of = self.type(allow_void=True)
            if self.accept("("):
                self.callback(of, doc)
            else:
                name = self.type_name()
                self.require_doc(name, doc)
                self.expect(";")
                self.add(model.Alias(**self.common(name, doc), type=of))

    def struct(self, doc):
        tag = self.type_name()
        self.require_doc(tag, doc)
        if not self.accept("{"):
            self.same_name(tag)
            self.add(model.Opaque(**self.common(tag, doc)))
            return
        struct = model.Struct(**self.common(tag, doc))
        while True:
            field_doc = self.doc()
            if self.accept("}"):
                break
            struct.fields.append(self.field(field_doc))
        self.same_name(tag)
        for member, size in self.api.lay_out(struct):
            where = f"before '{member.name}'" if member else "at the end"
            raise _Refused(member.line if member else tag.line, f"{size} bytes of padding {where} of '{tag.text}'")
        self.add(struct)

    def field(self, doc):
        of = self.type()
        name = self.word("the name of a field")
        length = None
        if self.accept("["):
            length = self.integer()
            self.expect("]")
        self.expect(";")
        if isinstance(self.api.find(of.name), model.Opaque) and not of.stars:
            self.refuse(f"'{of.name}' is opaque and has no size", name)
        return model.Field(name.text, of, length, doc, name.line)

    def same_name(self, tag):
        name = self.word("the name of the type")
        if name.text != tag.text:
            self.refuse(f"the type must be called '{tag.text}' like its tag", name)
        self.expect(";")

    def enum(self, doc):
        tag = self.type_name()
        self.require_doc(tag, doc)
        self.expect("{")
        enum = model.Enum(**self.common(tag, doc))
        while True:
            value_doc = self.doc()
            if self.accept("}"):
                break
            name = self.word("an enumerator")
            self.expect("=")
            enum.values.append(model.Enumerator(name.text, self.integer(), value_doc))
            if not self.accept(","):
                self.expect("}")
                break
        self.same_name(tag)
        if not enum.values or not (enum.values[-1].name.endswith("_FORCE32") and enum.values[-1].value == 0x7FFFFFFF):
            self.refuse(f"'{tag.text}' must end with an enumerator _FORCE32 = 0x7fffffff", tag)
        self.add(enum)

    def callback(self, returns, doc):
        self.expect("*")
        name = self.type_name()
        self.require_doc(name, doc)
        self.expect(")")
        self.add(model.Callback(**self.common(name, doc), returns=returns, parameters=self.parameters()))

    def function(self, token, doc):
        returns = self.type(allow_void=True)
        name = self.word("the name of a function")
        if not name.text.startswith("gpupool_"):
            self.refuse(f"the name of the function '{name.text}' must start with gpupool_", name)
        self.require_doc(name, doc)
        since = _SINCE.search(doc)
        self.add(
            model.Function(
                **self.common(name, doc),
                returns=returns,
                parameters=self.parameters(),
                since=since.group(1) if since else FIRST_VERSION,
            )
        )

    def parameters(self):
        self.expect("(")
        parameters = []
        while True:
            of = self.type(allow_void=True)
            if of == model.Type("void") and not parameters and self.accept(")"):
                break
            name = self.word("the name of a parameter")
            if of == model.Type("void"):
                self.refuse("a parameter cannot be void", name)
            parameters.append(model.Parameter(name.text, of))
            if not self.accept(","):
                self.expect(")")
                break
        self.expect(";")
        return parameters

    def type(self, allow_void=False):
        is_const = self.accept("const")
        name = self.word("a type")
        stars = 0
        while self.accept("*"):
            stars += 1
        known = name.text in model.BUILTIN_SIZES or isinstance(
            self.api.find(name.text), (model.Opaque, model.Alias, model.Enum, model.Struct, model.Callback)
        )
        if name.text == "void":
            known = stars > 0 or allow_void
        if not known:
            types = ", ".join(model.BUILTIN_SIZES)
            self.refuse(f"'{name.text}' is not a type that every binding knows: {types}, or one declared above", name)
        return model.Type(name.text, is_const, stars)

    def check_versions(self):
        parts = [self.api.define(f"GPUPOOL_VERSION_{part}") for part in ("MAJOR", "MINOR", "PATCH")]
        if self.errors or None in parts:
            return
        number = parts[0] * 10000 + parts[1] * 100 + parts[2]
        whole = self.api.find("GPUPOOL_VERSION")
        if whole is not None and whole.number != number:
            self.errors.append((whole.line, f"GPUPOOL_VERSION must be {number}"))
        for function in self.api.of(model.Function):
            if tuple(int(part) for part in function.since.split(".")) > (parts[0], parts[1]):
                self.errors.append((function.line, f"'{function.name}' is newer than the header's version"))
