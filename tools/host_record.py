# SPDX-License-Identifier: Apache-2.0
"""How far each release of another project came with gpupool: the record of it, tests/hosts/hosts.json, with which the
tools that try them compare, and the tables that are made of it."""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tests/hosts/hosts.json"
SKIPPED = 77
"""What a tool ends with if something could not be had."""

STEPS = {
    "interface checked": "the names and arguments that gpupool relies on are in the release's files",
    "compiled": "gpupool's shim, or a program with its header, against the release's own headers",
    "linked": "the release's libraries export every symbol that this needs",
    "loaded": "in a process with the release's libraries, gpupool became their allocator and answered there, on a CPU",
    "imported": "the release took gpupool's adapter and has what this needs; its code goes no further without a GPU",
    "ran with a stand-in": "a stand-in for the host called it",
    "ran on CPU": "the release's own code used memory of the simulated device",
    "ran on a GPU": "the release's own code used memory of a GPU; kept here, since it is tried by hand",
}
"""What a cell means: how far a release came. In the record they are joined by commas, each with a detail in brackets if
there is one."""
GPU = "ran on a GPU"


@dataclass(frozen=True)
class Tried:
    """How far a release came."""

    version: str
    how: str
    cuda: str = ""
    """Of PyTorch: which CUDA it was built with."""

    def steps(self) -> dict[str, str]:
        """Each step with its detail."""
        return dict(re.findall(r"([\w -]+?)(?: \(([^)]*)\))?(?:, |$)", self.how))


def read() -> list[dict]:
    return json.loads(RECORD.read_text(encoding="utf-8"))


def kept(host: dict) -> list[Tried]:
    return [Tried(**each) for each in host["tried"]]


def _minor(version: str) -> str:
    return re.sub(r"^(\d+\.\d+)\.\d+$", r"\1", version)


def put(host: dict, tried: Iterable[Tried], replaced: Iterable[str] = ()) -> None:
    """In place of what is kept of these versions, 2.15.1 for 2.15.0, and of all that came just as far as replaced says,
    but for what ran on a GPU."""
    tried = list({each.version: each for each in tried}.values())  # two tools may try the same
    minors = {_minor(each.version) for each in tried}
    others = [each for each in kept(host)
              if each.how.startswith(GPU) or not (_minor(each.version) in minors or each.how in replaced)]
    host["tried"] = [{name: value for name, value in vars(each).items() if value} for each in [*tried, *others]]


