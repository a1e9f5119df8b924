"""Which values come into question, and which are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import fisherleak as fl
from attacks.clinic import DOSE, TABLE, pipeline


def test_numbers_are_guessed_to_the_nearest_candidate() -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    attack = fl.attacks.WhiteBox(model, TABLE, DOSE, "age", values=[60.0, 30.0])
    assert (attack.truth == np.where(TABLE["age"] > 45, 60.0, 30.0)).all()
    assert attack.against().accuracy > 0.9
    exact, simulated = attack.accuracy(fl.Gaussian(0.01)), attack._simulated(fl.Gaussian(0.01), 4000, 0).mean(axis=0)
    assert np.abs(exact - simulated).max() < 5 * np.sqrt(0.25 / 4000)


REFUSALS = [
    ({"attribute": "gne"}, "There is no column 'gne'. Did you mean 'gene'?"),
    ({"attribute": 7}, "attribute must be a name or a number from 0 to 2; got 7"),
    ({"attribute": "age"}, "Column 'age' is numeric with .* different values: pass the candidates"),
    ({"attribute": "age", "values": [1.0]}, "at least two different candidates"),
    ({"attribute": "age", "values": [30, np.nan]}, "must be finite numbers"),
    ({"attribute": "gene", "values": ["CC", "GG"]}, "'GG', which column 'gene' never has"),
    ({"attribute": "gene", "values": ["CC", "CT"]}, "values must cover every attacked row: row [0-9]+ has 'TT'"),
    ({"attribute": "gene", "prior": [0.5, 0.5]}, "one probability for each of the 3 candidates"),
    ({"attribute": "gene", "prior": {"CC": 1.0}}, "'CT' has none"),
    ({"attribute": "gene", "prior": [-1.0, 1.0, 1.0]}, "prior must be a finite number, zero or more"),
    ({"attribute": "gene", "prior": ["a", "b", "c"]}, "prior must hold probabilities"),
    ({"attribute": "gene", "values": 5}, "values must be a list of candidates"),
    ({"attribute": "gene", "values": "CC"}, "values must be a list of candidates"),
    ({"attribute": "gene", "values": [["CC"], ["CT"]]}, "values must be single candidates"),
    ({"attribute": "age", "values": [10**400, 1]}, "must be finite numbers"),
    ({"attribute": "age", "values": ["20", "40"]}, "must be finite numbers"),
    ({"attribute": "gene", "rows": [500]}, "rows must be from 0 to 119; got 500"),
]


@pytest.mark.parametrize(("options", "message"), REFUSALS)
def test_refusals_name_the_value_and_the_remedy(options: dict[str, Any], message: str) -> None:
    model = pipeline(Ridge(alpha=0.5)).fit(TABLE, DOSE)
    with pytest.raises(fl.InvalidInputError, match=message):
        fl.attacks.WhiteBox(model, TABLE, DOSE, **options)


def test_a_constant_column_has_nothing_to_infer() -> None:
    table = TABLE.assign(clinic="north")
    encoder = OneHotEncoder(sparse_output=False)
    model = make_pipeline(ColumnTransformer([("all", encoder, ["gene", "clinic"])]), Ridge()).fit(table, DOSE)
    with pytest.raises(
        fl.InvalidInputError, match="Column 'clinic' has one value only \\(north\\): there is nothing to infer"
    ):
        fl.attacks.WhiteBox(model, table, DOSE, "clinic")


def test_a_missing_number_is_no_candidate() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"kids": rng.integers(0, 4, size=100).astype(float), "x": rng.normal(size=100)})
    table.loc[4, "kids"] = np.nan
    y = rng.normal(size=100)
    steps = [("kids", OneHotEncoder(drop="first", sparse_output=False), ["kids"]), ("x", "passthrough", ["x"])]
    model = make_pipeline(ColumnTransformer(steps), Ridge()).fit(table, y)
    for values in (None, [0, 1, 2, 3]):
        with pytest.raises(fl.InvalidInputError, match="row 4 has nan in column 'kids'"):
            fl.attacks.WhiteBox(model, table, y, "kids", values=values)
        rest = np.delete(np.arange(100), 4)
        attack = fl.attacks.WhiteBox(model, table, y, "kids", values=values, rows=rest)
        assert (attack.infer() == table["kids"].to_numpy()[rest]).all()


def test_candidates_that_do_not_fit_the_column_s_type() -> None:
    X = np.random.default_rng(0).integers(0, 3, size=(50, 2)).astype(np.uint8)
    y = X @ [1.0, 2.0] + np.random.default_rng(1).normal(size=50)
    model = Ridge().fit(X, y)
    for values in ([np.float32(0.5), np.float32(1.5)], [-1, 300]):
        attack = fl.attacks.WhiteBox(model, X, y, 0, values=values)
        assert attack.target.changed(0)[0, 0] == float(values[0])
        assert attack.target.changed(1)[0, 0] == float(values[1])


def test_too_many_candidates_are_refused_before_memory_runs_out() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 40)), rng.normal(size=3000)
    with pytest.raises(fl.InvalidInputError, match="would need 3 GiB"):
        fl.attacks.WhiteBox(Ridge().fit(X, y), X, y, 0, values=np.linspace(0, 1, 3000))
