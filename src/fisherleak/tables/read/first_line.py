"""Whether the first line of a text file names its columns, or is the first row.

A number above numbers decides alone that it is a row, unless such names form a run: 0, 1, 2, …, years, steps of one size. Else
names that occur below speak for a row, and words above numbers, or numbers above words, for a header; at a tie it is a row, for
a header that is refused costs an option and a row that is published costs a person. A text that is none of the few below may be
a name or a rare value: it counts half, and only where no column holds numbers. An empty first field above row names is that of
a header. Plain Python: a header is looked at before anything else is loaded.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from fisherleak.errors import InvalidInputError
from fisherleak.tables.read.cell_formats import ALMOST, is_missing

__all__ = ["TRAILING", "code_columns", "fitting_names", "given_names", "is_number", "reads_as_row"]

NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?")
MEASURED = re.compile(r"[+\-<>≤≥~(]*\s*[$€£¥₹]?\s*[.,]?\d.*", re.DOTALL)
"""What begins with digits: amounts with units, dates."""
ROW_NAMES = "rownames"
"""What the column is called that R writes without a name."""
TRAILING = "(behind the last delimiter)"
"""What the column is called that a delimiter at the end of every row makes: it is never kept."""
MOST_CELLS = 200_000
"""Cells that are looked at."""
YEARS = range(1500, 2200)
SURE_RUN = 5
"""Names that count on, and are no row's values by chance."""


def is_number(text: str) -> bool:
    """Whether a cell is written as a number, with a point or a comma."""
    return NUMBER.fullmatch(text.strip()) is not None


