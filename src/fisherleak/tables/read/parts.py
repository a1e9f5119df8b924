"""A table in parts: what all passes over its raw columns walk over, in memory, from disk, or on a cluster."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, TypeVar

from fisherleak._support.namespaces import TableLike
from fisherleak._support.progress import track
from fisherleak.rows import sum_rows, task_items
from fisherleak.tables.read.parquet import ParquetPart, checksum

__all__ = [
    "FewDecide",
    "FilePart",
    "MemoryPart",
    "Part",
    "RawTable",
    "Room",
    "checksum_of",
    "each_part",
    "over_parts",
    "refined",
    "table_parts",
]

PART_VALUES = 2**23
"""Values in a part of a table in memory."""
SHARE = 0.6
"""Part of the memory that is free which features may take."""
BLOCK_BYTES = 2**27
"""Bytes of the features of a part that is read for every pass; a thread or worker holds about six times as much."""
T = TypeVar("T")
FewDecide = Mapping[str, tuple[int, str]]


class Part(Protocol):
    """Some rows of a table."""

    @property
    def rows(self) -> int:
        """How many."""

    @property
    def start(self) -> int:
        """The number of the first, counted from 0."""

    def read(self, names: Sequence[str]) -> Any:
        """These columns as an Arrow table."""

    def where(self, row: int) -> str:
        """What to call a row of this part."""

    def finer(self, most: int) -> Iterable[Part]:
        """The same rows in parts of at most ``most``."""

    def shorter(self, count: int) -> Part:
        """Without its last ``count`` rows."""

    def changed(self, change: Callable[[Any], Any]) -> Part:
        """The same rows with columns changed: at once in memory, when they are read else."""


@dataclass(frozen=True)
class MemoryPart:
    """Rows of an Arrow table in memory."""

    table: Any = field(repr=False)
    start: int = 0

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    def read(self, names: Sequence[str]) -> Any:
        return self.table.select(list(names))

    def where(self, row: int) -> str:
        return f"row {self.start + row + 1}"

    def finer(self, most: int) -> Iterator[MemoryPart]:
        for offset in range(0, self.rows, most):
            yield MemoryPart(self.table.slice(offset, most), self.start + offset)

    def shorter(self, count: int) -> MemoryPart:
        return MemoryPart(self.table.slice(0, self.rows - count), self.start)

    def changed(self, change: Callable[[Any], Any]) -> MemoryPart:
        return MemoryPart(change(self.table), self.start)


@dataclass(frozen=True)
class FilePart(ParquetPart):
    """Row groups of a Parquet file; ``several`` where the table has more files than one.

    ``keep`` is a temporary folder that lives as long as the part.
    """

    several: bool = False
    keep: Any = field(default=None, repr=False, compare=False)

    def where(self, row: int) -> str:
        if not self.several:
            return f"row {self.start + row + 1}"
        return f"row {self.first_row + row + 1} of {PurePosixPath(self.url).name}"

    def changed(self, change: Callable[[Any], Any]) -> ChangedPart:
        return ChangedPart(self, change)


@dataclass(frozen=True)
class ChangedPart:
    """A part whose columns are changed as they are read."""

    part: Part
    change: Callable[[Any], Any]

    @property
    def rows(self) -> int:
        return self.part.rows

    @property
    def start(self) -> int:
        return self.part.start

    def read(self, names: Sequence[str]) -> Any:
        return self.change(self.part.read(names))

    def where(self, row: int) -> str:
        return self.part.where(row)

    def finer(self, most: int) -> Iterator[ChangedPart]:
        for piece in self.part.finer(most):
            yield ChangedPart(piece, self.change)

    def shorter(self, count: int) -> ChangedPart:
        return ChangedPart(self.part.shorter(count), self.change)

    def changed(self, change: Callable[[Any], Any]) -> ChangedPart:
        return ChangedPart(self, change)


@dataclass(frozen=True)
class RawTable:
    """A table as it was opened.

    Attributes
    ----------
    source : str
        What to call it.
    sha256 : str
        Of the bytes of the file; empty for the files of a folder, which ``checksum_of`` reads.
    names : tuple of str
        The columns, in order, each once.
    kinds : tuple of Arrow types
    rows : int
    notes : tuple of str
        What was assumed in reading it, in sentences.
    parts : tuple of Part
        A list in a table for one use, which :meth:`once` gives.
    files : tuple of str
        Those of a folder.
    here : bool
        Whether only this process can read it.
    sheets : tuple of str
        Those of a workbook, or the frames of a file of R, of which the first was read as none was named.
    inferred : set of str
        What a reader of such a file makes of cells of text where all of a column are alike: "number", "date", …
    few_decide : dict
        Columns that would be read as something else without so many of their cells, and as what: numbers as "text" without the
        7 beside 01, 02, …, text as "date" without the one cell that is no date.
    header_by_one_row : bool
        Whether one row, or a few, decide which line is the header, whether there is one, or to which fields its names belong.
    rarely_there : dict
        How many objects of a JSON file have a column that not all of them have.
    """

    source: str
    sha256: str
    names: tuple[str, ...]
    kinds: tuple[Any, ...]
    rows: int
    notes: tuple[str, ...]
    parts: Sequence[Part] = field(repr=False)
    files: tuple[str, ...] = ()
    here: bool = False
    sheets: tuple[str, ...] = ()
    inferred: frozenset[str] = frozenset()
    few_decide: FewDecide = field(default_factory=dict)
    header_by_one_row: bool = False
    rarely_there: Mapping[str, int] = field(default_factory=dict)

    def kind(self, name: str) -> Any:
        return self.kinds[self.names.index(name)]

    def once(self) -> RawTable:
        """The same table for one use: its parts are let go while features are made, so that memory never holds both.

        Nothing else may hold this table, or its parts stay.
        """
        return replace(self, parts=list(self.parts))


@dataclass(frozen=True)
class Room:
    """Where a table may lie: bytes for features in this process, and whether passes go to a cluster, which has ``there``."""

    memory: int
    cluster: bool = False
    there: int = 0

    @classmethod
    def here(cls) -> Room:
        """The memory that is free on this machine, less what other steps need."""
        return cls(int(SHARE * free_memory()))

    @property
    def threads(self) -> int:
        """Threads whose blocks fit, for rows that are read part by part."""
        return max(1, min(os.cpu_count() or 1, self.memory // (6 * BLOCK_BYTES)))

    def holds(self, rows: int, width: int) -> bool:
        """Whether features of that shape are to be kept in memory."""
        return not self.cluster and 8 * rows * width <= self.memory


def free_memory() -> int:
    """Bytes that this process may still take, by what the system and its limits say."""
    found = []
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found[:] = [1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])]
    with suppress(OSError, ValueError):
        root = Path("/sys/fs/cgroup")
        limit, used = (int((root / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
        found.append(max(0, limit - used))
    return min(found, default=4 * 2**30)


def table_parts(table: TableLike) -> tuple[Part, ...]:
    """An Arrow table, cut by rows where it is large."""
    return tuple(MemoryPart(table).finer(max(1, PART_VALUES // max(1, table.num_columns))))


def refined(raw: RawTable, width: int) -> RawTable:
    """The same table with parts cut whose features, ``width`` of them, would be too large."""
    most = max(1, BLOCK_BYTES // (8 * width))
    pieces = (piece for part in raw.parts for piece in (part.finer(most) if part.rows > most else [part]))
    return replace(raw, parts=tuple(pieces))


def over_parts(function: Callable[[Any], T], parts: Sequence[Any], merge: Callable[[T, T], T], lazily: bool) -> T:
    """``function(part)`` of every part, merged in order; lazily, each is a task."""

    def block(some: Any) -> tuple[T]:
        return (function(some[0]),)

    (total,) = sum_rows(block, task_items(parts, lazily), most=1, join=lambda a, b: (merge(a[0], b[0]),))
    merged: T = total
    return merged


def each_part(raw: RawTable, description: str) -> Iterator[Part]:
    """The parts in order; those of a table for one use are each let go when the next is asked for."""
    yield from track(_let_go(raw.parts) if isinstance(raw.parts, list) else raw.parts, len(raw.parts), description)


def _let_go(parts: list[Part]) -> Iterator[Part]:
    parts.reverse()
    while parts:
        yield parts.pop()


def checksum_of(raw: RawTable, lazily: bool) -> str:
    """SHA-256 of the file; for several that of the lines that ``sha256sum`` prints for them, in their order."""
    if not raw.files:
        return raw.sha256
    sums: list[str] = over_parts(lambda url: [checksum(url)], raw.files, lambda a, b: a + b, lazily)
    if len(sums) == 1:
        return sums[0]
    names = [PurePosixPath(url).name for url in raw.files]
    text = "".join(f"{each}  {name}\n" for each, name in zip(sums, names, strict=True))
    return hashlib.sha256(text.encode()).hexdigest()
