"""Cells as they stand in a table, before types, marks, spellings and levels are decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak.tables.read.parts import Part, RawTable

__all__ = ["WrittenCells", "written_cells"]


@dataclass(frozen=True, eq=False)
class WrittenCells(Mapping[str, Sequence[Any]]):
    """The columns of some rows of a table by name, read when they are asked for; one of them under an empty name too.

    Attributes
    ----------
    names : tuple of str
    rows : integer array of shape (n,), optional
        Their numbers in the table, ascending, the first is 1; all without it.
    label : str, optional
        The column that an empty name stands for.
    """

    names: tuple[str, ...]
    parts: tuple[Part, ...] = field(repr=False)
    rows: NDArray[np.int64] | None = field(default=None, repr=False)
    label: str | None = None

    def of(self, rows: Any, label: str) -> WrittenCells:
        """Of these rows alone, with a column under an empty name."""
        return WrittenCells(self.names, self.parts, np.asarray(rows, dtype=np.int64), label)

    @property
    def length(self) -> int:
        """How many rows the whole table has."""
        return sum(part.rows for part in self.parts)

    def __getitem__(self, name: str) -> Sequence[Any]:
        own = name or self.label
        if own not in self.names:
            raise KeyError(name)
        found: list[Any] = []
        for part in self.parts:
            found += _cells(part.read([own]).column(0), self._within(part))
        return found

    def _within(self, part: Part) -> NDArray[np.int64]:
        if self.rows is None:
            return np.arange(part.rows)
        low, high = np.searchsorted(self.rows, [part.start + 1, part.start + part.rows + 1])
        return self.rows[low:high] - 1 - part.start

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _cells(column: Any, rows: NDArray[np.int64]) -> list[Any]:
    """Some cells of an Arrow column; floats of few digits stay such."""
    import pyarrow as pa

    some = column.take(pa.array(rows))
    short = pa.types.is_floating(some.type) and some.type != pa.float64()
    return list(some.to_numpy()) if short else list(some.to_pylist())


def written_cells(raw: RawTable) -> WrittenCells:
    """All cells of a table, which must not have been used yet: a table for one use changes with its use, and these stay."""
    return WrittenCells(raw.names, tuple(raw.parts))
