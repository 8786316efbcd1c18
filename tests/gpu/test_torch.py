# SPDX-License-Identifier: Apache-2.0
"""gpupool in PyTorch, on a GPU. A process can install it only once, so the tests run other processes and check them."""

import importlib.util
import json
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from programs import COMMAND, read_cases, run

HERE = Path(__file__).parent
CASES = re.findall(r"^def (case_\w+)", (HERE / "torch_cases.py").read_text(encoding="utf-8"), re.MULTILINE)


@cache
def why_not():
    """Why these tests cannot run here; empty if they can."""
    for name in ("torch", "gpupool"):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed"
    return "" if run("-c", "import torch; torch.ones(1).cuda()").returncode == 0 else "PyTorch has no GPU here"


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


@cache
def results(shim):
    """What the cases came to, and the whole process."""
    process = run(str(HERE / "torch_cases.py"), GPUPOOL_TORCH_SHIM=shim)
    return read_cases(process), process


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("shim", ["1", "0"], ids=["shim", "pluggable"])
def test_swap(shim, case):
    found, process = results(shim)
    assert case in found, process.stderr[-3000:]
    assert found[case] == ""


@pytest.mark.parametrize("shim", ["1", "0"], ids=["shim", "pluggable"])
def test_exit_with_live_tensors(shim):
    _, process = results(shim)
    assert process.returncode == 0, process.stderr[-3000:]


def output(code):
    """What a program prints that must end well."""
    process = run("-c", code)
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout


def test_reduce_overhead():
    """torch.compile with graphs: training and inference, shapes that change, and outputs that are kept."""
    text = output(
        "import torch, gpupool.torch\n"
        "mode = gpupool.torch.install()\n"
        "torch.manual_seed(0)\n"
        "model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)).cuda()\n"
        "fast = torch.compile(model, mode='reduce-overhead')\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)\n"
        "for step in range(12):\n"
        "    given = torch.randn(32 if step % 4 else 48, 64, device='cuda')\n"
        "    torch.compiler.cudagraph_mark_step_begin()\n"
        "    wanted = model(given).square().mean()\n"
        "    loss = fast(given).square().mean()\n"
        "    torch.testing.assert_close(loss, wanted, rtol=1e-3, atol=1e-4)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
        "    torch.cuda.empty_cache()\n"
        "with torch.inference_mode():\n"
        "    for step in range(6):\n"
        "        given = torch.randn(16, 64, device='cuda')\n"
        "        first = fast(given).clone()\n"
        "        torch.testing.assert_close(fast(first), model(model(given)), rtol=1e-3, atol=1e-3)\n"
        "from torch._inductor.cudagraph_trees import get_manager\n"
        "print('graphs', get_manager(0, create_if_none_exists=False).new_graph_id().id)\n"
    )
    assert int(text.split()[-1]) >= 4


def test_sharing_between_processes():
    process = run(str(HERE / "torch_ipc.py"))
    assert process.returncode == 0, process.stderr[-3000:]
    assert process.stdout.splitlines() == ["sent 3", "changed by the other process", "given back"]


@pytest.mark.parametrize("shim", ["1", "0"], ids=["shim", "pluggable"])
def test_the_failure_says_who(shim):
    """The three functions that hold most, with file and line, and with their bytes within 10 per cent."""
    process = run(str(HERE / "torch_shortage.py"), GPUPOOL_TORCH_SHIM=shim)
    assert process.returncode == 0, process.stderr[-3000:]
    told = json.loads(process.stdout)
    assert "Most is held by:" in told["error"], told["error"]
    holders = re.findall(r"([\d.]+) ([KMG]iB) from (\S+) \((\S+):(\d+)\), the oldest for",
                         told["error"].split("Most is held by:")[1])
    units = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    found = {name: float(number) * units[unit] for number, unit, name, _, _ in holders}
    largest = sorted(told["held"], key=told["held"].get, reverse=True)[:3]
    assert {Path(file).name for _, _, _, file, _ in holders} == {"torch_shortage.py"}
    assert list(found) == largest, told["error"]
    for name in largest:
        assert abs(found[name] / told["held"][name] - 1) <= 0.1, (name, told)


