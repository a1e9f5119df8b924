"""Membership of people who have several rows: what a leakage says of leaving all rows of each out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from cases import make
from fisherleak._support.grids import public_units
from refits import minimise_scaled

NOISE = fl.Gaussian(0.3)
WHO = np.array(["ann", "bob", "cem", "dan", "eve", "fay"])


def people(n: int) -> Any:
    return WHO[np.random.default_rng(3).integers(0, WHO.size, n) ** 2 // WHO.size]


@pytest.mark.parametrize("last", [Ridge(alpha=2.0), LogisticRegression(C=0.5, tol=1e-12, solver="newton-cholesky")])
def test_a_model_is_fitted_without_all_rows_of_a_person(last: Any) -> None:
    """With weights, behind a scaler that is held fixed; three classes too."""
    rng = np.random.default_rng(0)
    X, who, weights = rng.normal(size=(90, 3)) * [1.0, 10.0, 0.1], people(90), rng.uniform(0.3, 2.0, 90)
    z = X @ [1.0, 0.1, -10.0] + rng.normal(size=90)
    for y in [z] if isinstance(last, Ridge) else [(z > 0).astype(int), np.digitize(z, [-1.0, 1.0])]:
        model = make_pipeline(StandardScaler(), clone(last))
        model.fit(X, y, **{f"{model.steps[-1][0]}__sample_weight": weights})
        found = fl.measure(model, X, y, NOISE, weights, polish=True).membership_by_group(who, 1e-8)
        assert list(found) == sorted(set(who))
        features = model[0].transform(X)
        for person, mu in found.items():
            rest = who != person
            other = clone(last).fit(features[rest], y[rest], sample_weight=weights[rest])
            moves = [np.ravel(getattr(other, name) - getattr(model[1], name)) for name in ("coef_", "intercept_")]
            assert mu == pytest.approx(np.linalg.norm(np.concatenate(moves)) / 0.3, rel=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_end_to_end_all_rows_leave_the_scaler_too(loss: str, weighted: bool) -> None:
    rng = np.random.default_rng(1)
    n = 60
    X = rng.gamma(1.0, 1.0, (n, 3)) * [1.0, 10.0, 0.1] + [1990.0, 0.0, 5.0]
    X[3, 1] += 2000.0
    z = (X - X.mean(axis=0)) / X.std(axis=0) @ [0.5, -0.3, 0.4]
    y = z + rng.normal(size=n) if loss == "squared" else (z + rng.logistic(size=n) > 0).astype(float)
    weights, who = rng.uniform(0.3, 2.0, n) if weighted else None, people(n)
    last = Ridge(alpha=9.0) if loss == "squared" else LogisticRegression(C=0.2, tol=1e-12, solver="newton-cholesky")
    model = make_pipeline(StandardScaler(), last)
    steps = ["standardscaler", model.steps[-1][0]]
    model.fit(X, y, **({f"{step}__sample_weight": weights for step in steps} if weighted else {}))
    leak = fl.measure(model, X, y, NOISE, weights, public="nothing", polish=True)
    (jacobian,) = leak._information.jacobians
    assert jacobian.folding is not None
    for person, mu in leak.membership_by_group(who, 1e-8).items():
        rest = who != person
        omega = np.ones(rest.sum()) if weights is None else weights[rest]
        mean = omega @ X[rest] / omega.sum()
        scales = np.sqrt(omega @ (X[rest] - mean) ** 2 / omega.sum())
        l2, weighed = n * jacobian.fit.l2 / rest.sum(), None if weights is None else omega
        other = minimise_scaled(X[rest], y[rest], loss, l2, weighed, True, scales)
        frame = jacobian.folding.frame
        own = [public_units(*pair) for pair in zip(mean, scales, strict=True)]
        if own != list(zip(frame[3, :3], np.diag(frame)[:3], strict=True)):
            assert mu == np.inf
            continue
        assert mu == pytest.approx(np.linalg.norm(frame @ (other.theta - jacobian.fit.theta)) / 0.3, rel=1e-7)


def test_rows_that_stand_for_themselves_are_those_of_membership() -> None:
    leak = make("logistic", 0, 60, 3).leak(NOISE)
    found = leak.membership_by_group(np.arange(60), 1e-8)
    np.testing.assert_array_equal(list(found.values()), leak.membership(1e-8))


def test_squares_of_independent_releases_add_up() -> None:
    one = make("squared", 0, 60, 3)
    first, who = one.leak(fl.Gaussian(0.5)), people(60)
    second = fl.measure(fl.minimise(one.X, one.y, fl.pseudo_huber(1.0), 0.1), one.X, one.y, fl.Gaussian(2.0))
    both = fl.compose(first, second).membership_by_group(who, 1e-8)
    own = [each.membership_by_group(who, 1e-8) for each in (first, second)]
    assert both == pytest.approx({k: np.hypot(own[0][k], own[1][k]) for k in both}, rel=1e-12)


def test_a_gradient_loses_the_sum_of_a_persons_terms() -> None:
    case = make("logistic", 0, 50, 3)
    fit, who = case.fit(), people(50)
    leak = fl.gradients(fit, case.X, case.y, NOISE)
    r = 1 / (1 + np.exp(-case.X @ fit.theta)) - case.y
    for person, mu in leak.membership_by_group(who, 1e-8).items():
        own = who == person
        assert mu == pytest.approx(np.linalg.norm(r[own] @ case.X[own]) / 0.3, rel=1e-9)


def test_what_is_refused_of_rows_is_refused_of_people() -> None:
    leak, who = make("squared", 0, 30, 3).leak(fl.Laplace(0.5)), people(30)
    with pytest.raises(fl.InvalidInputError, match="noise must be normal for membership"):
        leak.membership_by_group(who, 1e-8)
    with pytest.raises(fl.InvalidInputError, match="tolerance must be"):
        leak.membership_by_group(who, 0.0)
    with pytest.raises(fl.InvalidInputError, match="one label for each of the 30 rows"):
        leak.membership_by_group(who[:4])
    da = pytest.importorskip("dask.array")
    case = make("squared", 0, 30, 3)
    X, y = (da.from_array(part, chunks=10) for part in (case.X, case.y))
    with pytest.raises(fl.InvalidInputError, match="membership_by_group needs rows in memory"):
        fl.measure(fl.minimise(X, y), X, y).membership_by_group(who, 1e-8)
