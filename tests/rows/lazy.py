"""Lazy rows and a scheduler that watches what is computed of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")


class Computes:
    """A scheduler that counts graphs and refuses results as long as the rows."""

    def __init__(self) -> None:
        self.count = 0
        self.longest = 0

    def __call__(self, graph: Any, keys: Any, **options: Any) -> Any:
        self.count += 1
        results = dask.threaded.get(graph, keys, **options)
        self.longest = max([self.longest, *(len(x) for x in _flat(results) if hasattr(x, "__len__"))])
        return results


def _flat(results: Any) -> Iterator[Any]:
    for x in results:
        if isinstance(x, (list, tuple)):
            yield from _flat(x)
        else:
            yield from getattr(x, "values", [x]) if isinstance(getattr(x, "values", None), tuple) else [x]


def lazy(case: Any, rows: int = 100) -> tuple[Any, Any]:
    return da.from_array(case.X, chunks=(rows, -1)), da.from_array(case.y, chunks=rows)
