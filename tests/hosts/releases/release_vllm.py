# SPDX-License-Identifier: Apache-2.0
"""vLLM's sleep mode: its own modules of it, with stand-ins for the rest of vLLM and for PyTorch."""

import ast
import importlib
import sys
from types import ModuleType, SimpleNamespace

import steps
from gpupool.frameworks import vllm as ours
from gpupool.frameworks._vllm_allocator import KEPT, GpupoolAllocator


def stand_in(name: str, **content: object) -> None:
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(content)


def is_allocator(of: ast.expr) -> bool:
    return ast.unparse(of) in ("allocator", "get_mem_allocator_instance()")


stand_in("torch", Tensor=object)
stand_in("vllm.platforms", current_platform=None)
stand_in("vllm.logger", init_logger=lambda _: SimpleNamespace(info=print))
steps.use()

theirs = importlib.import_module("vllm.device_allocator")
undo = ours.put()
assert isinstance(theirs.get_mem_allocator_instance(), GpupoolAllocator)
undo()
steps.expect_parameters(
    GpupoolAllocator, steps.class_of(steps.tree("vllm/device_allocator/__init__.py"), "MemAllocator")
)

asked = set()
for path in sorted(steps.FOLDER.rglob("*.py")):
    text = path.read_text(encoding="utf-8")
    if "get_mem_allocator_instance" in text:
        for name, call in steps.calls(ast.parse(text), is_allocator):
            steps.expect_answer(GpupoolAllocator, name, call)
            asked.add(name)
assert {"use_memory_pool", "get_current_usage"} <= asked, asked

if (steps.FOLDER / "vllm/device_allocator/sleep_mode_backend.py").exists():
    ours.register()
    factory = importlib.import_module("vllm.device_allocator.sleep_mode_backend").SleepModeBackendFactory
    kind = factory.get_backend_class(ours.BACKEND)
    assert not kind.__abstractmethods__
    backends = steps.tree("vllm/device_allocator/sleep_mode_backend.py")
    steps.expect_parameters(kind, steps.class_of(backends, "SleepModeBackend"))
    own = next(each for each in steps.class_of(backends, "CuMemBackend").body if getattr(each, "name", "") == "suspend")
    tags = [each.value for part in ast.walk(own) if isinstance(part, ast.Tuple) for each in ast.walk(part)
            if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    assert "weights" in tags and set(tags) <= {"weights", *KEPT}, tags
steps.came(steps.INTERFACE)
