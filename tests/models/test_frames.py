"""Dtypes that hold numbers are numbers: a table's etas do not depend on how its columns are stored."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn import linear_model as lm
from sklearn import preprocessing as pre
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

import fisherleak as fl
from fisherleak.attacks import WhiteBox
from fisherleak.models import as_table
from often import often

pandas = pytest.importorskip("pandas")
N = 60
RNG = np.random.default_rng(0)
FRAME = pandas.DataFrame(
    {
        "age": RNG.integers(0, 5, N).astype(float),
        "dose": np.round(RNG.normal(size=N), 3),
        "city": RNG.choice(["Aix", "Bonn"], N),
    }
)
Y = (FRAME["age"] + FRAME["dose"] + RNG.normal(size=N)).to_numpy()

Store = Callable[[Any], Any]


def decimals(column: Any) -> list[decimal.Decimal]:
    return [decimal.Decimal(str(value)) for value in column]


PANDAS: dict[str, Store] = {
    "objects": lambda frame: pandas.DataFrame(frame.to_numpy(), columns=frame.columns),
    "category": lambda frame: frame.astype({"age": "category", "dose": "category"}),
    "text": lambda frame: frame.astype({"age": str, "dose": str}),
    "text objects": lambda frame: frame.astype(str).astype(object),
    "nullable": lambda frame: frame.assign(age=frame["age"].astype("Int64"), dose=frame["dose"].astype("Float64")),
    "decimals": lambda frame: frame.assign(dose=decimals(frame["dose"])),
}
POLARS: dict[str, Store] = {
    "decimals": lambda frame: frame.cast({"dose": _polars().Decimal(10, 3)}),
    "text": lambda frame: frame.cast({"age": _polars().String}),
    "categories": lambda frame: frame.cast({"age": _polars().String}).cast({"age": _polars().Categorical}),
}
STEPS: dict[str, Any] = {
    "scaled": pre.StandardScaler(),
    "bent": make_pipeline(pre.StandardScaler(), pre.PolynomialFeatures(2)),
    "raised": pre.PolynomialFeatures(2),
    "splines": pre.SplineTransformer(n_knots=3),
    "filled": make_pipeline(SimpleImputer(), pre.MinMaxScaler()),
    "passed": "passthrough",
}


def _polars() -> Any:
    return pytest.importorskip("polars")


def model_of(step: Any, table: Any) -> Any:
    encode = make_column_transformer((step, ["age", "dose"]), (pre.OneHotEncoder(drop="first"), ["city"]))
    return make_pipeline(encode, lm.Ridge(alpha=0.5)).fit(table, Y)


@pytest.mark.parametrize("step", often(STEPS.values()), ids=STEPS.keys())
@pytest.mark.parametrize("store", PANDAS.values(), ids=PANDAS.keys())
def test_numbers_are_numbers_however_pandas_keeps_them(store: Store, step: Any) -> None:
    expected = fl.measure(model_of(step, FRAME), FRAME, Y).per_cell()
    assert (np.asarray(expected) > 0).all()
    table = store(FRAME)
    np.testing.assert_allclose(fl.measure(model_of(step, table), table, Y).per_cell(), expected, rtol=1e-9)


@pytest.mark.parametrize("step", [STEPS["scaled"], STEPS["raised"]])
@pytest.mark.parametrize("store", POLARS.values(), ids=POLARS.keys())
def test_numbers_are_numbers_however_polars_keeps_them(store: Store, step: Any) -> None:
    plain = _polars().DataFrame({name: FRAME[name].to_list() for name in FRAME.columns})
    table = store(plain)
    # the values as they are kept: old versions of polars cut decimals off
    kept = FRAME.assign(dose=table["dose"].cast(_polars().Float64).to_list())
    expected = fl.measure(model_of(step, kept), kept, Y).per_cell()
    np.testing.assert_allclose(fl.measure(model_of(step, table), table, Y).per_cell(), expected, rtol=1e-9)


def test_truth_values_as_objects_and_nullable_are_numbers() -> None:
    plain = FRAME.assign(age=(FRAME["age"] > 2).astype(float))
    expected = fl.measure(model_of(pre.StandardScaler(), plain), plain, Y).per_cell()
    for kind in (object, "boolean", "category", bool):
        table = plain.assign(age=(plain["age"] > 0).astype(kind))
        np.testing.assert_allclose(
            fl.measure(model_of(pre.StandardScaler(), table), table, Y).per_cell(), expected, rtol=1e-9
        )


def test_arrow_keeps_numbers_as_text_and_as_decimals() -> None:
    arrow = pytest.importorskip("pyarrow")
    expected = fl.measure(model_of(pre.StandardScaler(), FRAME), FRAME, Y).per_cell()
    exact = pandas.array(decimals(FRAME["dose"]), dtype=pandas.ArrowDtype(arrow.decimal128(10, 3)))
    table = FRAME.assign(age=FRAME["age"].astype(str).astype("string[pyarrow]"), dose=exact)
    np.testing.assert_allclose(
        fl.measure(model_of(pre.StandardScaler(), table), table, Y).per_cell(), expected, rtol=1e-9
    )


@pytest.mark.parametrize("kind", [object, str])
def test_arrays_of_objects_and_of_text(kind: Any) -> None:
    array = FRAME.to_numpy().astype(kind)
    encode = make_column_transformer((pre.StandardScaler(), [0, 1]), (pre.OneHotEncoder(drop="first"), [2]))
    leak = fl.measure(make_pipeline(encode, lm.Ridge(alpha=0.5)).fit(array, Y), array, Y)
    expected = fl.measure(model_of(pre.StandardScaler(), FRAME), FRAME, Y).per_cell()
    np.testing.assert_allclose(leak.per_cell(), expected, rtol=1e-9)


def test_columns_that_are_no_numbers_are_refused_by_name_where_numbers_are_due() -> None:
    times = FRAME.assign(seen=pandas.Timestamp("2020-01-01") + pandas.to_timedelta(np.arange(N), unit="D"))
    encode = make_column_transformer((pre.StandardScaler(), ["seen"]), (pre.OneHotEncoder(drop="first"), ["city"]))
    model = make_pipeline(encode, lm.Ridge()).fit(times, Y)
    with pytest.raises(fl.InvalidInputError, match=r"Column 'seen' .*StandardScaler.* cannot be read as numbers"):
        fl.measure(model, times, Y)


def test_an_attack_on_numbers_kept_as_objects_succeeds_as_on_numbers() -> None:
    shares = []
    for table in (FRAME, PANDAS["objects"](FRAME), PANDAS["category"](FRAME)):
        attacker = WhiteBox(model_of(pre.StandardScaler(), table), table, Y, "age")
        shares.append(float(np.mean(attacker.accuracy(fl.Gaussian(1e-4)))))
    assert shares[0] == pytest.approx(1.0)
    assert shares == pytest.approx([shares[0]] * 3)


@pytest.mark.parametrize("store", ["frame", "polars", "array", "objects", "dask array", "dask frame"])
def test_columns_of_yes_and_no_are_seen_however_they_are_stored(store: str) -> None:
    values = {"told": [0, 1, 1, 0], "twice": [0, 2, 1, 0], "gap": [0.0, np.nan, 1.0, 1.0], "part": [0.0, 0.5, 1.0, 1.0]}
    frame: Any = pandas.DataFrame(values)
    expected = [True, False, True, False]
    if store == "frame":
        frame = frame.assign(flag=[True, False, True, True], word=["0", "1", "1", "0"], name=["a", "b", "a", "b"])
        expected += [True, True, False]
    elif store == "polars":
        frame = _polars().DataFrame(values)
    elif store in ("array", "objects"):
        frame = frame.to_numpy(dtype=float if store == "array" else object)
    else:
        dask = pytest.importorskip("dask.array")
        if store == "dask array":
            frame = dask.from_array(frame.to_numpy(), chunks=(2, 4))
        else:
            frame = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2)
    assert as_table(frame).yes_no() == expected
