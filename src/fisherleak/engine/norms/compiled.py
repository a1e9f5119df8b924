"""Functions compiled by numba, kept on disk where there is a place for it, and run over rows in threads of our own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numba

from fisherleak._support.namespaces import Sums

__all__ = ["compiled", "in_threads"]


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """The function, compiled when it is first called."""
    try:
        return numba.njit(function, cache=True, **options)
    except RuntimeError:  # no folder to keep the compiled code in
        return numba.njit(function, **options)


def in_threads(kernel: Callable[..., None], rows: int, arguments: Sums, alone: bool) -> None:
    """``kernel(first, last, *arguments)`` over all rows, split over the threads; ``alone`` starts none."""
    threads = 1 if alone else numba.get_num_threads()
    if threads == 1:
        kernel(0, rows, *arguments)
        return
    edges = [rows * t // threads for t in range(threads + 1)]
    # numba's default threading layer may not be entered from two threads
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(kernel, a, b, *arguments) for a, b in pairwise(edges)]:
            done.result()
