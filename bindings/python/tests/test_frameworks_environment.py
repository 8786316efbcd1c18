# SPDX-License-Identifier: Apache-2.0
"""GPUPOOL_INSTALL, GPUPOOL_CAP and `python -m gpupool`, with stand-ins for the frameworks."""

from pathlib import Path

from test_frameworks_install import FAKES, run

PROGRAM = """
import sys
import gpupool, gpupool.frameworks
gpupool.frameworks._check_gpu = lambda: None
assert "cupy" not in sys.modules
import cupy
assert cupy.cuda.get_allocator() is gpupool.cupy.allocator
assert cupy.__spec__.loader is cupy.__loader__ and "gpupool" not in type(cupy.__loader__).__module__
assert gpupool.frameworks.installed() == ("cupy",)
assert "warp" not in sys.modules
assert gpupool.default_pool(0).stats().limit_bytes == 3 << 30
print(__name__, sys.argv[1:])
"""


def test_a_framework_is_given_the_pool_when_it_is_imported() -> None:
    done = run("-c", PROGRAM, "x", GPUPOOL_INSTALL="warp, cupy", GPUPOOL_CAP="3GiB")
    assert (done.stdout, done.stderr) == ("__main__ ['x']\n", "")


def test_a_program_that_does_not_mention_gpupool() -> None:
    done = run("-c", "import sys; print('gpupool' in sys.modules)", GPUPOOL_INSTALL="cupy")
    assert (done.stdout, done.stderr) == ("True\n", "")
    done = run("-c", "import sys; print('gpupool' in sys.modules)")
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_a_package_that_cannot_be_imported_is_one_line(tmp_path: Path) -> None:
    # Any Python starts with this, also the pip that is to install what is missing.
    (tmp_path / "_cffi_backend.py").write_text("raise ModuleNotFoundError('No module named cffi')")
    done = run("-c", "print('on')", GPUPOOL_INSTALL="cupy", PYTHONPATH=str(tmp_path))
    words = "gpupool: GPUPOOL_INSTALL is set, and gpupool cannot be imported: No module named cffi\n"
    assert (done.returncode, done.stdout) == (0, "on\n")
    # Once for each installation that Python finds.
    assert set(done.stderr.splitlines(keepends=True)) == {words}
    assert run("-c", "print('on')", PYTHONPATH=str(tmp_path)).stderr == ""


def test_numba_goes_by_its_own_variable() -> None:
    done = run("-c", "import os; print(os.environ['NUMBA_CUDA_MEMORY_MANAGER'])", GPUPOOL_INSTALL="numba")
    assert (done.stdout, done.stderr) == ("gpupool.numba\n", "")


def test_a_framework_that_was_imported_before() -> None:
    program = (
        "import os, cupy, gpupool.frameworks as f\n"
        "f._check_gpu = lambda: None\n"
        "os.environ['GPUPOOL_INSTALL'] = 'cupy'\n"
        "from gpupool.frameworks._environment import activate\n"
        "activate(); activate()\n"
        "print(f.installed())"
    )
    done = run("-c", program)
    assert (done.stdout, done.stderr) == ("('cupy',)\n", "")


def test_what_cannot_be_installed_says_so() -> None:
    assert (
        "GPUPOOL_BACKEND=sim asks for the simulated device" in run("-c", "import cupy", GPUPOOL_INSTALL="cupy").stderr
    )
    assert 'did you mean "cupy"?' in run("-c", "import gpupool", GPUPOOL_INSTALL="cuppy").stderr
    assert "cap is 'x'" in run("-c", "import gpupool", GPUPOOL_CAP="x").stderr
    assert "No module named 'nowhere'" in run("-c", "import nowhere", GPUPOOL_INSTALL="cupy").stderr


FRAMEWORKS = ("cupy", "rmm", "warp", "numba", "cuda.core", "torch", "triton")
EACH = """
import importlib, importlib.util, sys
print("still runs")
for name in sys.argv[1:]:
    for attempt in (1, 2):
        try:
            importlib.import_module(name)
            print("imported", name)
        except ModuleNotFoundError as error:
            print("missing", name)
        except Exception as error:
            print(type(error).__name__, name, error)
        assert name not in sys.modules or importlib.util.find_spec(name) is not None
"""


