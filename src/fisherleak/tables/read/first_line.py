"""Whether the first line of a text file names its columns, or is the first row.

A number above numbers decides alone that it is a row, unless such names form a run: 0, 1, 2, …, years, steps of one size. Else
names that occur below speak for a row, and words above numbers, or numbers above words, for a header; at a tie it is a row, for
a header that is refused costs an option and a row that is published costs a person. A text that is none of the few below may be
a name or a rare value: it counts half, and only where no column holds numbers. An empty first field above row names is that of
a header. Plain Python: a header is looked at before anything else is loaded.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from fisherleak.errors import InvalidInputError
from fisherleak.tables.read.cell_formats import ALMOST, FEWEST_ALIKE, cells_to_codes, is_missing

__all__ = [
    "TRAILING",
    "Evidence",
    "codes_below",
    "few_of_codes",
    "fitting_names",
    "given_names",
    "is_number",
    "reads_as_row",
    "row_evidence",
]

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
FAR = 10
"""Cells from a threshold past which one row is not seen there."""
MOST_TRIED = 8
"""Rows that are left out, each by itself, to see whether others are names of rows."""
FEW_ODD = 20
"""Cells that are no codes, of columns that are looked at as if they were."""
MOST_CHOICES = 256
"""Words that names may be without one row, one for each, that are tried."""


def is_number(text: str) -> bool:
    """Whether a cell is written as a number, with a point or a comma."""
    return NUMBER.fullmatch(text.strip()) is not None


@dataclass(frozen=True)
class Evidence:
    """What a first line reads like: 1 a row, -1 a header, 0 where nothing tells; ``left`` is all it may without one row."""

    now: int
    left: frozenset[int]


def reads_as_row(names: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """1 where the first line reads like a row, -1 where it reads like a header, 0 where nothing tells."""
    return _FirstLine.above(names, rows).now


def row_evidence(names: Sequence[str], rows: Sequence[Sequence[str]], more: bool) -> Evidence:
    """The same, and what it might be without one of the rows; ``more`` says that the table has others."""
    line = _FirstLine.above(names, rows)
    return Evidence(line.now, line.left(more))


class _Name(NamedTuple):
    """What a first field is by itself: a word or number at all, a number, another amount."""

    says: bool
    number: bool
    amount: bool

    @classmethod
    def of(cls, name: str) -> _Name:
        number = is_number(name)
        says = any(c.isalnum() for c in name) and not is_missing(name)
        return cls(says, number, not number and MEASURED.fullmatch(name) is not None)


class _Below(NamedTuple):
    """How many cells below a name are there, are numbers, are written as it is, and are the name; how many texts there are."""

    present: int
    numbers: int
    alike: int
    named: int
    texts: int


@dataclass(frozen=True)
class _FirstLine:
    """A first line and the rows that it is compared with; of each column, how often each text is there."""

    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    columns: Sequence[Counter[str]]

    @classmethod
    def above(cls, names: Sequence[str], rows: Sequence[Sequence[str]]) -> _FirstLine:
        names = [name.strip() for name in names]
        some = max(20, MOST_CELLS // max(1, len(names)))
        below = [row for row in rows[:some] if len(row) == len(names) and [cell.strip() for cell in row] != names]
        # each text once: columns of codes have few
        columns = [Counter(cell.strip() for cell in column) for column in zip(*below, strict=True)]
        return cls(names, below, columns or [Counter() for _ in names])

    @cached_property
    def cells(self) -> list[tuple[_Name, _Below]]:
        return [(_Name.of(name), _below(name, column)) for name, column in zip(self.names, self.columns, strict=True)]

    @property
    def now(self) -> int:
        if self.again == 0 and len(self.rows) > 2:
            return -1  # as pandas and R write row names: a header with an empty first field
        words = [_word(*each) for each in self.cells]
        return min(self.signs(words, 0))

    def left(self, more: bool) -> frozenset[int]:
        """All that it may be without one row: what each threshold would be, whether one row passes all of them or not."""
        if self.again == 0 and len(self.rows) > 3:
            return frozenset({-1})
        words = [_words_left(name, _clamped(below), more) for name, below in self.cells]
        if math.prod(map(len, words)) > MOST_CHOICES:
            return frozenset({-1, 0, 1})
        found = {-1} if self.again in (0, 1) and len(self.rows) > 2 else set()
        return frozenset(found.union(*(self.signs(each, 1 + more) for each in itertools.product(*words))))

    @cached_property
    def again(self) -> int | None:
        """How many first fields are empty or have been there before; None where they have a name."""
        if not self.names or self.names[0]:
            return None
        cells = self.columns[0]
        return cells.total() - len(cells.keys() - {""})

    def signs(self, words: Sequence[str], rows: int) -> set[int]:
        """What words tell: as it is, or, of which names count on, without one row, or with another in its place."""
        measured = [j for j, word in enumerate(words) if word == "measured"]
        titled, found = words.count("title"), words.count("value")
        runs = self.runs(measured, titled > 0, rows) if measured else {True}
        numbers = any(word in ("measured", "title", "numbers") for word in words)
        header = titled + (0.0 if numbers else 0.5 * words.count("rare"))
        told = header or (measured and titled) or "rare" in words
        sign = 1 if found and found >= header else -1 if told else 0
        return {sign if run else 1 for run in runs}

    def runs(self, measured: Sequence[int], titled: bool, rows: int) -> set[bool]:
        """Whether the names that are numbers count on, as no row's values do but by chance.

        Among all numbers of the line, also above texts: whole numbers in steps of one size, three or more (up to four only
        where one of them is no value below, or a word stands above other numbers); years above what is none, in their order,
        two or more; beside a word above numbers also 0 and 1, one year, or three fractions in steps of one size; six numbers
        or more in an order that hardly a row keeps.
        """
        written = [name for name in self.names if is_number(name)]
        if not all(is_number(self.names[j]) for j in measured):
            return {False}
        whole = all(re.fullmatch(r"\d{1,6}", name) for name in written)
        values = [float(name.replace(",", ".")) for name in written]
        steps = [b - a for a, b in itertools.pairwise(values)]
        if whole and len(values) >= 3 and len(set(steps)) == 1 and steps[0] > 0:
            least = min(self.columns[j][self.names[j]] for j in measured)
            return {titled or len(values) >= SURE_RUN or not count for count in (least, max(0, least - min(rows, 1)))}
        ascending, found = all(step > 0 for step in steps), set()
        if whole and ascending and all(value in YEARS for value in values):
            years = [_mostly_years(self.columns[j], rows) for j in measured]
            if all(False in own for own in years):
                found.add(titled or len(values) >= 3 or (len(values) == 2 and steps[0] in (1, 5, 10)))
            if not any(True in own for own in years):
                return found
        if titled and (
            values == [0, 1] or (len(values) >= 3 and ascending and max(steps) - min(steps) < 1e-9 * max(steps))
        ):
            return found | {True}
        if len(values) <= SURE_RUN or not ascending:
            return found | {False}
        return found | {not kept for kept in self.in_order(rows)}

    def in_order(self, rows: int) -> set[bool]:
        """Whether at least a tenth of the rows ascend where the names are numbers."""
        return {
            10 * kept >= count for kept, count in itertools.product(_near(self.kept, rows), _near(len(self.rows), rows))
        }

    @cached_property
    def kept(self) -> int:
        places = [j for j, name in enumerate(self.names) if is_number(name)]
        return sum(all(a < b for a, b in itertools.pairwise(_numbers(row, places))) for row in self.rows)


def _near(count: int, rows: int) -> range:
    """What a count may be: as it is for 0, without one row for 1, with another in its place for 2."""
    return range(max(0, count - min(rows, 1)), count + max(rows, 1))


def _below(name: str, column: Counter[str]) -> _Below:
    found = {cell: times for cell, times in column.items() if any(c.isalnum() for c in cell) and not is_missing(cell)}
    numbers, alike = sum(times for cell, times in found.items() if is_number(cell)), 0
    if MEASURED.fullmatch(name) and not is_number(name):
        shape = _shape(name)
        alike = sum(times for cell, times in found.items() if _shape(cell) == shape)
    return _Below(sum(found.values()), numbers, alike, found.get(name, 0), len(found))


def _word(name: _Name, below: _Below) -> str:
    """What a name is beside the cells below it.

    A number (or another amount) above such ones is ``measured``; a word above numbers, or a number above words, a ``title``; a
    text that occurs below a ``value``; one that is none of few a ``rare`` one. Nothing is told by what is missing: then
    ``numbers`` where numbers are below.
    """
    mostly = below.present > 0 and below.numbers >= ALMOST * below.present
    if not below.present or not name.says:
        return "numbers" if mostly else ""
    if name.number and 2 * below.numbers >= below.present:
        return "measured"
    if mostly:
        return "title"
    if name.amount and 2 * below.alike >= below.present:
        return "measured"
    if below.named:
        return "value"
    if name.number and not below.numbers:
        return "title"
    return "rare" if 2 * below.texts <= below.present else ""


def _clamped(below: _Below) -> _Below:
    """The same but for how far it is from what few rows would change: most columns are then alike."""
    far = max(-FAR, min(FAR, 2 * below.texts - below.present))
    return below._replace(named=min(FAR, below.named), texts=(below.present + far) // 2)


@cache
def _words_left(name: _Name, below: _Below, more: bool) -> frozenset[str]:
    """What a name may be without one row; where there are more, with another in its place that does not repeat the name."""
    changes = [_Below(1, number, *others) for number in (0, 1) for others in itertools.product((0, 1), (0, 1), (0, 1))]
    left = {below}
    for change in changes:
        own = _Below(*(count - less for count, less in zip(below, change, strict=True)))
        if min(own) >= 0 and own.numbers <= own.present:
            left.add(own)
    if more:
        left |= {
            _Below(*map(sum, zip(own, change, strict=True))) for own in left for change in changes if not change.named
        }
    return frozenset(_word(name, own) for own in left)


def _shape(text: str) -> str:
    """A text with its numbers and words alike: 61.5 kg and 7.0 kg have one."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+(?:[.,]\d+)?", "9", text))


