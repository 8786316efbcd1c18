# SPDX-License-Identifier: Apache-2.0
"""What programs came to under each means: run.json, of which tools/runs_table.py makes the table in docs/run.md."""

import contextlib
import json
import subprocess
from pathlib import Path

RECORD = Path(__file__).with_name("run.json")


class NotHere(Exception):
    """What a case needs is not on this machine."""


def ask_nvidia_smi(what: str) -> str:
    try:
        found = subprocess.run(
            ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "no GPU"
    return found.stdout.splitlines()[0].strip()


class Record:
    """The rows of this run, by program and means."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], dict[str, str]] = {}

    @contextlib.contextmanager
    def of(self, program: str, means: str):
        """A row to fill: "outcome" in a few words, and "version". What ends with an exception has failed, unless the
        program is not here."""
        row = {"program": program, "version": "", "means": means, "outcome": ""}
        try:
            yield row
        except NotHere:
            raise
        except Exception:
            self.rows[program, means] = row | {"outcome": "**failed**"}
            raise
        self.rows[program, means] = row

    def write(self, path: Path) -> None:
        """Into the record that is there, where a row replaces the one of the same program and means."""
        known = json.loads((path if path.exists() else RECORD).read_text(encoding="utf-8"))
        about = {"card": ask_nvidia_smi("name"), "driver": ask_nvidia_smi("driver_version")}
        kept = [row for row in known["ran"] if (row["program"], row["means"]) not in self.rows]
        known["ran"] = kept + [row | about for row in self.rows.values()]
        path.write_text(json.dumps(known, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
