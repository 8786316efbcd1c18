# SPDX-License-Identifier: Apache-2.0
"""The marked region as tokens with line numbers."""

import re
from dataclasses import dataclass

BEGIN = "gpupool-api-begin"
END = "gpupool-api-end"

_PATTERN = re.compile(
    r"(?P<comment>/\*.*?\*/)"
    r"|(?P<directive>\#[^\n]*)"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<number>\d\w*)"
    r"|(?P<punctuation>\.\.\.|[{}()\[\];,=*:])"
    r"|(?P<space>\s+)"
    r"|(?P<other>//[^\n]*|.)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    line: int

    @property
    def last_line(self):
        return self.line + self.text.count("\n")


def marked_region(text):
    """The text between the two comments that hold the markers, and the number of its first line.

    Raises ValueError when a marker is missing."""
    begin = text.find(BEGIN)
    end = text.find(END, begin + len(BEGIN))
    # The first comment also mentions the end marker, so search after it.
    start = text.find("*/", begin) + 2
    if begin >= 0 and end < start:
        end = text.find(END, start)
    if begin < 0 or end < 0:
        raise ValueError(f"the words {BEGIN} and {END} must both be there, each in a comment")
    stop = text.rfind("/*", start, end)
    return text[start:stop], text.count("\n", 0, start) + 1


def tokenize(text, first_line):
    """All tokens except white space."""
    line = first_line
    tokens = []
    for match in _PATTERN.finditer(text):
        if match.lastgroup != "space":
            tokens.append(Token(match.lastgroup, match.group(), line))
        line += match.group().count("\n")
    return tokens


def comment_text(comment):
    """The text of a comment without its decoration; paragraphs stay separate."""
    lines = comment.removeprefix("/*").removesuffix("*/").split("\n")
    return "\n".join(re.sub(r"^\s*\*? ?", "", line).rstrip() if number else line.strip()
                     for number, line in enumerate(lines)).strip()


def banner_title(comment):
    """The title of a `/* ---- title ---- */` comment, or None."""
    match = re.fullmatch(r"/\*\s*-{3,}\s*(.+?)\s*-{3,}\s*\*/", comment)
    return match.group(1) if match else None