def test_a_snapshot_that_pytorch_wrote_is_imported(tmp_path):
    """Each allocation of PyTorch's own allocator with its bytes, and each free, in their order."""
    file = tmp_path / "steps.pickle"
    told = json.loads(
        output(
            "import json, torch\n"
            "torch.cuda.memory._record_memory_history(max_entries=100_000)\n"
            "model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)).cuda()\n"
            "side = torch.cuda.Stream()\n"
            "for rows in (16, 300, 17):\n"
            "    model(torch.randn(rows, 64, device='cuda')).square().mean().backward()\n"
            "    given = torch.ones(rows, 1000, device='cuda')\n"
            "    given.record_stream(side)\n"
            "    with torch.cuda.stream(side): given.mul_(2)\n"
            "    del given\n"
            "    torch.cuda.synchronize()\n"
            f"torch.cuda.memory._dump_snapshot({str(file)!r})\n"
            "trace = torch.cuda.memory._snapshot()['device_traces'][0]\n"
            "kinds = {'alloc': 'a', 'free_requested': 'f'}\n"
            "print(json.dumps([[kinds[e['action']], e['size']] for e in trace if e['action'] in kinds]))\n"
        )
    )
    imported = subprocess.run([COMMAND, "import", file], capture_output=True, text=True, check=False, timeout=60)
    assert imported.returncode == 0, imported.stderr
    sizes, found = {}, []
    for line in imported.stdout.splitlines():
        kind, number, *rest = line.split()
        if kind == "a":
            sizes[number] = int(rest[0])
        if kind in ("a", "f"):
            found.append([kind, sizes[number]])
    assert len(told) > 50
    assert sum(kind == "f" for kind, _ in told) > 20
    assert found == told


def test_too_late():
    text = output(
        "import torch, gpupool.torch\n"
        "torch.ones(1).cuda()\n"
        "try: gpupool.torch.install()\n"
        "except RuntimeError as error: print(error)\n"
    )
    assert "comes too late" in text and "right after `import torch`" in text


def test_a_cap_above_the_card():
    text = output(
        "import torch, gpupool.torch\n"
        "gpupool.torch.install('9TiB')\n"
        "try: torch.ones(1).cuda()\n"
        "except RuntimeError as error: print(error)\n"
    )
    assert "9895604649984 bytes, more than" in text


def test_mem_pool():
    text = output(
        "import torch, gpupool, gpupool.torch\n"
        "outside = torch.ones(1 << 20, device='cuda')\n"
        "assert gpupool.default_pool(0).memory_reserved() == 0\n"
        "with gpupool.torch.mem_pool() as pool:\n"
        "    inside = torch.ones(50 << 20, device='cuda')\n"
        "assert gpupool.default_pool(0).memory_allocated() == 200 << 20\n"
        "assert torch.cuda.memory_allocated() == 204 << 20\n"
        "address = inside.data_ptr()\n"
        "del inside\n"
        "with gpupool.torch.mem_pool() as again:\n"
        "    inside = torch.ones(50 << 20, device='cuda')\n"
        "assert again is pool and inside.data_ptr() == address\n"
        "own = gpupool.torch.create_mem_pool()\n"
        "with gpupool.torch.mem_pool(pool=own):\n"
        "    other = torch.ones(10 << 20, device='cuda')\n"
        "assert gpupool.default_pool(0).memory_allocated() == 240 << 20\n"
        "del other, own\n"
        "torch.cuda.empty_cache()\n"
        "assert gpupool.default_pool(0).memory_allocated() == 200 << 20\n"
        "gpupool.default_pool(0).set_limit(300 << 20)\n"
        "try:\n"
        "    with gpupool.torch.mem_pool(): torch.ones(100 << 20, device='cuda')\n"
        "except torch.OutOfMemoryError as error: print(error)\n"
    )
    assert "CUDA out of memory" in text


def test_fork_after_cuda():
    text = output(
        "import os, torch, gpupool.torch\n"
        "gpupool.torch.install()\n"
        "kept = torch.ones(1000, device='cuda')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: torch.ones(1, device='cuda')\n"
        "    except RuntimeError as error: print(error, flush=True)\n"
        "    del kept\n"
        "    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert int(kept.sum()) == 1000\n"
    )
    assert "forked subprocess" in text