def _mostly_years(column: Counter[str], rows: int) -> set[bool]:
    numbers = Counter({cell: times for cell, times in column.items() if is_number(cell)})
    years = sum(times for cell, times in numbers.items() if re.fullmatch(r"\d{4}", cell) and int(cell) in YEARS)
    counts = itertools.product(_near(years, rows), _near(numbers.total(), rows))
    return {2 * some > of_all for some, of_all in counts if some <= of_all}


def _numbers(row: Sequence[str], places: Sequence[int]) -> Iterator[float]:
    return (float(row[j].strip().replace(",", ".")) for j in places if is_number(row[j]))


def given_names(given: str) -> tuple[str, ...]:
    """Names from one text: a line for each, or separated by commas."""
    lines = [line.strip() for line in given.replace("\r", "\n").split("\n") if line.strip()]
    parts = lines if len(lines) > 1 else [part.strip() for part in given.strip().split(",")]
    return tuple(part.strip("\"'") for part in parts)


@dataclass(frozen=True)
class FittingNames:
    """Names for the fields of rows, one for what is behind them, a sentence, and whether few rows decide all this."""

    names: list[str]
    trailing: tuple[str, ...] = ()
    note: str = ""
    by_few: bool = False


def fitting_names(
    rows: Sequence[Sequence[str]],
    source: str,
    header: bool | None,
    columns: Sequence[str] | None,
    between_blanks: Sequence[str],
) -> FittingNames:
    """The names of a header whose rows may have other numbers of fields.

    A field more in every row is empty behind a delimiter at the end, or holds the rows' names in front, as R writes them, which
    differ. Between tabs a header may have blanks between its names.
    """
    first, below = list(rows[0]), rows[1:]
    width = len(below[0]) if below else len(first)
    if header is False or width == len(first) or any(len(row) != width for row in below[:20]):
        return FittingNames(first)
    longer = width == len(first) + 1
    filled = sum(bool(row[-1].strip()) for row in below if len(row) == width)
    if longer and not filled:
        note = (
            f"The rows of {source} end in a delimiter, and its header does not: the empty field behind it is left out."
        )
        return FittingNames(first, (TRAILING,), note)
    few = longer and filled <= FEWEST_ALIKE  # without them nothing would be behind the last delimiter
    in_front = [row[0].strip() for row in below] if longer else []
    own = longer and _are_row_names(in_front)
    if len(between_blanks) == width and not own:
        note = f"The names in the header of {source} are separated by blanks and tabs."
        return FittingNames(list(between_blanks), (), note, few or (longer and _unsure_of_row_names(in_front)))
    if columns is not None and len(columns) == width:
        return FittingNames(list(columns), by_few=few)  # they are checked against the fields of the rows
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
    return FittingNames([ROW_NAMES, *first], (), note, few or _unsure_of_row_names(in_front))  # as R's write.table does


