# SPDX-License-Identifier: Apache-2.0
"""%%gpupool, in a shell of IPython's."""

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest

import gpupool

testing = pytest.importorskip("IPython.core.interactiveshell")
capture = pytest.importorskip("IPython.utils.capture")


@pytest.fixture
def shell() -> Iterator[Any]:
    made = testing.InteractiveShell.instance()
    made.run_line_magic("load_ext", "gpupool")
    yield made
    made.reset()
    testing.InteractiveShell.clear_instance()


def shown(shell: Any, line: str, cell: str) -> Any:
    with capture.capture_output() as captured:
        shell.run_cell_magic("gpupool", line, cell)
    (output,) = captured.outputs[-1:]
    return output


def test_a_cell_shows_its_report(shell: Any) -> None:
    output = shown(
        shell,
        "--height 500",
        'import gpupool\npool = gpupool.Pool("sim")\nwith gpupool.tag("kv cache"):\n    block = pool.alloc("3MiB")\n'
        'pool.alloc("5MiB").free()\nprint("said")',
    )
    said = output.data["text/plain"]
    assert re.fullmatch(r"gpupool: pool \d+ on sim:0: 8 MiB live at the peak, 3 MiB at the end", said)
    frame = output.data["text/html"]
    assert frame.startswith('<iframe sandbox="allow-scripts" style="width:100%;height:500px;')
    page = html.unescape(re.search('srcdoc="([^"]*)"', frame).group(1))  # type: ignore[union-attr]
    assert page.startswith("<!doctype html>")
    assert "8 MiB were live in 2 blocks" in page
    assert "kv cache" in page
    assert shell.user_ns["block"].nbytes == 3 << 20  # the cell ran in the notebook


def test_a_cell_without_memory(shell: Any) -> None:
    """Nor with what others hold all the time."""
    block = gpupool.Pool("sim").alloc("1MiB")
    output = shown(shell, "", "1 + 1")
    assert output.data["text/plain"] == "gpupool: the cell allocated nothing"
    assert block.nbytes == 1 << 20


def test_a_cell_that_fails_ends_the_recording(shell: Any, tmp_path: Any) -> None:
    output = shown(shell, "", 'import gpupool\npool = gpupool.Pool("sim")\npool.alloc("1MiB").free()\n1 / 0')
    assert "1 MiB live at the peak" in output.data["text/plain"]
    gpupool.record_start(tmp_path / "next.gpt")
    gpupool.record_stop()