@dataclass
class Trial:
    """What a tool has tried, and what came of it."""

    replaced: tuple[str, ...] = ()
    """Which steps are tried with all releases of a host that count, so that others' are out of date."""
    is_whole: bool = False
    """Whether the table also has what ran on a GPU, from the record."""
    tried: dict[str, list[Tried]] = field(default_factory=dict)
    lacking: set[str] = field(default_factory=set)
    results: set[int] = field(default_factory=lambda: {0})

    def came(self, host: str, tried: Tried, words: str = "") -> None:
        self.tried.setdefault(host, []).append(tried)
        print(f"{host} {tried.version}: {tried.how}{': ' * bool(words)}{words}", file=sys.stderr, flush=True)

    def skip(self, host: str, why: object) -> None:
        self.lacking.add(host)
        self.results.add(SKIPPED)
        print(f"{host}: {why}; skipped", flush=True)

    def fail(self, host: str, why: object) -> None:
        self.lacking.add(host)
        self.results.add(1)
        print(f"{host}: {why}", flush=True)

    def end(self, *, is_recorded: bool) -> int:
        """Prints the table, and writes the record or compares with it. Returns what the tool ends with."""
        hosts = read()
        rows = []
        for host in hosts:
            tried = self.tried.get(host["name"], [])
            on_gpu = [each for each in kept(host) if each.how.startswith(GPU)]
            rows.append((host["title"], [*tried, *(on_gpu if self.is_whole else ())]))
            ways = {each.version: each.how for each in tried}
            if is_recorded:
                put(host, tried, () if not tried or host["name"] in self.lacking else self.replaced)
                continue
            # Systems have other versions, and more was tried where there is a GPU.
            for each in kept(host):
                if each not in on_gpu and ways.get(each.version, each.how) != each.how:
                    self.fail(host["name"], f"{RECORD.name} says of {each.version} `{each.how}`, and it came to "
                              f"`{ways[each.version]}`; --record writes what is so")
        print(grid(rows), end="")
        if is_recorded:
            RECORD.write_text(json.dumps(hosts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            write_pages(hosts)
        return 1 if 1 in self.results else max(self.results)


# ---- tables


def grid(hosts: Iterable[tuple[str, Iterable[Tried]]]) -> str:
    """A line for each release, and a column for each step that one of them came to."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for title, tried in hosts:
        for each in tried:
            rows.setdefault((title, each.version), {}).update(each.steps())
    steps = [step for step in STEPS if any(step in row for row in rows.values())]
    lines = [["host", "release", *steps]]
    lines += [[title, version, *(row.get(step, "-") or "yes" for step in steps)]
              for (title, version), row in rows.items()]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "".join(f"| {' | '.join(map(str.ljust, line, widths))} |\n" for line in lines)


def legend() -> str:
    return "".join(f"{step}: {words}\n" for step, words in STEPS.items())


def spans(versions: list[str]) -> Iterator[str]:
    """2.6.0, 2.7.1 and 2.8.0 are "2.6 to 2.8"; others are as they are."""
    minors = [re.fullmatch(r"(\d+)\.(\d+)\.\d+", version) for version in versions]
    numbers = sorted((int(minor[1]), int(minor[2])) for minor in minors if minor)
    first, last = numbers[0] if numbers else (0, 0), numbers[-1] if numbers else (0, 0)
    if len(versions) > 1 and numbers == [(first[0], minor) for minor in range(first[1], last[1] + 1)] and all(minors):
        return iter([f"{first[0]}.{first[1]} to {last[0]}.{last[1]}"])
    return iter(versions)


def row(host: dict) -> str:
    ways: dict[str, list[str]] = {}
    for tried in kept(host):
        ways.setdefault(tried.how, []).append(tried.version)
    tried = "; ".join(f"{', '.join(spans(versions))}: {how}" for how, versions in ways.items())
    return f"| {host['title']} | {tried or 'there is no hook to try'} | {host['line']} | {host['lost']} |\n"


def table_of_hosts(hosts: list[dict]) -> str:
    head = "| host | tried | to switch it on | what is lost |\n| --- | --- | --- | --- |\n"
    return head + "".join(map(row, hosts))


def table_of_pytorch(hosts: list[dict]) -> str:
    lines = "| PyTorch | CUDA | the shim |\n|---|---|---|\n"
    tried = kept(next(host for host in hosts if host["name"] == "torch"))
    for each in tried:
        if each.cuda:
            ways = ", ".join(other.how for other in tried if other.version == each.version)
            lines += f"| {each.version} | {each.cuda} | {ways} |\n"
    return lines


PAGES = {ROOT / "docs/frameworks.md": table_of_hosts, ROOT / "docs/pytorch.md": table_of_pytorch}
MARKED = re.compile(r"(<!-- (?:hosts|pytorch releases) -->\n).*?(<!-- end of \w+ -->)", re.DOTALL)


def pages_with(hosts: list[dict]) -> dict[Path, str]:
    """Each page that does not have this record's table, as it should be."""
    wrong = {}
    for page, table in PAGES.items():
        text = page.read_text(encoding="utf-8")
        found = MARKED.search(text)
        if found is None:
            sys.exit(f"{page.name} has no place for the table")
        wanted = text[: found.start()] + found[1] + table(hosts) + found[2] + text[found.end() :]
        if wanted != text:
            wrong[page] = wanted
    return wrong


def write_pages(hosts: list[dict]) -> None:
    for page, text in pages_with(hosts).items():
        page.write_text(text, encoding="utf-8")
