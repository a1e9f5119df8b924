"""What a released model predicts for the rows of a table, read as the card says, and what was done on the way in sentences.

The card decides what every column is. Numbers that are missing become the public centre of their column where the model fills
gaps, categories that it does not know, or that are missing, the first on the model card: as the file itself does
(docs/command-line.md, "Predicting"). What that concerns is counted and said.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.checks import nearest
from fisherleak._support.level_types import as_number, numeric_levels, plain_level
from fisherleak._support.namespaces import Vector
from fisherleak.errors import InvalidInputError
from fisherleak.releasing.cards.cards import model_of
from fisherleak.releasing.files.released_files import SavedModel
from fisherleak.tables import Choices, Feature, RawTable
from fisherleak.tables.decide.cell_text import Written, as_written
from fisherleak.tables.decide.choices import sort_of
from fisherleak.tables.read.arrow_columns import as_codes, as_numbers, is_nested
from fisherleak.tables.read.cell_formats import is_plain_number, kind_of_cell
from fisherleak.tables.read.parts import Part, each_part

PREDICTION, PROBABILITY = "prediction", "probability_"
LISTED = 5
"""Columns that a sentence names at most."""


@dataclass(frozen=True)
class Predictions:
    """One prediction for each row of a table, in its order.

    Attributes
    ----------
    values : array of shape (m,)
        In the target's unit, or one of ``classes``; None where the model gives none.
    classes : tuple
    probabilities : array of shape (m, classes), optional
        NaN where the model gives none.
    id : str or None
        The column that names the rows, and ``ids`` its cells.
    notes : tuple of str
        What was done, in sentences.
    """

    values: NDArray[Any] = field(repr=False)
    classes: tuple[Any, ...] = ()
    probabilities: Vector | None = field(default=None, repr=False)
    id: str | None = None
    ids: tuple[str, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()

    @property
    def header(self) -> list[str]:
        """Names of the columns that are written."""
        named = [] if self.id is None else [self.id]
        return [*named, PREDICTION, *(f"{PROBABILITY}{name}" for name in self.classes)]

    def lines(self) -> Iterator[list[str]]:
        """The cells of every row; nothing where there is no prediction."""
        for k, value in enumerate(self.values):
            own = [] if self.probabilities is None else self.probabilities[k].tolist()
            yield [
                *self.ids[k : k + 1],
                *(("" if each is None or each != each else str(each)) for each in [value, *own]),
            ]


def write_predictions(found: Predictions, file: IO[str]) -> None:
    """As CSV."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(found.header)
    writer.writerows(found.lines())


def text_columns(saved: SavedModel) -> frozenset[str]:
    """Columns that are read as text, whatever they hold: categories of text, in which 02 is not 2."""
    found = []
    for feature in _features(saved):
        texts = [level for level in _told(feature) if isinstance(level, str)]
        # dates were read as dates, and are texts of one form then
        if texts and not _is_numeric(feature) and not any(kind_of_cell(text) == "date" for text in texts):
            found.append(feature.name.strip())
    return frozenset(found)


def predict_rows(saved: SavedModel, raw: RawTable, id: str | None = None, decimal: str | None = None) -> Predictions:  # noqa: A002
    """Read a table as the model card of a released model says, and predict every row.

    Parameters
    ----------
    saved : SavedModel
    raw : RawTable
        With the model's columns, in any order; others are ignored.
    id : str, optional
        The column that names the rows; by default that of the model card, where the table has it.
    decimal : str, optional
        The decimal mark of numbers that are written as text; found from the table by default.
    """
    features, settings = _features(saved), saved.settings
    spelled = _spelled(raw, [feature.of or feature.name for feature in features])
    named = _id_column(raw, settings.id, id, (saved.card["target"]["classes"] or ()))
    written = _read(saved, raw, spelled, decimal)
    counted, blocks, ids = _OddCells(), [], []
    fills = settings.missing == "impute"
    for part in each_part(written.raw, "Predicting"):
        blocks.append(_block(features, spelled, part, dict(settings.bounds), fills, raw.source, counted))
    if named is not None:
        ids = [_id_text(value) for part in raw.parts for value in part.read((named,)).column(0).to_pylist()]
    X = np.concatenate(blocks)
    counted.check_numbers(written, raw.rows, raw.source)
    values, probabilities = _predicted(saved.model[-1], X, bool(saved.card["target"]["classes"]))
    classes = () if probabilities is None else tuple(saved.model[-1].classes_.tolist())
    told = _sentences(saved, raw, written, counted, spelled, named)
    empty = int(np.isnan(X).any(axis=1).sum())
    if empty:
        told.append(
            f"{_rows(empty)} lack{'s' * (empty == 1)} a number and ha{'ve' if empty > 1 else 's'} no prediction: the model was "
            "released with `missing='drop'`, which left such rows out of training. Its cells are empty."
        )
    return Predictions(values, classes, probabilities, named, tuple(ids), tuple(told))


def _features(saved: SavedModel) -> tuple[Feature, ...]:
    return model_of(saved.card).features


