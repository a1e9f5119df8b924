"""Compiled loops for norms, whether they are there and worth loading, and how they run over rows in threads of our own.

May import ``_support``, rows and numba.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from fisherleak._support.arrays import Array, is_lazy, is_numpy
from fisherleak._support.namespaces import Sums
from fisherleak.rows import each_in_order, threads_for

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


PARTS = 8
"""Parts of a block that threads share."""
LEAST = 64
"""Rows from which starting threads pays."""


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """The function, compiled when it is first called; kept on disk where there is a place for it."""
    import numba

    try:
        return numba.njit(function, cache=True, **options)
    except RuntimeError:  # no folder to keep the compiled code in
        return numba.njit(function, **options)


def in_threads(kernel: Callable[..., None], rows: int, arguments: Sums) -> None:
    """``kernel(first, last, *arguments)`` over all rows, split over threads where they are not in one already."""
    # numba's default threading layer may not be entered from two threads
    parts = [(rows * t // PARTS, rows * (t + 1) // PARTS) for t in range(PARTS)]
    threads = threads_for(PARTS, 1) if rows >= LEAST else 1
    if threads == 1:
        kernel(0, rows, *arguments)
        return
    for _ in each_in_order(lambda part: kernel(*part, *arguments), parts, threads):
        pass
