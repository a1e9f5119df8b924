"""Steps towards changed minima: bounds that hold, and what is done where there is none."""

from __future__ import annotations

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.engine.changes import solver
from fisherleak.engine.changes.solver import converged
from fisherleak.engine.changes.starting_fit import StartingFit


def problem() -> tuple[StartingFit, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1500, 3))
    X[:20] *= 5.0
    y = (rng.random(1500) < 1 / (1 + np.exp(-X[:, 0]))) * 1.0
    fit = fl.minimise(X, y, "logistic", 1e-4, intercept=True)
    return StartingFit(fit, X, y, 1500), np.arange(0, 1500, 3)


def test_looser_and_tighter_tolerances_end_at_the_same_minima(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, rows = problem()
    changes = shared.replaced(rows, None, 1.0 - shared.y[rows])
    hessian = shared.changed_hessian(changes)
    values, error, lost = converged(shared, changes, hessian)
    tight = StartingFit(shared.fit, shared.X, shared.y, 1500, tolerance=1e-10)
    exact, *_ = converged(tight, changes, hessian)
    size = shared.length(exact)
    assert not lost.any()
    assert (error <= 1e-4 * shared.length(values)).all()
    assert (shared.length(values - exact) <= error + 1e-9 * size).all()
    monkeypatch.setattr(solver, "ROUNDS", 1)
    fewer, off, _ = converged(shared, changes, hessian)
    assert (shared.length(fewer - exact) <= off + 1e-9 * size).all()


def test_moves_that_do_not_settle_are_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, rows = problem()
    monkeypatch.setattr(solver, "MOST_CHORDS", 1)
    few = StartingFit(shared.fit, shared.X, shared.y, 0)
    assert few.expansion is None
    changes = few.replaced(rows, few.X[rows] * 3.0, None)
    hessian = few.changed_hessian(changes)
    assert converged(few, changes, hessian)[2].any()
