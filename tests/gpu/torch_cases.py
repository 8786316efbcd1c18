# SPDX-License-Identifier: Apache-2.0
"""What must hold in PyTorch once gpupool is its allocator. test_torch.py runs this as a program, once for each way of
installing it, because a process can install it only once.

    python torch_cases.py            prints a JSON object per case: its name, and what went wrong ("" if nothing)
"""

import ctypes
import gc
import pickle
import random
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import gpupool
import torch
from gpupool import torch as gpupool_torch
from programs import COMMAND, report_cases

MIB = 1 << 20
MODE = ""


def clear():
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def case_cap():
    assert abs(torch.cuda.get_per_process_memory_fraction() - 0.9) < 1e-6
    assert gpupool.default_pool(0).stats().limit_bytes == int(torch.cuda.mem_get_info()[1] * 0.9)


def case_bytes_by_step():
    before = torch.cuda.memory_allocated()
    kept = []
    for expected in (512, 1024, 1536):
        kept.append(torch.tensor(1.0, device="cuda"))
        assert torch.cuda.memory_allocated() - before == expected
    assert torch.cuda.memory_stats()["requested_bytes.all.current"] >= 12
    del kept
    assert torch.cuda.memory_allocated() == before
    for inputs, expected in ((128, 512), (129, 1024)):
        layer = torch.nn.Linear(inputs, 1, bias=False, device="cuda")
        assert torch.cuda.memory_allocated() - before == expected
        del layer


def case_statistics():
    clear()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    start = torch.cuda.memory_stats()
    assert len(start) == 122, len(start)
    assert start["allocation.all.allocated"] == 0
    block = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    small = torch.empty(100, dtype=torch.uint8, device="cuda")
    now = torch.cuda.memory_stats()
    assert now["allocation.all.allocated"] == 2 and now["allocation.all.freed"] == 0
    assert now["allocated_bytes.large_pool.current"] - start["allocated_bytes.large_pool.current"] == 3 * MIB
    assert now["allocated_bytes.small_pool.current"] - start["allocated_bytes.small_pool.current"] == 512
    assert now["requested_bytes.small_pool.current"] - start["requested_bytes.small_pool.current"] == 100
    del block, small
    end = torch.cuda.memory_stats()
    assert torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated() == 3 * MIB + 512
    assert end["allocation.all.freed"] == 2
    assert torch.cuda.max_memory_reserved() >= torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated()
    assert "PyTorch CUDA memory summary, device ID 0" in torch.cuda.memory_summary()
    assert torch.cuda.memory_allocated() == gpupool.default_pool(0).memory_allocated()
    assert torch.cuda.get_allocator_backend() == ("gpupool" if MODE == "shim" else "pluggable")


def case_empty_cache():
    clear()
    free = torch.cuda.mem_get_info()[0]
    block = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    assert free - torch.cuda.mem_get_info()[0] >= 2 << 30
    del block
    assert torch.cuda.memory_reserved() >= 2 << 30
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < 64 * MIB
    assert abs(free - torch.cuda.mem_get_info()[0]) < 64 * MIB