def codes_below(rows: Sequence[Sequence[str]], missing: Collection[str], cut: bool) -> dict[int, Counter[str]]:
    """The cells of columns that may hold codes, 00017, which is not 17: of digits alone, as many in almost every cell.

    In all but ``FEW_ODD`` of few cells too; where the rows are ``cut``, those below them may be such codes also.
    """
    found = {}
    for j in range(len(rows[0]) if rows else 0):
        cells = Counter(row[j].strip() for row in rows if len(row) > j and row[j].strip() not in missing)
        sizes: Counter[int] = Counter()
        for cell, count in cells.items():
            sizes[len(cell) if cell.isascii() and cell.isdigit() else 0] += count
        total = cells.total()
        zeros = {len(cell) for cell in cells if cell.startswith("0")}
        for size, alike in sizes.items():
            often, few = alike >= ALMOST * total, total - alike <= FEW_ODD and (cut or size in zeros)
            if size > 1 and (often or few):
                found[j] = cells
        if cut and total <= FEW_ODD:
            found[j] = cells
    return found


def few_of_codes(cells: Counter[str]) -> bool:
    """Whether few of the first cells of a column tell whether they are codes."""
    odd = cells_to_codes(cells)
    zeros = sum(count for cell, count in cells.items() if cell.startswith("0"))
    return cells.total() <= FEW_ODD or (odd is not None and odd <= FEW_ODD and (odd > 0 or zeros <= FEW_ODD))


