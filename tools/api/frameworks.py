# SPDX-License-Identifier: Apache-2.0
"""The functions of include/gpupool/frameworks.h, with the version that added each.

They are exported but no part of the contract that bindings cover: frameworks call them, through pointers.
"""

FRAMEWORK_FUNCTIONS = {
    "gpupool_torch_alloc": "0.1",
    "gpupool_torch_alloc_or_throw": "0.1",
    "gpupool_torch_free": "0.1",
    "gpupool_torch_explain": "0.1",
    "gpupool_torch_record_stream": "0.1",
    "gpupool_torch_reset": "0.1",
    "gpupool_torch_memory_fraction": "0.1",
    "gpupool_torch_init": "0.1",
    "gpupool_torch_base_alloc": "0.1",
    "gpupool_torch_begin_allocate_to_pool": "0.1",
    "gpupool_torch_end_allocate_to_pool": "0.1",
    "gpupool_torch_release_pool": "0.1",
    "gpupool_torch_retain_pool": "0.1",
    "gpupool_torch_pool_use_count": "0.1",
    "gpupool_torch_pools": "0.1",
    "gpupool_torch_limit": "0.1",
}
