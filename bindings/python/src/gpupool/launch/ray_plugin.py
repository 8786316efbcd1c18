# SPDX-License-Identifier: Apache-2.0
"""A field of Ray's runtime_env, for clusters that offer it to everybody:

RAY_RUNTIME_ENV_PLUGINS='[{"class": "gpupool.launch.ray_plugin.GpupoolPlugin"}]' ray start --head

    @ray.remote(num_gpus=0.25, runtime_env={"gpupool": {"install": ["torch"], "share": "team"}})
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..ray import variables

if TYPE_CHECKING:
    _Base = object
else:
    _Base = importlib.import_module("ray._private.runtime_env.plugin").RuntimeEnvPlugin


class GpupoolPlugin(_Base):
    """Reads runtime_env["gpupool"]. Its options are those of gpupool.ray.runtime_env."""

    name: str = "gpupool"

    @staticmethod
    def validate(runtime_env_dict: dict[str, Any]) -> None:
        """Raises ValueError or TypeError for invalid options."""
        _variables(runtime_env_dict)

    def modify_context(self, uris: list[str], runtime_env: Any, context: Any, logger: Any) -> None:
        """Gives the worker its environment; variables that env_vars sets itself stay."""
        del uris, logger
        context.env_vars = {**_variables(runtime_env), **context.env_vars}


def _variables(runtime_env: Any) -> dict[str, str]:
    given = runtime_env["gpupool"]
    if not isinstance(given, dict):
        raise TypeError(f"runtime_env's gpupool is {given!r}; it is a dict, such as {{'share': 'team'}}")
    return variables({"cap": "auto", **given})
