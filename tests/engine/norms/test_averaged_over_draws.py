"""Objective perturbation of losses other than the squared: its own density, drawn and differentiated, and safe limits."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import fisherleak as fl
from cases import Case, make, moved, slanted
from copies import copies
from fisherleak.engine.mechanisms.perturbed_minimisers import TILTED_LOSSES, Minima, minima
from fisherleak.engine.norms import averaged_over_draws
from fisherleak.engine.norms.averaged_over_draws import _DrawnScores
from often import often

Vector = NDArray[np.float64]
SIGMA = 0.6
every_loss = pytest.mark.parametrize("loss", TILTED_LOSSES)


@cache
def problem(loss: str) -> Case:
    return make(loss, n=14, weighted=True, intercept=True, l2=0.05)


def log_density(t: Vector, case: Case, fit: fl.Fit, way: fl.ObjectivePerturbation) -> Vector:
    """Of releases t, (c, p): N(gradient; 0, sigma^2 C) |H|, from the rows and the loss alone."""
    X = np.column_stack([case.X, np.ones(len(case.X))])
    penalty = np.append(np.full(3, len(X) * case.l2), 0.0)
    assert case.weights is not None
    z = t @ X.T
    g = (case.weights * fit.loss.r(z, case.y[None, :])) @ X + penalty * t
    H = np.einsum("ci,ij,ik->cjk", case.weights * fit.loss.a(z, case.y[None, :]), X, X) + np.diag(penalty)
    C = np.eye(4) if way.shape is None else way.shape
    return np.asarray(-0.5 * np.sum(g * np.linalg.solve(C, g.T).T, axis=1) / way.scale**2 + np.linalg.slogdet(H)[1])


def by_differences(t: Vector, case: Case, row: int, way: fl.ObjectivePerturbation) -> Vector:
    """The score of a row's three features and its label, (4, c)."""
    fit, h = case.fit(), 1e-5
    sides = [[log_density(t, moved(case, row, j, s * h), fit, way) for s in (1, -1)] for j in (0, 1, 2, None)]
    return np.stack([(up - down) / (2 * h) for up, down in sides])


@every_loss
@pytest.mark.parametrize("shape", [None, slanted(4)], ids=["plain", "shaped"])
def test_scores_are_those_of_the_density(loss: str, shape: Vector | None) -> None:
    """Draw by draw, so that no average hides an error."""
    case, way = problem(loss), fl.ObjectivePerturbation(0.3 if shape is not None else SIGMA, draws=100, shape=shape)
    leak = case.leak(way)
    t = way.released_draws(case.fit(), 100, np.random.default_rng(0), (case.X, case.y))
    scores = by_differences(t, case, 3, way)
    own = leak._information.written_out(leak._information.attributes, True, np.array([3]))[0].T * 10.0
    np.testing.assert_allclose(own, scores, rtol=1e-5, atol=1e-5 * np.abs(scores).max())


@pytest.mark.long
@every_loss
def test_fim_is_the_covariance_of_the_score_of_its_draws_and_five_percent_off_is_rejected(loss: str) -> None:
    case = problem(loss)
    mechanism = fl.ObjectivePerturbation(SIGMA, draws=40_000)
    fim = case.leak(mechanism).fim(rows=[2])
    rng = np.random.default_rng(5)
    score = by_differences(mechanism.released_draws(case.fit(), 40_000, rng, (case.X, case.y)), case, 2, mechanism)
    # the density is that of the draws: its score has no mean
    spread = np.std(score, axis=1) / np.sqrt(score.shape[1])
    assert np.all(np.abs(score.mean(axis=1)) < 4.0 * spread)
    top = np.linalg.eigh(fim)[1][:, -1]
    share = float(np.mean((top @ score) ** 2) / (top @ fim @ top))
    assert share == pytest.approx(1.0, abs=0.03)
    assert min(abs(share / 0.95 - 1.0), abs(share / 1.05 - 1.0)) > 0.02


