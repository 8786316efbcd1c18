# SPDX-License-Identifier: Apache-2.0
"""gpupool.torch.sleep, and what engines find in the place of their own, with stand-ins for PyTorch, torch_memory_saver
and vLLM, and the simulated device for the GPU. Each test is a program of its own."""

import importlib.metadata
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ENGINES = Path(__file__).parent / "engines"

SETUP = """
import gpupool, gpupool.frameworks, gpupool.sim, torch
gpupool.frameworks._check_gpu = lambda: None
gpupool.sim.configure(data=True, capacity_bytes=1 << 30)
MIB = 1 << 20
def free():
    return gpupool.device_info(0, "sim").free_bytes
def refused(kind, call, *arguments, **settings):
    try:
        call(*arguments, **settings)
    except kind as error:
        return str(error)
    raise AssertionError("it was done")
"""


def works(program: str, *, saver: bool = False, **environment: str) -> str:
    """What it prints."""
    path = [str(ENGINES), *([str(ENGINES / "with_saver")] if saver else [])]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SETUP + textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "GPUPOOL_BACKEND": "sim", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == "" and done.returncode == 0
    return done.stdout


def test_regions_sleep_by_tag() -> None:
    works("""
        from gpupool.torch import sleep
        whole = free()
        with sleep.region("weights", enable_cpu_backup=True):
            weights = torch.empty(6 * MIB).fill_(7)
        with sleep.region("kv_cache"):
            cache = torch.empty(10 * MIB).fill_(9)
        with sleep.region():
            default = torch.empty(MIB)
        address = weights.data_ptr()
        awake = free()
        assert awake == whole - 18 * MIB, whole - awake
        slept = sleep.pause("weights")
        assert (slept.pools, slept.saved_bytes, slept.dropped_bytes) == (1, 6 * MIB, 0)
        assert free() == awake + 6 * MIB
        slept = sleep.pause()
        assert (slept.pools, slept.saved_bytes, slept.dropped_bytes) == (2, 0, 12 * MIB)
        assert free() == whole
        assert sleep.pause().pools == sleep.pause("weights").pools == sleep.pause("nobody's").pools == 0
        sleep.resume("weights")
        assert weights.data_ptr() == address and weights.bytes() == bytes([7]) * (6 * MIB)
        sleep.resume()
        assert sleep.resume().pools == 0
        assert free() == awake
    """)


def test_what_is_cached_is_not_saved() -> None:
    works("""
        from gpupool.torch import sleep
        with sleep.region("weights", enable_cpu_backup=True):
            kept, passing = torch.empty(4 * MIB).fill_(1), torch.empty(20 * MIB)
            del passing
        assert sleep.pause().saved_bytes == 4 * MIB
        sleep.resume()
        with sleep.region("weights", enable_cpu_backup=True):
            again = torch.empty(20 * MIB).fill_(2)   # in the same segment, which is kept from now on
        assert sleep.pause().saved_bytes == 24 * MIB
        sleep.resume()
        assert kept.bytes()[:1] == b"\\1" and again.bytes() == b"\\2" * (20 * MIB)
        pool = sleep.mem_pool("weights", keep=True)
        del kept, again
        pool.empty_cache()
        assert gpupool.default_pool(0).memory_reserved() == 0 and free() == 1 << 30
    """)


def test_both_kinds_of_a_tag_are_apart() -> None:
    works("""
        from gpupool.torch import sleep
        with sleep.region("t", enable_cpu_backup=True):
            kept = torch.empty(2 * MIB).fill_(1)
        with sleep.region("t"):
            lost = torch.empty(2 * MIB)
        slept = sleep.pause("t")
        assert (slept.pools, slept.saved_bytes, slept.dropped_bytes) == (1, 2 * MIB, 2 * MIB)
        sleep.resume("t")
        assert kept.bytes() == b"\\1" * (2 * MIB)
    """)


