"""Whether a kernel that numba compiles is there, and worth it."""

from __future__ import annotations

import importlib.util

from fisherleak._support.arrays import Array, is_numpy

__all__ = ["is_compiled"]

_HAS_NUMBA = importlib.util.find_spec("numba") is not None


def is_compiled(x: Array, least: int) -> bool:
    """Whether work on an array of at least so many values is done by a compiled kernel."""
    return bool(_HAS_NUMBA and is_numpy(x) and x.size >= least)
