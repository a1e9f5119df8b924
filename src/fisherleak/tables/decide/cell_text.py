"""Tables as they are written, brought to plain columns: text that holds numbers, spellings that are one, a last row of sums.

Every step is a sentence, with the argument that decides otherwise; values of rows are in none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak.errors import InvalidInputError
from fisherleak.tables.decide.choices import Choices, sort_of
from fisherleak.tables.decide.numbers_in_text import Survey, Unread, surveys_of
from fisherleak.tables.decide.total_rows import without_totals
from fisherleak.tables.read.cell_formats import FEWEST_ALIKE, class_marks, is_missing, read_number
from fisherleak.tables.read.parts import Part, RawTable, over_parts

__all__ = ["OTHER", "OTHER_NUMBERS", "Change", "Written", "as_written", "changed"]

OTHER = "(other)"
"""The level that stands for all that are pooled."""
OTHER_NUMBERS = "other numbers"
"""What a column is read as where a reader of files takes points for decimal marks, and commas are meant."""
MOST_MARKS = 6
MOST_CLASSES = 1000
"""Different texts of a target past which they are no classes."""


@dataclass(frozen=True)
class Change:
    """How the cells of a column are brought to plain ones.

    ``decimal`` reads text as numbers; ``na`` are texts or numbers that count as missing; ``unite`` makes texts one that differ
    in case or blanks only; ``kept`` are levels that stay, while others become ``OTHER``.
    """

    decimal: str | None = None
    na: tuple[str, ...] = ()
    unite: bool = False
    kept: tuple[str, ...] | None = None

    def of(self, values: Any) -> Any:
        """An Arrow column, changed."""
        import pyarrow as pa

        if sort_of(values.type) == "number":
            return _without(values, self.na)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        encoded = pa.concat_arrays(values.chunks or [pa.array([], values.type)]).dictionary_encode()
        new = [self._cell(text) for text in encoded.dictionary.to_pylist()]
        kind = pa.string() if self.decimal is None else pa.float64()
        return pa.chunked_array([pa.array(new, kind).take(encoded.indices)])

    def _cell(self, text: str) -> Any:
        if text in self.na:
            return None
        if self.decimal is not None:
            return None if is_missing(text) else read_number(text, self.decimal)
        text = " ".join(text.casefold().split()) if self.unite else text
        if not text.strip():
            return None
        return text if self.kept is None or text in self.kept else OTHER


def _without(values: Any, na: Sequence[str]) -> Any:
    """A column of numbers with null in place of some."""
    import pyarrow as pa
    import pyarrow.compute as pc

    given = [read_number(text) for text in na]
    numbers = pa.array([number for number in given if number is not None], pa.float64())
    hit = pc.is_in(pc.cast(values, pa.float64(), safe=False), value_set=numbers)
    return pc.if_else(hit, pa.scalar(None, values.type), values)


def _applied(table: Any, how: Mapping[str, Change]) -> Any:
    for j, name in enumerate(table.column_names):
        if name in how:
            table = table.set_column(j, name, how[name].of(table.column(j)))
    return table


def changed(raw: RawTable, how: Mapping[str, Change]) -> RawTable:
    """The same table with some columns changed: at once in memory, when they are read else."""
    if not how:
        return raw
    import pyarrow as pa

    parts = raw.parts if isinstance(raw.parts, list) else list(raw.parts)
    for k, part in enumerate(parts):
        parts[k] = part.changed(partial(_applied, how=how))
    kinds = tuple(_kind(kind, how.get(name)) for name, kind in zip(raw.names, raw.kinds, strict=True))
    assert all(isinstance(kind, pa.DataType) for kind in kinds)
    return replace(raw, kinds=kinds, parts=parts if isinstance(raw.parts, list) else tuple(parts))


def _kind(kind: Any, change: Change | None) -> Any:
    import pyarrow as pa

    if change is None or sort_of(kind) == "number":
        return kind
    return pa.string() if change.decimal is None else pa.float64()


@dataclass(frozen=True)
class Written:
    """A table brought to plain columns, what was done, and cells that are no numbers."""

    raw: RawTable
    notes: tuple[str, ...]
    unread: tuple[Unread, ...] = field(repr=False)
    marks: Mapping[str, str]
    """The decimal mark of columns of text that are taken as numbers, and would be other numbers with the other mark."""
    open_marks: frozenset[str]
    """Those of them for which nothing in the table settles it."""
    few_settle: frozenset[str] = frozenset()
    """Those of them whose mark would be another, or none, without ``FEWEST_ALIKE`` cells or one person's; not where it was
    given."""
    summed: bool = False
    """Whether one row, or person, decides which of the last rows are left out as totals of the others."""
    unsettled: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Columns that might be read as something else without one row, or person, and as what."""
    no_numbers: Mapping[str, int] = field(default_factory=dict)
    """How many cells of such columns are neither missing nor numbers."""


