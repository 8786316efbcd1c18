# SPDX-License-Identifier: Apache-2.0
"""A piece of a program, recorded to a file of its own, and what the command says of it."""

from __future__ import annotations

import gc
import json
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from ._command import PROGRAM, check_command
from ._recording import record_start, record_stop


class Observed:
    """Records what happens inside `with`; afterwards it answers, until close(). Raises InvalidArgumentError if a
    recording is in progress, RuntimeError if this installation lacks the command."""

    def __init__(self) -> None:
        check_command()
        self._folder = tempfile.TemporaryDirectory(prefix="gpupool_")
        self._path = Path(self._folder.name) / "recording.gpt"

    def __enter__(self) -> Observed:
        record_start(self._path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        gc.collect()  # what only garbage keeps alive is not live
        record_stop()

    def close(self) -> None:
        self._folder.cleanup()

    def ask(self, *words: str) -> str:
        """What a command says of the recording. Raises RuntimeError."""
        done = subprocess.run(
            [PROGRAM, *words, self._path], capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return done.stdout

    def pools(self) -> list[dict[str, Any]]:
        """What `gpupool report --json` says, of each pool that something was allocated from."""
        try:
            return [json.loads(line) for line in self.ask("report", "--json", "--no-fit").splitlines()]
        except RuntimeError as error:
            if str(error).endswith(": nothing was allocated"):
                return []
            raise

    def page(self) -> str:
        """The page of `gpupool report`. Raises RuntimeError, also if nothing was allocated."""
        page = self._path.with_suffix(".html")
        self.ask("report", "--no-fit", "-o", str(page))
        return page.read_text(encoding="utf-8")
