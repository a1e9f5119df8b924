"""Functions compiled by numba, kept on disk where there is a place for it, and run over rows in threads of our own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from fisherleak._support.namespaces import Sums
from fisherleak.rows import each_in_order, threads_for

PARTS = 8
"""Parts of a block that threads share."""
LEAST = 64
"""Rows from which starting threads pays."""


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """The function, compiled when it is first called."""
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
