# SPDX-License-Identifier: Apache-2.0
"""The plug-in for pytest, in sessions of pytest's own."""

import pytest

pytest_plugins = ["pytester"]

PROLOGUE = """
import gpupool, pytest

@pytest.fixture(scope="module")
def pool():
    with gpupool.Pool("sim") as made:
        yield made
"""


def run(pytester: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    """In a process of its own, where pytest finds the plug-in by itself."""
    pytester.makepyfile(PROLOGUE + tests)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers", *options)


def test_more_than_the_limit(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
def grow(pool):
    with gpupool.tag("kv cache"):
        return pool.alloc("1MiB"), pool.alloc("1MiB"), pool.alloc("1MiB")

@pytest.mark.gpupool_limit("2 MiB")
def test_too_much(pool):
    grow(pool)

@pytest.mark.gpupool_limit("3 MiB")
def test_just_enough(pool):
    grow(pool)
""",
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "gpupool: pool * on sim:0: 3 MiB were live at once, more than the limit of 2 MiB, by",
            '  3 MiB in 3 blocks, tag "kv cache"',
            "    grow (*test_more_than_the_limit.py:*)",
            "    test_too_much (*test_more_than_the_limit.py:*)",
        ]
    )


def test_what_outlives_its_test(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
kept = []

@pytest.fixture
def weights(pool):
    with pool.alloc("4MiB") as block:
        yield block

@pytest.mark.gpupool_no_leaks
def test_leak(pool, weights):
    kept.append(pool.alloc("1MiB"))

@pytest.mark.gpupool_no_leaks
def test_clean(pool, weights):
    block = pool.alloc("1MiB")
    cycle = [block]
    cycle.append(cycle)

@pytest.mark.gpupool_no_leaks
@pytest.mark.gpupool_limit("4 MiB")
def test_limit_counts_fixtures(pool, weights):
    pool.alloc("1MiB").free()

@pytest.mark.gpupool_no_leaks
def test_nothing():
    pass

def test_unmarked(pool):
    kept.append(pool.alloc("1MiB"))
""",
    )
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(
        [
            "gpupool: pool * on sim:0: 1 MiB that the test allocated are live at its end, by",
            "  1 MiB in 1 block",
            "    test_leak (*test_what_outlives_its_test.py:*)",
        ]
    )
    result.stdout.fnmatch_lines(["  4 MiB in 1 block, from before the test"])
    result.stdout.no_fnmatch_line("*/_pytest/*")


def test_what_each_call_site_may_leave(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
kept = []

def workspace(pool, size):
    kept.append(pool.alloc(size))

@pytest.mark.gpupool_no_leaks("1 MiB")
def test_within(pool):
    workspace(pool, "1MiB")
    kept.append(pool.alloc("1MiB"))

@pytest.mark.gpupool_no_leaks("1 MiB")
def test_beyond(pool):
    for _ in range(2):
        workspace(pool, "1MiB")
    kept.append(pool.alloc("1MiB"))
""",
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "gpupool: pool * on sim:0: 2 MiB that the test allocated are live at its end, by",
            "  2 MiB in 2 blocks",
            "    workspace (*",
        ]
    )
    result.stdout.no_fnmatch_line("  1 MiB in 1 block")


def test_failures_of_the_test_itself_come_first(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
@pytest.mark.gpupool_no_leaks
def test_wrong(pool):
    block = pool.alloc("1MiB")
    assert 1 + 1 == 3

@pytest.mark.gpupool_no_leaks
def test_after(pool):
    pool.alloc("1MiB").free()
""",
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*assert (1 + 1) == 3"])
    result.stdout.no_fnmatch_line("*live at its end*")


def test_sizes_that_are_none(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
@pytest.mark.gpupool_limit("much")
def test_much(pool): pass

@pytest.mark.gpupool_limit
def test_bare(pool): pass

@pytest.mark.gpupool_no_leaks("1 MiB", "2 MiB")
def test_two(pool): pass
""",
    )
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["*much*", "*gpupool_limit takes one size*", "*gpupool_no_leaks takes one size*"])


def test_a_recording_in_progress_is_said(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
@pytest.mark.gpupool_no_leaks
def test_recorded(pool, tmp_path):
    pass

@pytest.fixture(autouse=True)
def recording(tmp_path):
    gpupool.record_start(tmp_path / "own.gpt")
    yield
    gpupool.record_stop()
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*InvalidArgumentError*record*"])