def _told(feature: Feature) -> tuple[Any, ...]:
    """Categories that are values of cells: without the first where that stands for others."""
    return feature.levels[1:] if feature.open else feature.levels


def _is_numeric(feature: Feature) -> bool:
    """Whether the file takes a category's values as numbers, as its encoder does."""
    return feature.kind == "category" and numeric_levels(_told(feature)) is not None


# Columns


def _spelled(raw: RawTable, wanted: Iterable[str]) -> dict[str, str]:
    """The model's columns and what the table calls each: blanks around names do not matter. Refuses those that are missing."""
    bare = {name.strip(): name for name in raw.names}
    names = list(dict.fromkeys(wanted))
    found = {name: name if name in raw.names else bare.get(name.strip()) for name in names}
    lacking = [name for name, own in found.items() if own is None]
    if lacking:
        more = f" and {len(lacking) - 1} more that the model needs" if len(lacking) > 1 else ", which the model needs"
        raise InvalidInputError(
            f"{raw.source} has no column '{lacking[0]}'{more}. {nearest(lacking[0], raw.names)} Rename or add columns; "
            "the model card lists all of them under 'columns'."
        )
    return {name: own for name, own in found.items() if own is not None}


def _id_column(raw: RawTable, of_card: str | None, given: str | None, classes: Sequence[Any]) -> str | None:
    if given is None and of_card not in raw.names:
        return None
    name = of_card if given is None else given
    if name not in raw.names:
        raise InvalidInputError(f"`id` names the column '{name}', which is not there. {nearest(str(name), raw.names)}")
    if name in (PREDICTION, *(f"{PROBABILITY}{each}" for each in classes)):
        raise InvalidInputError(
            f"The id column '{name}' has the name of a column that is written: rename it in {raw.source}, or name another "
            "with `id`."
        )
    return name


def _read(saved: SavedModel, raw: RawTable, spelled: Mapping[str, str], decimal: str | None) -> Written:
    """The model's columns of the table, brought to plain ones as a release does it: by the card's kinds and missing marks."""
    own, settings = {name: spelled[name] for name in spelled}, saved.settings
    numbers = tuple(own[f.name] for f in _features(saved) if f.kind == "number")
    for name in numbers:
        if sort_of(raw.kind(name)) not in ("number", "text", "bool"):
            raise InvalidInputError(
                f"Column '{name}' of {raw.source} holds {raw.kind(name)}, and the model takes numbers there: write numbers."
            )
    texts = [name for name in own.values() if sort_of(raw.kind(name)) == "text"]
    choices = Choices(
        settings.target,
        numbers=numbers,
        categories=tuple(name for name in own.values() if name not in numbers),
        decimal=decimal,
        na=settings.na,
        unite=tuple(own[name] for name in settings.unite if own.get(name) in texts),
        keep_total=True,  # every row is predicted
    )
    used = tuple(own.values())
    some = replace(raw, names=used, kinds=tuple(raw.kind(name) for name in used), parts=tuple(raw.parts))
    written = as_written(some, choices, lazily=False)
    if written.open_marks and settings.decimal is not None:
        return as_written(some, replace(choices, decimal=settings.decimal), lazily=False)
    if written.open_marks and decimal is None:
        raise InvalidInputError(
            f"Numbers of the column '{min(written.open_marks)}' of {raw.source} can be read with a decimal point or with a "
            "decimal comma: say which, with `decimal='.'` or `decimal=','`."
        )
    return written


def _id_text(value: Any) -> str:
    return "" if value is None or value != value else str(plain_level(value))


# Rows


@dataclass(frozen=True)
class _OddCells:
    """Rows by column, counted as they are read: cells that are missing, that the model does not know, beyond the bounds."""

    missing: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)

    def check_numbers(self, written: Written, rows: int, source: str) -> None:
        """Refuse a column of numbers that has cells, and no number in any: they are something else."""
        for name, count in written.no_numbers.items():
            if count and self.missing[name] == rows:
                raise InvalidInputError(
                    f"Column '{name}' of {source} holds no number, and the model takes numbers there: write numbers, or leave "
                    "the cells empty where they are missing."
                )


def _block(
    features: Sequence[Feature],
    spelled: Mapping[str, str],
    part: Part,
    bounds: Mapping[str, tuple[float, float]],
    fills: bool,
    source: str,
    counted: _OddCells,
) -> Vector:
    """Features of some rows in the columns' own units, as released coefficients take them; NaN where a number is missing."""
    table = part.read(tuple(dict.fromkeys(spelled.values())))
    X = np.zeros((part.rows, 1 + max(k for feature in features for k in feature.columns)))
    for feature in features:
        name = spelled[feature.of or feature.name]
        values = table.column(name)
        if feature.of is not None:
            X[:, feature.columns[0]] = np.isnan(as_numbers(values))
        elif feature.kind == "number":
            numbers = as_numbers(values)
            infinite = np.flatnonzero(np.isinf(numbers))
            if infinite.size:
                raise InvalidInputError(
                    f"Column '{name}' of {source} has an infinite value in {part.where(int(infinite[0]))}: write a number "
                    "there, or leave the cell empty."
                )
            missing, (low, high) = np.isnan(numbers), bounds.get(feature.name, (-np.inf, np.inf))
            counted.missing[name] += int(missing.sum())
            counted.outside[name] += int(((numbers < low) | (numbers > high)).sum())
            X[:, feature.columns[0]] = np.where(missing, feature.centre, numbers) if fills else numbers
        elif is_nested(values):
            raise InvalidInputError(
                f"Column '{name}' of {source} holds lists or records, and a category is one value: write one in each cell."
            )
        else:
            X[:, list(feature.columns)] = _indicators(feature, name, values, counted)
    return X


