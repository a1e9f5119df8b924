"""Columns of text that hold numbers all the same: found by what almost all of their cells are.

A column of text is taken as numbers where at least nine of ten of its cells that are not missing are numbers in one notation.
What was taken as missing, and which rows hold what is no number, is said without the values themselves.

All that this decides follows from how often each ``CellForm`` occurs, so that it can be decided again with fewer rows.
"""

from __future__ import annotations

import calendar
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from fisherleak.tables.decide.choices import Choices, sort_of
from fisherleak.tables.read.cell_formats import (
    ALMOST,
    ALSO_CLASSES,
    DECIMALS,
    FEWEST_ALIKE,
    MARKS,
    is_missing,
    is_plain_number,
    kind_of_cell,
    money_of,
    plain_values,
    read_number,
    style_of,
)
from fisherleak.tables.read.parts import Part, RawTable, over_parts

__all__ = ["CellForm", "Survey", "Unread", "form_of", "surveys_of"]

FEW = 10
"""Different numbers up to which a column may be a category: plain ones, or with texts that recur."""
RECURS = 3
"""Rows with the same text that make it a level of a category with few numbers, not a slip."""
FOLLOWED = 1000
"""Different numbers, and different texts that are none, that are counted one by one."""
MOST_NAMED = 10
"""Cells that are listed."""
MOST_TRIED = 6
"""Rare forms of which every choice is left out together, where several rows may be gone."""
SIGNS = re.compile(r"[\d,.:]|inf|true|false", re.IGNORECASE)
"""What numbers, dates and truths have some of."""
TYPED = re.compile(r"[+-]?[\d.]+(?:[eE][+-]?\d+)?|[+-]?inf(?:inity)?|true|false", re.IGNORECASE)
"""What may be a number, or a truth, for them."""
CLOCK = r"([01]\d|2[0-3])"
DATE = re.compile(
    rf"(\d{{4}})-(\d\d)-(\d\d)(?:[ T]{CLOCK}(?::[0-5]\d(?::[0-5]\d(?:\.\d{{1,9}})?)?)?(Z|[+-]\d\d(?::?\d\d)?)?)?"
)
TIME = re.compile(rf"{CLOCK}:[0-5]\d(?::[0-5]\d)?")
HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]+")
"""What else readers of text files take cells as, and nothing else: a day that no month has is text."""


@dataclass(frozen=True)
class Unread:
    """A cell of a column of numbers that is none; ``row`` counts from 1."""

    column: str
    row: int
    text: str = field(repr=False)

    @property
    def kind(self) -> str:
        return kind_of_cell(self.text)


class CellForm(NamedTuple):
    """All that a decision reads from a cell of text.

    ``point`` and ``comma`` are how it is written as a number with that decimal mark, None where it is none; ``typed`` is what a
    reader of files makes of a column of such cells; ``digits`` how many it has, where it has nothing else. ``word`` says that
    it is missing, and text for a reader of files, who takes other marks beside true and false for missing ones.
    """

    missing: bool = False
    point: tuple[str, ...] | None = None
    comma: tuple[str, ...] | None = None
    money: str = ""
    plain: bool = False
    typed: str = ""
    digits: int = 0
    zero: bool = False
    word: bool = False


TEXT = CellForm()


def form_of(text: str, na: frozenset[str] = frozenset()) -> CellForm:
    """The form of a cell."""
    if text in na or is_missing(text):
        return CellForm(missing=True, word=text.strip().casefold() not in MARKS - ALSO_CLASSES)
    if not SIGNS.search(text):
        return TEXT
    point, comma = (None if read_number(text, mark) is None else style_of(text, mark) for mark in DECIMALS)
    bare = text.strip()
    digits = len(bare) if bare.isascii() and bare.isdigit() else 0
    money = "" if point is None and comma is None else money_of(text)
    return CellForm(
        False, point, comma, money, is_plain_number(text), _typed(text), digits, digits > 1 and bare[0] == "0"
    )


def _typed(text: str) -> str:
    bare = text.strip()
    if bare.isascii() and not TYPED.fullmatch(bare):
        return _date(bare) or ("time" if TIME.fullmatch(bare) else "hexadecimal" if HEXADECIMAL.fullmatch(bare) else "")
    plain = plain_values({bare: 1}) or plain_values({bare.lstrip("0") or "0": 1})  # 05 alone is a code
    (value,) = (plain or {text: None}).values()
    if isinstance(value, bool):
        return "truth"
    return "" if value is None else "bit" if value in (0, 1) else "whole" if isinstance(value, int) else "number"


