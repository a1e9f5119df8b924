"""What IRFIL reveals with its weights: the derivative carried through every reweighting is that of refits of all of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from cases import make
from fisherleak.models import as_table
from fisherleak.models.read import prepare, risk_of
from fisherleak.protection.whole_procedure import Procedure

Vector = NDArray[np.float64]
EXACT: Any = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 1000}
MODELS: dict[str, Any] = {
    "squared": Ridge(2.0),
    "logistic": LogisticRegression(C=0.5, **EXACT),
    "poisson": PoissonRegressor(alpha=0.1, solver="newton-cholesky", tol=1e-6),
}


def by_refits(model: Any, X: Vector, y: Vector, row: int, n_iter: int, noise: Any, step: float = 1e-5) -> float:
    """Eta of a row from differences of the whole procedure: the last of n_iter + 1 fits, at its minimum."""

    def parameters(move: Vector) -> Vector:
        moved, labels = X.copy(), np.asarray(y, dtype=float).copy()
        moved[row] += move[:-1]
        labels[row] += move[-1]
        risk, theta = risk_of(prepare(model, as_table(X)), y, np.ones(len(y)))
        procedure = Procedure(replace(risk, X=moved, y=labels), theta, noise, every(X), every(X), True, n_iter)
        return np.asarray(procedure._rounds()[-1].fit.theta)

    J = np.stack(
        [(parameters(step * unit) - parameters(-step * unit)) / (2 * step) for unit in np.eye(X.shape[1] + 1)], axis=1
    )
    root = noise.unit_information_root(J.shape[0])
    return float(np.linalg.norm(J if root is None else root @ J, 2)) / float(noise.scale)


def every(X: Vector) -> Any:
    return tuple(fl.Attribute(f"x{j}", (j,)) for j in range(X.shape[1]))


@pytest.mark.parametrize("loss", list(MODELS))
@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(fl.Gaussian(1.0), id="plain"),
        pytest.param(fl.Gaussian(0.3, np.diag([1.0, 2.0, 3.0, 0.5])), id="shaped", marks=pytest.mark.long),
    ],
)
def test_the_derivative_is_that_of_refits_of_the_whole_procedure(loss: str, noise: Any) -> None:
    case = make(loss, 2, n=60)
    model = fl.IRFIL(MODELS[loss], n_iter=4, account="end-to-end", most=1, noise=noise).fit(case.X, case.y)
    found = model.end_to_end_
    first = MODELS[loss].fit(case.X, case.y)
    for row, eta in zip(found.rows, found.eta, strict=True):
        assert eta == pytest.approx(by_refits(first, case.X, case.y, int(row), 4, noise), rel=1e-4)
    assert np.all(np.abs(found.eta / found.fixed - 1) > 1e-3)


def test_differences_of_the_estimator_itself_agree() -> None:
    case = make("squared", 3, n=80)
    found = fl.IRFIL(Ridge(2.0), n_iter=8, account="end-to-end", most=1).fit(case.X, case.y).end_to_end_
    row, step = int(found.rows[0]), 1e-5
    columns = []
    for unit in np.eye(4):
        ends = []
        for side in (1.0, -1.0):
            X, y = case.X.copy(), case.y.copy()
            X[row] += side * step * unit[:3]
            y[row] += side * step * unit[3]
            fitted = fl.IRFIL(Ridge(2.0), n_iter=8).fit(X, y).estimator_
            ends.append(np.append(fitted.coef_, fitted.intercept_))
        columns.append((ends[0] - ends[1]) / (2 * step))
    assert found.eta[0] == pytest.approx(np.linalg.norm(np.stack(columns, axis=1), 2), rel=1e-4)


def test_without_reweighting_it_is_the_plain_eta() -> None:
    case = make("logistic", 1, n=60)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(**EXACT))
    model = fl.IRFIL(pipeline, n_iter=0, attributes=["x1"], account="end-to-end").fit(case.X, case.y)
    eta = np.asarray(fl.measure(model.estimator_, case.X, case.y).per_example(["x1"]))
    np.testing.assert_allclose(model.end_to_end_.eta, eta[model.end_to_end_.rows], rtol=1e-6)
    np.testing.assert_allclose(model.end_to_end_.fixed, model.end_to_end_.eta, rtol=1e-6)
    assert not hasattr(model.set_params(account="weights-fixed").fit(case.X, case.y), "end_to_end_")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"account": "all"}, "account must be one of weights-fixed, end-to-end; got 'all'"),
        ({"account": "end-to-end", "accelerate": True}, "follows plain reweightings only"),
        ({"account": "end-to-end", "max_weight": 3.0}, "follows plain reweightings only"),
        ({"account": "end-to-end", "most": 0}, "most must be a whole number"),
    ],
)
def test_refusals(options: dict[str, Any], says: str) -> None:
    case = make("squared")
    with pytest.raises(fl.InvalidInputError, match=says):
        fl.IRFIL(Ridge(), **options).fit(case.X, case.y)


def test_rows_without_an_eta_are_refused() -> None:
    case = make("squared", 1, n=60)
    X = case.X[:, :1].copy()
    X[3], y = 0.0, case.y.copy()
    y[3] = 0.0
    with pytest.raises(fl.InvalidInputError, match="needs an eta above zero for every row"):
        fl.IRFIL(Ridge(fit_intercept=False), 0, attributes=["x0"], account="end-to-end").fit(X, y)