def reads_as_row(names: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """1 where the first line reads like a row, -1 where it reads like a header, 0 where nothing tells."""
    names = [name.strip() for name in names]
    some = max(20, MOST_CELLS // max(1, len(names)))
    below = [row for row in rows[:some] if len(row) == len(names) and [cell.strip() for cell in row] != names]
    if names and not names[0] and _tells_rows_apart([row[0].strip() for row in below]):
        return -1  # as pandas and R write row names: a header with an empty first field
    # each text once: columns of codes have few
    columns = [Counter(cell.strip() for cell in column) for column in zip(*below, strict=True)] or [Counter()] * len(
        names
    )
    said = list(map(_speaks, names, columns))
    measured = [(name, found) for name, found, word in zip(names, columns, said, strict=True) if word == "measured"]
    titled = said.count("title")
    if measured and not _is_run(measured, titled > 0, below, names):
        return 1
    numbers = any(word in ("measured", "title", "numbers") for word in said)
    header = titled + (0.0 if numbers else 0.5 * said.count("rare"))
    found = said.count("value")
    if found and found >= header:
        return 1
    return -1 if header or (measured and titled) or "rare" in said else 0


def _speaks(name: str, column: Counter[str]) -> str:
    """What a name is beside the values below it.

    A number (or another amount) above such ones is ``measured``; a word above numbers, or a number above words, a ``title``; a
    text that occurs below a ``value``; one that is none of few a ``rare`` one. Nothing is told by what is missing: then
    ``numbers`` where numbers are below.
    """
    found = {cell: times for cell, times in column.items() if any(c.isalnum() for c in cell) and not is_missing(cell)}
    present = sum(found.values())
    numbers = sum(times for cell, times in found.items() if is_number(cell))
    mostly = present > 0 and numbers >= ALMOST * present
    if not present or not any(c.isalnum() for c in name) or is_missing(name):
        return "numbers" if mostly else ""
    if is_number(name) and 2 * numbers >= present:
        return "measured"
    if mostly:
        return "title"
    if MEASURED.fullmatch(name) and 2 * sum(n for cell, n in found.items() if _shape(cell) == _shape(name)) >= present:
        return "measured"
    if name in found:
        return "value"
    if is_number(name) and not numbers:
        return "title"
    return "rare" if 2 * len(found) <= present else ""


def _shape(text: str) -> str:
    """A text with its numbers and words alike: 61.5 kg and 7.0 kg have one."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+(?:[.,]\d+)?", "9", text))


def _tells_rows_apart(cells: Sequence[str]) -> bool:
    return len(cells) > 2 and all(cells) and len(set(cells)) == len(cells)


def _is_run(
    measured: Sequence[tuple[str, Counter[str]]], titled: bool, below: Sequence[Sequence[str]], names: Sequence[str]
) -> bool:
    """Whether the names that are numbers count on, as no row's values do but by chance.

    Among all numbers of the line, also above texts: whole numbers in steps of one size, three or more (up to four only where
    one of them is no value below, or a word stands above other numbers); years above what is none, in their order, two or more;
    beside a word above numbers also 0 and 1, one year, or three fractions in steps of one size; six numbers or more in an order
    that hardly a row keeps.
    """
    written = [name for name in names if is_number(name)]
    if not all(is_number(name) for name, _ in measured):
        return False
    whole = all(re.fullmatch(r"\d{1,6}", name) for name in written)
    values = [float(name.replace(",", ".")) for name in written]
    steps = [b - a for a, b in itertools.pairwise(values)]
    if whole and len(values) >= 3 and len(set(steps)) == 1 and steps[0] > 0:
        return titled or len(values) >= SURE_RUN or not all(name in found for name, found in measured)
    ascending = all(step > 0 for step in steps)
    if (
        whole
        and ascending
        and all(value in YEARS for value in values)
        and not any(map(_mostly_years, dict(measured).values()))
    ):
        return titled or len(values) >= 3 or (len(values) == 2 and steps[0] in (1, 5, 10))
    if titled and (
        values == [0, 1] or (len(values) >= 3 and ascending and max(steps) - min(steps) < 1e-9 * max(steps))
    ):
        return True
    return len(values) > SURE_RUN and ascending and not _in_order(below, names)


def _mostly_years(column: Counter[str]) -> bool:
    numbers = Counter({cell: times for cell, times in column.items() if is_number(cell)})
    years = sum(times for cell, times in numbers.items() if re.fullmatch(r"\d{4}", cell) and int(cell) in YEARS)
    return 2 * years > sum(numbers.values())


def _in_order(below: Sequence[Sequence[str]], names: Sequence[str]) -> bool:
    """Whether at least a tenth of the rows ascend where the names are numbers."""
    places = [j for j, name in enumerate(names) if is_number(name)]
    kept = sum(all(a < b for a, b in itertools.pairwise(_numbers(row, places))) for row in below)
    return 10 * kept >= len(below)


def _numbers(row: Sequence[str], places: Sequence[int]) -> Iterator[float]:
    return (float(row[j].strip().replace(",", ".")) for j in places if is_number(row[j]))


def given_names(given: str) -> tuple[str, ...]:
    """Names from one text: a line for each, or separated by commas."""
    lines = [line.strip() for line in given.replace("\r", "\n").split("\n") if line.strip()]
    parts = lines if len(lines) > 1 else [part.strip() for part in given.strip().split(",")]
    return tuple(part.strip("\"'") for part in parts)


def fitting_names(
    rows: Sequence[Sequence[str]],
    source: str,
    header: bool | None,
    columns: Sequence[str] | None,
    between_blanks: Sequence[str],
) -> tuple[list[str], list[str], str]:
    """The names of a header whose rows may have other numbers of fields, a name for what is behind them, and a sentence.

    A field more in every row is empty behind a delimiter at the end, or holds the rows' names in front, as R writes them, which
    differ. Between tabs a header may have blanks between its names.
    """
    first, below = list(rows[0]), rows[1:]
    width = len(below[0]) if below else len(first)
    if header is False or width == len(first) or any(len(row) != width for row in below[:20]):
        return first, [], ""
    longer = width == len(first) + 1
    if longer and not any(row[-1].strip() for row in below if len(row) == width):
        note = (
            f"The rows of {source} end in a delimiter, and its header does not: the empty field behind it is left out."
        )
        return first, [TRAILING], note
    own = longer and _are_row_names([row[0].strip() for row in below])
    if len(between_blanks) == width and not own:
        return list(between_blanks), [], f"The names in the header of {source} are separated by blanks and tabs."
    if columns is not None and len(columns) == width:
        return list(columns), [], ""  # they are checked against the fields of the rows
    if not own or len(between_blanks) == width:
        why = "its names may be separated by blanks" if own else "nothing says to which fields they belong"
        fields = "1 field" if width == 1 else f"{width} fields"
        raise InvalidInputError(
            f"The header of {source} has {len(first)} names where its rows have {fields}, and {why}: name the columns "
            "with `columns` and `header=True`, or name the delimiter with `delimiter`."
        )
    note = (
        f"The header of {source} has one name fewer than its rows have fields: the first field is called '{ROW_NAMES}'."
    )
    return [ROW_NAMES, *first], [], note  # as R's write.table does


def code_columns(rows: Sequence[Sequence[str]], missing: Collection[str]) -> dict[int, Counter[str]]:
    """The cells of columns of digits alone, as many in almost every cell, which may be codes: 00017 is not 17."""
    found = {}
    for j in range(len(rows[0]) if rows else 0):
        cells = Counter(row[j].strip() for row in rows if len(row) > j and row[j].strip() not in missing)
        sizes: Counter[int] = Counter()
        for cell, count in cells.items():
            sizes[len(cell) if cell.isascii() and cell.isdigit() else 0] += count
        size, alike = max(sizes.items(), key=lambda each: each[1], default=(0, 0))
        if size > 1 and alike >= ALMOST * cells.total():
            found[j] = cells
    return found


def _are_row_names(cells: Sequence[str]) -> bool:
    """Whether fields are names of rows as R writes them: all different; numbers are whole and in order, or those of a run."""
    if len(set(cells)) < len(cells):
        return False
    if not any(map(is_number, cells)):
        return True
    numbers = [int(cell) for cell in cells if cell.isdecimal()]
    full = ALMOST * (max(numbers, default=0) - min(numbers, default=0) + 1) <= len(numbers)
    return len(numbers) == len(cells) and (numbers == sorted(numbers) or full)
