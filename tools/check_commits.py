#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the subjects of commits: `area: imperative`, at most 72 characters.

    tools/check_commits.py [ROOT]            the commits since BASE, but merges
    tools/check_commits.py --message FILE    one message, before it is committed

Whether a verb is an imperative is for readers to see; what is found here are first words that no imperative begins
with: articles, questions, and other forms of common verbs. In a shallow clone only the commits that are there can be
checked; the output says how many those are.
"""

import re
import subprocess
import sys
from pathlib import Path

# The rule is checked from here on. Older history has other forms.
BASE = "1bd4d99c95f171b33b9f40bbe4e0b9a28a31cda4"
LIMIT = 72
AREA = r"[a-z][\w.+-]*(?:/[\w.+-]+)*"
SUBJECT = re.compile(rf"{AREA}(?:, {AREA})*: (\S+)(?: .*)?")
WRITTEN_BY_GIT = ("fixup! ", "squash! ", "amend! ")
NO_IMPERATIVES = set(
    """a an the this that these those what why how who which where whether more fewer less no not all each every some
    as at by for from in of on to with without because if it its we they there
    adds added adding allows allowed allowing avoids avoided avoiding changes changed changing deletes deleted deleting
    fixes fixed fixing improves improved improving makes made making moves moved moving removes removed removing renames
    renamed renaming replaces replaced replacing updates updated updating uses used using writes wrote written writing
""".split()
)


def complaint(subject):
    """What is wrong with a subject, or None."""
    if subject.startswith(WRITTEN_BY_GIT):
        return "to be squashed into another commit"
    if len(subject) > LIMIT:
        return f"{len(subject)} characters, more than {LIMIT}"
    form = SUBJECT.fullmatch(subject)
    if not form:
        return 'not in the form "area: imperative"'
    if subject.endswith("."):
        return "ends with a full stop"
    if form[1].lower() in NO_IMPERATIVES:
        return f'"{form[1]}" is not an imperative'
    return None


def git(root, *arguments):
    return subprocess.run(["git", "-C", root, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def has(root, commit):
    command = ["git", "-C", root, "cat-file", "-e", f"{commit}^{{commit}}"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def commits(root, base):
    """Hash and subject of each commit since base, and a word on which those are."""
    if has(root, base):
        lines = git(root, "log", "--no-merges", "--format=%h %s", f"{base}..HEAD").splitlines()
        return [line.split(" ", 1) for line in lines], f"since {base[:7]}"
    if git(root, "rev-parse", "--is-shallow-repository") != "true":
        sys.exit(f"{base[:7]}: not in this repository; BASE in tools/check_commits.py must be a commit of it")
    # Nothing along first parents is older than base here. At the clone's edge git hides parents; the commit has
    # them.
    seen = git(root, "log", "--first-parent", "--format=%H %h %s").splitlines()
    seen = [line.split(" ", 2) for line in seen]
    edge = {name for name, _, _ in seen if git(root, "cat-file", "commit", name).count("\nparent ") > 1}
    return [each[1:] for each in seen if each[0] not in edge], f"that this shallow clone has; {base[:7]} is not in it"


def main(arguments):
    if arguments[:1] == ["--message"]:
        lines = Path(arguments[1]).read_text(encoding="utf-8").splitlines()
        subject = next((line for line in lines if line.strip() and not line.startswith("#")), "")
        wrong = None if subject.startswith(("Merge ", *WRITTEN_BY_GIT)) else complaint(subject)
        if wrong:
            print(f"{subject}: {wrong}")
        return 1 if wrong else 0
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent)
    checked, which = commits(root, BASE)
    found = [(name, subject, complaint(subject)) for name, subject in checked]
    wrong = [each for each in found if each[2]]
    for name, subject, why in wrong:
        print(f"{name} {subject}: {why}")
    if not wrong:
        print(f"{len(checked)} subjects are `area: imperative`, of the commits {which}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
