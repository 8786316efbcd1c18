# SPDX-License-Identifier: Apache-2.0
"""What owns memory is not copied: an alias would write into the block of whoever gets it next."""

import copy
import multiprocessing.reduction
import pickle
from collections.abc import Callable

import pytest

import gpupool

OWNERS: dict[str, Callable[[gpupool.Pool], object]] = {
    "Buffer": lambda pool: pool.alloc(512),
    "BufferSlice": lambda pool: pool.alloc(512)[8:16],
    "Stream": lambda pool: pool.stream(),
    "Pool": lambda pool: pool,
    "BorrowedTensor": lambda pool: gpupool.from_dlpack(pool.alloc(512)),
}
VERBS: dict[str, Callable[[object], object]] = {
    "copy": copy.copy,
    "copy deeply": copy.deepcopy,
    "pickle": pickle.dumps,
    "pickle, protocol 0": lambda owner: pickle.dumps(owner, 0),
    "pickle to a process": multiprocessing.reduction.ForkingPickler.dumps,
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", OWNERS)
def test_a3_an_owner_is_not_copied(pool: gpupool.Pool, kind: str, verb: str) -> None:
    owner = OWNERS[kind](pool)
    assert type(owner).__name__ == kind
    with pytest.raises(TypeError, match=f"cannot {verb.split()[0].strip(',')} a {kind}: it owns its "):
        VERBS[verb](owner)


def test_a3_no_alias_in_a_structure(pool: gpupool.Pool) -> None:
    with pytest.raises(TypeError, match="cannot copy a Buffer"):
        copy.deepcopy({"weights": [pool.alloc(512)]})
