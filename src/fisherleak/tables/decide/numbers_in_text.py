"""Columns of text that hold numbers all the same: found by what almost all of their cells are.

A column of text is taken as numbers where at least nine of ten of its cells that are not missing are numbers in one notation.
What was taken as missing, and which rows hold what is no number, is said without the values themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fisherleak.tables.decide.choices import Choices, sort_of
from fisherleak.tables.read.cell_formats import (
    ALMOST,
    DECIMALS,
    are_codes,
    is_missing,
    is_plain_number,
    kind_of_cell,
    money_of,
    read_number,
    style_of,
)
from fisherleak.tables.read.parts import Part, RawTable, over_parts

__all__ = ["Survey", "Unread", "surveys_of"]

FEW = 10
"""Different numbers up to which a column may be a category: plain ones, or with texts that recur."""
RECURS = 3
"""Rows with the same text that make it a level of a category with few numbers, not a slip."""
GLANCE = 500
"""Cells of a part that decide whether the others are looked at."""
MOST_COUNTED = 100
"""Cells that are counted where so many decide whether a column is numbers: more than one person has rows."""
MOST_NAMED = 10
"""Cells that are listed."""


@dataclass(frozen=True)
class Unread:
    """A cell of a column of numbers that is none; ``row`` counts from 1."""

    column: str
    row: int
    text: str = field(repr=False)

    @property
    def kind(self) -> str:
        return kind_of_cell(self.text)


@dataclass(frozen=True)
class Tally:
    """The cells of a column read with one decimal mark."""

    numbers: int = 0
    different: frozenset[float] = frozenset()
    """At most ``FEW + 1`` of them."""
    styles: frozenset[str] = frozenset()
    others: Mapping[str, int] = field(default_factory=dict)
    """Texts that are no numbers, and how often each occurs; at most ``FEW * FEW`` of them."""
    first: tuple[tuple[int, str], ...] = ()
    unread: int = 0
    money: frozenset[str] = frozenset()
    """Currencies of the numbers: with more than one they have no common unit."""

    def __add__(self, other: Tally) -> Tally:
        texts = Counter(self.others) + Counter(other.others)
        return Tally(
            self.numbers + other.numbers,
            _some(self.different | other.different),
            self.styles | other.styles,
            dict(texts.most_common(FEW * FEW)),
            (self.first + other.first)[:MOST_NAMED],
            self.unread + other.unread,
            self.money | other.money,
        )


@dataclass(frozen=True)
class Survey:
    """What the cells of a column of text are."""

    cells: int
    plain: int
    marks: Mapping[str, int]
    """What stands for missing values, and how often."""
    point: Tally
    comma: Tally
    apart: int = 0
    """Cells that are numbers with one mark only."""

    def tally(self, decimal: str) -> Tally:
        return self.point if decimal == "." else self.comma

    @property
    def decimal(self) -> str | None:
        """The mark with which more cells are numbers, None where both do alike."""
        if self.point.numbers == self.comma.numbers and self.comma.styles != self.point.styles:
            return None
        return "," if self.comma.numbers > self.point.numbers else "."

    @property
    def settles(self) -> bool:
        """Whether some cells are numbers with one mark only."""
        return self.point.numbers != self.comma.numbers

    @property
    def settled_by(self) -> int | None:
        """Cells without which, at least, the mark would be another or none; None where no cell has a say in it."""
        return max(abs(self.comma.numbers - self.point.numbers), 1) if self.apart else None

    @property
    def matters(self) -> bool:
        """Whether the mark decides what the cells are."""
        return self.settles or self.point.styles != self.comma.styles

    def cells_to_change(self, decimal: str) -> int | None:
        """Cells, at least, without which the column would be numbers, or would be none; None past ``MOST_COUNTED``."""
        tally, now = self.tally(decimal), self.is_numbers(decimal)
        if len(tally.money) > 1:
            return 1  # how many rows have the other currency is not counted
        for count in range(1, MOST_COUNTED + 1):
            fewer = (
                replace(tally, numbers=tally.numbers - count) if now else replace(tally, unread=tally.unread - count)
            )
            if (now or tally.unread >= count) and _almost_all(fewer) != _almost_all(tally):
                return count
        return None

    def is_numbers(self, decimal: str) -> bool:
        """Whether almost all cells are numbers and they are no codes of a category."""
        tally = self.tally(decimal)
        if len(tally.money) > 1 or not _almost_all(tally):
            return False
        few = len(tally.different) <= FEW
        if few and self.plain == self.cells and not self.marks:
            return False  # text on purpose: a program that writes numbers would have written numbers
        return not (few and max(tally.others.values(), default=0) >= RECURS)


def _almost_all(tally: Tally) -> bool:
    return tally.numbers >= 3 and tally.numbers >= ALMOST * (tally.numbers + tally.unread)


def _some(values: Iterable[float]) -> frozenset[float]:
    return frozenset(sorted(values)[: FEW + 1])


def surveys_of(raw: RawTable, choices: Choices, lazily: bool) -> dict[str, Survey]:
    """The columns of text whose cells look like numbers, in one pass over such columns; those left out are not looked at."""
    left = {*choices.drop, *choices.categories, *choices.unite, choices.id, choices.person}
    names = tuple(name for name in raw.names if sort_of(raw.kind(name)) == "text" and name not in left)
    if not names:
        return {}
    asked, na = set(choices.numbers), frozenset(choices.na)

    def of_part(part: Part) -> dict[str, Survey | None]:
        table = part.read(names)
        return {name: _survey(table.column(j), part.start, na, name in asked) for j, name in enumerate(names)}

    def merge(a: dict[str, Survey | None], b: dict[str, Survey | None]) -> dict[str, Survey | None]:
        return {name: _merged(a[name], b[name]) for name in names}

    found = over_parts(of_part, raw.parts, merge, lazily)
    return {name: survey for name, survey in found.items() if survey is not None}


def _survey(values: Any, start: int, na: frozenset[str], asked: bool) -> Survey | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    glance = [text for text in values.slice(0, GLANCE).to_pylist() if text is not None]
    if not asked and 2 * sum(_could_be(text, na) for text in glance) < len(glance):
        return None
    counts = {k["values"]: k["counts"] for k in pc.value_counts(values.drop_null()).to_pylist()}
    marks = {text: count for text, count in counts.items() if text in na or is_missing(text)}
    rest = {text: count for text, count in counts.items() if text not in marks}
    if not asked and are_codes(rest):
        return None
    point, comma = (_tally(values, rest, decimal, start) for decimal in DECIMALS)
    plain = sum(count for text, count in rest.items() if is_plain_number(text))
    apart = sum(
        count for text, count in rest.items() if (read_number(text) is None) != (read_number(text, ",") is None)
    )
    shown = {_shown(text): count for text, count in marks.items()}
    return Survey(sum(rest.values()), plain, shown, point, comma, apart)


def _could_be(text: str, na: frozenset[str]) -> bool:
    return text in na or is_missing(text) or any(read_number(text, decimal) is not None for decimal in DECIMALS)


def _shown(mark: str) -> str:
    return mark.strip() or "blank"


def _tally(values: Any, counts: Mapping[str, int], decimal: str, start: int) -> Tally:
    numbers = {text: read_number(text, decimal) for text in counts}
    good = {text for text, number in numbers.items() if number is not None}
    others = {text: count for text, count in counts.items() if text not in good}
    return Tally(
        sum(counts[text] for text in good),
        _some({number for number in numbers.values() if number is not None}),
        frozenset(style for text in good for style in style_of(text, decimal)),
        dict(Counter(others).most_common(FEW * FEW)),
        _places(values, others, start),
        sum(others.values()),
        frozenset(filter(None, map(money_of, good))),
    )


def _places(values: Any, texts: Mapping[str, int], start: int) -> tuple[tuple[int, str], ...]:
    """The first rows that hold one of some texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not texts:
        return ()
    where = pc.indices_nonzero(pc.fill_null(pc.is_in(values, value_set=pa.array(list(texts), values.type)), False))
    some = where.to_pylist()[:MOST_NAMED]
    return tuple((start + row + 1, values[row].as_py()) for row in some)


def _merged(a: Survey | None, b: Survey | None) -> Survey | None:
    if a is None or b is None:
        return None
    marks = dict(Counter(a.marks) + Counter(b.marks))
    tallies = (a.point + b.point, a.comma + b.comma)
    return Survey(a.cells + b.cells, a.plain + b.plain, marks, *tallies, a.apart + b.apart)