def _unsure_of_row_names(cells: Sequence[str]) -> bool:
    """Whether fields might be names of rows, or might not, without one of them.

    Tried are one that is there before, that is no number, that breaks the order, the least, the largest and one between.
    """
    now = _are_row_names(cells)
    if now and not any(map(is_number, cells)):
        return False
    tried, seen = {0, len(cells) // 2, len(cells) - 1}, dict[str, int]()
    for k, cell in enumerate(cells):
        if cell in seen:
            tried |= {k, seen[cell]}
        seen[cell] = k
    tried |= {k for k, cell in enumerate(cells) if not cell.isdecimal()}
    numbers = [(int(cell), k) for k, cell in enumerate(cells) if cell.isdecimal()]
    for (before, j), (after, k) in itertools.pairwise(numbers):
        tried |= {j, k} if after < before else set()
    ordered = sorted(numbers)
    if now and [number for number, _ in numbers] == [number for number, _ in ordered]:
        return False
    tried = {*sorted(tried)[:MOST_TRIED], *(ordered[j][1] for j in (0, len(ordered) // 2, -1) if ordered)}
    return any(_are_row_names([*cells[:k], *cells[k + 1 :]]) is not now for k in tried)


def _are_row_names(cells: Sequence[str]) -> bool:
    """Whether fields are names of rows as R writes them: all different; numbers are whole and in order, or those of a run."""
    if len(set(cells)) < len(cells):
        return False
    if not any(map(is_number, cells)):
        return True
    numbers = [int(cell) for cell in cells if cell.isdecimal()]
    full = ALMOST * (max(numbers, default=0) - min(numbers, default=0) + 1) <= len(numbers)
    return len(numbers) == len(cells) and (numbers == sorted(numbers) or full)