def _indicators(feature: Feature, name: str, values: Any, counted: _OddCells) -> Vector:
    """Of each category but the first, which stands for what is missing or not known."""
    coded = as_codes(values)
    known = {_key(feature, level): k for k, level in enumerate(feature.levels)}
    blank = [isinstance(level, str) and not level.strip() for level in coded.levels] + [True]
    place = [known.get(_key(feature, level), -1) for level in coded.levels] + [-1]
    missing, found = np.array(blank)[coded.codes], np.array(place)[coded.codes]
    counted.missing[name] += int(missing.sum())
    counted.unknown[name] += int(((found < 0) & ~missing).sum())
    return np.asarray(np.eye(len(feature.levels))[np.maximum(found, 0), 1:])


def _key(feature: Feature, value: Any) -> Any:
    """What makes two values one category: where categories are numbers 2, 2.0 and "2" are, and true is 1; else their texts."""
    plain = plain_level(value)
    if not _is_numeric(feature):
        return str(plain)
    if isinstance(plain, str):
        truth = {"true": 1.0, "false": 0.0}.get(plain.strip().casefold())
        plain = float(plain) if is_plain_number(plain) else truth if truth is not None else as_number(plain)
    return float(plain) if isinstance(plain, (bool, int, float)) else plain


def _predicted(estimator: Any, X: Vector, classes: bool) -> tuple[NDArray[Any], Vector | None]:
    """What the last step of a released pipeline makes of features in the columns' units; nothing for rows that lack one."""
    whole = ~np.isnan(X).any(axis=1)
    values = np.full(len(X), None, dtype=object)
    probabilities = np.full((len(X), len(estimator.classes_)), np.nan) if classes else None
    if whole.any():
        with np.errstate(over="ignore"):
            values[whole] = estimator.predict(X[whole]).tolist()
            if probabilities is not None:
                probabilities[whole] = estimator.predict_proba(X[whole])
    return values, probabilities


# What was done, in sentences


def _sentences(
    saved: SavedModel,
    raw: RawTable,
    written: Written,
    counted: _OddCells,
    spelled: Mapping[str, str],
    named: str | None,
) -> list[str]:
    features, target = _features(saved), saved.card["target"]["name"]
    numbers = {spelled[f.name] for f in features if f.kind == "number"}
    first = {spelled[f.name]: str(f.levels[0]) for f in features if f.kind == "category" and f.of is None}
    told = [f"Predicted '{target}' for {_rows(raw.rows)} of {raw.source} with '{saved.path.name}'.", *raw.notes]
    marked = [f"'{name}' (decimal {'comma' if mark == ',' else 'point'})" for name, mark in written.marks.items()]
    told += [f"Text was read as numbers: {_listed(marked)}."] if marked else []
    no_numbers = _by_column(written.no_numbers)
    told += [f"Cells that are no numbers count as missing: {_listed(no_numbers)}."] if no_numbers else []
    centre = _by_column({name: count for name, count in counted.missing.items() if name in numbers})
    if centre and saved.settings.missing == "impute":
        told.append(
            f"Missing numbers count as the public centre of their column, on the model card: {_listed(centre)}."
        )
    as_first = [
        f"'{name}' ({_rows(count)}, as '{first[name]}')"
        for name, count in counted.missing.items()
        if count and name in first
    ]
    told += [f"Missing categories count as the first on the model card: {_listed(as_first)}."] if as_first else []
    new = [f"'{name}' ({_rows(count)}, as '{first[name]}')" for name, count in counted.unknown.items() if count]
    told += (
        [f"Categories that the model does not know count as the first on the model card: {_listed(new)}."]
        if new
        else []
    )
    beyond = _by_column(counted.outside)
    told += [f"Numbers outside the declared bounds were taken as they are: {_listed(beyond)}."] if beyond else []
    extra = [f"'{name}'" for name in raw.names if name not in {*spelled.values(), named}]
    told += [f"Columns that the model does not use were ignored: {_listed(extra)}."] if extra else []
    return told


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def _by_column(counts: Mapping[str, int]) -> list[str]:
    return [f"'{name}' ({_rows(count)})" for name, count in counts.items() if count]


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - LISTED} more" if len(texts) > LISTED else ""
    return ", ".join(texts[:LISTED]) + more
