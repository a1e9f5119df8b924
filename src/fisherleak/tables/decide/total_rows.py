"""Last rows that are nobody's: sums and means of those above them.

With a label (Total, Mean, …), one number that is the sum or the mean of those above is enough, or the label in a column of
numbers. Without one, at least two numbers and half of all that are there must be sums, each larger than any it sums up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak.tables.decide.choices import sort_of
from fisherleak.tables.read.parts import MemoryPart, Part, RawTable, over_parts

__all__ = ["without_totals"]

Places = NDArray[np.int64]

LABELS = {
    *("total", "totals", "grand total", "subtotal", "sum", "overall", "all", "average", "avg", "mean"),
    *("summe", "gesamt", "insgesamt", "mittelwert", "durchschnitt", "somme", "moyenne", "ensemble", "suma", "promedio"),
    *("totale", "somma", "media", "soma", "média"),
}
MOST = 3
"""Rows of sums and means at most."""
FEWEST_UNLABELLED = 10
"""Rows of a table in which sums without a label are no chance."""
CLOSE = 1e-4
"""Sums are written with rounding."""


@dataclass(frozen=True)
class _Ends:
    """A column's numbers in the last rows, and of those above: sum, count, and the largest size in the last part."""

    last: tuple[float | None, ...]
    total: float
    count: int
    largest: float

    def sums_up(self, rows: int = 0) -> bool:
        """Whether one of them is the sum or the mean of those above, or might be without so many rows."""
        if self.count < 2:
            return False
        off = rows * self.largest
        aims = ((self.total, off), (self.total / self.count, 2.0 * off / self.count))
        return any(_close(value, aim, slack) for value in self.last if value for aim, slack in aims)

    def is_sum(self, rows: int = 0) -> bool:
        value = self.last[-1]
        return value is not None and abs(value) > self.largest and _close(value, self.total, rows * self.largest)


def _close(value: float, aim: float, slack: float) -> bool:
    return math.isclose(value, aim, rel_tol=CLOSE, abs_tol=slack * (1.0 + CLOSE))


def without_totals(
    raw: RawTable, plain: RawTable, numbers: Collection[str], lazily: bool, one: int = 1, who: Places | None = None
) -> tuple[RawTable, list[str], bool]:
    """The table without its last rows where these are sums or means of the others; a sentence; whether one row decides it.

    ``plain`` is the same with text turned to numbers; ``numbers`` are the columns of text that were. Where ``who`` says whose
    each row is, it is all rows of one person, who has up to ``one``.
    """
    count, decided = _totals(raw, plain, numbers, lazily, one)
    for texts, sums, left in [] if decided else [(raw, plain, count), *_fewer(raw, plain, count, who)]:
        # without its one word a column of text may be one of numbers
        for apart in {frozenset[str](), frozenset(numbers)}:
            decided |= _totals(texts, sums, numbers, lazily, one, apart)[0] != left
    return (*_shortened(raw, count), decided) if count else (raw, [], decided)


def _totals(
    raw: RawTable, plain: RawTable, numbers: Collection[str], lazily: bool, one: int, apart: Collection[str] = ()
) -> tuple[int, bool]:
    """How many of the last rows are totals; whether they are by sums that ``one`` rows change, or might be.

    A total without a label has nothing in columns of text, but in those that are told ``apart``.
    """
    last = raw.parts[-1]
    texts = _columns(raw, "text")
    most = min(MOST, last.rows)
    if raw.rows < 4:
        return 0, False
    tail = last.read(texts).slice(last.rows - most).to_pylist() if texts else [{}] * most
    named = [_labelled(row) for row in tail]
    block = next((k for k, names in enumerate(reversed(named)) if not names), most)
    decided = False
    for count in range(block, 0, -1):
        if any(set(names) & set(numbers) for names in named[-count:]):
            return count, decided  # the label alone
        ends = _ends(plain, count, lazily)
        decided |= any(column.sums_up(one) for column in ends)
        if any(column.sums_up() for column in ends):
            return count, True
    bare = all(cell is None or not cell.strip() for name, cell in tail[-1].items() if name not in apart)
    if not block and bare and raw.rows >= FEWEST_UNLABELLED:
        found = _with_last(plain, lazily)
        sums, half = sum(column.is_sum() for column in found), 0.5 * len(found)
        decided = sum(column.is_sum(one) for column in found) >= max(2, half)
        if sums >= max(2, half):
            return 1, True
    return 0, decided


def _columns(raw: RawTable, sort: str) -> tuple[str, ...]:
    return tuple(name for name in raw.names if sort_of(raw.kind(name)) == sort)