def test_a7_a_typo_keeps_frameworks_from_being_imported() -> None:
    for variables, words in (
        ({"GPUPOOL_INSTALL": "tourch"}, 'gpupool knows no framework "tourch"; did you mean "torch"?'),
        ({"GPUPOOL_INSTALL": "cupy,tourch"}, 'gpupool knows no framework "tourch"'),
        ({"GPUPOOL_INSTALL": "cupy", "GPUPOOL_CAP": "40 percent"}, "cap is '40 percent'"),
    ):
        done = run("-c", EACH, "cupy", "numba", "json", **variables)
        lines = done.stdout.splitlines()
        assert lines[0] == "still runs"
        assert [line.split()[:2] for line in lines[1:]] == [
            ["ValueError", "cupy"],
            ["ValueError", "cupy"],
            ["ValueError", "numba"],
            ["ValueError", "numba"],
            ["imported", "json"],
            ["imported", "json"],
        ]
        assert all(words in line for line in lines[1:5])
        assert all(f"GPUPOOL_INSTALL={variables['GPUPOOL_INSTALL']}" in line for line in lines[1:5])
        assert done.stderr.count("\n") == 1 and words in done.stderr and "Traceback" not in done.stderr
        assert len(done.stderr) <= 160


def test_a7_every_framework_that_there_is_is_refused() -> None:
    plain = run("-c", EACH, *FRAMEWORKS, GPUPOOL_INSTALL="tourch").stdout
    for name in FRAMEWORKS:
        assert f"ValueError {name} " in plain or f"missing {name}\n" in plain
    assert "imported" not in plain
    assert plain.count("ValueError") >= 8


def test_a7_what_has_no_way_in_is_refused_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "jax.py").touch()
    path = f"{tmp_path}:{FAKES}"
    done = run("-c", EACH, "jax", GPUPOOL_INSTALL="jax", PYTHONPATH=path)
    assert "ValueError jax" in done.stdout and "JAX accepts no outside allocator" in done.stderr
    assert "imported jax" in run("-c", EACH, "jax", GPUPOOL_INSTALL="tourch", PYTHONPATH=path).stdout


def test_a7_tools_keep_working() -> None:
    for arguments in (("-m", "pip", "--version"), ("-c", "print('pip ')")):
        done = run(*arguments, GPUPOOL_INSTALL="tourch")
        assert done.returncode == 0 and done.stdout.startswith("pip ")
        assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr


def test_a7_a_framework_that_was_refused_stays_refused() -> None:
    """There is no GPU; a library that tries twice must not get the framework without the pool."""
    done = run("-c", EACH, "cupy", GPUPOOL_INSTALL="cupy")
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["still", "runs"], *[["RuntimeError", "cupy"]] * 2]
    assert all("GPUPOOL_BACKEND=sim" in line for line in lines[1:])
    assert done.stderr == ""


def test_a7_the_command_line_replaces_a_typo(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    done = run("-m", "gpupool", "--install", "cupy", "--cap", "3GiB", str(script), GPUPOOL_INSTALL="tourch")
    assert done.stdout == "__main__ []\n"


def test_hidden_gpus_are_left_alone() -> None:
    done = run("-c", "import cupy; print(cupy.state.emptied)", GPUPOOL_INSTALL="cupy", CUDA_VISIBLE_DEVICES="")
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_running_a_program(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    done = run("-m", "gpupool", "--cap", "3GiB", str(script), "--cap", "1")
    assert (done.stdout, done.stderr) == ("__main__ ['--cap', '1']\n", "")
    done = run(
        "-m", "gpupool", "--install", "cupy", "--cap", "3GiB", "-m", "program", "y", PYTHONPATH=f"{tmp_path}:{FAKES}"
    )
    assert (done.stdout, done.stderr) == ("__main__ ['y']\n", "")


def test_running_what_cannot_be_run() -> None:
    for arguments, message in (
        ((), "name a program"),
        (("nowhere.py",), "there is no nowhere.py"),
        (("--cap", "x", "nowhere.py"), "cap is 'x'"),
        (("--install", "cuppy", "nowhere.py"), 'did you mean "cupy"?'),
        (("--share", "a/b", "nowhere.py"), 'share is "a/b"'),
    ):
        done = run("-m", "gpupool", *arguments)
        assert done.returncode == 2 and message in done.stderr


def test_running_a_program_in_a_group(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import gpupool; print(gpupool.default_pool(0).stats().share_state.name)", encoding="utf-8")
    done = run("-m", "gpupool", "--share", "team", str(script), GPUPOOL_SHARE_DIR=str(tmp_path))
    assert (done.stdout, done.stderr) == ("SHARED\n", "")
