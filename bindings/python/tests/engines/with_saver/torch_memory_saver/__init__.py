# SPDX-License-Identifier: Apache-2.0
"""A stand-in: a singleton that takes hold of PyTorch at its first use."""


class _Saver:
    _impl = None

    def use(self):
        self._impl = object()


torch_memory_saver = _Saver()
other = "stays"
