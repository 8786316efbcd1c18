# SPDX-License-Identifier: Apache-2.0
"""install() and the environment, with stand-ins for the frameworks and the simulated device for the GPU. A process
installs once, so each test is a program of its own, which must end well and complain of nothing."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

FAKES = str(Path(__file__).parent / "fakes")

# install() refuses the simulated device, whose memory no GPU can use. The stand-ins use none.
SETUP = """
import gpupool, gpupool.frameworks
from gpupool.frameworks import installed
gpupool.frameworks._check_gpu = lambda: None
def refused(*names, **settings):
    try:
        gpupool.install(*names, **settings)
    except Exception as error:
        assert installed() == before, installed()
        print(type(error).__name__, error)
    else:
        raise AssertionError("it was installed")
before = ()
"""


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        env={**os.environ, "PYTHONPATH": FAKES, "GPUPOOL_BACKEND": "sim", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def works(program: str, **environment: str) -> str:
    """What it prints."""
    done = run("-c", SETUP + textwrap.dedent(program), **environment)
    assert done.stderr == "" and done.returncode == 0
    return done.stdout


def test_importing_gpupool_imports_no_framework() -> None:
    names = ("torch", "cupy", "numba", "cuda", "triton", "rmm", "warp", "jax", "gpupool.frameworks", "ctypes")
    done = run("-c", f"import sys, gpupool; print(set(sys.modules) & set({names}))")
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_all_on_one_pool() -> None:
    works("""
        import ctypes
        gpupool.install("cupy", "numba", "cuda.core", "triton", "rmm", "warp", cap="40%")
        assert installed() == ("cupy", "rmm", "warp", "triton", "cuda.core", "numba")
        import cupy, numba.cuda, cuda.core, triton, rmm, warp
        pool = gpupool.default_pool(0)
        assert pool.stats().limit_bytes == int(pool.device_info().total_bytes * 0.4)
        MIB = 1 << 20

        array = cupy.cuda.get_allocator()(MIB)
        assert pool.block_info(array.ptr).requested_bytes == MIB
        address = array.ptr
        del array
        assert pool.memory_allocated() == 0

        buffer = cuda.core.Device(0).memory_resource.allocate(MIB, stream=None)
        assert buffer.handle == address, "what CuPy freed, cuda.core got"
        buffer.mr.deallocate(buffer.handle, buffer.size, stream=None)

        manager = numba.cuda.cudadrv.driver._memory_manager()
        memory = manager.memalloc(MIB)
        assert pool.block_info(int(memory.pointer)).requested_bytes == MIB
        info = manager.get_memory_info()
        assert info.total == pool.stats().limit_bytes and info.free == info.total - MIB
        memory.free()
        assert pool.memory_allocated() == 0

        scratch = triton.runtime._allocation._allocator.get()(100, 128, None)
        assert pool.block_info(scratch.data_ptr()).stream == 0x70
        del scratch
        assert pool.memory_allocated() == 0

        resource = rmm.mr.get_per_device_resource(7)
        address = resource.allocate(MIB, 1)
        assert gpupool.default_pool(7).block_info(address).stream == 0
        resource.deallocate(address, MIB, 1)

        warped = warp.device.allocator
        address = warped.allocate(MIB)
        assert pool.memory_allocated() == MIB
        warped.deallocate(address, MIB)
        assert pool.memory_allocated() == 0
        assert pool.memory_reserved() <= 6 * MIB, "a segment for each of three streams"
        assert gpupool.sim.faults(0).count == 0
    """)


def test_streams_may_end() -> None:
    works("""
        gpupool.install("cuda.core", "rmm", "warp")
        import cuda.core, rmm, warp
        pool, owner = gpupool.default_pool(0), gpupool.Pool(0)
        resources = (rmm.mr.get_per_device_resource(0), cuda.core.Device(0).memory_resource)
        for allocate, free in (
            (resources[0].allocate, resources[0].deallocate),
            (lambda size, stream: resources[1].allocate(size, stream=stream).handle, resources[1].deallocate),
        ):
            stream = owner.stream()
            address = allocate(1 << 20, stream)
            assert pool.block_info(address).stream == int(stream)
            free(address, 1 << 20, stream)
            creates = pool.stats().driver.create.count
            assert allocate(1 << 20, stream) == address
            free(address, 1 << 20, stream)
            assert pool.stats().driver.create.count == creates
            stream.close()

        warp.device.stream = warp.Stream(0x60)
        address = warp.device.allocator.allocate(1000)
        assert pool.block_info(address).stream == 0x60
        warp.device.allocator.deallocate(address, 1000)
        streams = pool.stats().streams
        warp.device.stream = warp.Stream(None)
        assert warp.destroyed == [0x60] and pool.stats().streams == streams - 1
        warp.device.stream = warp.Stream(0x61, owner=False)
        warp.device.allocator.deallocate(warp.device.allocator.allocate(1000), 1000)
        warp.device.stream = warp.Stream(None)
        assert pool.stats().streams == streams, "others may go on using it"
        pool.synchronize()
        pool.empty_cache()
        assert pool.memory_reserved() == 0 and gpupool.sim.faults(0).count == 0
    """)


def test_cupy_tells_of_the_pool_and_releases_streams() -> None:
    works("""
        import cupy
        stream = cupy.Stream(0x50)
        gpupool.install("cupy")
        assert cupy.state.emptied == 1
        cupy.state.stream = stream.ptr
        array = gpupool.cupy.allocator(1000)
        pool, theirs = gpupool.default_pool(0), cupy.get_default_memory_pool()
        assert theirs.used_bytes() == 1024
        assert theirs.total_bytes() == pool.memory_reserved() == theirs.free_bytes() + 1024
        assert pool.stats().streams == 1
        del stream
        assert cupy.state.destroyed == [0x50] and pool.stats().streams == 0
        del array
        theirs.free_all_blocks()
        assert theirs.total_bytes() == 0 and theirs.n_free_blocks() == 0
        theirs.set_limit(size=1 << 30)
        assert theirs.get_limit() == 1 << 30
        theirs.set_limit(fraction=0.5)
        assert theirs.get_limit() == pool.stats().limit_bytes > 1 << 30
        theirs.set_limit()
        assert theirs.get_limit() == 0
        try: theirs.set_limit(1, 0.5)
        except ValueError as error: assert "one time" in str(error)
    """)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("refused()", 'ValueError name what to install: "cupy"'),
        ("refused('pytorch')", 'knows no framework "pytorch"; did you mean "torch"?'),
        ("refused('cupy', 'cuda_core')", 'did you mean "cuda.core"?'),
        ("refused('quux')", 'ValueError gpupool knows no framework "quux"; it knows'),
        ("refused('jax')", "gpupool.jax.share"),
        ("refused('tensorflow')", "TensorFlow accepts no outside allocator"),
        ("refused('cupy', cap='lots')", "ValueError cap is 'lots'; it can be"),
        ("refused('cupy', cap='120%')", "ValueError cap is '120%'; it can be"),
        ("refused('cupy', cap='9TiB')", "ValueError cap is 9895604649984 bytes, more than the 150754820096 bytes of"),
    ],
)
def test_bad_arguments(call: str, message: str) -> None:
    assert message in works(f"{call}\nassert gpupool.default_pool(0).stats().limit_bytes == 0")


def test_a_framework_that_is_missing() -> None:
    for name, package in (("cupy", "cupy"), ("cuda.core", "cuda"), ("torch", "torch")):
        found = works(f"""
            import sys
            sys.modules[{package!r}] = None
            import importlib.util
            found = importlib.util.find_spec
            def hidden(name, package=None):
                if name == {name!r}: raise ModuleNotFoundError(name)
                return found(name, package)
            importlib.util.find_spec = hidden
            refused("triton", {name!r})
            assert "triton" not in sys.modules
        """)
        assert "is not installed in this Python" in found


def test_there_is_no_gpu() -> None:
    program = "import gpupool\ntry: gpupool.install('cupy')\nexcept RuntimeError as error: print(error)"
    assert "GPUPOOL_BACKEND=sim asks for the simulated device" in run("-c", program).stdout
    hidden = run("-c", program, GPUPOOL_BACKEND="", CUDA_VISIBLE_DEVICES="")
    assert hidden.stdout.startswith("there is no GPU for gpupool to pool: ")


def test_too_late_and_allocators_of_others() -> None:
    assert "comes too late: Numba has set up CUDA" in works("""
        from numba.cuda.cudadrv import driver
        driver._memory_manager = driver.NumbaCUDAMemoryManager
        refused("cupy", "numba", cap="40%")
        assert gpupool.default_pool(0).stats().limit_bytes == 0
    """)
    assert "another library's memory manager (__main__.Theirs)" in works("""
        from numba.cuda.cudadrv import driver
        driver._memory_manager = type("Theirs", (), {})
        refused("numba")
    """)
    assert "CuPy already has another library's allocator" in works("""
        import cupy
        cupy.cuda.set_allocator(lambda size: None)
        refused("numba", "cupy")
    """)
    assert "RMM already has a PoolMemoryResource for device 0" in works("""
        import rmm
        rmm.resources[0] = type("PoolMemoryResource", (), {})()
        refused("rmm")
    """)
    assert "Warp already has another library's allocator (Theirs on" in works("""
        import warp
        warp.device.allocator = type("Theirs", (), {})()
        refused("warp")
    """)
    assert "gpupool needs Warp 1.15, which accepts allocators; this is 1.2.0" in works("""
        import warp
        del warp.set_device_allocator
        warp.__version__ = "1.2.0"
        destroy = warp.Stream.__del__
        refused("warp")
        assert warp.Stream.__del__ is destroy
    """)
    assert "gpupool needs RMM 25.12, whose streams have numbers; this is 25.10.00" in works("""
        import rmm
        rmm.__version__ = "25.10.00"
        refused("rmm")
    """)
    assert "gpupool needs Triton 3.3, which accepts allocators; this is 3.2.0" in works("""
        import triton
        del triton.set_allocator
        triton.__version__ = "3.2.0"
        refused("triton")
    """)
    assert "gpupool needs cuda.core 0.3, which has memory resources; this is 0.2.0" in works("""
        import cuda.core, sys
        sys.modules["cuda.core.experimental"] = cuda.core
        del cuda.core.MemoryResource
        cuda.core.__version__ = "0.2.0"
        refused("cuda.core")
    """)
    assert "gpupool needs CuPy 14; this is 13.4.0" in works("""
        import cupy
        cupy.__version__ = "13.4.0"
        refused("cupy")
    """)


def test_twice() -> None:
    found = works("""
        import cupy, triton
        gpupool.install("cupy", cap="40%")
        allocator = cupy.cuda.get_allocator()
        gpupool.install("cupy")
        gpupool.install("cupy", "numba", cap=0.4)
        assert cupy.cuda.get_allocator() is allocator and installed() == ("cupy", "numba")
        before = installed()
        refused("triton", cap="8GiB")
    """)
    assert '"cupy", "numba" already share one pool, with 40% as its cap' in found
    assert "gpupool.default_pool(device).set_limit" in found


def test_other_threads_install_triton_again() -> None:
    works("""
        import threading, triton
        gpupool.install("triton")
        ours = gpupool.triton.allocator
        seen = []
        def work():
            seen.append(triton.runtime._allocation._allocator.get())
            gpupool.install("triton")
            seen.append(triton.runtime._allocation._allocator.get())
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert seen == [None, ours], seen
    """)


def test_half_way_changes_nothing() -> None:
    found = works("""
        import cupy, numba.cuda, os, rmm, triton, warp
        theirs = cupy.cuda.get_allocator()
        gpupool.default_pool(0).set_limit(1 << 30)
        def fail(manager): raise TypeError("no managers today")
        numba.cuda.set_memory_manager = fail
        refused("cupy", "rmm", "warp", "triton", "cuda.core", "numba", cap="40%")
        assert cupy.cuda.get_allocator() == theirs and type(cupy.get_default_memory_pool()) is cupy.MemoryPool
        assert type(rmm.mr.get_per_device_resource(0)) is rmm.CudaMemoryResource
        assert type(warp.device.allocator) is warp.DefaultAllocator
        assert triton.runtime._allocation._allocator.get() is None
        import cuda.core
        assert type(cuda.core.Device(0).memory_resource) is cuda.core.DeviceMemoryResource
        assert gpupool.default_pool(0).stats().limit_bytes == 1 << 30
        assert "GPUPOOL_CAP" not in os.environ
    """)
    assert "RuntimeError Numba refused gpupool, and nothing was installed: no managers today" in found


def test_a_cap_below_what_is_used() -> None:
    found = works("""
        import cupy
        theirs = cupy.cuda.get_allocator()
        kept = gpupool.default_pool(0).alloc(64 << 20)
        refused("cupy", cap="32MiB")
        assert cupy.cuda.get_allocator() == theirs
        assert gpupool.default_pool(0).stats().limit_bytes == 0
        gpupool.install("cupy", cap="96MiB")
        assert gpupool.default_pool(0).stats().limit_bytes == 96 << 20
        assert gpupool.default_pool(1).stats().limit_bytes == 96 << 20
    """)
    assert "OverLimitError" in found


def test_the_per_thread_stream_is_refused() -> None:
    assert "per-thread default stream" in works("""
        import triton
        gpupool.install("triton")
        try: gpupool.triton.allocator(100, 16, 2)
        except ValueError as error: print(error)
    """)


def test_a_shortage_in_numba_is_numbas_error() -> None:
    works("""
        gpupool.install("numba", cap="32MiB")
        from numba.cuda.cudadrv.driver import CudaAPIError, _memory_manager
        manager = _memory_manager()
        try: manager.memalloc(64 << 20)
        except CudaAPIError as error: assert error.args[0] == 2 and isinstance(error.__cause__, gpupool.OverLimitError)
        else: raise AssertionError
        try: manager.get_ipc_handle(manager.memalloc(100))
        except NotImplementedError: pass
    """)


def test_numba_without_nvidias_bindings() -> None:
    works("""
        from numba.cuda.cudadrv import driver
        del driver.binding
        gpupool.install("numba", cap="32MiB")
        manager = driver._memory_manager()
        memory = manager.memalloc(1 << 20)
        assert gpupool.default_pool(0).block_info(memory.pointer.value).requested_bytes == 1 << 20
        try: manager.memalloc(64 << 20)
        except driver.CudaAPIError as error: assert error.args[0] == 2
        else: raise AssertionError
    """)


def test_triton_before_its_allocator_belonged_to_a_thread() -> None:
    works("""
        import triton
        from triton.runtime import _allocation
        _allocation._allocator = theirs = lambda size, alignment, stream: None
        def set_allocator(allocator): _allocation._allocator = allocator
        triton.set_allocator = set_allocator
        gpupool.install("triton")
        assert _allocation._allocator is gpupool.triton.allocator
    """)


def test_exit_with_live_memory() -> None:
    works("""
        gpupool.install("cupy", "numba", "triton", "warp")
        import numba.cuda, warp
        kept = [gpupool.cupy.allocator(1000), gpupool.triton.allocator(9, 16, None), warp.device.allocator.allocate(9),
                numba.cuda.cudadrv.driver._memory_manager().memalloc(1000)]
        kept.append(kept)
    """)


def test_fork() -> None:
    works("""
        import os
        gpupool.install("cupy", "numba")
        array = gpupool.cupy.allocator(1000)
        from numba.cuda.cudadrv.driver import _memory_manager
        memory = _memory_manager().memalloc(1000)
        child = os.fork()
        if child == 0:
            memory.free()
            del array
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert gpupool.default_pool(0).memory_allocated() == 2048
    """)


def test_all_in_one_group(tmp_path: Path) -> None:
    works(
        """
        names = ("cupy", "numba", "cuda.core", "triton", "rmm", "warp")
        gpupool.install(*names, share="team", guaranteed="1GiB", priority=3)
        import cupy, numba.cuda, cuda.core, triton, rmm, warp
        MIB = 1 << 20
        def member():
            (found,) = gpupool.share_info("team", "sim").members
            return found
        stream = gpupool.default_pool(0).stream()
        takes = {
            "cupy": lambda: cupy.cuda.get_allocator()(700 * MIB),
            "numba": lambda: numba.cuda.cudadrv.driver._memory_manager().memalloc(700 * MIB),
            "cuda.core": lambda: cuda.core.Device(0).memory_resource.allocate(700 * MIB, stream=stream),
            "triton": lambda: triton.runtime._allocation._allocator.get()(700 * MIB, 128, None),
            "rmm": lambda: rmm.mr.get_per_device_resource(0).allocate(700 * MIB, 1),
            "warp": lambda: warp.device.allocator.allocate(700 * MIB),
        }
        kept = []
        for count, (name, take) in enumerate(takes.items(), 1):
            kept.append(take())
            assert gpupool.default_pool(0).stats().share_state == gpupool.ShareState.SHARED
            found = member()
            assert (found.priority, found.guaranteed_bytes) == (3, 1024 * MIB)
            assert found.reserved_bytes >= 700 * MIB * count, name
            assert gpupool.share_info("team", "sim").share.used_bytes == max(found.reserved_bytes, 1024 * MIB)
        """,
        GPUPOOL_SHARE_DIR=str(tmp_path),
    )


def test_a_part_of_the_device_is_guaranteed(tmp_path: Path) -> None:
    works(
        """
        gpupool.install("cupy", share="team", guaranteed=0.25)
        import cupy
        total = gpupool.default_pool(0).device_info().total_bytes
        assert abs(gpupool.share_info("team", "sim").members[0].guaranteed_bytes - total // 4) < 1024
        """,
        GPUPOOL_SHARE_DIR=str(tmp_path),
    )


def test_what_install_does_not_say_is_the_environments(tmp_path: Path) -> None:
    works(
        """
        gpupool.install("cupy", share="team")
        import cupy
        kept = cupy.cuda.get_allocator()(1000)
        (member,) = gpupool.share_info("team", "sim").members
        assert (member.priority, member.guaranteed_bytes) == (2, 1 << 30)
        """,
        GPUPOOL_SHARE_DIR=str(tmp_path),
        GPUPOOL_SHARE="others",
        GPUPOOL_SHARE_PRIORITY="2",
        GPUPOOL_SHARE_GUARANTEED="1GiB",
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("share='a/b'", 'share is "a/b", not 1 to 48 letters'),
        ("share=''", 'share is ""'),
        ("share='team', guaranteed='much'", "guaranteed is "),
        ("share='team', priority=9", "ValueError priority is 9; it must be -8 to 8"),
        ("guaranteed='1GiB'", "give share, the group, as well"),
        ("priority=1", "give share, the group, as well"),
    ],
)
def test_a_group_that_is_none(settings: str, message: str) -> None:
    assert message in works(f"""
        import os
        refused("cupy", {settings})
        assert not [name for name in os.environ if name.startswith("GPUPOOL_SHARE")]
    """)


def test_a_group_comes_too_late(tmp_path: Path) -> None:
    found = works(
        """
        import os
        gpupool.default_pool(0)
        refused("cupy", share="team")
        assert "GPUPOOL_SHARE" not in os.environ
        """,
        GPUPOOL_SHARE_DIR=str(tmp_path),
    )
    assert 'the group "team" comes too late: device 0 has its default pool already' in found
    found = works(
        """
        gpupool.install("cupy", share="team")
        gpupool.install("numba", share="team")
        before = installed()
        refused("triton", share="others")
        refused("triton", share="team", priority=1)
        gpupool.install("triton")
        assert gpupool.default_pool(0).stats().share_state == gpupool.ShareState.SHARED
        """,
        GPUPOOL_SHARE_DIR=str(tmp_path),
    )
    assert 'share one pool already, with the group "team", and' in found


def test_half_way_joins_no_group() -> None:
    found = works("""
        import os, numba.cuda
        os.environ["GPUPOOL_SHARE"] = "mine"
        def fail(manager): raise TypeError("no managers today")
        numba.cuda.set_memory_manager = fail
        refused("cupy", "numba", share="team", guaranteed="1GiB")
        assert os.environ["GPUPOOL_SHARE"] == "mine" and "GPUPOOL_SHARE_GUARANTEED" not in os.environ
    """)
    assert "nothing was installed: no managers today" in found


def test_an_array_outlives_its_stream_in_cupy() -> None:
    """Its stream's number may be another stream's when it is freed, or nobody's."""
    works("""
        import cupy
        gpupool.install("cupy")
        gpupool.sim.configure(0, strict_streams=True)
        pool = gpupool.default_pool(0)
        real = pool.stream()
        stream = cupy.cuda.Stream(int(real))
        cupy.state.stream = stream.ptr
        array = cupy.cuda.get_allocator()(5 << 20)
        assert pool.block_info(array.ptr).stream == int(real)
        cupy.state.stream = 0
        del stream
        assert pool.block_info(array.ptr).stream == gpupool.STREAM_UNKNOWN
        real.close()
        del array
        pool.synchronize()
        assert pool.memory_allocated() == 0 and gpupool.sim.faults(0).count == 0
    """)


def test_an_array_outlives_its_stream_in_warp() -> None:
    works("""
        import warp
        gpupool.install("warp")
        gpupool.sim.configure(0, strict_streams=True)
        pool = gpupool.default_pool(0)
        real, other = pool.stream(), pool.stream()
        warp.device.stream = warp.Stream(int(real))
        address = warp.device.allocator.allocate(5 << 20)
        warp.device.stream = warp.Stream(int(other))
        real.close()
        gpupool.sim.work(1_000_000, other, address=address, size=5 << 20)
        warp.device.allocator.deallocate(address, 5 << 20)
        assert pool.malloc(5 << 20) != address, "the current stream still works on it"
        assert gpupool.sim.faults(0).count == 0
        # A stream of another library may end without notice.
        third = pool.stream()
        warp.device.stream = warp.Stream(int(third), owner=False)
        warp.device.allocator.deallocate(warp.device.allocator.allocate(5 << 20), 5 << 20)
        warp.device.stream = warp.Stream(None)
        pool.synchronize()
        pool.empty_cache()
        assert gpupool.sim.faults(0).count == 0
    """)


def test_the_mode_of_the_pools() -> None:
    found = works("""
        import cupy, os
        refused("cupy", mode="segments")
        gpupool.install("cupy", mode="driver")
        assert os.environ["GPUPOOL_MODE"] == "driver"
        gpupool.default_pool(0)
        gpupool.install("cupy", mode="driver")
        before = installed()
        refused("cupy", mode="vmm")
        assert os.environ["GPUPOOL_MODE"] == "driver"
    """)
    assert "ValueError mode is 'segments'; there are auto, vmm, driver" in found
    assert 'RuntimeError mode "vmm" comes too late: device 0 has its default pool already' in found


def test_a_mode_is_undone() -> None:
    works("""
        import cupy, numba.cuda, os
        def fail(manager): raise TypeError("no managers today")
        numba.cuda.set_memory_manager = fail
        refused("cupy", "numba", mode="driver", cap="40%")
        assert not {"GPUPOOL_MODE", "GPUPOOL_CAP"} & set(os.environ)
    """)
