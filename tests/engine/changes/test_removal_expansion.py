"""Bounds of what an expansion of the gradient leaves out, against what it leaves out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cases
import fisherleak as fl
from fisherleak.engine.changes import removal
from fisherleak.engine.changes.removal_expansion import (
    BEND,
    FOURTH,
    higher_terms,
    slopes,
    steepness,
    third_derivative,
)
from fisherleak.engine.changes.removal_steps import RemovalTask

CURVED = [name for name, loss in fl.LOSSES.items() if loss.traits and name != "squared"]


def task(loss: str, weighted: bool = False) -> RemovalTask:
    case = cases.make(loss, seed=4, n=300, d=3, weighted=weighted, intercept=True)
    return removal._task(case.leak()._information.jacobians[0], 1e-8)


@pytest.mark.parametrize("loss", CURVED)
def test_derivatives_of_the_curvature_are_bounded_by_it(loss: str) -> None:
    """What the bounds are made of: a', a'' and a'''' are no more than L a, w a and the last times a."""
    own = fl.LOSSES[loss]
    assert own.traits is not None
    z, h = np.linspace(-6.0, 6.0, 4001), 1e-2
    y = np.full_like(z, 1.0)
    L, known = own.traits.log_slope, own.traits.width == 1
    a, slope = own.a(z, y), own.traits.slope(z, y)
    low, high = (own.traits.slope(z + by, y) for by in (-h, h))
    lower, higher = (own.traits.slope(z + by, y) for by in (-2 * h, 2 * h))
    second = (high - low) / (2 * h)
    fourth = (higher - 2 * high + 2 * low - lower) / (2 * h**3)
    assert (np.abs(slope) <= L * a * (1 + 1e-12)).all()
    assert (np.abs(second) <= (1.0 if known else BEND * L**2) * a * (1 + 1e-3)).all()
    assert (np.abs(fourth) <= (1.0 if known else FOURTH * L**4) * a * (1 + 1e-2)).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [0.3, 2.0, 20.0])
@pytest.mark.parametrize("loss", CURVED)
def test_what_is_left_out_is_within_its_bounds(loss: str, size: float, weighted: bool) -> None:
    """For moves in random directions, up to many times the usual length."""
    own = task(loss, weighted)
    rest, model, risk = own.rest, own.model, own.risk
    assert rest is not None
    rng = np.random.default_rng(0)
    root, inverse = own.roots
    directions = rng.normal(size=(40, 4))
    lengths = size * rest.levels[0].reach * rng.uniform(0.1, 1.0, 40)
    moves = (lengths / np.linalg.norm(directions, axis=1))[:, None] * directions @ root.T
    np.testing.assert_allclose(own.across(moves), lengths, rtol=1e-9)
    x = np.column_stack([np.asarray(risk.X) - np.asarray(risk.centre), np.ones(300)])
    z, v = x @ model.theta, moves @ x.T
    omega, y, f = 1.0 if risk.weights is None else risk.weights, risk.y, model.loss
    bent = omega * (f.r(z + v, y) - f.r(z, y) - f.a(z, y) * v) @ x
    third = third_derivative(risk, model, own.step)
    beyond = bent - 0.5 * third.twice(moves)
    later = beyond - higher_terms(risk, model, root, moves @ inverse.T, rest.log_slope, own.step) @ inverse
    least = 1e-15 * np.abs(omega * f.r(z, y)) @ np.linalg.norm(x @ root, axis=1)
    assert (np.linalg.norm(bent @ root, axis=1) <= rest.without_third(moves, lengths) + least).all()
    assert (np.linalg.norm(beyond @ root, axis=1) <= rest.beyond_third(moves, lengths) + least).all()
    assert (np.linalg.norm(later @ root, axis=1) <= rest.beyond_fifth(moves, lengths) + least).all()
    changed = omega * (f.a(z + v, y) - f.a(z, y))
    rates = [np.linalg.norm(root.T @ (x * each[:, None]).T @ x @ root, 2) for each in changed]
    assert (rates <= rest.rate(moves, lengths, np.zeros(40)) + 1e-14).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_bounds_of_few_rows_are_those_of_the_matrices_they_stand_for(weighted: bool) -> None:
    case = cases.make("logistic", seed=4, n=20, d=40, weighted=weighted, intercept=True, l2=0.05)
    own = removal._task(case.leak()._information.jacobians[0], 1e-8)
    rest = own.rest
    assert rest is not None
    assert rest.rows is not None
    rows, B = rest.rows, own.inverse
    assert rows.shape == (20, 41)
    levels = []
    for level in rest.levels:
        made = {name: (rows.T * getattr(level, name)) @ rows for name in ("first", "second", "fourth")}
        assert level.steepest == pytest.approx(np.sum(made["first"] * B) ** 0.5)
        assert level.trace == pytest.approx(np.sum(made["second"] * B) ** 0.5)
        levels.append(replace(level, **made))
    plain = replace(rest, rows=None, levels=tuple(levels))
    moves, length = np.random.default_rng(0).normal(size=(9, 41)), np.linspace(0.1, 3.0, 9) * rest.levels[0].reach
    for name in ("without_third", "beyond_third", "beyond_fifth"):
        found, wanted = (getattr(each, name)(moves, length) for each in (rest, plain))
        np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_nothing_is_said_of_moves_that_are_too_long() -> None:
    own = task("logistic")
    assert own.rest is not None
    far = np.array([2.0 * own.rest.levels[-1].reach])
    assert np.isinf(own.rest.without_third(np.ones((1, 4)), far)).all()
    assert np.isinf(own.rest.rate(np.ones((1, 4)), far, far)).all()


def test_of_a_loss_from_outside_the_slope_is_seen_at_the_rows() -> None:
    own = task("logistic")
    known = own.fit.loss
    other = fl.Loss("own", known.value, known.r, known.a, known.c, known.labels, known.start)
    y = np.asarray(own.risk.y)
    z = np.linspace(-2.0, 2.0, y.shape[0])
    np.testing.assert_allclose(slopes(other, z, y, 1e-4), slopes(known, z, y, 1e-4), rtol=1e-6, atol=1e-9)
    model = replace(own.model, loss=other)
    assert 0.5 < steepness(own.risk, model, 1e-3) <= 2.0
