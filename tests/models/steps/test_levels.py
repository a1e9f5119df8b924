from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from fisherleak.models.steps.levels import forget_rare, with_own_types

POOLS = {"min_frequency": 5, "handle_unknown": "infrequent_if_exist", "sparse_output": False}
COLUMNS: dict[str, Any] = {
    "words": np.repeat(["ash", "elm", "oak"], [40, 2, 46]).astype(object),
    "whole": np.repeat([3, 7, 11], [40, 2, 46]),
    "real": np.repeat([0.5, 7.25, 1.5], [40, 2, 46]),
    "almost whole": np.repeat([3.0, 7.25, 11.0], [40, 2, 46]),
    "truth": np.repeat([True, False], [86, 2]),
}


def copied(encoder: Any) -> Any:
    made = clone(encoder)
    for name, value in vars(encoder).items():
        setattr(made, name, [*value] if isinstance(value, list) else value)
    return made


@pytest.mark.parametrize("column", COLUMNS)
def test_encoders_that_forgot_rare_levels_encode_as_before(column: str) -> None:
    table = pd.DataFrame({"tree": COLUMNS[column]})
    encoder = OneHotEncoder(**POOLS).fit(table)
    made = copied(encoder)
    forget_rare(made, encoder)
    np.testing.assert_array_equal(made.transform(table), encoder.transform(table))
    assert "elm" not in made.categories_[0].tolist()
    assert 7.25 not in made.categories_[0].tolist()


def test_types_follow_from_named_levels() -> None:
    kinds = {}
    for column, values in COLUMNS.items():
        encoder = OneHotEncoder(**POOLS).fit(pd.DataFrame({"tree": values}))
        made = copied(encoder)
        forget_rare(made, encoder)
        kinds[column] = made.categories_[0].dtype.kind
    assert kinds == {"words": "O", "whole": "i", "real": "f", "almost whole": "i", "truth": "i"}


@pytest.mark.parametrize("encoder", [OneHotEncoder(sparse_output=False), OrdinalEncoder()])
@pytest.mark.parametrize("column", COLUMNS)
def test_encoders_with_types_of_their_own_encode_as_before(column: str, encoder: Any) -> None:
    table = pd.DataFrame({"tree": COLUMNS[column]})
    fitted = clone(encoder).fit(table)
    np.testing.assert_array_equal(with_own_types(copied(fitted)).transform(table), fitted.transform(table))