def _fewer(raw: RawTable, plain: RawTable, count: int, who: Places | None) -> Iterator[tuple[RawTable, RawTable, int]]:
    """Both tables without each of the last rows, or all rows of its person; and how many of ``count`` last ones are left.

    Without other rows the last ones are the same, and sums alone change.
    """
    last = np.arange(raw.rows)[: -MOST - 1 : -1]
    texts = _read_last(raw, _columns(raw, "text") or raw.names[:1])
    sums = _read_last(plain, _columns(plain, "number") or raw.names[:1])
    for own in last if who is None else np.unique(who[last]):
        kept = partial(_is_other, own, who)
        yield _only(texts, kept), _only(sums, kept), int(kept(last[:count]).sum())


def _is_other(own: int, who: Places | None, rows: Places) -> NDArray[np.bool_]:
    return np.asarray((rows if who is None else who[rows]) != own)


def _read_last(raw: RawTable, names: Sequence[str]) -> RawTable:
    """Some columns, and the last part in memory."""
    last = raw.parts[-1]
    parts = [*raw.parts[:-1], MemoryPart(last.read(names), last.start)]
    return replace(raw, names=tuple(names), kinds=tuple(raw.kind(name) for name in names), parts=parts)


def _only(raw: RawTable, kept: Callable[[Places], NDArray[np.bool_]]) -> RawTable:
    """The rows that are kept, ``MOST`` of them in the last part where there are as many."""
    import pyarrow as pa

    parts, start = list(raw.parts), 0
    for k, part in enumerate(parts):
        left = kept(np.arange(start, start + part.rows))
        start += part.rows
        if not left.all():
            parts[k] = MemoryPart(part.read(raw.names).filter(pa.array(left)), part.start)
    while len(parts) > 1 and parts[-1].rows < MOST:
        both = pa.concat_tables([part.read(raw.names) for part in parts[-2:]])
        parts[-2:] = [MemoryPart(both, parts[-2].start)]
    return replace(raw, rows=sum(part.rows for part in parts), parts=parts)


def _labelled(row: dict[str, str | None]) -> list[str]:
    """The columns of a row that call it a total."""
    return [name for name, cell in row.items() if cell is not None and cell.strip(" :\t").casefold() in LABELS]


def _with_last(raw: RawTable, lazily: bool) -> list[_Ends]:
    """The columns of numbers that the last row has, where it may have sums and hardly anything else; none else."""
    last = replace(raw, parts=raw.parts[-1:])
    if sum(_larger(column) for column in _ends(last, 1, False)) < 2:
        return []  # no need to sum up the other parts
    return [column for column in _ends(raw, 1, lazily) if column.last[-1]]


def _larger(column: _Ends) -> bool:
    return column.last[-1] is not None and abs(column.last[-1]) > column.largest


def _ends(raw: RawTable, count: int, lazily: bool) -> list[_Ends]:
    """The columns of numbers, without the last rows."""
    import pyarrow.compute as pc

    names = _columns(raw, "number")
    if not names:
        return []

    def of_part(part: Part) -> list[tuple[float, int]]:
        table = part.read(names)
        return [(float(pc.sum(column).as_py() or 0.0), len(column) - column.null_count) for column in table.columns]

    def merge(a: list[tuple[float, int]], b: list[tuple[float, int]]) -> list[tuple[float, int]]:
        return [(x + y, m + n) for (x, m), (y, n) in zip(a, b, strict=True)]

    sums = over_parts(of_part, raw.parts, merge, lazily)
    table = raw.parts[-1].read(names)
    found = []
    for column, (total, present) in zip(table.columns, sums, strict=True):
        above, ends = column.slice(0, len(column) - count), column.slice(len(column) - count).to_pylist()
        last = tuple(None if value is None else float(value) for value in ends)
        there = [value for value in last if value is not None]
        found.append(_Ends(last, total - sum(there), present - len(there), _largest(above)))
    return found


def _largest(values: Any) -> float:
    import pyarrow.compute as pc

    ends = pc.min_max(values).as_py()
    return max((abs(float(end)) for end in ends.values() if end is not None), default=0.0)


def _shortened(raw: RawTable, count: int) -> tuple[RawTable, list[str]]:
    rows = raw.rows - count
    which = f"The last row ({raw.rows}) looks like a total of the others and is"
    if count > 1:
        which = f"The last {count} rows ({rows + 1} to {raw.rows}) look like totals of the others and are"
    part = raw.parts[-1].shorter(count)
    kept = raw.parts if isinstance(raw.parts, list) else list(raw.parts)
    kept[-1:] = [part] if part.rows else []
    parts = kept if isinstance(raw.parts, list) else tuple(kept)
    return replace(raw, rows=rows, parts=parts), [
        f"{which} left out; `keep_total=True` keeps {'it' if count == 1 else 'them'}."
    ]