@pytest.mark.parametrize("loss", often(TILTED_LOSSES))
def test_every_eta_is_a_limit_above_its_average_and_closer_with_more_draws(loss: str) -> None:
    case = problem(loss)
    check_limits(case, None)


def test_every_eta_of_a_shaped_objective_is_a_limit_too() -> None:
    check_limits(problem("logistic"), slanted(4))


def check_limits(case: Case, shape: Vector | None) -> None:
    scale = SIGMA if shape is None else 0.3
    few, many = (case.leak(fl.ObjectivePerturbation(scale, draws=count, shape=shape)) for count in (200, 20_000))
    truth = np.array([np.sqrt(np.linalg.eigvalsh(many.fim(rows=[i]))[-1]) for i in range(14)])
    above = [leak.per_example()[truth > 0] / truth[truth > 0] for leak in (few, many)]
    assert np.all(above[1] > 1.0)
    assert np.all(above[0] > above[1])
    assert np.median(above[1]) < 1.35
    cells = np.sqrt([np.diag(many.fim(rows=[i])) for i in range(14)])
    assert np.all(few.per_cell() >= cells[:, :3])
    assert np.all(few.per_label() >= cells[:, 3])
    assert few.dataset() >= np.sqrt(np.linalg.eigvalsh(many.fim())[-1])
    assert many.dataset() == pytest.approx(np.sqrt(np.linalg.eigvalsh(many.fim())[-1]), rel=0.05)
    assert np.all(few.per_attribute() >= cells[:, :3].max(axis=0))
    assert "averaged over 200 draws" in few.summary()


def test_rows_that_tell_in_rare_draws_only_are_not_missed() -> None:
    """A row far from the boundary, that a perturbation carries there in one draw of thousands."""
    case = make("logistic", n=30, l2=0.02)
    X, y = case.X.copy(), case.y.copy()
    X[5] = 9.0 * np.asarray(case.fit().coef) / np.linalg.norm(case.fit().coef)
    y[5] = 1.0
    hostile = Case(X, y, "logistic", 0.02, None, False)
    few, many = (hostile.leak(fl.ObjectivePerturbation(1.0, draws=count)) for count in (200, 20_000))
    truth, seen = (float(np.linalg.eigvalsh(leak.fim(rows=[5]))[-1]) ** 0.5 for leak in (many, few))
    assert few.per_example()[5] > truth
    assert seen < few.per_example()[5]


def test_little_noise_is_a_gaussian_release_of_that_shape() -> None:
    """The first term is left, J^T H^2 J / sigma^2: within what 20,000 draws leave open."""
    case = make("logistic", intercept=True, l2=0.05)
    fit = case.fit()
    B = np.asarray(fit.uncentred(np.asarray(fit.uncentred(fit.factor.inverse())).T))
    plain = case.leak(fl.Gaussian(1e-4, B @ B)).per_example()
    found = case.leak(fl.ObjectivePerturbation(1e-4, draws=20_000)).per_example()
    assert np.all(found >= plain)
    np.testing.assert_allclose(found, plain, rtol=0.07)


def test_calibration_keeps_its_limit_and_scikit_learn_models_are_measured() -> None:
    case = make("logistic", intercept=True, l2=0.05)
    leak = case.leak(fl.ObjectivePerturbation(0.5, draws=400))
    limit = 0.8 * leak.per_example().max()
    found: Any = fl.calibrate(leak, limit)
    assert leak.with_noise(found).per_example().max() <= limit
    assert found.scale < 4.0
    assert found.draws == 400
    with pytest.raises(fl.InvalidInputError, match="the intercept has no penalty"):
        fl.calibrate(leak, 1e-3 * limit)
    model = LogisticRegression(C=1 / (len(case.y) * 0.05), tol=1e-10, max_iter=1000).fit(case.X, case.y)
    other = fl.measure(model, case.X, case.y, leak.noise)
    np.testing.assert_allclose(other.per_example(), leak.per_example(), rtol=1e-4)
    for copied in copies(leak):
        np.testing.assert_array_equal(copied.per_example(), leak.per_example())