def test_a_pause_that_fails_changes_nothing() -> None:
    works("""
        from gpupool.torch import sleep
        calls = []
        sleep.register_tag_hooks("a", lambda: calls.append("before"), lambda: calls.append("after"))
        with sleep.region("a", enable_cpu_backup=True):
            first = torch.empty(4 * MIB).fill_(3)
        with sleep.region("b"):
            second = torch.empty(4 * MIB)
        awake = free()
        gpupool.sim.script("unmap:2", device=0)
        refused(gpupool.DriverError, sleep.pause)
        gpupool.sim.script("", device=0)
        assert free() == awake and first.bytes() == b"\\3" * (4 * MIB)
        assert calls == ["before", "after"], calls
        sleep.pause()
        assert calls == ["before", "after", "before"]
        gpupool.sim.script("create:2", device=0)
        refused(gpupool.Error, sleep.resume)
        gpupool.sim.script("", device=0)
        assert free() == 1 << 30 and len(calls) == 3
        sleep.resume()
        assert calls[3:] == ["after"] and first.bytes() == b"\\3" * (4 * MIB)
    """)


def test_s29_saved_bytes_can_be_read_while_paused() -> None:
    works("""
        from gpupool.torch import sleep
        with sleep.region("w", enable_cpu_backup=True):
            tensor = torch.empty(MIB, dtype=torch.int64).fill_(5)
        with sleep.region("d"):
            lost = torch.empty(MIB)
        refused(gpupool.UnavailableError, sleep.get_cpu_backup, tensor)
        sleep.pause()
        saved = sleep.get_cpu_backup(tensor.view((1024, 1024)))
        assert saved.shape == (1024, 1024) and saved.bytes() == b"\\5" * (8 * MIB)
        view = sleep.get_cpu_backup(tensor, zero_copy=True)
        assert view.bytes() == saved.bytes() and view.data_ptr() != saved.data_ptr()
        refused(gpupool.UnavailableError, sleep.get_cpu_backup, lost)
        strided = torch.Tensor(tensor.data_ptr(), 8, torch.uint8, owner="strided")
        assert "contiguous" in refused(ValueError, sleep.get_cpu_backup, strided)
        assert "no tag" in refused(ValueError, sleep.get_cpu_backup, saved)
        sleep.resume()
        assert tensor.bytes() == saved.bytes()
    """)


def test_backups_of_several_pieces() -> None:
    works("""
        from gpupool.torch import sleep
        with sleep.region("w", enable_cpu_backup=True):
            tensor = torch.empty(300 * MIB).fill_(6)
        sleep.pause()
        assert "5 pieces" in refused(ValueError, sleep.get_cpu_backup, tensor, zero_copy=True)
        assert sleep.get_cpu_backup(tensor).bytes() == b"\\6" * (300 * MIB)
        sleep.resume()
    """)


def test_graphs_are_captured_into_tags() -> None:
    works("""
        from gpupool.torch import sleep
        one, two = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with sleep.cuda_graph(one, stream="s", capture_error_mode="relaxed", tag="cuda_graph"):
            first = torch.empty(4 * MIB)
        with sleep.cuda_graph(two, tag="cuda_graph", pool=(0, 77)):
            second = torch.empty(4 * MIB)
        assert torch.cuda.captures[0][2:] == ("s", "relaxed")
        assert torch.cuda.captures[0][1] != torch.cuda.captures[1][1]
        with sleep.cuda_graph(torch.cuda.CUDAGraph(), tag="cuda_graph", pool=(0, 77)):
            pass
        assert torch.cuda.captures[1][1] == torch.cuda.captures[2][1]
        assert sleep.pause("cuda_graph").released_bytes == 8 * MIB
        sleep.resume()
    """)


def test_disable_allocates_outside_of_tags() -> None:
    works("""
        from gpupool.torch import sleep
        with sleep.region("t"):
            with sleep.disable():
                outside = torch.empty(4 * MIB)
            inside = torch.empty(4 * MIB)
        assert sleep.pause().released_bytes == 4 * MIB
        refused(ValueError, sleep.disable(dispose_mem_pool_after_use=False).__enter__)
    """)


