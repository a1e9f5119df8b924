"""Several rows for a person: who each row belongs to, and what follows for the split and for rare levels.

All rows of a person are one set. They are held out together or not at all, so that utility is measured on people whom the model
does not know, and a level that is too rare to be named is one that few people have, however many rows these have.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.level_types import check_ids_apart, check_ids_exact, id_text
from fisherleak.errors import InvalidInputError
from fisherleak.tables.decide.cell_text import OTHER
from fisherleak.tables.design.features import Facts
from fisherleak.tables.design.gaps import Gaps
from fisherleak.tables.design.split import SMALL, Complete, Split, gaps_in
from fisherleak.tables.read.arrow_columns import as_codes, as_text
from fisherleak.tables.read.parts import RawTable

__all__ = ["People", "by_people", "people_in", "split_people"]

FEWEST = 2
"""People that a table must have: with one, all rows are one set."""
Places = NDArray[np.int64]


@dataclass(frozen=True)
class People:
    """Who the rows of a table belong to: the place of each row's person among the names."""

    of_row: Places = field(repr=False)
    names: NDArray[Any] = field(repr=False)

    @property
    def count(self) -> int:
        return int(self.names.size)

    @cached_property
    def sizes(self) -> Places:
        """How many rows each has."""
        return np.bincount(self.of_row, minlength=self.count)

    @property
    def sets(self) -> list[Places]:
        """The rows of each."""
        return np.split(np.argsort(self.of_row, kind="stable"), np.cumsum(self.sizes)[:-1])

    def among(self, rows: Places) -> People:
        """Those whom some rows, by their number from 1, belong to."""
        present, places = np.unique(self.of_row[rows - 1], return_inverse=True)
        return People(np.asarray(places, dtype=np.int64).reshape(-1), self.names[present])


def people_in(raw: RawTable, name: str, lazily: bool) -> People:
    """The people of a whole table, in the order of their first rows and as these call them: 7, 007 and 7.0 are one."""
    import pandas

    if lazily:
        raise InvalidInputError(
            f"`person` ('{name}') needs all rows in memory, and those of {raw.source} are read part by part: use fewer rows "
            "or columns, enough memory (`room`) and no cluster."
        )
    cells = [part.read((name,)).column(0) for part in raw.parts]
    for column in cells:
        check_ids_exact(f"The person column '{name}'", column.to_pylist())
    written, spellings = pandas.factorize(np.concatenate([as_text(column) for column in cells]))
    check_ids_apart(f"The person column '{name}'", spellings)
    own, _ = pandas.factorize(np.array([id_text(text) for text in spellings], dtype=object))
    places, names = own[written], spellings[np.unique(own, return_index=True)[1]]
    if len(names) < FEWEST:
        raise InvalidInputError(
            f"`person` names '{name}', which has one value only: at least {FEWEST} people are needed."
        )
    return People(np.asarray(places, dtype=np.int64), np.asarray(names, dtype=object))


def split_people(people: People, complete: int, held_out: float, seed: int) -> tuple[Split, str]:
    """Training and held-out people, and a sentence that says so."""
    if held_out == 0 or complete < SMALL:
        few = f"There are only {complete} rows, so none are held out and utility is that on the training rows."
        return Split(0.0, seed, np.empty(0, dtype=np.int64)), few if held_out else ""
    count = min(round(held_out * people.count), people.count - 1)
    held = np.random.default_rng(seed).permutation(people.count)[:count]
    rows = np.flatnonzero(np.isin(people.of_row, held))
    return Split(held_out, seed, rows), "People are held out with all their rows, or not at all."


def by_people(facts: Facts, raw: RawTable, complete: Complete, split: Split, people: People, rare: int) -> Facts:
    """The same facts with categories, and who lacks a column, counted by people and not by rows.

    Also who has levels of fewer than ``rare``, or one of those that are pooled.
    """
    lacking: list[set[int]] = [set() for _ in complete.used]
    there: list[set[int]] = [set() for _ in complete.used]
    pairs: dict[int, set[tuple[Any, int]]] = {
        k: set() for k, column in enumerate(complete.used) if column.kind == "category"
    }
    for part in raw.parts:
        table = complete.read(part)
        _, whole, _ = complete.rows(table)
        train = whole[~split.held(part.start + whole)]
        who = people.of_row[part.start + train]
        for k, found in pairs.items():
            coded = as_codes(table.column(complete.used[k].name))
            both = np.unique(np.stack([coded.codes[train], who]), axis=1)
            found |= {(coded.levels[level], int(person)) for level, person in both.T if level >= 0}
        for k, column in enumerate(complete.used):
            missing = gaps_in(column.kind, table.column(column.name))[train]
            lacking[k] |= set(who[missing].tolist())
            there[k] |= set(who[~missing].tolist())
    columns: list[Any] = list(facts.columns)
    having: list[Any] = [None] * len(columns)
    for k, found in pairs.items():
        columns[k] = counts = Counter(level for level, _ in found)
        # those that are pooled already are of the same level as rare ones, however many they are
        few = {level for level, count in counts.items() if count < rare or level == OTHER}
        having[k] = {level: frozenset(person for own, person in found if own == level) for level in few}
    gaps = tuple(Gaps(g.rows, len(a), len(b)) for g, a, b in zip(facts.gaps, lacking, there, strict=True))
    most = int(people.sizes.max())
    return replace(facts, columns=tuple(columns), who=tuple(having), gaps=gaps, most_rows=most)
