# SPDX-License-Identifier: Apache-2.0
"""The README's code runs, and the examples do and say how they are used."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import gpupool

HERE = Path(__file__).resolve().parent
README = HERE.parent / "README.md"
EXAMPLES = HERE.parents[2] / "examples" / "python"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
FRAMEWORKS = re.compile(r"\b(torch|cupy|jax|numba|rmm)\.")


needs_examples = pytest.mark.skipif(not EXAMPLES.exists(), reason="a source archive of the package alone")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_of_the_readme(number: int) -> None:
    block = BLOCKS[number]
    if FRAMEWORKS.search(block):
        pytest.skip("needs a framework")
    pytest.importorskip("numpy")
    done = run("-W", "error", "-c", block)
    assert (done.returncode, done.stderr) == (0, "")
    # What stands behind a print, after "#  ", is what it prints.
    promised = re.findall(r"^ *print\(.*\) +# (.*)$", block, re.MULTILINE)
    assert done.stdout.splitlines() == promised


def test_the_readme_has_blocks_that_run() -> None:
    assert sum(not FRAMEWORKS.search(block) for block in BLOCKS) >= 4


def test_the_readme_links_to_what_an_index_page_can_show() -> None:
    links = re.findall(r"\]\(([^)]*)\)", README.read_text(encoding="utf-8"))
    home = re.compile(r"https://github\.com/gpupool/gpupool/(?:blob|tree)/main/(.*)")
    paths = [match[1] for link in links if (match := home.fullmatch(link))]
    assert len(paths) == len(links) >= 5
    if EXAMPLES.exists():
        assert [path for path in paths if not (HERE.parents[2] / path).exists()] == []


def test_the_readme_names_what_there_is() -> None:
    text = README.read_text(encoding="utf-8")
    for owner, kind in (("pool", gpupool.Pool), ("buffer", gpupool.Buffer), ("array", gpupool.Array)):
        names = set(re.findall(rf"\b{owner}\.(\w+)", text))
        assert names, owner
        assert {name for name in names if not hasattr(kind, name)} == set()
    for name in re.findall(r"\bgpupool\.(\w+)\(", text):
        assert hasattr(gpupool, name), name


@needs_examples
@pytest.mark.parametrize(
    ("name", "usage"),
    [("picture.py", "usage: python picture.py TRACE.gz OUT.svg"), ("replay.py", "usage: python replay")],
)
def test_b_an_example_without_arguments(name: str, usage: str) -> None:
    done = run(EXAMPLES / name)
    assert done.returncode == 1
    assert done.stderr.startswith(usage) and "Traceback" not in done.stderr


@needs_examples
def test_the_examples_run(tmp_path: Path) -> None:
    assert "refused" in run(EXAMPLES / "basic.py").stdout
    pytest.importorskip("numpy")
    assert "numbers scaled on" in run(EXAMPLES / "kernel.py").stdout
    assert "8 turned away" in run(EXAMPLES / "service.py").stdout
    assert "nobody does: 0 MiB" in run(EXAMPLES / "elastic.py", "0.05").stdout
    trace, picture = tmp_path / "small.trace", tmp_path / "small.svg"
    trace.write_text("".join(f"a {i} {1 << 20} 0\n" for i in range(9)) + "f 3\n", encoding="utf-8")
    assert '"language":"python"' in run(EXAMPLES / "replay.py", trace).stdout.replace(" ", "")
    done = run(EXAMPLES / "picture.py", trace, picture)
    assert done.returncode == 0, done.stderr
    assert picture.read_text(encoding="utf-8").startswith("<svg")