def case_record_stream():
    side = torch.cuda.Stream()
    block = torch.zeros(8 * MIB, dtype=torch.uint8, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        copy = block.clone()
    block.record_stream(side)
    address = block.data_ptr()
    del block
    other = torch.full((8 * MIB,), 7, dtype=torch.uint8, device="cuda")
    assert other.data_ptr() != address
    stats = torch.cuda.memory_stats()
    assert stats["active_bytes.all.current"] - stats["allocated_bytes.all.current"] >= 8 * MIB
    torch.cuda.synchronize()
    assert int(copy.sum()) == 0 and int(other[0]) == 7


def case_streams_and_threads():
    failures = []

    def work(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            for i in range(100):
                tensor = torch.full((1 + (i * 7919) % 500_000,), number, dtype=torch.int32, device="cuda")
                doubled = tensor + tensor
                if i % 10 == 0 and not bool((doubled == 2 * number).all()):
                    failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def case_fraction():
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(0.1)
    try:
        assert abs(torch.cuda.get_per_process_memory_fraction() - 0.1) < 1e-6
        expect_shortage(int(total * 0.11))
        block = torch.empty(int(total * 0.09), dtype=torch.uint8, device="cuda")
        expect_shortage(int(total * 0.02))
        del block
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    # The cap that install() was given still holds; the pluggable way shows what was asked for.
    assert abs(torch.cuda.get_per_process_memory_fraction() - (0.9 if MODE == "shim" else 1.0)) < 1e-6
    assert gpupool.default_pool(0).stats().limit_bytes == int(total * 0.9)


def expect_shortage(size):
    error = None
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
    except RuntimeError as raised:
        error = raised
    assert type(error) is (torch.OutOfMemoryError if MODE == "shim" else RuntimeError), repr(error)
    text = str(error)
    assert text.startswith("CUDA out of memory. Tried to allocate "), text
    assert "GPU 0 has a total capacity of " in text and "gpupool: " in text, text
    return text


def case_out_of_memory():
    expect_shortage(1 << 50)
    before = torch.cuda.memory_stats()["num_ooms"]
    expect_shortage(1 << 44)
    # What is cached is used before a failure: all but a little of what is free.
    clear()
    free, total = torch.cuda.mem_get_info()
    most = min(free, int(0.9 * total)) - 512 * MIB
    parts = [torch.empty(most // 8, dtype=torch.uint8, device="cuda") for _ in range(8)]
    text = expect_shortage(most // 2)
    print(text, file=sys.stderr)
    del parts
    whole = torch.empty(most, dtype=torch.uint8, device="cuda")
    del whole
    assert torch.cuda.memory_stats()["num_ooms"] - before == 2
    clear()


def case_graph():
    layer = torch.nn.Linear(256, 256, device="cuda")
    given = torch.zeros(64, 256, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            layer(given).relu()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        hidden = torch.relu(layer(given))
        result = layer(hidden) + 1
        del hidden
    # What the graph used inside must not be handed out while it lives.
    others = [torch.zeros(64, 256, device="cuda") for _ in range(64)]
    for i in range(5):
        given.copy_(torch.randn(64, 256, device="cuda"))
        graph.replay()
        with torch.no_grad():
            expected = layer(torch.relu(layer(given))) + 1
        torch.testing.assert_close(result, expected, rtol=1e-3, atol=1e-3)
        others.append(torch.zeros(64, 256, device="cuda"))
        assert all(int(other.count_nonzero()) == 0 for other in others), i
    del graph, result
    clear()


def case_snapshot():
    clear()
    kept = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (100, 5000, 3 * MIB, 50 * MIB)]
    kept.pop(1)
    segments = torch.cuda.memory_snapshot()
    assert sum(segment["allocated_size"] for segment in segments) == torch.cuda.memory_allocated()
    assert sum(segment["total_size"] for segment in segments) == torch.cuda.memory_reserved()
    states = set()
    for segment in segments:
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
        states |= {block["state"] for block in segment["blocks"]}
    assert "active_allocated" in states
    assert len(torch.cuda.memory._snapshot()["device_traces"]) == torch.cuda.device_count()


def case_training():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    given = torch.randn(512, 64, device="cuda")
    wanted = given[:, :1] * 3
    losses = []
    for _ in range(60):
        loss = torch.nn.functional.mse_loss(model(given), wanted)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 20


def case_convolution_with_benchmark():
    """cudnn.benchmark asks how much memory there is, which a pluggable allocator cannot answer."""
    torch.backends.cudnn.benchmark = True
    try:
        layer = torch.nn.Conv2d(3, 16, 3, padding=1).cuda()
        layer(torch.randn(8, 3, 32, 32, device="cuda")).sum().backward()
    except RuntimeError as error:
        assert MODE == "pluggable" and "cacheInfo" in str(error), error
    else:
        assert MODE == "shim"
    finally:
        torch.backends.cudnn.benchmark = False


def case_history():
    if MODE != "shim":
        return
    torch.cuda.memory._record_memory_history(max_entries=1000)
    block = torch.empty(5 * MIB, dtype=torch.uint8, device="cuda")
    address = block.data_ptr()
    del block
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    events = [entry["action"] for entry in trace if entry.get("addr") == address]
    assert events[-3:] == ["alloc", "free_requested", "free_completed"], events
    frames = next(entry["frames"] for entry in trace if entry.get("addr") == address)
    assert any(frame["name"] == "case_history" for frame in frames)


def blocks_of(events):
    """What was allocated and freed, where, in order."""
    return [
        (event["action"], event["addr"], event["size"])
        for event in events
        if event["action"] in ("alloc", "free_requested")
    ]


def peak_of(events):
    """The most bytes that were live of what was allocated, and after how many events."""
    live = most = at = 0
    for number, (action, _, size) in enumerate(events, 1):
        live += size if action == "alloc" else -size
        if live > most:
            most, at = live, number
    return most, at


def python_frames(event):
    """(function, file, line) of the innermost Python frames."""
    return [
        (frame["name"].rpartition(".")[2], Path(frame["filename"]).name, frame["line"])
        for frame in event["frames"]
        if frame["filename"].endswith(".py")
    ][:6]


def case_history_and_recording_tell_the_same():
    """The same steps of a training, recorded by PyTorch and by gpupool: every allocation and free with its address and
    size, so the same peak at the same moment, and the same Python stacks."""
    if MODE != "shim":
        return
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    clear()
    with tempfile.TemporaryDirectory() as folder:
        recorded, exported = f"{folder}/steps.gpt", f"{folder}/steps.pickle"
        gpupool.record_start(recorded)
        torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="python")
        for rows in (16, 300, 17, 4096):
            model(torch.randn(rows, 512, device="cuda")).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        torch.cuda.memory._record_memory_history(enabled=None)
        gpupool.record_stop()
        command = [
            str(COMMAND),
            "export",
            recorded,
            "--format",
            "torch",
            "-o",
            exported,
        ]
        subprocess.run(command, check=True)
        ours = pickle.loads(Path(exported).read_bytes())["device_traces"][0]
    told, recording = blocks_of(trace), blocks_of(ours)
    assert len(told) > 100
    assert told == recording, next(pair for pair in zip(told, recording, strict=False) if pair[0] != pair[1])
    assert peak_of(told) == peak_of(recording)
    largest = []
    for theirs, mine in zip(
        [event for event in trace if event["action"] == "alloc"],
        [event for event in ours if event["action"] == "alloc"],
        strict=True,
    ):
        # What autograd's own threads allocate has no Python stack.
        if python_frames(theirs):
            largest.append((theirs["size"], python_frames(theirs), python_frames(mine)))
    largest.sort(key=lambda one: -one[0])
    assert len(largest) > 20, len(largest)
    for size, theirs, mine in largest:
        assert theirs == mine, (size, theirs, mine)


def case_modules_are_tags():
    class Layer(torch.nn.Module):
        def forward(self, x):
            self.kept = [torch.zeros(4 * MIB, dtype=torch.uint8, device="cuda") for _ in range(256)]
            return x

    gpupool.set_sampling(MIB)
    model = torch.nn.Sequential(Layer(), torch.nn.Identity())
    with gpupool_torch.tag_modules(model):
        model(torch.ones(1, device="cuda"))
    tags = {holder.tag: holder.live_bytes for holder in gpupool.default_pool(0).holders()}
    assert tags.get("0", 0) >= 800 * MIB, tags
    model[0].kept.clear()


def case_mem_pool():
    if MODE != "shim":
        return
    pool = torch.cuda.MemPool()
    assert pool.use_count() == 1
    with torch.cuda.use_mem_pool(pool):
        inside = torch.empty(5 * MIB, dtype=torch.uint8, device="cuda")
        assert pool.use_count() == 2
    segments = pool.snapshot()
    assert sum(segment["allocated_size"] for segment in segments) == 5 * MIB
    with gpupool_torch.mem_pool():
        other = torch.ones(5 * MIB, dtype=torch.uint8, device="cuda")
    del inside, pool
    assert int(other.sum()) == 5 * MIB


def case_graph_keeps_its_memory():
    """What a graph used inside stays its own, also when caches are emptied and memory is short."""
    given = torch.ones(8 * MIB, device="cuda")
    warm_up(lambda: (given * 2 + 1).sum())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inner = given * 2
        result = (inner + 1).sum()
        del inner
    torch.cuda.empty_cache()
    others = [torch.zeros(8 * MIB, device="cuda") for _ in range(8)]
    expect_shortage(1 << 44)
    graph.replay()
    assert int(result) == 24 * MIB
    assert all(int(other.count_nonzero()) == 0 for other in others)
    before = torch.cuda.memory_reserved()
    del graph, result, others
    clear()
    assert torch.cuda.memory_reserved() < before


def case_capture_reuses_memory_after_a_join():
    given = torch.ones(MIB, dtype=torch.int64, device="cuda")
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    warm_up(lambda: given * 2 + 1)
    with torch.cuda.graph(graph):
        main = torch.cuda.current_stream()
        double = given * 2
        address = double.data_ptr()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            odd = double + 1
            double.record_stream(side)
        del double
        triple = given * 3
        assert triple.data_ptr() != address
        main.wait_stream(side)
        five = given * 5
        assert MODE != "shim" or five.data_ptr() == address
        result = odd + triple + five
    for value in (1, 7):
        given.fill_(value)
        graph.replay()
        assert torch.equal(result, given * 10 + 1)
    del graph, result, odd, triple, five
    clear()


def case_captures_on_many_streams():
    """Random programs over three streams that free what others still read: the graph computes what the host does."""
    pick = random.Random(11)
    given = torch.ones(4096, dtype=torch.int64, device="cuda")
    warm_up(lambda: given * 2 + given)
    torch.cuda.synchronize()
    for seed in range(25):
        graph, forked, live = torch.cuda.CUDAGraph(), [torch.cuda.Stream() for _ in range(2)], []
        with torch.cuda.graph(graph):
            streams = [torch.cuda.current_stream(), *forked]
            for stream in forked:
                stream.wait_stream(streams[0])
            # Of each tensor: how often it has the given value and what is added, and its stream.
            live.append((given + 0, (1, 0), streams[0]))
            for _ in range(120):
                stream = pick.choice(streams)
                (left, (a, b), home), (right, (c, d), other) = pick.choice(live), pick.choice(live)
                for each in (home, other):
                    if each != stream:
                        stream.wait_stream(each)
                factor = pick.randrange(-3, 4)
                with torch.cuda.stream(stream):
                    live.append((left * factor + right, (a * factor + c, b * factor + d), stream))
                    for tensor, source in ((left, home), (right, other)):
                        if source != stream:
                            tensor.record_stream(stream)
                del left, right, tensor
                while len(live) > 6:
                    live.pop(pick.randrange(1, len(live)))
            for stream in forked:
                streams[0].wait_stream(stream)
        for value in (1, 3):
            given.fill_(value)
            graph.replay()
            torch.cuda.synchronize()
            for tensor, (a, b), _ in live:
                expected = (a * value + b + (1 << 63)) % (1 << 64) - (1 << 63)
                assert torch.all(tensor == expected), (seed, value)
        del graph, live
    clear()


def warm_up(work):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)


def case_graphs_share_a_pool():
    given = torch.ones(4 * MIB, device="cuda")
    warm_up(lambda: given * 2 + 1)
    pool, graphs, results = torch.cuda.graph_pool_handle(), [], []
    for number in range(4):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            results.append((given * number) + 1)
        graphs.append(graph)
        torch.cuda.empty_cache()
    for value in (1, 5):
        given.fill_(value)
        for graph in graphs:
            graph.replay()
        for number, result in enumerate(results):
            assert int(result.sum()) == 4 * MIB * (value * number + 1)
    del graphs, results
    clear()


def case_statistics_with_pools():
    if MODE != "shim":
        return
    clear()
    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    pool = torch.cuda.MemPool(no_split=True)
    with torch.cuda.use_mem_pool(pool):
        small = torch.empty(100, dtype=torch.uint8, device="cuda")
        large = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    # Each has a segment of its own.
    assert torch.cuda.memory_allocated() - allocated == 6 * MIB, torch.cuda.memory_allocated() - allocated
    stats = torch.cuda.memory_stats()
    assert stats["requested_bytes.all.current"] >= 3 * MIB + 100
    assert sum(segment["total_size"] for segment in torch.cuda.memory_snapshot()) == torch.cuda.memory_reserved()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        copy = large.clone()
    large.record_stream(side)
    del large
    stats = torch.cuda.memory_stats()
    assert stats["active_bytes.all.current"] - stats["allocated_bytes.all.current"] >= 4 * MIB
    torch.cuda.synchronize()
    del small, copy, pool
    clear()
    assert torch.cuda.memory_allocated() == allocated
    assert torch.cuda.memory_reserved() <= reserved


def expect_frames(block, name):
    assert any(frame["name"] == name for frame in block["frames"]), block


def case_snapshot_has_stacks():
    """Of live blocks, also in a MemPool; the history tells of memory that comes and goes, and by whom."""
    if MODE != "shim":
        return
    clear()
    torch.cuda.memory._record_memory_history(context="all", stacks="python")
    try:
        kept = torch.empty(50 * MIB, dtype=torch.uint8, device="cuda")
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
        snapshot = torch.cuda.memory._snapshot()
        found = {block["address"]: block for segment in snapshot["segments"] for block in segment["blocks"]}
        for tensor in (kept, inside):
            expect_frames(found[tensor.data_ptr()], "case_snapshot_has_stacks")
        del tensor, kept, inside, pool
        torch.cuda.empty_cache()
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    actions = [entry["action"] for entry in trace]
    for action in ("segment_map", "segment_unmap", "segment_alloc", "segment_free"):
        assert action in actions, actions
    assert actions[-1] == "segment_unmap", actions
    expect_frames(trace[-1], "empty_cache")


def case_events_have_words():
    if MODE != "shim":
        return
    torch.cuda.memory._set_memory_metadata("a word")
    torch.cuda.memory._record_memory_history(context=None)
    try:
        with torch.profiler.record_function("step"):
            torch.empty(5 * MIB, dtype=torch.uint8, device="cuda")
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
        torch.cuda.memory._set_memory_metadata("")
    assert trace and all(entry["user_metadata"] == "a word" for entry in trace), trace
    assert all(entry["compile_context"] == "N/A" for entry in trace), trace


ALLOCATOR = r"""
#include <cstddef>
extern "C" int cudaMalloc(void**, size_t);
extern "C" int cudaFree(void*);
extern "C" { size_t held = 0; }
extern "C" void* own_alloc(size_t size, int, void*) {
  void* ptr = nullptr;
  if (cudaMalloc(&ptr, size) != 0) return nullptr;
  held += size;
  return ptr;
}
extern "C" void own_free(void* ptr, size_t size, int, void*) {
  cudaFree(ptr);
  held -= size;
}
"""


def case_mem_pool_with_an_allocator():
    if MODE != "shim":
        return
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "own.cpp", Path(folder) / "own.so"
        source.write_text(ALLOCATOR, encoding="utf-8")
        subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True)
        held = ctypes.c_size_t.in_dll(ctypes.CDLL(str(library)), "held")
        allocator = torch.cuda.memory.CUDAPluggableAllocator(str(library), "own_alloc", "own_free")
        clear()
        reserved = torch.cuda.memory_reserved()
        pool = torch.cuda.MemPool(allocator.allocator())
        with torch.cuda.use_mem_pool(pool):
            small = [torch.ones(MIB, dtype=torch.uint8, device="cuda") for _ in range(3)]
            large = torch.ones(30 * MIB, dtype=torch.uint8, device="cuda")
        assert held.value == 34 * MIB, held.value
        assert len(pool.snapshot()) == 3
        assert torch.cuda.memory_reserved() - reserved == 34 * MIB
        assert sum(int(tensor.sum()) for tensor in small) == 3 * MIB and int(large.sum()) == 30 * MIB
        del pool
        assert int(large.sum()) == 30 * MIB  # the tensors outlive the pool
        del small, large
        clear()
        assert held.value == 0, held.value
        assert torch.cuda.memory_reserved() == reserved


def case_mem_pool_lends_in_a_shortage():
    if MODE != "shim":
        return
    clear()
    fraction = torch.cuda.get_per_process_memory_fraction()
    total = torch.cuda.mem_get_info()[1]
    pool = torch.cuda.MemPool(use_on_oom=True)
    with torch.cuda.use_mem_pool(pool):
        inside = torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
    address = inside.data_ptr()
    del inside
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 64 * MIB) / total)
    try:
        lent = torch.empty(400 * MIB, dtype=torch.uint8, device="cuda")
        assert lent.data_ptr() == address
        del lent, pool
        expect_shortage(700 * MIB)
    finally:
        torch.cuda.set_per_process_memory_fraction(fraction)
    clear()


