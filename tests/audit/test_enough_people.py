from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import fisherleak as fl
from fisherleak.audit.enough_people import check_enough
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


def test_five_rows_or_people_are_enough_for_a_class() -> None:
    check_enough(design(60, 5))
    check_enough(design(60, 9, drop=(), person="who"))
    with pytest.raises(fl.InvalidInputError, match="classes of the target 'y', and one of them has 4 training rows"):
        check_enough(design(60, 4))
    with pytest.raises(fl.InvalidInputError, match="one of them has 4 people"):
        check_enough(design(60, 8, drop=(), person="who"))
