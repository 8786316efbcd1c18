# SPDX-License-Identifier: Apache-2.0
"""For each derived file, one function from the model to text."""

from .cffi_py import cffi_cdef, python_enums, python_errors, python_structs
from .contract_json import contract_json
from .export_map import export_map, torch_export_map
from .go import go_constants, go_layout_test, go_structs
from .layout_c import layout_c
from .node import node_names, node_records, node_types
from .reference_md import reference_md
from .rust import error_kind_rs, layout_rs
from .swig import csharp_exceptions, java_exceptions, swig_names
from .swig_comments import swig_comments

OUTPUTS = {
    "src/abi/gpupool.map": export_map,
    "src/frameworks/torch/gpupool_torch.map": torch_export_map,
    "tests/abi/layout.c": layout_c,
    "docs/api.json": contract_json,
    "docs/api.md": reference_md,
    "bindings/go/constants.go": go_constants,
    "bindings/go/structs.go": go_structs,
    "bindings/go/layout_test.go": go_layout_test,
    "bindings/node/src/records.hpp": node_records,
    "bindings/node/names.js": node_names,
    "bindings/node/names.d.ts": node_types,
    "bindings/python/native/gpupool.cdef.h": cffi_cdef,
    "bindings/python/src/gpupool/_enums.py": python_enums,
    "bindings/python/src/gpupool/_structs.py": python_structs,
    "bindings/python/src/gpupool/_status_errors.py": python_errors,
    "bindings/rust/gpupool-sys/tests/layout/generated.rs": layout_rs,
    "bindings/rust/gpupool/src/error_kind.rs": error_kind_rs,
    "bindings/swig/names.swg": swig_names,
    "bindings/swig/comments.swg": swig_comments,
    "bindings/swig/java/GpuPoolException.java": java_exceptions,
    "bindings/swig/csharp/GpuPoolException.cs": csharp_exceptions,
}
