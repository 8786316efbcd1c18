# SPDX-License-Identifier: Apache-2.0
"""Tells Prometheus what a machine's processes hold: the groups that share its devices, and the recordings in a folder.

python -m gpupool.launch.metrics --records /run/gpupool/records --listen 0.0.0.0:9837

Recordings come from GPUPOOL_RECORD. `gpupool export --prometheus` reads them anew for each request; the file's name is
the label "recording". Groups come from `gpupool share`. A recording or group that cannot be read is counted and left
out.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from .._command import PROGRAM

_GROUP = {
    "limit_bytes": "What the members of a group may take together.",
    "used_bytes": "What they have taken.",
    "total_bytes": "The memory of the device.",
    "limbo_bytes": "What dead members have left, and the device does not show free yet.",
    "foreign_bytes": "What others hold on the device.",
}
_MEMBER = {
    "live_bytes": "Bytes in a member's live blocks, as of when it was asked last.",
    "reserved_bytes": "Physical memory that it holds.",
    "guaranteed_bytes": "What is its own of the group's memory.",
}


class _Page:
    """Families of metrics, each with all of its samples together, as the format requires."""

    def __init__(self) -> None:
        self._heads: dict[str, list[str]] = {}
        self._samples: dict[str, list[str]] = {}

    def add(self, family: str, kind: str, words: str, labels: dict[str, object], value: object) -> None:
        """One sample."""
        self._heads.setdefault(family, [f"# HELP {family} {words}", f"# TYPE {family} {kind}"])
        text = ",".join(f'{name}="{_escaped(str(each))}"' for name, each in labels.items())
        self._samples.setdefault(family, []).append(f"{family}{{{text}}} {value}" if text else f"{family} {value}")

    def add_text(self, text: str, label: str, value: str) -> None:
        """Adds a whole page, with one more label on each sample."""
        family = ""
        for line in text.splitlines():
            head = re.match(r"# (?:HELP|TYPE) (\w+)", line)
            if head is not None:
                family = head[1]
                heads = self._heads.setdefault(family, [])
                if line.split()[:2] not in [known.split()[:2] for known in heads]:
                    heads.append(line)
            elif line and family:
                sample = re.sub(r"^(\w+)\{", lambda found: f'{found[1]}{{{label}="{_escaped(value)}",', line, count=1)
                self._samples.setdefault(family, []).append(sample)

    def text(self) -> str:
        """The page."""
        lines = []
        for family, heads in self._heads.items():
            lines += [*heads, *self._samples.get(family, [])]
        return "".join(f"{line}\n" for line in lines)


def page(records: Path | None) -> str:
    """The answer to Prometheus."""
    made, failed = _Page(), 0
    shared = _command("share", "--json")
    for line in (shared or "").splitlines():
        _add_group(made, json.loads(line))
    failed += shared is None
    for file in sorted(records.glob("*.gpt")) if records is not None else ():
        text = _command("export", str(file), "--prometheus")
        failed += text is None
        made.add_text(text or "", "recording", file.stem)
    made.add("gpupool_unread", "gauge", "Recordings, and lists of groups, that could not be read.", {}, failed)
    return made.text()


def _add_group(made: _Page, group: dict[str, Any]) -> None:
    labels = {"group": group["group"], "device": group["device"]}
    for name, words in _GROUP.items():
        if name in group:
            made.add(f"gpupool_share_{name}", "gauge", words, labels, group[name])
    made.add("gpupool_share_members", "gauge", "Members of a group.", labels, len(group["members"]))
    for member in group["members"]:
        who = {**labels, "slot": member["slot"], "pid": member["pid"], "name": member["name"]}
        for name, words in _MEMBER.items():
            made.add(f"gpupool_share_member_{name}", "gauge", words, who, member[name])


def _command(*arguments: str) -> str | None:
    try:
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=True)
    except subprocess.SubprocessError as error:
        words = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        print(f"gpupool: {arguments[0]}: {words[-1] if words else error}", file=sys.stderr, flush=True)
        return None
    return done.stdout


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no address and port, such as 0.0.0.0:9837")
    return host, int(port)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m gpupool.launch.metrics", description="Answers Prometheus for all processes of a machine."
    )
    parser.add_argument("--records", metavar="FOLDER", type=Path, help="the folder of recordings, NAME.gpt")
    parser.add_argument("--listen", metavar="HOST:PORT", type=_address, help="answer GET /metrics; else print it once")
    given = parser.parse_args()
    if given.records is not None and not given.records.is_dir():
        parser.error(f"there is no folder {given.records}")
    if not PROGRAM.exists():
        parser.error("this installation is without the command gpupool, which reads recordings")
    if given.listen is None:
        sys.stdout.write(page(given.records))
        return

    class Answer(BaseHTTPRequestHandler):
        timeout = 10
        """Seconds that a client may take."""

        def do_GET(self) -> None:
            """/metrics, and nothing else."""
            if self.path != "/metrics":
                self.send_error(404, "There is /metrics, and nothing else")
                return
            body = page(given.records).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Logs nothing: Prometheus asks all the time."""

    with HTTPServer(given.listen, Answer) as server:
        print(f"gpupool: listening on port {server.server_address[1]}, path /metrics", file=sys.stderr, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
