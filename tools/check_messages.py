#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that messages are one line of at most 160 characters, whether or not a test makes them.

    tools/check_messages.py [ROOT]

A message is the text of a failure, a line of the log, an exception of the command, or what the command says on standard
error. Its length is that with usual values: 8 characters for a number or a name, 14 for an address; what is in double
quotes is somebody else's, and does not count. The library asserts the true length of each failure where NDEBUG is not
defined, as with sanitizers (base/status.cpp).
"""

import re
import sys
from pathlib import Path

LIMIT = 160
# What makes messages; the text is the first literal of the call.
CALL = re.compile(
    r"\b(?:(?:\w+_)?(?:fail|fail_driver|failed|failure|refuse|refused|unusable|complain|broken|say)|refuse_\w+|log_line"
    r"|InputError|PageError|runtime_error|fmt::print\(stderr,|fprintf\(stderr,)(?:\s*\(|(?<=,))"
)
LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"')
JOINED = re.compile(r'"(?:\\.|[^"\\\n])*"(?:\s*(?:PRI\w+)?\s*"(?:\\.|[^"\\\n])*")*')
CONVERSION = re.compile(r"%[#0-9.*+-]*(?:ll|l|z)?[diusxgfcp]?|\{[^{}]*\}|PRI\w+")


def arguments(text, start):
    """The text from start to the bracket that closes the call."""
    depth, quoted, at = 1, False, start
    while at < len(text) and depth:
        char = text[at]
        if char == "\\" and quoted:
            at += 1
        elif char == '"':
            quoted = not quoted
        elif not quoted:
            depth += (char == "(") - (char == ")")
        at += 1
    return text[start : at - 1]


def usual(literal):
    """The message with usual values, and without what it quotes."""
    filled = CONVERSION.sub(lambda part: "x" * (14 if part[0].endswith(("x", "p")) else 8), literal)
    return re.sub(r'\\"[^"\\]*\\"', "", filled)


def messages(text):
    """The position and text of each message."""
    for call in CALL.finditer(text):
        found = JOINED.search(arguments(text, call.end()))
        if found:
            yield call.start(), "".join(LITERAL.findall(found[0]))


def complaints(text):
    for position, message in messages(text):
        line = text.count("\n", 0, position) + 1
        # The last one only ends the line of what is printed.
        if "\\n" in message.removesuffix("\\n"):
            yield line, "a message of several lines"
        elif len(usual(message)) > LIMIT:
            yield line, f"a message of about {len(usual(message))} characters, more than {LIMIT}"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    count = wrong = 0
    for path in sorted((root / "src").rglob("*.[ch]pp")):
        text = path.read_text(encoding="utf-8")
        count += len(list(messages(text)))
        for line, complaint in complaints(text):
            wrong += 1
            print(f"{path.relative_to(root)}:{line}: {complaint}")
    if not wrong:
        print(f"{count} messages are one line of at most {LIMIT} characters")
    return 1 if wrong or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
