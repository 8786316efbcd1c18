# SPDX-License-Identifier: Apache-2.0
"""Objects that own something of the library, and so must not be copied."""

from __future__ import annotations

from typing import ClassVar, NoReturn


class Owner:
    """Refuses copy.copy, copy.deepcopy and pickle: a copy would share the block, stream or pool, and go on using it
    after the original has ended it."""

    __slots__ = ()

    _owns: ClassVar[str]
    """What the object owns, and what to do instead of copying it."""

    def _refuse(self, verb: str) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(f"cannot {verb} {'an' if kind[0] in 'AEIO' else 'a'} {kind}: it owns its {self._owns}")

    def __copy__(self) -> NoReturn:
        self._refuse("copy")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self._refuse("copy")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self._refuse("pickle")
