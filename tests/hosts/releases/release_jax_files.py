# SPDX-License-Identifier: Apache-2.0
"""What gpupool.jax.share relies on, in JAX's files."""

import ast

import steps
from gpupool.frameworks import jax as ours


def function(path: str, name: str) -> ast.FunctionDef:
    return next(each for each in steps.tree(path).body if isinstance(each, ast.FunctionDef) and each.name == name)


if (steps.FOLDER / "jaxlib").exists():
    options = function("jaxlib/xla_client.py", "generate_pjrt_gpu_plugin_options")
    words = [each.value for each in ast.walk(options) if isinstance(each, ast.Constant)]
    assert ours._VARIABLES[0] in words, words
else:
    assert not function("jax/_src/xla_bridge.py", "backends_are_initialized").args.args
steps.came(steps.INTERFACE)
