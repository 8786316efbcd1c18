# SPDX-License-Identifier: Apache-2.0
"""Sleep mode backends: the base class, and the factory in which plugins register."""

import abc
import importlib


class SleepModeBackend(abc.ABC):
    def __init__(self):
        self._state = "RUNNING"

    @abc.abstractmethod
    def suspend(self, level=1): ...

    @abc.abstractmethod
    def resume(self, tags=None): ...

    def state(self):
        return self._state

    def discard(self, tags):
        raise RuntimeError("not supported")

    @classmethod
    def is_supported(cls):
        return True

    @classmethod
    def preserves_communicators(cls):
        return False

    @classmethod
    def preserves_compiled_artifacts(cls):
        return False

    @classmethod
    def preserves_graphs_with_communicators(cls):
        return False

    @classmethod
    def supports_durable_storage(cls):
        return False


class SleepModeBackendFactory:
    _known = {}

    @classmethod
    def register_backend(cls, name, module_path, class_name):
        if name in cls._known:
            raise ValueError(f"{name} is registered")
        cls._known[name] = (module_path, class_name)

    @classmethod
    def get_backend_class(cls, name):
        if name not in cls._known:
            raise ValueError(f"{name} is not registered")
        module, kind = cls._known[name]
        return getattr(importlib.import_module(module), kind)
