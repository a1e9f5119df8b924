from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import fisherleak as fl
from fisherleak.releasing.cards.enough_people import check_enough
from fisherleak.tables import Choices, Design, design_of, from_frame


def design(n: int, classes: Any = None, **choices: Any) -> Design:
    rng = np.random.default_rng(0)
    y = rng.normal(size=n) if classes is None else np.where(np.arange(n) < classes, "ill", "well")
    table = pd.DataFrame({"age": rng.normal(size=n), "who": np.arange(n) // 2, "y": y})
    return design_of(from_frame(table), Choices("y", **({"drop": ("who",)} | choices)), held_out=0.0)


def test_thirty_rows_or_people_are_enough() -> None:
    check_enough(design(30))
    check_enough(design(60, drop=(), person="who"))
    with pytest.raises(fl.InvalidInputError, match="at least 30 training rows, and a table has 29"):
        check_enough(design(29))
    with pytest.raises(fl.InvalidInputError, match="at least 30 people, and a table has 29"):
        check_enough(design(58, drop=(), person="who"))


def with_gaps(n: int, values: int, **choices: Any) -> Design:
    """A table in which only the first rows have an income."""
    rng = np.random.default_rng(0)
    income = np.where(np.arange(n) < values, rng.normal(size=n), np.nan)
    columns = {"age": rng.normal(size=n), "income": income, "who": np.arange(n) // 2, "y": rng.normal(size=n)}
    choices = {"drop": ("who",)} | choices
    return design_of(from_frame(pd.DataFrame(columns)), Choices("y", **choices), held_out=0.0)


def test_what_is_filled_makes_nobody_more() -> None:
    """A hundred rows of which 29 have an income: its centre and scale are those of 29."""
    check_enough(with_gaps(100, 30))
    check_enough(with_gaps(100, 59, drop=(), person="who"))
    check_enough(with_gaps(100, 29, drop=("who", "income")))
    with pytest.raises(
        fl.InvalidInputError, match=r"30 training rows with a value in .* fewer have one in 'income' \(29\)"
    ):
        check_enough(with_gaps(100, 29))
    with pytest.raises(fl.InvalidInputError, match=r"30 people with a value in .* fewer have one in 'income' \(29\)"):
        check_enough(with_gaps(100, 58, drop=(), person="who"))
    with pytest.raises(fl.InvalidInputError, match="at least 30 training rows, and a table has 29"):
        check_enough(with_gaps(100, 29, missing="drop"))


def test_five_rows_or_people_are_enough_for_a_class() -> None:
    check_enough(design(60, 5))
    check_enough(design(60, 9, drop=(), person="who"))
    with pytest.raises(fl.InvalidInputError, match="classes of the target 'y', and one of them has 4 training rows"):
        check_enough(design(60, 4))
    with pytest.raises(fl.InvalidInputError, match="one of them has 4 people"):
        check_enough(design(60, 8, drop=(), person="who"))
    with pytest.raises(
        fl.InvalidInputError, match=r"has 1 training row: .* Unite it with another class in the table, or"
    ):
        check_enough(design(60, 1))
    with pytest.raises(fl.InvalidInputError, match="one of them has 1 person:"):
        check_enough(design(60, 2, drop=(), person="who"))
