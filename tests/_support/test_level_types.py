from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fisherleak._support.level_types import plain_level, typed_levels


@pytest.mark.parametrize(
    ("levels", "kind", "expected"),
    [
        (np.array([1, 2], dtype=np.int8), "i", [1, 2]),
        (np.array([1.0, 2.0]), "i", [1, 2]),
        (np.array([1.0, 2.5]), "f", [1.0, 2.5]),
        ([1.0, math.inf], "f", [1.0, math.inf]),
        (np.array([1, 2.0], dtype=object), "i", [1, 2]),
        (np.array(["a", "bb"], dtype="<U40"), "O", ["a", "bb"]),
        ([True, False], "b", [True, False]),
        ([True, "a"], "O", [True, "a"]),
        (["1", 1], "O", ["1", 1]),
        ([2**70, 1.0], "f", [2.0**70, 1.0]),
        ([], "O", []),
    ],
)
def test_types_follow_from_the_levels_alone(levels: Any, kind: str, expected: list[Any]) -> None:
    found = typed_levels(levels)
    assert found.dtype.kind == kind
    assert found.tolist() == expected
    assert found.base is None


def test_a_gap_among_numbers_is_a_number_and_among_text_an_object() -> None:
    assert typed_levels(np.array([1.0, np.nan])).dtype.kind == "f"
    assert typed_levels(["a", None]).tolist() == ["a", None]
    assert plain_level(pd.Series([3.0]).iloc[0]) == 3
    assert isinstance(plain_level(np.float64(3.0)), int)
    assert plain_level(None) is None