def as_written(
    raw: RawTable, choices: Choices, lazily: bool, one: int = 1, who: NDArray[np.int64] | None = None
) -> Written:
    """The table with numbers where text holds numbers, without a total in its last row.

    ``one`` person has so many rows, where ``who`` says whose each of them is.
    """
    if choices.decimal not in (None, ".", ","):
        raise InvalidInputError(f"decimal must be '.' or ','; got {choices.decimal!r}.")
    found = surveys_of(raw, choices, lazily)
    kept = {*choices.categories, *choices.unite}
    surveys = {name: survey for name, survey in found.items() if name not in kept}
    marks = _decimals(surveys, choices)
    how = {name: Change(decimal=mark, na=choices.na) for name, mark in marks.items()}
    if choices.na:
        numeric = [name for name in raw.names if sort_of(raw.kind(name)) == "number" and name not in choices.drop]
        how |= {
            name: Change(na=choices.na) for name in numeric if any(read_number(text) is not None for text in choices.na)
        }
        texts = (name for name in raw.names if sort_of(raw.kind(name)) == "text" and name not in how)
        how |= {name: Change(na=choices.na) for name in texts}
    gone = _marks_of_target(raw, choices, lazily) if choices.target not in marks else {}
    if gone:
        how[choices.target] = Change(na=(*choices.na, *gone))
    for name in choices.unite:
        if sort_of(raw.kind(name)) != "text":
            raise InvalidInputError(f"`unite` names '{name}', which holds {raw.kind(name)}, not text.")
        how[name] = Change(na=(*choices.na, *gone) if name == choices.target else choices.na, unite=True)
    notes = [_sentence(name, surveys[name], mark) for name, mark in marks.items()]
    if gone:
        notes.append(
            f"In the target '{choices.target}' {_counted(gone)}. `categories={[choices.target]!r}` makes it a class."
        )
    unread = tuple(Unread(name, row, text) for name, mark in marks.items() for row, text in surveys[name].first[mark])
    summed = False
    if not choices.keep_total:
        numbers = surveys.keys() & marks.keys()
        raw, total, summed = without_totals(raw, changed_copy(raw, how), numbers, lazily, one, who)
        notes += total
    told = {name: mark for name, mark in marks.items() if surveys[name].matters}
    settled = any(surveys[name].settles for name in marks)  # one table has one notation
    unsure = frozenset(name for name in told if surveys[name].decimal is None and not settled)
    lesser = {name: [*survey.fewer(one)] for name, survey in surveys.items()}
    few = {} if choices.decimal else {name: [*surveys[name].fewer(max(FEWEST_ALIKE, one))] for name in surveys}
    few_settle = {name for name, mark in told.items() if few and _marks_left(name, surveys, few) != {mark}}
    left = {name: _readings_left(name, raw.inferred, choices, surveys, lesser) for name in surveys}
    unsettled = {name: left[name] - {"number" if name in marks else "text"} for name in surveys}
    if raw.inferred:  # text is text all the same, and its levels might be numbers or truths
        of_kept = {name: survey for name, survey in found.items() if name in {*kept, *choices.declared} - marks.keys()}
        for name, own in of_kept.items():
            unsettled[name] = unsettled.get(name, set()) | ({each.typed for each in own.fewer(one)} - {own.typed})
    for name, (count, reading) in raw.few_decide.items():
        unsettled[name] = unsettled.get(name, set()) | ({reading} if count <= one else set())
    for name in choices.numbers:  # asked for as numbers, whatever a reader of files makes of such cells
        unsettled[name] = unsettled.get(name, set()) - {"text"}
    settled_by = {choices.id, choices.person, *choices.drop}
    cells = {name: surveys[name].unread(mark) for name, mark in marks.items()}
    return Written(
        changed(raw, how),
        tuple(notes),
        unread,
        told,
        unsure,
        frozenset(few_settle),
        summed,
        {name: frozenset(others) for name, others in unsettled.items() if others and name not in settled_by},
        cells,
    )


def _usual(surveys: Mapping[str, Survey]) -> str:
    """The mark of columns that say nothing of their own: one table has one notation."""
    return "," if any(s.decimal == "," and s.is_numbers(",") for s in surveys.values()) else "."


def _own_mark(survey: Survey, choices: Choices, usual: str) -> str:
    return choices.decimal or survey.decimal or usual


