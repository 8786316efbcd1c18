#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the table of docs/inside/locks.md lists every lock of the library, and nothing else.

The table, in the section "Locks", has a row for each lock: its place in the lock order, the file and the name of the
variable, what it guards, and how fork treats it: `taken` around fork, or `excused:` with the reason why a child never
finds it held. A lock forgotten at fork makes a child hang.

A static variable in a function has an undeclared lock: the guard of its initialisation, which a fork during the first
call leaves taken in the child. So only constexpr and constinit ones are allowed.
"""

import re
import sys
from collections import Counter
from pathlib import Path

from check_layers import LIBRARY, SOURCES, without_comments

PAGE = "docs/inside/locks.md"
LOCK = (
    r"std::(?:recursive_|timed_|recursive_timed_|shared_|shared_timed_)?mutex|std::condition_variable(?:_any)?|"
    r"std::(?:once|atomic)_flag|std::(?:binary_|counting_)semaphore|SpinLock|PoolMutex|os::Mutex|pthread_\w+_t"
)
# pthread types that are not locks.
NO_LOCK = {"pthread_t", "pthread_key_t", "pthread_attr_t", "pthread_mutexattr_t", "pthread_rwlockattr_t"}
MENTION = re.compile(rf"\b(class\s+|struct\s+|extern\s+(?:constinit\s+)?)?({LOCK})\b\s*([^\s])(\w*)\s*([;{{=(\[,)]?)")
ALIAS = re.compile(r"\busing\s+\w+\s*=[^;]*;")
ROW = re.compile(r"\| (\d+|leaf) \| `([^`]+)`, `([^`]+)` \| (.+) \| (taken|excused: \S.*) \|")
HEADER = re.compile(r"\| order \|.*|\|[-|]+\|")


def locks_in(text):
    """(line, name) of each lock that a text declares; name None where the checker cannot read the declaration."""
    code = ALIAS.sub(lambda alias: "\n" * alias.group(0).count("\n"), without_comments(text))
    for match in MENTION.finditer(code):
        elsewhere, kind, first, rest, after = match.groups()
        # Not one of another file, the type itself, a template's argument or a reference.
        if kind in NO_LOCK or elsewhere or first in ">&:":
            continue
        line = code.count("\n", 0, match.start()) + 1
        is_name = re.fullmatch(r"[A-Za-z_]", first) and after in (";", "{", "=")
        yield line, first + rest if is_name else None


# Keywords that open a scope in which `static` does not declare a function's variable.
OPEN_SCOPE = re.compile(r'(?:^|\s)(?:namespace|class|struct|union|enum|extern "C")\b[^;(){}]*$')
ALIGNAS = re.compile(r"\balignas\([^()]*\)")
STATIC = re.compile(r"\bstatic\b(?!\s*(?:constexpr|constinit|thread_local\s+constinit|inline\s+constexpr)\b)[^;{}]*")


def guarded_in(text):
    """(line, declaration) of each function-local static variable that the first call initialises."""
    code = without_comments(text)
    scopes, start = [], 0  # whether each open brace belongs to a function, and where the statement began
    for match in re.finditer(r"[{};]", code):
        head = code[start:match.start()]
        start = match.end()
        if scopes and scopes[-1] and (found := STATIC.search(head)) and not found.group(0).startswith("static_"):
            words = " ".join(found.group(0).split())
            yield code.count("\n", 0, start - len(head) - 1 + found.start()) + 1, words
        if match.group(0) == "{":
            inside = bool(scopes) and scopes[-1]
            scopes.append(not OPEN_SCOPE.search(ALIGNAS.sub("", head)) and (inside or "(" in head or "=" in head))
        elif match.group(0) == "}" and scopes:
            scopes.pop()


def locks_of(root):
    """Counts of (file, name) in the libraries, and declarations that could not be read."""
    found, unread = Counter(), []
    for layer in (*LIBRARY, "frameworks"):
        for path in sorted((root / "src" / layer).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            text = path.read_text(encoding="utf-8")
            unread += [
                f"{path.relative_to(root)}:{line}: a guard that fork may leave taken, not constinit: {words}"
                for line, words in guarded_in(text)
            ]
            for line, name in locks_in(text):
                if name is None:
                    unread.append(f"{path.relative_to(root)}:{line}: a lock that is not a plain variable")
                else:
                    found[(str(path.relative_to(root / "src")), name)] += 1
    return found, unread


def rows_of(text):
    """Counts of (file, name) in the table, and malformed rows."""
    section = re.search(r"^## Locks\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if section is None:
        return Counter(), [f"{PAGE}: no section Locks"]
    listed, wrong, last = Counter(), [], 0
    for line in section.group(1).splitlines():
        if not line.startswith("|") or HEADER.fullmatch(line):
            continue
        row = ROW.fullmatch(line)
        if row is None:
            wrong.append(f"{PAGE}: not | order | `file`, `name` | what it guards | taken, or excused: why |: {line}")
            continue
        order = float("inf") if row.group(1) == "leaf" else int(row.group(1))
        if order < last:
            wrong.append(f"{PAGE}: `{row.group(2)}`, `{row.group(3)}` is not in order")
        last = order
        listed[(row.group(2), row.group(3))] += 1
    return listed, wrong


def check(root):
    """All complaints about a repository, and how many locks it has."""
    found, complaints = locks_of(root)
    listed, wrong = rows_of((root / PAGE).read_text(encoding="utf-8"))
    complaints += wrong
    for file, name in (found - listed).elements():
        complaints.append(f"src/{file}: the lock {name} has no row in {PAGE}, section Locks")
    for file, name in (listed - found).elements():
        complaints.append(f"{PAGE}: there is no lock {name} in src/{file}")
    return complaints, found.total()


def main(arguments):
    root = Path(arguments[0]).resolve() if arguments else Path(__file__).resolve().parent.parent
    complaints, count = check(root)
    print("\n".join(complaints) if complaints else f"{count} locks have a place in the lock order and around fork")
    return 1 if complaints or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