@pytest.mark.parametrize("loss", ["logistic", "poisson", "gamma"])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_largest_is_found_behind_ceilings_that_hold(loss: str, intercept: bool) -> None:
    case = make(loss, n=30, weighted=True, intercept=intercept, l2=0.05)
    mixed = [fl.Attribute("both", [0, 2], [[1.0, 0.5], [-2.0, 1.0]])]
    size = 3 + intercept
    for scale, shape in ((0.05, None), (1.0, None), (0.2, np.diag([9.0, 1.0, 0.1, 2.0][:size]) + 0.05)):
        mechanism = fl.ObjectivePerturbation(scale, draws=300, shape=shape)
        for leak in (case.leak(mechanism), fl.measure(case.fit(), case.X, case.y, mechanism, attributes=mixed)):
            told: Any = leak._information
            for attributes, label in ((told.attributes, True), (told.attributes[:1], False), ((), True)):
                norms = np.asarray(told.example_norms(attributes, label))
                parts: Any = _DrawnScores.of(told, attributes)
                above = np.concatenate([parts.ceilings(*block, label) for block in told._row_blocks(parts, label)])
                assert np.all(np.sqrt(above) >= norms)
                row, largest = told.largest_norm(attributes, label)
                assert (row, largest) == (int(np.argmax(norms)), pytest.approx(norms.max(), rel=1e-12))


def test_rows_that_ceilings_keep_below_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    X[7] *= 6.0
    y = (X[:, 0] + rng.normal(size=400) > 0) * 1.0
    leak = fl.measure(fl.minimise(X, y, "logistic", 0.05), X, y, fl.ObjectivePerturbation(1.0, draws=300))
    told: Any = leak._information
    norms = leak.per_example()
    monkeypatch.setattr(averaged_over_draws, "VALUES", 20 * 300 * 11)
    seen: list[int] = []
    limits = _DrawnScores.limits

    def counted(parts: Any, X: Vector, *rest: Any) -> Vector:
        seen.append(len(X))
        return limits(parts, X, *rest)

    monkeypatch.setattr(_DrawnScores, "limits", counted)
    assert told.largest_norm(told.attributes, True) == (int(np.argmax(norms)), pytest.approx(norms.max()))
    assert sum(seen) < 100


@pytest.mark.parametrize("part", [0.3, 0.9, 1.0, 1.6])
def test_few_scales_are_tried(part: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the limit is kept, and hardly anything of it is left."""
    leak = make("logistic", l2=0.05).leak(fl.ObjectivePerturbation(0.5, draws=300))
    limit = part * float(leak.per_example().max())
    tried: list[int] = []

    def counted(*given: Any) -> Minima:
        tried.append(1)
        return minima(*given)

    monkeypatch.setattr(averaged_over_draws, "minima", counted)
    found = fl.calibrate(leak, limit)
    assert len(tried) <= 6
    eta = float(leak.with_noise(found).per_example().max())
    assert (1.0 - 5.1e-3) * limit <= eta <= limit


def test_draws_that_are_solved_for_are_used_again() -> None:
    leak = make("logistic", l2=0.05).leak(fl.ObjectivePerturbation(0.5, draws=300))
    assert leak.with_noise(fl.ObjectivePerturbation(0.5, draws=300))._information is leak._information
    for other in (fl.ObjectivePerturbation(0.5, draws=301), fl.ObjectivePerturbation(0.6, draws=300)):
        told: Any = leak.with_noise(other)._information
        assert (told.count, told.mechanism.scale) == (other.draws, other.scale)
    limit = 1.002 * float(leak.per_example().max())
    assert leak.with_noise(fl.calibrate(leak, limit))._information is leak._information


def test_what_would_not_fit_is_refused() -> None:
    case = make("logistic", l2=0.05)
    with pytest.raises(fl.InvalidInputError, match="draws"):
        case.leak(fl.ObjectivePerturbation(1.0, draws=10**8))