def _date(text: str) -> str:
    """Whether a cell is a date, or one with a zone, which readers do not take beside those without."""
    found = DATE.fullmatch(text)
    if found is None or not 1 <= int(found[2]) <= 12:
        return ""
    year = int(found[1]) or 2000  # leap years both
    if not 1 <= int(found[3]) <= calendar.monthrange(year, int(found[2]))[1]:
        return ""
    return "zoned" if found[5] else "date"


@dataclass(frozen=True)
class Survey:
    """What the cells of a column of text are: how often each form occurs, and each number and other text with either mark.

    ``few`` and ``recurring`` say the same of a survey with fewer rows, whose texts are not known one by one.
    """

    forms: Mapping[CellForm, int]
    marks: Mapping[str, int] = field(default_factory=dict)
    """What stands for missing values, and how often."""
    values: Mapping[str, Mapping[float, int]] = field(default_factory=dict)
    others: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    first: Mapping[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    few: Mapping[str, bool] | None = None
    recurring: Mapping[str, bool] | None = None

    def __add__(self, other: Survey) -> Survey:
        def both(name: str) -> dict[str, dict[Any, int]]:
            mine, its = getattr(self, name), getattr(other, name)
            return {mark: dict((Counter(mine[mark]) + Counter(its[mark])).most_common(FOLLOWED)) for mark in DECIMALS}

        first = {mark: (self.first[mark] + other.first[mark])[:MOST_NAMED] for mark in DECIMALS}
        forms, marks = Counter(self.forms) + Counter(other.forms), Counter(self.marks) + Counter(other.marks)
        return Survey(dict(forms), dict(marks), both("values"), both("others"), first)

    def numbers(self, mark: str) -> int:
        """How many cells are numbers with a decimal mark."""
        return sum(count for form, count in self.forms.items() if _style(form, mark) is not None)

    @property
    def cells(self) -> int:
        return sum(count for form, count in self.forms.items() if not form.missing)

    def unread(self, mark: str) -> int:
        """How many cells are neither missing nor numbers."""
        return self.cells - self.numbers(mark)

    def styles(self, mark: str) -> frozenset[str]:
        """How numbers differ from plain ones, in words."""
        return frozenset(style for form in self.forms for style in _style(form, mark) or ())

    @property
    def decimal(self) -> str | None:
        """The mark with which more cells are numbers, None where both do alike."""
        point, comma = self.numbers("."), self.numbers(",")
        if point == comma and self.styles(",") != self.styles("."):
            return None
        return "," if comma > point else "."

    @property
    def settles(self) -> bool:
        """Whether some cells are numbers with one mark only."""
        return self.numbers(".") != self.numbers(",")

    @property
    def matters(self) -> bool:
        """Whether the mark decides what the cells are."""
        return self.settles or self.styles(".") != self.styles(",")

    @property
    def typed(self) -> str:
        """What a reader of files makes of such a column, by all of its cells: nothing where it stays text."""
        kinds = {form.typed for form in self.forms if not form.missing}
        if self.are_codes or any(form.missing and (form.word or kinds != {"truth"}) for form in self.forms):
            return ""  # such a mark is text for a reader of files
        if kinds == {"truth", "bit"}:
            words = sum(count for form, count in self.forms.items() if form.typed == "truth")
            return "bits" if words < FEWEST_ALIKE else "truth" if self.cells - words < FEWEST_ALIKE else ""
        if "hexadecimal" in kinds:
            return "hexadecimal" if kinds <= {"hexadecimal", "bit", "whole"} else ""
        kinds = {"number" if kind in ("bit", "whole") else kind for kind in kinds}
        return {"zoned": "date"}.get(kind := kinds.pop(), kind) if len(kinds) == 1 else ""

    @property
    def are_codes(self) -> bool:
        """Whether all cells are digits alone, as many in each, of which some begin with a zero."""
        there = [form for form in self.forms if not form.missing]
        alike = len({form.digits for form in there}) == 1 and there[0].digits > 1
        return alike and any(form.zero for form in there)

    def is_numbers(self, mark: str) -> bool:
        """Whether almost all cells are numbers and they are no codes of a category."""
        numbers, unread = self.numbers(mark), self.unread(mark)
        money = {form.money for form in self.forms if form.money and _style(form, mark) is not None}
        if len(money) > 1 or numbers < 3 or numbers < ALMOST * (numbers + unread) or self.are_codes:
            return False  # with several currencies they have no common unit
        few = len(self.values[mark]) <= FEW if self.few is None else self.few[mark]
        plain = all(form.plain and not form.missing for form in self.forms)
        if few and plain:
            return False  # text on purpose: a program that writes numbers would have written numbers
        recurring = (
            max(self.others[mark].values(), default=0) >= RECURS if self.recurring is None else self.recurring[mark]
        )
        return not (few and recurring)

    def fewer(self, rows: int) -> Iterator[Survey]:
        """What surveys may be left without so many rows at most, and some that may not."""
        few = {mark: _left(self.values[mark].values(), rows, FEW) for mark in DECIMALS}
        recurring = {
            mark: {max(count, default=0) >= RECURS, sum(max(0, c - RECURS + 1) for c in count) > rows}
            for mark, count in ((mark, self.others[mark].values()) for mark in DECIMALS)
        }
        for forms in lessened(self.forms, rows):
            for some in itertools.product(*(few[mark] for mark in DECIMALS), *(recurring[mark] for mark in DECIMALS)):
                yield replace(
                    self,
                    forms=forms,
                    few=dict(zip(DECIMALS, some[:2], strict=True)),
                    recurring=dict(zip(DECIMALS, some[2:], strict=True)),
                )


def _left(counts: Any, rows: int, most: int) -> set[bool]:
    """Whether at most so many different values are there, now and without some rows."""
    left = len(counts)
    now = left <= most
    for count in sorted(counts):
        rows -= count
        if rows < 0:
            break
        left -= 1
    return {now, left <= most}


def lessened(counts: Mapping[Any, int], rows: int) -> Iterator[dict[Any, int]]:
    """Counts that may be left without some rows: any choice of rare kinds gone, and the rest from one other."""
    rare = sorted((key for key, count in counts.items() if count <= rows), key=lambda key: counts[key])[:MOST_TRIED]
    for size in range(min(len(rare), rows) + 1):
        for gone in itertools.combinations(rare, size):
            left = rows - sum(counts[key] for key in gone)
            if left < 0:
                continue
            rest = {key: count for key, count in counts.items() if key not in gone}
            yield rest
            for key in rest if left else ():
                own = {**rest, key: rest[key] - left}
                yield {each: count for each, count in own.items() if count > 0}


def _style(form: CellForm, mark: str) -> tuple[str, ...] | None:
    return form.point if mark == "." else form.comma


def surveys_of(raw: RawTable, choices: Choices, lazily: bool) -> dict[str, Survey]:
    """The columns of text, in one pass over them; identifiers and those that are left out are not looked at."""
    left = {choices.id, choices.person, *choices.drop}
    names = tuple(name for name in raw.names if sort_of(raw.kind(name)) == "text" and name not in left)
    if not names:
        return {}
    na, most = frozenset(choices.na), raw.rows // 5 + FOLLOWED

    def of_part(part: Part) -> list[Survey]:
        table = part.read(names)
        return [_survey(table.column(j), part.start, na, most) for j in range(len(names))]

    found = over_parts(of_part, raw.parts, lambda a, b: [x + y for x, y in zip(a, b, strict=True)], lazily)
    return dict(zip(names, found, strict=True))


def _survey(values: Any, start: int, na: frozenset[str], most: int) -> Survey:
    """Of a part; past ``most`` texts that are nothing else the column is no numbers, and all others count as such texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    found = pc.value_counts(values.drop_null())
    counts = dict(zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True))
    forms: Counter[CellForm] = Counter()
    of: dict[str, CellForm] = {}
    for text, count in counts.items():
        of[text] = form = TEXT if forms[TEXT] > most else form_of(text, na)
        forms[form] += count
    marks: Counter[str] = Counter()
    numbers: dict[str, Counter[float]] = {mark: Counter() for mark in DECIMALS}
    others: dict[str, Counter[str]] = {mark: Counter() for mark in DECIMALS}
    for text, form in of.items():
        if form.missing:
            marks[_shown(text)] += counts[text]
            continue
        for mark in DECIMALS:
            if _style(form, mark) is None:
                others[mark][text] += counts[text]
            elif len(numbers[mark]) < FOLLOWED:
                number = read_number(text, mark)
                assert number is not None
                numbers[mark][number] += counts[text]
    first = {mark: _places(values, others[mark], start) for mark in DECIMALS}
    listed = {mark: dict(own.most_common(FOLLOWED)) for mark, own in others.items()}
    return Survey(dict(forms), dict(marks), {mark: dict(own) for mark, own in numbers.items()}, listed, first)


def _shown(mark: str) -> str:
    return mark.strip() or "blank"


def _places(values: Any, texts: Mapping[str, int], start: int) -> tuple[tuple[int, str], ...]:
    """The first rows that hold one of some texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not texts:
        return ()
    where = pc.indices_nonzero(pc.fill_null(pc.is_in(values, value_set=pa.array(list(texts), values.type)), False))
    some = where.slice(0, MOST_NAMED).to_pylist()
    return tuple((start + row + 1, values[row].as_py()) for row in some)
