"""Whether the first line of a text file names its columns, or is the first row.

A name speaks for a first row where it looks like the values below it: a number above numbers, a text that occurs below. It
speaks for a header where it does not: a word above numbers, a text that is none of the few below. The majority decides. Names
that count on (years, 0, 1, 2, …) tell nothing, and an empty first field above row names is that of a header. Plain Python: a
header is looked at before anything else is loaded.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence

__all__ = ["given_names", "is_number", "reads_as_row"]

NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?")
ALMOST = 0.9
"""Part of a column's cells that are numbers before it counts as numbers."""
MOST_CELLS = 200_000
"""Cells that are looked at."""
YEARS = range(1500, 2200)


def is_number(text: str) -> bool:
    """Whether a cell is written as a number, with a point or a comma."""
    return NUMBER.fullmatch(text.strip()) is not None


def reads_as_row(names: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """How many more names look like values of their columns than do not: above zero, the first line is a row."""
    names = [name.strip() for name in names]
    some = max(20, MOST_CELLS // max(1, len(names)))
    below = [row for row in rows[:some] if len(row) == len(names) and [cell.strip() for cell in row] != names]
    if names and not names[0] and _tells_rows_apart([row[0].strip() for row in below]):
        return -1  # as pandas and R write row names: a header with an empty first field
    counting = _counts_on(names)
    return sum(_speaks(name, [row[j].strip() for row in below], counting) for j, name in enumerate(names))


def _speaks(name: str, cells: list[str], counting: bool) -> int:
    """1 where a name looks like the values below it, -1 where it does not, 0 where that is open."""
    # each text once: columns of codes have few
    found = {cell: times for cell, times in Counter(cells).items() if any(c.isalnum() for c in cell)}
    present = sum(found.values())
    if not any(c.isalnum() for c in name) or not present:
        return 0
    if sum(times for cell, times in found.items() if is_number(cell)) >= ALMOST * present:
        return (0 if counting else 1) if is_number(name) else -1
    if name in found:
        return 1
    return -1 if 2 * len(found) <= present else 0


def _tells_rows_apart(cells: Sequence[str]) -> bool:
    return len(cells) > 2 and all(cells) and len(set(cells)) == len(cells)


def _counts_on(names: Sequence[str]) -> bool:
    """Whether the names that are numbers count on in equal steps, or are years."""
    numbers = [name for name in names if is_number(name)]
    if len(numbers) < 2 or not all(re.fullmatch(r"\d{1,6}", name) for name in numbers):
        return False
    values = [int(name) for name in numbers]
    steps = {b - a for a, b in itertools.pairwise(values)}
    return (len(steps) == 1 and steps != {0}) or (min(steps) > 0 and all(value in YEARS for value in values))


def given_names(given: str) -> tuple[str, ...]:
    """Names from one text: a line for each, or separated by commas."""
    lines = [line.strip() for line in given.replace("\r", "\n").split("\n") if line.strip()]
    parts = lines if len(lines) > 1 else [part.strip() for part in given.strip().split(",")]
    return tuple(part.strip("\"'") for part in parts)
