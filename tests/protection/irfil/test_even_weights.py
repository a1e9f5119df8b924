"""Weights that make the whole procedure's etas even: their derivative is that of refits of all of it, and they come out equal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import fisherleak as fl
from cases import make
from fisherleak.models import as_table
from fisherleak.models.preprocessed import prepare
from fisherleak.models.read import risk_of
from fisherleak.protection.irfil.even_weights import EvenWeights
from fisherleak.protection.irfil.whole_procedure import Procedure

Vector = NDArray[np.float64]
EXACT: Any = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 1000}
MODELS: dict[str, Any] = {
    "squared": Ridge(2.0),
    "logistic": LogisticRegression(C=0.5, **EXACT),
    "poisson": PoissonRegressor(alpha=0.1, solver="newton-cholesky", tol=1e-6),
}


def procedure(
    model: Any, X: Vector, y: Vector, n_iter: int, noise: Any, weights: Any = None, asked: Any = None
) -> Procedure:
    risk, theta = risk_of(prepare(model, as_table(X)), y, np.ones(len(y)) if weights is None else weights)
    every = tuple(fl.Attribute(f"x{j}", (j,)) for j in range(X.shape[1]))
    chosen = every if asked is None else tuple(every[j] for j in asked)
    return Procedure(risk, theta, noise, every, chosen, asked is None, n_iter)


def by_refits(of: Procedure, row: int, step: float = 1e-5) -> float:
    """Eta of a row from differences of the whole procedure."""

    def parameters(move: Vector) -> Vector:
        X, y = np.array(of.risk.X), np.array(of.risk.y, dtype=float)
        X[row] += move[:-1]
        y[row] += move[-1]
        return EvenWeights(replace(of, risk=replace(of.risk, X=X, y=y))).run()[-1].theta

    moves = step * of.directions.T
    J = np.stack([(parameters(move) - parameters(-move)) / (2 * step) for move in moves], axis=1)
    root = of.noise.unit_information_root(J.shape[0])
    return float(np.linalg.norm(J if root is None else root @ J, 2)) / float(of.noise.scale)


@pytest.mark.parametrize("loss", list(MODELS))
@pytest.mark.parametrize("asked", [None, [1]], ids=["everything", "one attribute"])
def test_the_derivative_is_that_of_refits_of_the_whole_procedure(loss: str, asked: Any) -> None:
    case = make(loss, 2, n=60, weighted=True)
    noise = fl.Gaussian(0.3, np.diag([1.0, 2.0, 3.0, 0.5]))
    model = MODELS[loss].fit(case.X, case.y, case.weights)
    of = procedure(model, case.X, case.y, 3, noise, case.weights, asked)
    even = EvenWeights(of)
    rounds = even.run()
    eta = even.etas(rounds)
    for row in (int(np.argmax(eta)), 7):
        assert eta[row] == pytest.approx(by_refits(of, row), rel=1e-6)
        assert abs(eta[row] / rounds[-1].eta[row] - 1) > 1e-3
    assert eta[30] == 0.0  # its weight is zero


SPREADS = {"squared": 0.05, "logistic": 0.08, "poisson": 0.1}


@pytest.mark.parametrize("loss", list(MODELS))
def test_etas_of_the_whole_procedure_are_made_even(loss: str) -> None:
    case = make(loss, 2, n=60)
    model = fl.IRFIL(MODELS[loss], account="end-to-end").fit(case.X, case.y)
    found = model.end_to_end_
    assert found.form == "even"
    assert found.spread == pytest.approx(np.std(found.eta) / np.mean(found.eta))
    assert found.spread < SPREADS[loss]
    papers = procedure(MODELS[loss].fit(case.X, case.y), case.X, case.y, 15, fl.Gaussian(1.0))
    eta = papers.etas(papers.run())
    assert found.before == pytest.approx(np.std(eta) / np.mean(eta), rel=1e-6)
    assert found.spread < 0.6 * found.before
    assert np.mean(model.weights_) == pytest.approx(1.0, rel=1e-4)
    leak = fl.measure(model.estimator_, case.X, case.y, sample_weight=model.weights_)
    np.testing.assert_allclose(found.fixed, np.asarray(leak.per_example())[found.rows], rtol=1e-5)


def tables() -> dict[str, tuple[Any, Vector, Any, float]]:
    X, y = load_diabetes(return_X_y=True)
    cells, classes = load_breast_cancer(return_X_y=True)
    return {
        "diabetes": (Ridge(0.1), X, y, 0.03),
        "cancer": (
            LogisticRegression(C=100 / len(classes), **EXACT),
            StandardScaler().fit_transform(cells),
            classes,
            0.02,
        ),
    }


@pytest.mark.long
@pytest.mark.parametrize("name", ["diabetes", "cancer"])
def test_etas_of_real_tables_are_even(name: str) -> None:
    model, X, y, limit = tables()[name]
    with threadpool_limits(1):  # products of small matrices, which threads only hold up
        assert fl.IRFIL(model, account="end-to-end").fit(X, y).end_to_end_.spread < limit


def test_where_the_papers_weights_are_more_even_they_are_kept() -> None:
    case = make("logistic", 2, n=60)
    model = fl.IRFIL(MODELS["logistic"], n_iter=6, attributes=["x0", "x1"], account="end-to-end").fit(case.X, case.y)
    found = model.end_to_end_
    assert (found.form, found.spread) == ("paper", found.before)
    fixed = fl.IRFIL(MODELS["logistic"], n_iter=6, attributes=["x0", "x1"]).fit(case.X, case.y)
    np.testing.assert_allclose(model.weights_, fixed.weights_, rtol=1e-6)


@pytest.mark.long
def test_differences_of_the_estimator_itself_agree() -> None:
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
    with pytest.raises(fl.InvalidInputError, match="needs an eta above zero for every row"):
        fl.IRFIL(Ridge(fit_intercept=False), 1, attributes=["x0"], account="end-to-end").fit(X, y)
