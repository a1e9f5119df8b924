"""Compiled loops for norms, and whether they are there and worth loading; may import ``_support`` and numba."""

from __future__ import annotations

import importlib.util

from fisherleak._support.arrays import Array, is_lazy, is_numpy

__all__ = ["is_compiled", "pays_for_loading"]

_HAS_NUMBA = importlib.util.find_spec("numba") is not None


def is_compiled(x: Array, least: int) -> bool:
    """Whether work on an array of at least so many values is done by a compiled kernel."""
    return bool(_HAS_NUMBA and is_numpy(x) and x.size >= least)


def pays_for_loading(table: Array, least: int) -> bool:
    """Whether a whole table (n, d) has at least so many values, or is read part by part.

    Loading numba and its kernels takes 0.7 s of processor time in every process, even where they are kept compiled: the table
    has to earn that, and a block of rows cannot tell.
    """
    return bool(is_lazy(table) or table.shape[0] * table.shape[1] >= least)
