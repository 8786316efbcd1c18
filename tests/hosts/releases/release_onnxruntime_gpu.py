# SPDX-License-Identifier: Apache-2.0
"""Where ONNX Runtime's sessions come by the options of their providers, which gpupool.install adds to."""

import ast

import steps

module = steps.tree("onnxruntime/capi/onnxruntime_inference_collection.py")
[found] = [each for each in module.body if getattr(each, "name", "") == "check_and_normalize_provider_args"]
results = [each.value for each in ast.walk(found) if isinstance(each, ast.Return) and each.value is not None]
assert results, "it returns something"
assert all(isinstance(each, ast.Tuple) and len(each.elts) == 2 for each in results), "names and options"
session = steps.class_of(module, "InferenceSession")
assert f"{found.name}(" in ast.unparse(session), "each session asks it, by its name in the module"
steps.came(steps.INTERFACE)
