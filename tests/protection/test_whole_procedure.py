"""What IRFIL reveals with its weights: the derivative through every reweighting is that of refits of all of it, and made even."""

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


def procedure(model: Any, X: Vector, y: Vector, n_iter: int, noise: Any, weights: Any = None) -> Procedure:
    risk, theta = risk_of(prepare(model, as_table(X)), y, np.ones(len(y)) if weights is None else weights)
    return Procedure(risk, theta, noise, every(X), every(X), True, n_iter)


def by_refits(of: Procedure, row: int, exponents: dict[str, float], step: float = 1e-5) -> float:
    """Eta of a row from differences of the whole procedure: the last of its fits, at its minimum."""

    def parameters(move: Vector) -> Vector:
        X, y = np.array(of.risk.X), np.array(of.risk.y, dtype=float)
        X[row] += move[:-1]
        y[row] += move[-1]
        return replace(of, risk=replace(of.risk, X=X, y=y)).run(exponents)[-1].theta

    units = np.eye(of.risk.X.shape[1] + 1)
    J = np.stack([(parameters(step * unit) - parameters(-step * unit)) / (2 * step) for unit in units], axis=1)
    root = of.noise.unit_information_root(J.shape[0])
    return float(np.linalg.norm(J if root is None else root @ J, 2)) / float(of.noise.scale)


def every(X: Vector) -> Any:
    return tuple(fl.Attribute(f"x{j}", (j,)) for j in range(X.shape[1]))


@pytest.mark.parametrize("loss", list(MODELS))
@pytest.mark.parametrize(
    ("powers", "noise"),
    [
        pytest.param((1.0, 0.0, 0.0), fl.Gaussian(1.0), id="papers", marks=pytest.mark.long),
        pytest.param((0.5, -0.25, 0.5), fl.Gaussian(0.3, np.diag([1.0, 2.0, 3.0, 0.5])), id="shaped"),
    ],
)
def test_the_derivative_is_that_of_refits_of_the_whole_procedure(loss: str, powers: Any, noise: Any) -> None:
    case = make(loss, 2, n=60, weighted=True)
    of = procedure(MODELS[loss].fit(case.X, case.y, case.weights), case.X, case.y, 4, noise, case.weights)
    exponents = dict(zip(("chosen", "features", "label"), powers, strict=True))
    rounds = of.run(exponents)
    eta = of.etas(rounds, exponents)
    for row in (int(np.argmax(eta)), 7):
        assert eta[row] == pytest.approx(by_refits(of, row, exponents), rel=1e-6)
        assert abs(eta[row] / rounds[-1].eta[row] - 1) > 1e-3
    assert eta[30] == 0.0  # its weight is zero


@pytest.mark.parametrize(
    "loss", ["squared", *(pytest.param(x, marks=pytest.mark.long) for x in ("logistic", "poisson"))]
)
def test_etas_of_the_whole_procedure_are_made_more_equal(loss: str) -> None:
    case = make(loss, 2, n=60)
    model = fl.IRFIL(MODELS[loss], n_iter=6, account="end-to-end").fit(case.X, case.y)
    found = model.end_to_end_
    assert all((8 * power).is_integer() for power in found.exponents.values())
    assert found.spread == pytest.approx(np.std(found.eta) / np.mean(found.eta))
    papers = procedure(MODELS[loss].fit(case.X, case.y), case.X, case.y, 6, fl.Gaussian(1.0))
    exponents = {"chosen": 1.0}
    eta = papers.etas(papers.run(exponents), exponents)
    assert found.before == pytest.approx(np.std(eta) / np.mean(eta), rel=1e-6)
    assert found.spread < {"squared": 0.5, "logistic": 0.6, "poisson": 0.95}[loss] * found.before
    assert found.spread < 0.5 * model.history_["sd"][0] / model.history_["mean"][0]
    np.testing.assert_allclose(
        found.fixed,
        np.asarray(fl.measure(model.estimator_, case.X, case.y, sample_weight=model.weights_).per_example())[
            found.rows
        ],
        rtol=1e-5,
    )


@pytest.mark.long
def test_differences_of_the_estimator_itself_agree() -> None:
    """The search for exponents included: a small change of a row does not move it."""
    case = make("squared", 3, n=40)
    found = fl.IRFIL(Ridge(2.0), n_iter=2, account="end-to-end").fit(case.X, case.y).end_to_end_
    row, step = int(found.rows[0]), 1e-5
    columns = []
    for unit in np.eye(4):
        ends = []
        for side in (1.0, -1.0):
            X, y = case.X.copy(), case.y.copy()
            X[row] += side * step * unit[:3]
            y[row] += side * step * unit[3]
            fitted = fl.IRFIL(Ridge(2.0), n_iter=2, account="end-to-end").fit(X, y).estimator_
            ends.append(np.append(fitted.coef_, fitted.intercept_))
        columns.append((ends[0] - ends[1]) / (2 * step))
    assert found.eta[0] == pytest.approx(np.linalg.norm(np.stack(columns, axis=1), 2), rel=1e-4)


def test_with_the_papers_exponents_it_is_the_papers_algorithm() -> None:
    case = make("squared", 3, n=60)
    rounds = procedure(Ridge(2.0).fit(case.X, case.y), case.X, case.y, 5, fl.Gaussian(1.0)).run({"chosen": 1.0})
    model = fl.IRFIL(Ridge(2.0), n_iter=5).fit(case.X, case.y)
    np.testing.assert_allclose(rounds[-1].weights, model.weights_, rtol=1e-9)
    np.testing.assert_allclose([at.eta.max() for at in rounds], model.history_["max"], rtol=1e-9)


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
        ({"account": "end-to-end", "accelerate": True}, "follows n_iter plain reweightings"),
        ({"account": "end-to-end", "max_weight": 3.0}, "follows n_iter plain reweightings"),
        ({"account": "end-to-end", "tol": 0.1}, "follows n_iter plain reweightings"),
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
    with pytest.raises(fl.InvalidInputError, match="need an eta above zero for every row"):
        fl.IRFIL(Ridge(fit_intercept=False), 0, attributes=["x0"], account="end-to-end").fit(X, y)