def _decimals(surveys: Mapping[str, Survey], choices: Choices) -> dict[str, str]:
    """The decimal mark of every column of text that is taken as numbers."""
    usual = _usual(surveys)
    marks = {name: _own_mark(survey, choices, usual) for name, survey in surveys.items()}
    return {name: mark for name, mark in marks.items() if name in choices.numbers or surveys[name].is_numbers(mark)}


def _reading(survey: Survey, mark: str, inferred: Collection[str], asked: bool) -> str:
    """What a column of text is read as: "number", "text", "truth", …; a reader of files decides first what it ``inferred``.

    ``asked`` says that it is named as a number: then text is read as numbers, and truths are 1 and 0.
    """
    typed = survey.typed if survey.typed in inferred else ""
    if typed == "number" and mark == "," and survey.matters:
        return OTHER_NUMBERS  # readers of files take points alone for decimal marks
    if typed:
        return typed
    return "number" if asked or survey.is_numbers(mark) else "text"


Lesser = Mapping[str, Sequence[Survey]]
"""What surveys of columns may be left without some rows."""


def _usual_left(surveys: Mapping[str, Survey], lesser: Lesser) -> set[str]:
    """The marks that may be usual, now or without some rows."""
    told = [{_usual({name: each}) for each in (survey, *lesser[name])} for name, survey in surveys.items()]
    return (
        {_usual(surveys)}
        | ({","} if any("," in each for each in told) else set())
        | ({"."} if all("." in each for each in told) else set())
    )


def _marks_left(name: str, surveys: Mapping[str, Survey], lesser: Lesser) -> set[str]:
    """The marks that a column may have without some rows."""
    usual = _usual_left(surveys, lesser)
    return {mark for each in lesser[name] for mark in ({each.decimal} if each.decimal else usual) if each.matters}


def _readings_left(
    name: str, inferred: Collection[str], choices: Choices, surveys: Mapping[str, Survey], lesser: Lesser
) -> set[str]:
    usual = _usual_left(surveys, lesser)
    asked = name in choices.numbers
    return {_reading(each, _own_mark(each, choices, mark), inferred, asked) for each in lesser[name] for mark in usual}


def _sentence(name: str, survey: Survey, decimal: str) -> str:
    styles, unread, first = survey.styles(decimal), survey.unread(decimal), survey.first[decimal]
    told = f"'{name}' is text and is taken as numbers"
    if styles:
        told += f", written {' and '.join(sorted(styles))}"
    if survey.decimal is None:
        told += f" (`decimal={'.' if decimal == ',' else ','!r}` reads the marks the other way)"
    if survey.marks:
        told += f"; {_counted(survey.marks)}"
    if unread:
        rows = ", ".join(f"row {row}: {Unread(name, row, text).kind}" for row, text in first)
        more = f" and {unread - len(first)} more" if unread > len(first) else ""
        told += f"; {unread} cell{'s are no numbers and count' if unread > 1 else ' is no number and counts'} as "
        told += f"missing ({rows}{more})"
    return f"{told}. `categories={[name]!r}` takes it as text."


def _counted(marks: Mapping[str, int]) -> str:
    """How many cells are marks of missing ones, and which."""
    listed = [f"{mark!r} {count}" if mark != "blank" else f"blank {count}" for mark, count in marks.items()]
    more = " and others" if len(listed) > MOST_MARKS else ""
    count = sum(marks.values())
    return f"{count} cell{'s count' if count > 1 else ' counts'} as missing ({', '.join(listed[:MOST_MARKS])}{more})"


def _marks_of_target(raw: RawTable, choices: Choices, lazily: bool) -> dict[str, int]:
    """What stands for missing classes in a target of text, and how often; nothing where the target is taken as it is."""
    import pyarrow.compute as pc

    name = choices.target
    if name not in raw.names:  # of rows that are to be predicted
        return {}
    if sort_of(raw.kind(name)) != "text":
        if name in choices.categories:
            raise InvalidInputError(
                f"`categories` names the target '{name}', which holds {raw.kind(name)}: `model` says whether those are classes."
            )
        return {}
    if name in choices.categories:
        return {}

    def of_part(part: Part) -> Counter[str]:
        found = pc.value_counts(part.read((name,)).column(0).drop_null()).to_pylist()
        return Counter({each["values"]: each["counts"] for each in found if len(found) <= MOST_CLASSES})

    counts = over_parts(of_part, raw.parts, _sum_of, lazily)
    return {mark: counts[mark] for mark in sorted(class_marks(counts)) if mark.strip() and mark not in choices.na}


def _sum_of(a: Counter[str], b: Counter[str]) -> Counter[str]:
    return a + b


def changed_copy(raw: RawTable, how: Mapping[str, Change]) -> RawTable:
    """The changed table beside the one that stays as it is."""
    return changed(replace(raw, parts=tuple(raw.parts)), how)
