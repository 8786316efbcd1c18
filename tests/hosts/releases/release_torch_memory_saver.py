# SPDX-License-Identifier: Apache-2.0
"""torch_memory_saver's methods, which gpupool's object has too."""

import steps
from gpupool.frameworks._torch_saver import TorchMemorySaver

steps.expect_parameters(
    TorchMemorySaver, steps.class_of(steps.tree("torch_memory_saver/entrypoint.py"), "TorchMemorySaver")
)
steps.came(steps.INTERFACE)