def case_without_a_cache():
    if MODE != "shim":
        return
    torch.cuda.caching_allocator_enable(False)
    try:
        before = torch.cuda.memory_allocated()
        tensor = torch.ones(5 * MIB, dtype=torch.uint8, device="cuda")
        assert torch.cuda.memory_allocated() == before
        assert int(tensor.sum()) == 5 * MIB
    finally:
        torch.cuda.caching_allocator_enable(True)
    del tensor
    torch.ones(5 * MIB, dtype=torch.uint8, device="cuda")


def case_deleted_graph_gives_back_at_once():
    clear()
    before = torch.cuda.memory_reserved()
    given = torch.ones(64 * MIB, device="cuda")
    warm_up(lambda: given * 2)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.relu(given * 2).sum()
    for _ in range(20):
        graph.replay()
    del graph  # it still runs
    given = None
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= before + 4 * MIB, torch.cuda.memory_reserved() - before


def case_more_than_all():
    text = expect_shortage((1 << 60) + 1)
    assert "Tried to allocate more than 1EB memory" in text, text


def case_twice():
    assert gpupool_torch.install() == MODE
    assert gpupool_torch.install("90%") == MODE
    try:
        gpupool_torch.install("50%")
    except RuntimeError as error:
        assert "with 90% as its cap" in str(error)
    else:
        raise AssertionError("another cap was taken")


def main():
    global MODE  # noqa: PLW0603
    MODE = gpupool_torch.install("90%")
    # Whatever PyTorch's libraries keep for themselves is there before the cases.
    torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")
    report_cases(globals())
    # The tensors of these two live on until the very end.
    main.kept = torch.ones(1000, device="cuda")
    threading.kept = torch.ones(3 * MIB, device="cuda")


if __name__ == "__main__":
    main()