def test_settings() -> None:
    works("""
        from gpupool.torch.sleep import torch_memory_saver as saver
        assert saver.enabled and saver.hook_mode == "torch"
        saver.hook_mode = "preload"
        assert saver.hook_mode == "preload"
        refused(ValueError, setattr, saver, "hook_mode", "none")
        saver.retain_cpu_backup = True
        with saver.region("w", enable_cpu_backup=True, cpu_backup_backend="pinned"):
            tensor = torch.empty(4 * MIB)
        saver.pause()
        saver.resume()
        (pool,) = gpupool.frameworks._torch_tags.pools_of("w")
        stats = gpupool._native.ffi.new("gpupool_stats_t *")
        stats.struct_size = gpupool._native.ffi.sizeof("gpupool_stats_t")
        assert gpupool._native.lib.gpupool_stats(pool, stats) == 0 and stats.backup_bytes == 4 * MIB
        saver.memory_margin_bytes = (1 << 30) - 6 * MIB
        assert saver.memory_margin_bytes == (1 << 30) - 6 * MIB
        with saver.region("w"):
            refused(torch.cuda.OutOfMemoryError, torch.empty, 8 * MIB)
        saver.memory_margin_bytes = 0
        refused(ValueError, setattr, saver, "memory_margin_bytes", -1)
        refused(ValueError, lambda: saver.cuda_graph(None, cpu_backup_backend="mmap").__enter__())
        for settings in ({"enable_disk_backup": True}, {"cpu_backup_backend": "mmap"}):
            refused(ValueError, saver.region("w", **settings).__enter__)
        refused(ValueError, saver.set_disk_backup_dir, "/tmp")
        for tag in ("", "x" * 64):
            assert "1 to 63 bytes" in refused(ValueError, saver.region(tag).__enter__)
    """)


def test_s26_expandable_segments_need_no_switching_with_the_shim() -> None:
    works(
        """
        from gpupool.torch import sleep
        assert "expandable_segments" in refused(RuntimeError, sleep.region("w").__enter__)
        torch.cuda._backend = "gpupool"
        with sleep.region("w"):
            tensor = torch.empty(MIB)
        torch.cuda._backend = "pluggable"
        assert "pluggable" in refused(RuntimeError, sleep.region("w").__enter__)
        """,
        PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True",
    )


def test_sleeping_memory_is_not_handed_out() -> None:
    # It comes from a C++ exception, which a stand-in in Python cannot catch: the cache has no room for this.
    works("""
        from gpupool.torch import sleep
        with sleep.region("w"):
            tensor = torch.empty(MIB)
        pool = gpupool.frameworks._torch_tags.pools_of("w")[0]
        sleep.pause("w")
        from gpupool._native import ffi, lib
        assert lib.gpupool_malloc(pool, 512, 0, ffi.new("gpupool_ptr_t *")) == gpupool.Status.ASLEEP
    """)


@pytest.mark.parametrize("saver", [False, True])
def test_it_takes_the_place_of_torch_memory_saver(saver: bool) -> None:
    works(
        """
        gpupool.install("torch_memory_saver")
        assert gpupool.frameworks.installed() == ("torch_memory_saver",)
        import torch_memory_saver
        from gpupool.torch import sleep
        assert torch_memory_saver.torch_memory_saver is sleep.torch_memory_saver
        assert torch_memory_saver.configure_subprocess is sleep.configure_subprocess
        gpupool.install("torch_memory_saver")
        """,
        saver=saver,
    )


@pytest.mark.parametrize("saver", [False, True])
def test_the_environment_puts_it_there(saver: bool) -> None:
    works(
        """
        import torch_memory_saver
        assert type(torch_memory_saver.torch_memory_saver).__module__.startswith("gpupool.")
        with torch_memory_saver.torch_memory_saver.region():
            tensor = torch.empty(MIB)
        assert torch_memory_saver.torch_memory_saver.pause().pools == 1
        """,
        saver=saver,
        GPUPOOL_INSTALL="torch_memory_saver",
    )


