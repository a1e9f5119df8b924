"""Bounds of admissible rows: what is declared is kept, what is taken from rows no single row decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl
from cases import make
from fisherleak.protection.certificates.declared_bounds import GRIDS, _above, _range, admissible_rows

VALUES = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=4, max_size=30).map(
    # enough rows for a range, of which few are at its ends
    lambda values: [*values, *[sorted(values)[len(values) // 2]] * 31]
)


@given(value=st.floats(-1e9, 1e9, allow_subnormal=False), grid=st.sampled_from(GRIDS))
def test_grids_are_above(value: float, grid: tuple[int, int]) -> None:
    end = _above(value, *grid)
    assert end >= value
    assert _above(end, *grid) == end


@pytest.mark.parametrize("edge", [2.0**-7, 0.125, 0.5, 1.0, 2.0, 4.0, 1024.0])
def test_values_on_both_sides_of_a_power_of_two_share_a_bound_near_by(edge: float) -> None:
    low, high, _, _ = taken([0.9 * edge, 0.9 * edge, *[0.95 * edge] * 30, 1.05 * edge])
    assert 1.05 * edge <= high <= 4.0 * edge
    assert 0.0 < low <= 0.9 * edge


def taken(values: Any) -> Any:
    try:
        return _range("Column 'a'", "'a'", np.array(values), None)
    except fl.InvalidInputError:
        return None


@given(values=VALUES, data=st.data())
def test_settled_bounds_stay_when_one_row_is_left_out_or_replaced(values: list[float], data: st.DataObject) -> None:
    found = taken(values)
    if found is None:
        return
    low, high, _, settled = found
    assert low <= min(values)
    assert max(values) <= high
    if settled:
        row = data.draw(st.integers(0, len(values) - 1))
        without = values[:row] + values[row + 1 :]
        assert taken(without)[:2] == (low, high)
        assert taken([*without, data.draw(st.floats(low, high))])[:2] == (low, high)


def read(bounds: Any, loss: str = "squared", **options: Any) -> Any:
    leak = make(loss, 0, **options).leak()
    return admissible_rows(leak._information.jacobians[0], leak._table, bounds)


def test_what_was_declared_and_what_was_taken_is_said() -> None:
    found = read({"x0": (-9, 9), "label": (-10, 10)})
    assert found.bounds["x0"] == {"low": -9.0, "high": 9.0, "from": "declared"}
    assert found.bounds["x1"]["from"] == "rows"
    assert found.bounds["label"] == {"low": -10.0, "high": 10.0, "from": "declared"}


def test_nothing_is_taken_from_a_few_rows() -> None:
    values = np.linspace(1.0, 2.0, 29)
    with pytest.raises(
        fl.InvalidInputError, match=r"Column 'a' has 29 rows, and what could be there .* `bounds={'a': \(low"
    ):
        _range("Column 'a'", "'a'", values, None)
    assert _range("Column 'a'", "'a'", values, (0, 3))[:2] == (0.0, 3.0)
    assert _range("Column 'a'", "'a'", np.linspace(1.0, 2.0, 30), None)[2]["from"] == "rows"


def test_levels_of_a_few_rows_are_declared() -> None:
    import pandas as pd

    y = np.linspace(-1.0, 1.0, 24)
    table = pd.DataFrame({"a": np.linspace(0.0, 1.0, 24), "b": np.tile(["x", "y", "z"], 8)})
    model = make_pipeline(make_column_transformer((OneHotEncoder(), ["b"]), remainder="passthrough"), Ridge()).fit(
        table, y
    )
    leak = fl.measure(model, table, y)
    known: dict[str, Any] = {"a": (-1, 2), "label": (-2, 2)}
    with pytest.raises(fl.InvalidInputError, match=r"Column 'b' has 24 rows.*bounds={'b': \[\.\.\.\]}"):
        admissible_rows(leak._information.jacobians[0], leak._table, known)
    admissible_rows(leak._information.jacobians[0], leak._table, known | {"b": ["x", "y", "z"]})


REFUSED: list[tuple[Any, str]] = [
    ({"x9": (0, 1)}, "bounds name 'x9', which is no column"),
    ({"x0": (0.0, 0.1)}, r"Column 'x0' has \d+ rows outside the declared bounds \(0, 0.1\)"),
    ({"x0": (1, 0)}, "the first the smaller"),
    ({"x0": 3}, "must be two numbers"),
    ({"x0": (0, float("inf"))}, "two finite numbers"),
    ({"label": (0.0, 0.1)}, "The label has"),
    ({"norm": 0.1}, "rows of X have a norm above the declared 0.1"),
    ({"norm": 100.0, "x0": (-9, 9)}, "bounds hold a norm and 'x0'"),
    ({0: (0, 1)}, "mapping from names"),
]


@pytest.mark.parametrize(("bounds", "message"), REFUSED)
def test_refusals_name_the_column_and_no_value(bounds: Any, message: str) -> None:
    with pytest.raises(fl.InvalidInputError, match=message):
        read(bounds)


def test_labels() -> None:
    assert read(None, "logistic").labels.tolist() == [0.0, 1.0]
    with pytest.raises(fl.InvalidInputError, match="are the classes"):
        read({"label": (0, 1)}, "logistic")
    with pytest.raises(fl.InvalidInputError, match="labels of the poisson loss"):
        read({"label": (-1, 30)}, "poisson")


def city(rare: int) -> tuple[Any, Any]:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    names = np.array(["Bonn", "Genua"])[rng.integers(0, 2, 100)].astype(object)
    names[:rare] = "Kiel"
    table = pandas.DataFrame({"city": names, "age": rng.integers(20, 60, 100) * 1.0})
    return table, np.asarray(table.age * 0.1 + rng.normal(size=100))


def levels(rare: int, bounds: Any, **options: Any) -> Any:
    X, y = city(rare)
    encoder = OneHotEncoder(sparse_output=False, **options)
    columns = make_column_transformer((encoder, ["city"]), (StandardScaler(), ["age"]))
    leak = fl.measure(make_pipeline(columns, Ridge()).fit(X, y), X, y)
    return admissible_rows(leak._information.jacobians[0], leak._table, bounds)


def test_levels_with_few_rows_must_be_declared_or_pooled() -> None:
    assert levels(6, None).bounds["city"] == {"levels": ["Bonn", "Genua", "Kiel"], "from": "rows"}
    with pytest.raises(
        fl.InvalidInputError, match=r"Column 'city' has 1 level with fewer than 5 rows.*min_frequency=5"
    ):
        levels(4, None)
    declared = levels(4, {"city": ["Kiel", "Bonn", "Genua"]})
    assert declared.bounds["city"]["from"] == "declared"
    assert declared.parts[0].shape == (3, 4)
    assert not levels(5, None).settled
    with pytest.raises(fl.InvalidInputError, match="4 rows with a level that is not among the declared"):
        levels(4, {"city": ["Bonn", "Genua"]})
    with pytest.raises(fl.InvalidInputError, match="levels that its encoder knows; got 'Rom'"):
        levels(4, {"city": ["Bonn", "Genua", "Kiel", "Rom"]})
    pooled = levels(0, None, categories=[["Bonn", "Genua", "Rom"]])
    assert pooled.bounds["city"]["levels"] == ["Bonn", "Genua"]


def test_a_row_behind_scalers_is_the_sum_of_its_columns() -> None:
    X, y = city(10)
    columns = make_column_transformer((OneHotEncoder(drop="first"), ["city"]), (StandardScaler(), ["age"]))
    model = make_pipeline(columns, LogisticRegression()).fit(X, y > 4)
    leak = fl.measure(model, X, y > 4)
    found = admissible_rows(
        leak._information.jacobians[0], leak._table, {"age": (0, 100), "city": ["Bonn", "Genua", "Kiel"]}
    )
    then = X.iloc[:1].assign(city="Kiel", age=100.0)
    expected = np.asarray(columns.transform(then)).ravel()
    np.testing.assert_allclose(found.base + found.parts[0][2] + found.parts[1][1], expected, atol=1e-12)
