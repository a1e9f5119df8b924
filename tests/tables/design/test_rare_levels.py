from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fisherleak as fl
from fisherleak.tables import Choices, Design, design_of, from_frame
from fisherleak.tables.design.rare_levels import check_types, sharing, whole_levels

RARE = 5


def frame(n: int = 60, **columns: Any) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    own = {"age": rng.normal(50, 10, n), "city": rng.choice(["Bonn", "Kiel"], n), "who": np.arange(n) // 3}
    return pd.DataFrame(own | {"y": rng.normal(size=n)} | columns)


def design(table: pd.DataFrame, **choices: Any) -> Design:
    given = Choices("y", rare=RARE, **({"drop": ("who",)} | choices))
    return design_of(from_frame(table), given, held_out=0.0)


def names(found: Design) -> list[str]:
    return [feature.name for feature in found.features]


def with_cells(values: Any, rows: Any, cell: Any) -> Any:
    changed = np.array(values)
    changed[rows] = cell
    return changed


def test_levels_in_their_order_are_whole_where_they_are_whole() -> None:
    assert whole_levels({2.0, 1.0, 10.0}) == (1, 2, 10)
    assert [type(level) for level in whole_levels({2.0, 1.5})] == [float, int]
    assert whole_levels({"b", "a"}) == ("a", "b")


def test_people_are_counted_once() -> None:
    counts = Counter({"a": 3, "b": 4, "c": 9})
    assert sharing({"a", "b"}, counts, None) == 7
    assert sharing({"a", "b"}, counts, {"a": frozenset({1, 2, 3}), "b": frozenset({1, 2, 3, 4})}) == 4
    assert sharing((), counts, None) == 0


@pytest.mark.parametrize(
    ("kept", "counts", "refused"),
    [
        ({"1", "2"}, {"1": 9, "2": 9, "x": 1}, True),
        ({"1", "2.5"}, {"1": 9, "2.5": 9, "x": 1}, True),
        ({"1", "2"}, {"1": 9, "2": 9, "3": 1}, False),
        ({"1", "b"}, {"1": 9, "b": 9, "x": 1}, False),
        ({1, 2}, {1: 9, 2: 9, 3: 1}, False),
        (set(), {"x": 1}, False),
    ],
)
def test_text_for_the_sake_of_a_few_cells_is_refused(kept: Any, counts: Any, refused: bool) -> None:
    if refused:
        with pytest.raises(fl.InvalidInputError, match=r"Column 'stage' holds numbers, and text in too few .* `na`"):
            check_types("stage", kept, Counter(counts))
    else:
        check_types("stage", kept, Counter(counts))


def test_rare_levels_that_are_few_together_count_as_the_first() -> None:
    base = frame()
    (_, few), (_, many) = (
        design(base.assign(city=with_cells(base["city"].astype(object), rows, "Ulm"))).features
        for rows in ([3], [3, 4])
    )
    assert (few.levels, few.pooled, few.strays) == (("Bonn", "Kiel"), 0, 1)
    assert (many.levels, many.pooled, many.strays) == (("Bonn", "Kiel"), 0, 1)
    cities = with_cells(base["city"].astype(object), [3, 4, 5], "Ulm")
    (_, pooled) = design(base.assign(city=with_cells(cities, [6, 7, 8], "Aach"))).features
    assert (pooled.levels, pooled.pooled, pooled.strays) == (("(other)", "Bonn", "Kiel"), 2, 0)
    found = design(base.assign(city=with_cells(base["city"].astype(object), [3], "Ulm")))
    assert found.raw(found.features[1])[3] == "Bonn"
    assert "is what they and new ones count as" in " ".join(found.notes)
    assert "Ulm" not in " ".join(found.notes)


def test_one_person_with_many_rare_levels_is_one() -> None:
    """Six rows of two people, each with a level of its own."""
    cities = with_cells(frame()["city"].astype(object), range(6), ["A", "B", "C", "D", "E", "F"])
    choices: Any = {"drop": (), "person": "who"}
    (_, city) = design(frame(city=cities), **choices).features
    assert (city.levels, city.pooled, city.strays) == (("Bonn", "Kiel"), 0, 6)
    assert design(frame(city=cities)).features[1].pooled == 6


@pytest.mark.parametrize("rows", [1, 4, 5, 30])
def test_a_number_that_few_rows_vary_in_is_left_out(rows: int) -> None:
    flag = with_cells(np.zeros(60), range(0, 2 * rows, 2), np.arange(rows) % 3 + 1.0)
    assert ("flag" in names(design(frame(flag=flag)))) == (rows >= RARE)
    assert "flag" in names(design_of(from_frame(frame(flag=flag)), Choices("y", drop=("who",)), held_out=0.0))
    (column,) = (c for c in design(frame(flag=flag)).columns if c.name == "flag")
    if rows < RARE:
        assert column.note == "has one value in all but fewer than 5 training rows"


def test_a_number_that_few_people_vary_in_is_left_out() -> None:
    flag = with_cells(np.zeros(60), range(12), 1.0)  # twelve rows of four people
    choices: Any = {"drop": (), "person": "who"}
    assert "flag" in names(design(frame(flag=flag)))
    assert "flag" not in names(design(frame(flag=flag), **choices))
    assert "flag" in names(design(frame(flag=with_cells(flag, 12, 1.0)), **choices))