def test_what_is_in_use_is_not_replaced() -> None:
    works(
        """
        import torch_memory_saver
        torch_memory_saver.torch_memory_saver.use()
        assert "too late" in refused(RuntimeError, gpupool.install, "torch_memory_saver")
        assert type(torch_memory_saver.torch_memory_saver).__name__ == "_Saver"
        """,
        saver=True,
    )


def test_an_install_that_fails_is_undone() -> None:
    works(
        """
        import torch_memory_saver
        before = torch_memory_saver.torch_memory_saver
        import gpupool.frameworks.vllm
        gpupool.frameworks.vllm.put = lambda: 1 / 0
        refused(RuntimeError, gpupool.install, "torch_memory_saver", "vllm")
        assert torch_memory_saver.torch_memory_saver is before and torch_memory_saver.other == "stays"
        assert not hasattr(torch_memory_saver, "configure_subprocess")
        """,
        saver=True,
    )


def test_programs_that_are_started_have_it_too() -> None:
    works("""
        import os, subprocess, sys
        from gpupool.torch import sleep
        os.environ.pop("GPUPOOL_INSTALL", None)
        with sleep.configure_subprocess():
            assert os.environ["GPUPOOL_INSTALL"] == "torch_memory_saver"
            with sleep.configure_subprocess():
                assert os.environ["GPUPOOL_INSTALL"] == "torch_memory_saver"
            child = "import gpupool.frameworks._environment as e; print(list(e._FINDER.waiting))"
            assert "torch_memory_saver" in subprocess.check_output([sys.executable, "-c", child], text=True)
        assert "GPUPOOL_INSTALL" not in os.environ
        os.environ["GPUPOOL_INSTALL"] = "cupy"
        with sleep.configure_subprocess():
            assert os.environ["GPUPOOL_INSTALL"] == "cupy,torch_memory_saver"
        assert os.environ["GPUPOOL_INSTALL"] == "cupy"
    """)


def test_vllms_allocator() -> None:
    works("""
        import vllm.device_allocator
        gpupool.install("vllm")
        allocator = vllm.device_allocator.get_mem_allocator_instance()
        assert allocator.get_current_usage() == 0
        with allocator.use_memory_pool(tag="weights"):
            weights = torch.empty(6 * MIB).fill_(1)
        with allocator.use_memory_pool(tag="kv_cache"):
            cache = torch.empty(8 * MIB).fill_(2)
        with allocator.use_memory_pool():
            other = torch.empty(2 * MIB).fill_(3)
        assert allocator.get_current_usage() == 16 * MIB
        allocator.sleep(offload_tags=("weights",))            # level 1
        assert free() == 1 << 30 and allocator.get_current_usage() == 16 * MIB
        allocator.wake_up(["weights"])
        assert weights.bytes() == b"\\1" * (6 * MIB) and free() == (1 << 30) - 8 * MIB   # the default tag comes too
        allocator.wake_up(["weights"])
        allocator.wake_up()
        assert free() == (1 << 30) - 16 * MIB
        other.fill_(3)
        allocator.sleep()                                     # the default tag only
        allocator.wake_up(None)
        assert other.bytes() == b"\\3" * (2 * MIB)
        allocator.discard("kv_cache")
        assert free() == (1 << 30) - 8 * MIB
        allocator.wake_up(["kv_cache"])
        allocator.sleep(())                                   # level 2
        allocator.wake_up()
    """)


def test_vllm_poisons_what_was_dropped_where_asked() -> None:
    works(
        """
        allocator = gpupool.vllm.allocator_instance()
        with allocator.use_memory_pool("kv_cache"):
            cache = torch.empty(2 * MIB).fill_(2)
        allocator.sleep(())
        allocator.wake_up()
        assert cache.bytes() == b"\\xff" * (2 * MIB)
        """,
        VLLM_POISON_DISCARDED_PAGES="1",
    )


