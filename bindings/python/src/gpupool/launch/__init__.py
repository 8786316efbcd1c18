# SPDX-License-Identifier: Apache-2.0
"""Which device a process should use, and how much of it, according to the launcher that started it.

    place = gpupool.launch.adopt()      # after torchrun, mpirun, srun or in a Ray task
    torch.cuda.set_device(place.device)

The same without touching the program: GPUPOOL_CAP=auto, `python -m gpupool --cap auto train.py`, or for programs in any
language `srun python -m gpupool.launch ./solver`. docs/fleet.md has a table of launchers. Since 0.2.
"""

from __future__ import annotations

from .._place import Place, place
from ..frameworks._cap import adopt_place

__all__ = ["Place", "adopt", "place"]


def adopt() -> Place:
    """Limits this process's default pools to its share of the device, and returns its place. Raises as place();
    OverLimitError if more is in use, RuntimeError in a worker that Ray has given no GPU."""
    return adopt_place()
