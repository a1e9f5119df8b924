"""What a shape of the rows' own tells: against differences of that shape, with scales that move and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl
from cases import Vector
from fisherleak.engine.changes.remade_covariance import linear_part
from fisherleak.protection.certificates.data_dependent_covariance import knows_shape, own_shape, shape_term
from fisherleak.protection.certificates.declared_bounds import allowed_records
from fisherleak.protection.certificates.least_loss_for_any_record import evenly_weighted, shape_for_anyone
from fisherleak.tables import read_table
from fisherleak.training.trained_model import Settings, Trained, train

STEP = 1e-4


def by_differences(shape: Any, values: Vector) -> Vector:
    """1/2 tr(S^-1 dS S^-1 dS) of one row's values, (m, m), from S as a function of them."""
    inverse = np.linalg.inv(shape(values))
    moved = []
    for k in range(values.size):
        step = np.zeros(values.size)
        step[k] = STEP
        moved.append(inverse @ (shape(values + step) - shape(values - step)) / (2.0 * STEP))
    return np.array([[0.5 * np.trace(a @ b) for b in moved] for a in moved])


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("weighted", [False, True])
def test_of_plain_rows(loss: str, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(30, 3)), rng.uniform(0.5, 2.0, 30) if weighted else None
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=30)
    y = y if loss == "squared" else (y > 0).astype(float)

    def measured(row: Vector) -> fl.Leakage:
        changed = np.vstack([row, X[1:]])
        fit = fl.minimise(changed, y, loss, 0.05, weights, intercept=True)
        return fl.measure(fit, changed, y, sample_weight=weights)

    def shape(row: Vector) -> Any:
        return own_shape(measured(row)._information.jacobians[0]).shape

    F = by_differences(shape, X[0])
    term = shape_term(measured(X[0])._information.jacobians[0])
    np.testing.assert_allclose(term.cells(X, weights)[0] ** 2, np.diag(F), rtol=1e-6)
    top = np.sqrt(np.linalg.eigvalsh(F)[-1])
    assert top <= term.rows(X, weights)[0] <= 1.5 * top


@pytest.mark.parametrize("target", ["dose", "ill"])
def test_of_a_table_whose_scales_move(target: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame({"age": rng.normal(50, 10, 80), "weight": rng.normal(80, 12, 80)})
    frame["dose"] = 0.1 * frame.age + rng.normal(size=80)
    frame["ill"] = np.where(frame.weight + rng.normal(0, 10, 80) > 80, "yes", "no")
    frame.loc[0, ["age", "weight"]] = [85.0, 40.0]
    frame = frame[["age", "weight", target]]

    def trained(values: Vector) -> Trained:
        changed = frame.copy()
        changed.loc[0, ["age", "weight"]] = values
        changed.to_csv(tmp_path / "t.csv", index=False)
        return train(read_table(tmp_path / "t.csv"), Settings(target, held_out=0.0, l2=0.3))

    own = trained(np.array([85.0, 40.0]))
    units = np.array([feature.scale for feature in own.design.features])

    def shape(values: Vector) -> Any:
        return own_shape(trained(values * units).leak._information.jacobians[0]).shape

    F = by_differences(shape, np.array([85.0, 40.0]) / units)
    term = shape_term(own.leak._information.jacobians[0])
    np.testing.assert_allclose(term.cells(own.design.X)[0] ** 2, np.diag(F), rtol=1e-5)
    top = np.sqrt(np.linalg.eigvalsh(F)[-1])
    assert top <= term.rows(own.design.X)[0] <= 2.0 * top


@pytest.mark.parametrize("weighted", [False, True])
def test_of_noise_of_least_loss_for_anyone(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    X, weights = np.clip(rng.normal(size=(60, 3)), -2, 2), rng.uniform(0.5, 2.0, 60) if weighted else None
    y = np.clip(X @ [1.0, -1.0, 0.5] + rng.normal(size=60), -5, 5)
    bounds: Any = dict.fromkeys(("x0", "x1", "x2"), (-2.0, 2.0)) | {"label": (-5.0, 5.0)}

    def measured(row: Vector) -> fl.Leakage:
        changed = np.vstack([row, X[1:]])
        fit = fl.minimise(changed, y, "squared", 0.5, weights, intercept=True)
        return fl.measure(fit, changed, y, sample_weight=weights)

    noise: Any = fl.calibrate(measured(X[0]), 9.0, "any-record", shape="least-loss", bounds=bounds)

    def shape(row: Vector) -> Any:
        leak = measured(row)
        jacobian = leak._information.jacobians[0]
        N = evenly_weighted(jacobian, allowed_records(jacobian, leak._table, bounds))
        return shape_for_anyone(linear_part(jacobian), N).shape

    F = by_differences(shape, X[0])
    term = shape_term(measured(X[0])._information.jacobians[0], noise.rescaled(1.0))
    assert knows_shape(noise.rescaled(1.0))
    cells = term.cells(X, weights)[0] ** 2
    assert np.all(np.diag(F) <= cells * (1 + 1e-6))
    assert np.all(cells <= 1.2 * np.diag(F))
    top = np.sqrt(np.linalg.eigvalsh(F)[-1])
    assert top <= term.rows(X, weights)[0] <= 2.0 * top


@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize("alpha", [1.0, 20.0, 200.0])
def test_of_categories_whose_indicators_are_scaled(levels: int, alpha: float) -> None:
    """Of two categories exact, of three never below: a scaler behind an encoder moves with the indicators."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"city": rng.choice(list("abc"[:levels]), 60, p=[0.1, 0.9] if levels == 2 else None)})
    frame["age"] = rng.normal(size=60)
    y = rng.normal(size=60)
    columns = ColumnTransformer([("city", OneHotEncoder(sparse_output=False), ["city"])], remainder="passthrough")
    model = make_pipeline(columns, StandardScaler(), Ridge(alpha=alpha)).fit(frame, y)
    jacobian = fl.measure(model, frame, y, public="nothing")._information.jacobians[0]
    term = shape_term(jacobian)
    X = np.asarray(jacobian.X)
    (span,) = (
        each for each, attribute in zip(term.spans, jacobian.attributes, strict=True) if attribute.name == "city"
    )
    place = [attribute.name for attribute in jacobian.attributes].index("city")
    E = term.E[: X.shape[1], span]

    def shape(row: Vector) -> Any:
        # G of these rows and their penalty: squared scales times alpha
        x = np.vstack([row, X[1:]])
        centred = x - np.asarray(jacobian.fit.centre)
        padded = np.column_stack([centred, np.ones(len(x))])
        return np.linalg.inv(padded.T @ padded + np.diag([*(alpha * x.var(axis=0)), 0.0]))

    def along(values: Vector) -> Any:
        return shape(X[0] + E @ values)

    exact = np.sqrt(np.linalg.eigvalsh(by_differences(along, np.zeros(E.shape[1])))[-1])
    found = term.cells(X)[0, place]
    assert exact * (1 - 1e-6) <= found <= (2.0 * exact if levels > 2 else exact * (1 + 1e-5))
