"""Bounds of records within the bounds: what is declared is kept, what is taken from rows no single row decides.

Records with missing values within bounds: the noise holds for models fitted with any of them, and remedies work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl
from cases import make
from fisherleak.engine.noise.calibration_record import calibration_of
from fisherleak.leakage.measurement import measurement
from fisherleak.protection.certificates.declared_bounds import GRIDS, _above, _range, allowed_records, with_gaps_filled

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
    return allowed_records(leak._information.jacobians[0], leak._table, bounds)


def test_what_was_declared_and_what_was_taken_is_said() -> None:
    found = read({"x0": (-9, 9), "label": (-10, 10)})
    assert found.bounds["x0"] == {"low": -9.0, "high": 9.0, "from": "declared"}
    assert found.bounds["x1"]["from"] == "rows"
    assert found.bounds["label"] == {"low": -10.0, "high": 10.0, "from": "declared"}


def test_nothing_is_taken_from_a_few_rows() -> None:
    values = np.linspace(1.0, 2.0, 29)
    with pytest.raises(
        fl.InvalidInputError,
        match=r"Column 'a' has 29 rows. Bounds and categories are computed from 30 rows or more.* `bounds={'a': \(low",
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
        allowed_records(leak._information.jacobians[0], leak._table, known)
    allowed_records(leak._information.jacobians[0], leak._table, known | {"b": ["x", "y", "z"]})


REFUSED: list[tuple[Any, str]] = [
    ({"x9": (0, 1)}, "bounds name 'x9', which is no column"),
    ({"x0": (0.0, 0.1)}, r"Column 'x0' has \d+ rows outside the declared bounds \(0, 0.1\)"),
    ({"x0": (1, 0)}, "the first the smaller"),
    ({"x0": 3}, "must be two numbers"),
    ({"x0": (0, float("inf"))}, "two finite numbers"),
    ({"x0": (-1e308, 1e308)}, "with a finite difference"),
    ({"x0": (0, 10**400)}, "must be two numbers"),
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
    with pytest.raises(fl.InvalidInputError, match="are its classes"):
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
    return allowed_records(leak._information.jacobians[0], leak._table, bounds)


def test_levels_with_few_rows_must_be_declared_or_pooled() -> None:
    assert levels(6, None).bounds["city"] == {"levels": ["Bonn", "Genua", "Kiel"], "from": "rows"}
    with pytest.raises(
        fl.InvalidInputError, match=r"Column 'city' has 1 category with fewer than 5 rows.*min_frequency=44"
    ):
        levels(4, None)
    declared = levels(4, {"city": ["Kiel", "Bonn", "Genua"]})
    assert declared.bounds["city"]["from"] == "declared"
    assert declared.parts[0].shape == (3, 4)
    assert not levels(5, None).stable_under_replacement
    with pytest.raises(fl.InvalidInputError, match="4 rows with a category that is not among the declared"):
        levels(4, {"city": ["Bonn", "Genua"]})
    with pytest.raises(fl.InvalidInputError, match="categories that its encoder knows; got 'Rom'"):
        levels(4, {"city": ["Bonn", "Genua", "Kiel", "Rom"]})
    for rare in (0, 4):
        declared = levels(rare, None, categories=[["Bonn", "Genua", "Kiel", "Rom"]])
        assert declared.bounds["city"] == {"levels": ["Bonn", "Genua", "Kiel", "Rom"], "from": "declared"}
    with pytest.raises(fl.InvalidInputError, match="fewer than 5 rows"):
        levels(4, None, categories=[["Bonn", "Genua", "Kiel", "Rom"]], min_frequency=1)


def test_a_row_behind_scalers_is_the_sum_of_its_columns() -> None:
    X, y = city(10)
    columns = make_column_transformer((OneHotEncoder(drop="first"), ["city"]), (StandardScaler(), ["age"]))
    model = make_pipeline(columns, LogisticRegression()).fit(X, y > 4)
    leak = fl.measure(model, X, y > 4)
    found = allowed_records(
        leak._information.jacobians[0], leak._table, {"age": (0, 100), "city": ["Bonn", "Genua", "Kiel"]}
    )
    then = X.iloc[:1].assign(city="Kiel", age=100.0)
    expected = np.asarray(columns.transform(then)).ravel()
    np.testing.assert_allclose(found.base + found.parts[0][2] + found.parts[1][1], expected, atol=1e-12)


RNG = np.random.default_rng(5)
N = 160
WHOLE = pd.DataFrame(
    {"age": RNG.uniform(1, 9, N), "crp": RNG.uniform(0, 6, N), "sex": RNG.choice(["f", "m"], N)},
)
X = WHOLE.copy()
X.loc[RNG.random(N) < 0.15, "crp"] = np.nan
LINEAR = np.clip(0.3 * WHOLE.age - 0.4 * WHOLE.crp + RNG.normal(size=N), -5, 5)
LABELS: dict[str, Any] = {"ridge": LINEAR, "logistic": (LINEAR.median() < LINEAR).astype(int)}
LAST: dict[str, Any] = {"ridge": Ridge(60.0), "logistic": LogisticRegression(C=0.05, tol=1e-10, max_iter=1000)}
ENDS = {"age": (0.0, 10.0), "crp": (0.0, 6.0)}
BOUNDS: dict[str, Any] = {"ridge": ENDS | {"label": (-5.0, 5.0)}, "logistic": ENDS}


def piped(kind: str, imputer: Any) -> Any:
    """As people write them."""
    numbers = make_pipeline(imputer, StandardScaler())
    return make_pipeline(make_column_transformer((numbers, ["age", "crp"]), (ENCODER, ["sex"])), clone(LAST[kind]))


ENCODER = OneHotEncoder(drop="first", categories=[["f", "m"]])


def test_no_record_of_a_declared_category_that_nobody_has_is_above_the_limit() -> None:
    encoder = OneHotEncoder(drop="first", categories=[["f", "m", "x"]])
    columns = make_column_transformer((StandardScaler(), ["age"]), (encoder, ["sex"]))
    model, own = make_pipeline(columns, clone(LAST["logistic"])), WHOLE[["age", "sex"]]
    leak = fl.measure(model.fit(own, LABELS["logistic"]), own, LABELS["logistic"], public="nothing")
    noise = fl.calibrate(leak, 1.0, over="any-record", bounds={"age": ENDS["age"]}, random_state=0)
    for age in ENDS["age"]:
        for label in (0, 1):
            other, labels = own.copy(), np.array(LABELS["logistic"])
            other.loc[0, "age"], other.loc[0, "sex"], labels[0] = age, "x", label
            refitted = clone(model).fit(other, labels)
            assert fl.measure(refitted, other, labels, noise, public="nothing").per_example()[0] <= 1.0


def constant(**options: Any) -> Any:
    return SimpleImputer(strategy="constant", fill_value=2.0, **options)


@pytest.mark.parametrize("shape", [None, "hessian"])
@pytest.mark.parametrize("indicator", [False, True])
@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_no_record_with_or_without_a_gap_is_above_the_limit(kind: str, indicator: bool, shape: str | None) -> None:
    y, bounds = LABELS[kind], BOUNDS[kind]
    model = piped(kind, constant(add_indicator=indicator)).fit(X, y)
    leak = fl.measure(model, X, y, public="nothing")
    noise = fl.calibrate(leak, 1.0, over="any-record", bounds=bounds, shape=shape, random_state=0)
    assert leak.with_noise(noise).per_example().max() <= 1.0
    rng = np.random.default_rng(1)
    for k in range(6):
        other, labels = X.copy(), np.array(y)
        row = int(rng.integers(N))
        other.loc[row] = [rng.choice(ENDS["age"]), [np.nan, 0.0, 6.0][k % 3], rng.choice(["f", "m"])]
        labels[row] = rng.choice(np.unique(labels) if kind == "logistic" else [-5.0, 5.0])
        refitted = clone(model).fit(other, labels)
        assert fl.measure(refitted, other, labels, noise, public="nothing").per_example()[row] <= 1.0


def test_gaps_are_values_within_the_bounds_and_indicators_categories() -> None:
    model = piped("ridge", constant(add_indicator=True)).fit(X, LINEAR)
    leak = with_gaps_filled(fl.measure(model, X, LINEAR, public="nothing"))
    assert leak.attributes == ["age", "crp", "sex", "crp (missing)"]
    known = measurement(leak)
    np.testing.assert_array_equal(known.table.numbers(1), X.crp.fillna(2.0))
    found = allowed_records(known.jacobian, known.table, BOUNDS["ridge"])
    assert found.bounds["crp"] == {"low": 0.0, "high": 6.0, "from": "declared"}
    assert found.bounds["crp (missing)"]["levels"] == ["no", "yes"]
    # a leakage without gaps is left as it is
    whole = fl.measure(piped("ridge", constant()).fit(WHOLE, LINEAR), WHOLE, LINEAR, public="nothing")
    assert with_gaps_filled(whole) is whole


def test_bounds_frame_columns_with_gaps_and_indicators_so_that_no_row_does() -> None:
    model = piped("ridge", constant(add_indicator=True)).fit(X, LINEAR)
    leak = fl.measure(model, X, LINEAR, public="nothing")
    noise = fl.calibrate(leak, 1.0, over="any-record", bounds=BOUNDS["ridge"], random_state=0)
    told = calibration_of(noise)
    assert told is not None
    assert told.frame is not None
    assert [(place, centre) for place, centre, _ in told.frame] == [(0, 5.0), (1, 3.0), (2, 0.5)]


@pytest.mark.parametrize("strategy", ["mean", "median"])
def test_remedies_of_a_learned_fill_work(strategy: str) -> None:
    bounds = BOUNDS["ridge"]
    learned = piped("ridge", SimpleImputer(strategy=strategy)).fit(X, LINEAR)
    leak = fl.measure(learned, X, LINEAR, public="nothing")
    says = r"has no bound for a mean or median.*strategy='constant', fill_value=…\), or call fl.protect with bounds"
    with pytest.raises(fl.InvalidInputError, match=says):
        fl.calibrate(leak, 1.0, over="any-record", bounds=bounds)
    declared = piped("ridge", constant()).fit(X, LINEAR)
    noise = fl.calibrate(fl.measure(declared, X, LINEAR, public="nothing"), 1.0, over="any-record", bounds=bounds)
    assert np.isfinite(fl.release(declared, noise).predict(X)).all()


def test_a_fill_outside_the_bounds_is_refused_and_wider_bounds_do() -> None:
    model = piped("ridge", SimpleImputer(strategy="constant", fill_value=-1.0)).fit(X, LINEAR)
    leak, bounds = fl.measure(model, X, LINEAR, public="nothing"), BOUNDS["ridge"]
    with pytest.raises(fl.InvalidInputError, match=r"fills gaps of column 'crp'.*outside its declared bounds \(0, 6\)"):
        fl.calibrate(leak, 1.0, over="any-record", bounds=bounds)
    assert fl.calibrate(leak, 1.0, over="any-record", bounds=bounds | {"crp": (-1.0, 6.0)}).scale > 0


@pytest.mark.long
@pytest.mark.parametrize("public", ["nothing", "preprocessing"])
def test_a_choice_among_candidates_with_gaps_is_counted(public: str) -> None:
    asked: dict[str, Any] = {"bounds": BOUNDS["ridge"], "public": public, "penalties": [1.0, 3.0]}
    frontier = fl.protect(piped("ridge", constant()), X, LINEAR, 2.0, shapes=["hessian"], **asked)
    assert frontier.choose().eta_choice == pytest.approx(0.6)
