# SPDX-License-Identifier: Apache-2.0
"""The functions of libgpupool_torch (gpupool/torch.h), with the version that added each.

They are not part of the contract that bindings cover: PyTorch calls them, through pointers.
"""

TORCH_FUNCTIONS = {
    "gpupool_torch_alloc": "0.2",
    "gpupool_torch_alloc_or_throw": "0.2",
    "gpupool_torch_free": "0.2",
    "gpupool_torch_explain": "0.2",
    "gpupool_torch_record_stream": "0.2",
    "gpupool_torch_reset": "0.2",
    "gpupool_torch_memory_fraction": "0.2",
    "gpupool_torch_init": "0.2",
    "gpupool_torch_base_alloc": "0.2",
    "gpupool_torch_begin_allocate_to_pool": "0.2",
    "gpupool_torch_end_allocate_to_pool": "0.2",
    "gpupool_torch_release_pool": "0.2",
    "gpupool_torch_retain_pool": "0.2",
    "gpupool_torch_pool_use_count": "0.2",
    "gpupool_torch_pools": "0.2",
    "gpupool_torch_limit": "0.2",
    "gpupool_torch_tag": "0.2",
    "gpupool_torch_tag_pools": "0.2",
    "gpupool_torch_tag_margin": "0.2",
    "gpupool_torch_asleep_bytes": "0.2",
}
