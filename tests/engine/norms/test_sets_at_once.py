"""Several sets at once, against their Jacobians written out one under the other: folded scales, weights, missing cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl
from fisherleak.engine.norms import sets_at_once
from fisherleak.engine.norms.largest_eigenvalues import top_by_products
from fisherleak.leakage.measurement import measurement
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import Settings, train

EXACT: dict[str, Any] = {"solver": "newton-cg", "tol": 1e-12, "max_iter": 1000}


def people(n: int = 80) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(4)
    table = pd.DataFrame(rng.normal(size=(n, 3)) * [1.0, 20.0, 0.1] + 2.0, columns=["age", "weight", "dose"])
    table["gene"] = rng.choice(["AA", "AB", "BB"], n)
    y = np.argmax(table[["age", "dose"]].to_numpy() @ rng.normal(size=(2, 4)) + 2.0 * rng.gumbel(size=(n, 4)), axis=1)
    return table, y


def with_scales() -> tuple[Any, Any]:
    table, y = people()
    weights = np.random.default_rng(0).random(len(y)) + 0.2
    columns = ColumnTransformer([("n", StandardScaler(), ["age", "weight", "dose"]), ("c", OneHotEncoder(), ["gene"])])
    model = make_pipeline(columns, LogisticRegression(C=0.5, **EXACT))
    model.fit(table, y, logisticregression__sample_weight=weights)
    return fl.measure(model, table, y, sample_weight=weights, public="nothing"), y


def with_missing_cells() -> tuple[Any, Any]:
    table, y = people()
    table.loc[table.index % 7 == 2, "age"] = np.nan
    table.loc[table.index % 5 == 1, "dose"] = np.nan
    table["ward"] = [f"ward {k}" for k in y]
    trained = train(from_frame(table), Settings("ward", held_out=0.0))
    return trained.leak, y


@pytest.mark.parametrize("made", [with_scales, with_missing_cells])
@pytest.mark.parametrize("label", [True, False])
def test_sets_at_once_are_those_of_the_jacobian_that_is_written_out(
    made: Any, label: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sets_at_once, "LARGE", 1)
    leak, y = made()
    information = measurement(leak).information
    every = information.attributes
    product = information.set_product(every, label)
    assert product.of_sets is not None
    sets = [*(np.flatnonzero(y == k) for k in np.unique(y)), np.arange(len(y)), np.array([3, 5])]
    for rows, square in zip(sets, product.of_sets(sets), strict=True):
        J = np.concatenate(list(information.written_out(every, label, rows)), axis=1)
        assert square is not None
        assert square**0.5 == pytest.approx(np.linalg.norm(J, 2), rel=1e-9)


def test_groups_of_many_parameters_come_from_sets_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    leak, y = with_missing_cells()
    plain = leak.by_group(y)
    monkeypatch.setattr(sets_at_once, "LARGE", 1)
    monkeypatch.setattr(sets_at_once, "MOST_VALUES", 0)  # no room: the matrix of each set is formed
    assert leak.by_group(y) == plain
    monkeypatch.setattr(sets_at_once, "MOST_VALUES", 2**20)
    seen: list[int] = []

    def counted(*given: Any, **named: Any) -> Any:
        seen.append(1)
        return top_by_products(*given, **named)

    monkeypatch.setattr(sets_at_once, "top_by_products", counted)
    found = leak.by_group(y)
    assert seen == [1]
    assert found == pytest.approx(plain, rel=1e-9)
