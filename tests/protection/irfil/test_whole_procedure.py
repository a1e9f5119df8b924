"""What IRFIL reveals with the paper's weights: the derivative through every reweighting is that of refits of all of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

import fisherleak as fl
from cases import make
from fisherleak.models import as_table
from fisherleak.models.preprocessed import prepare
from fisherleak.models.read import risk_of
from fisherleak.protection.irfil.whole_procedure import Procedure

Vector = NDArray[np.float64]
EXACT: Any = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 1000}
MODELS: dict[str, Any] = {
    "squared": Ridge(2.0),
    "logistic": LogisticRegression(C=0.5, **EXACT),
    "poisson": PoissonRegressor(alpha=0.1, solver="newton-cholesky", tol=1e-6),
}


def procedure(model: Any, X: Vector, y: Vector, n_iter: int, noise: Any, weights: Any = None) -> Procedure:
    risk, theta = risk_of(prepare(model, as_table(X)), y, np.ones(len(y)) if weights is None else weights)
    every = tuple(fl.Attribute(f"x{j}", (j,)) for j in range(X.shape[1]))
    return Procedure(risk, theta, noise, every, every, True, n_iter)


def by_refits(of: Procedure, row: int, step: float = 1e-5) -> float:
    """Eta of a row from differences of the whole procedure: the last of its fits, at its minimum."""

    def parameters(move: Vector) -> Vector:
        X, y = np.array(of.risk.X), np.array(of.risk.y, dtype=float)
        X[row] += move[:-1]
        y[row] += move[-1]
        return replace(of, risk=replace(of.risk, X=X, y=y)).run()[-1].theta

    units = np.eye(of.risk.X.shape[1] + 1)
    J = np.stack([(parameters(step * unit) - parameters(-step * unit)) / (2 * step) for unit in units], axis=1)
    root = of.noise.unit_information_root(J.shape[0])
    return float(np.linalg.norm(J if root is None else root @ J, 2)) / float(of.noise.scale)


@pytest.mark.parametrize("loss", list(MODELS))
@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(fl.Gaussian(1.0), id="plain", marks=pytest.mark.long),
        pytest.param(fl.Gaussian(0.3, np.diag([1.0, 2.0, 3.0, 0.5])), id="shaped"),
    ],
)
def test_the_derivative_is_that_of_refits_of_the_whole_procedure(loss: str, noise: Any) -> None:
    case = make(loss, 2, n=60, weighted=True)
    of = procedure(MODELS[loss].fit(case.X, case.y, case.weights), case.X, case.y, 4, noise, case.weights)
    rounds = of.run()
    eta = of.etas(rounds)
    for row in (int(np.argmax(eta)), 7):
        assert eta[row] == pytest.approx(by_refits(of, row), rel=1e-6)
        assert abs(eta[row] / rounds[-1].eta[row] - 1) > 1e-3
    assert eta[30] == 0.0  # its weight is zero


def test_it_is_the_papers_algorithm() -> None:
    case = make("squared", 3, n=60)
    rounds = procedure(Ridge(2.0).fit(case.X, case.y), case.X, case.y, 5, fl.Gaussian(1.0)).run()
    model = fl.IRFIL(Ridge(2.0), n_iter=5).fit(case.X, case.y)
    np.testing.assert_allclose(rounds[-1].weights, model.weights_, rtol=1e-9)
    np.testing.assert_allclose([at.eta.max() for at in rounds], model.history_["max"], rtol=1e-9)