def test_s23_seventy_percent_inside_and_seventy_outside() -> None:
    # As test_python_error of vLLM's tests.
    works("""
        allocator = gpupool.vllm.allocator_instance()
        with allocator.use_memory_pool():
            inside = torch.empty(700 * MIB).fill_(4)
        allocator.sleep()
        pool = gpupool.default_pool(0)
        outside = pool.malloc(700 * MIB)
        refused(gpupool.OutOfMemoryError, allocator.wake_up)
        pool.free(outside)
        allocator.wake_up()
        assert inside.bytes() == b"\\4" * (700 * MIB)
    """)


def test_vllms_backend() -> None:
    works("""
        from vllm.device_allocator.sleep_mode_backend import SleepModeBackend, SleepModeBackendFactory as factory
        gpupool.vllm.register()
        gpupool.vllm.register()
        kind = factory.get_backend_class("gpupool")
        assert issubclass(kind, SleepModeBackend) and kind.is_supported()
        assert kind.preserves_communicators() and kind.preserves_compiled_artifacts()
        assert not kind.supports_durable_storage()
        backend = kind()
        import vllm.device_allocator
        with vllm.device_allocator.get_mem_allocator_instance().use_memory_pool("weights"):
            weights = torch.empty(6 * MIB).fill_(1)
        backend.suspend(level=1)
        assert backend.state() == "SUSPENDED" and free() == 1 << 30
        gpupool.sim.script("create:1", device=0)
        refused(gpupool.Error, backend.resume)
        gpupool.sim.script("", device=0)
        assert backend.state() == "SUSPENDED"
        backend.resume()
        assert backend.state() == "RUNNING" and weights.bytes() == b"\\1" * (6 * MIB)
        backend.discard(("weights",))
        assert backend.state() == "SUSPENDED"
        backend.resume(["weights"])
        refused(ValueError, backend.suspend, 3)
    """)


def test_vllms_runtime_and_graphs_survive_each_level() -> None:
    works("""
        from gpupool.frameworks.vllm_backend import GpupoolBackend
        backend = GpupoolBackend()
        import vllm.device_allocator
        allocator = vllm.device_allocator.get_mem_allocator_instance()
        with allocator.use_memory_pool("runtime"):
            buffers = torch.empty(2 * MIB).fill_(1)
        with allocator.cudagraph_pool() as pool, torch.cuda.graph(torch.cuda.CUDAGraph(), pool=pool):
            graphs = torch.empty(4 * MIB).fill_(2)
        for level in (1, 2):
            backend.suspend(level)
            assert free() == 1 << 30
            backend.resume()
            assert buffers.bytes() == b"\\1" * (2 * MIB) and graphs.bytes() == b"\\2" * (4 * MIB)
    """)


EXAMPLE = Path(__file__).parents[3] / "examples" / "pytorch" / "elastic.py"


@pytest.mark.skipif(not EXAMPLE.exists(), reason="a source archive of the package alone")
def test_the_example_runs() -> None:
    done = works(f"""
        import runpy, sys
        sys.argv = ["elastic.py", "0.05"]
        runpy.run_path({str(EXAMPLE)!r}, run_name="__main__")
    """)
    assert "step 2: the trainer had 80 MiB more" in done and "MiB went back to the device" in done


def test_vllm_finds_the_backend() -> None:
    (found,) = importlib.metadata.entry_points(group="vllm.general_plugins", name="gpupool")
    assert found.value == "gpupool.vllm:register"


def test_a_vllm_that_asks_for_no_allocator() -> None:
    works("""
        import vllm.device_allocator
        del vllm.device_allocator.get_mem_allocator_instance
        assert "gpupool needs vLLM 0.23" in refused(RuntimeError, gpupool.install, "vllm")
        assert gpupool.frameworks.installed() == ()
    """)


def test_older_vllms_have_no_backends() -> None:
    works("""
        import sys
        sys.modules["vllm.device_allocator.sleep_mode_backend"] = None
        gpupool.vllm.register()
    """)
