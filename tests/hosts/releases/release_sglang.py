# SPDX-License-Identifier: Apache-2.0
"""What SGLang asks of torch_memory_saver, whose place gpupool's object takes."""

import ast

import steps
from gpupool.frameworks import _torch_saver

[path] = steps.FOLDER.rglob("torch_memory_saver_adapter.py")
adapter = steps.tree(path)
asked = list(steps.calls(adapter, lambda of: isinstance(of, ast.Name) and of.id == "_memory_saver"))
assert {"region", "pause", "resume"} <= {name for name, _ in asked}
for name, call in asked:
    steps.expect_answer(_torch_saver.TorchMemorySaver, name, call)
for name, _ in steps.calls(adapter, lambda of: isinstance(of, ast.Name) and of.id == "torch_memory_saver"):
    assert hasattr(_torch_saver, name), name
for node in ast.walk(adapter):
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "_memory_saver":
        assert hasattr(_torch_saver.TorchMemorySaver, node.attr) or node.attr in vars(_torch_saver.torch_memory_saver)
steps.came(steps.INTERFACE)
