"""The bound by the penalty on rows of several classes: no refit is above it, and it is close where the penalty is strong.

Folded scales with a row exchanged: variances of the table itself, and the largest lengths over a fine grid of values.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.engine.norms import one_release
from fisherleak.protection.certificates.declared_bounds import AllowedRecords
from fisherleak.protection.certificates.exchange import Exchange, exchange_in, points_of
from fisherleak.protection.certificates.softmax_penalty_bound import (
    ExchangedScales,
    bound_by_the_penalty,
    columns_of,
    exchanged_scales,
)
from fisherleak.protection.certificates.worst_record import eta_in_place


def rows(n: int, K: int, d: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.exp(0.4 * rng.normal(size=(n, d)))
    y = (X @ rng.normal(size=(d, K)) + rng.gumbel(size=(n, K))).argmax(axis=1)
    y[: 2 * K] = np.tile(np.arange(K), 2)
    return X, y


def bounded(leak: fl.Leakage, bounds: Any, attributes: Any = None) -> tuple[float, AllowedRecords]:
    exchange = exchange_in(leak, bounds, attributes)
    scales = exchanged_scales(exchange.jacobian)
    return bound_by_the_penalty(exchange, scales, columns_of(exchange.allowed, scales)), exchange.allowed


def searched(leak: fl.Leakage, allowed: AllowedRecords, K: int, seed: int, count: int, attributes: Any = None) -> float:
    """The largest eta that is found from corners on: other labels, other rows, other ends, values between them."""
    rng = np.random.default_rng(seed)
    jacobian: Any = one_release(leak._information)
    exchange = Exchange(jacobian, *leak._chosen(attributes, None), allowed, points_of(jacobian, allowed))
    lengths = np.linalg.norm(np.asarray(jacobian.X), axis=1)
    weights = rng.random(len(lengths)) if jacobian.fit.sample_weight is None else np.asarray(jacobian.fit.sample_weight)
    leaving = [int(np.argmax(lengths)), int(np.argmin(lengths)), int(np.argmax(weights))]

    def eta(at: Any) -> float:
        row, y, shares, levels = at
        x = allowed.base.copy()
        for part, share, level in zip(allowed.parts, shares, levels, strict=True):
            x = x + (part[0] + share * (part[1] - part[0]) if len(part) == 2 else part[level % len(part)])
        return eta_in_place(exchange, row, x, float(y))

    many = len(allowed.parts)
    here = (leaving[0], 0, np.ones(many), rng.integers(9, size=many))
    best = eta(here)
    for _ in range(count):
        row, y, shares, levels = here
        change, k = int(rng.integers(4)), int(rng.integers(many))
        if change == 0:
            y = int(rng.integers(K))
        elif change == 1:
            row = leaving[int(rng.integers(3))]
        else:
            other = 1.0 - np.round(shares[k]) if change == 2 else np.clip(shares[k] + 0.3 * rng.normal(), 0.0, 1.0)
            shares, levels = shares.copy(), rng.integers(9, size=many)
            shares[k] = other
        there = (row, y, shares, levels)
        found = eta(there)
        if found >= best:
            here, best = there, found
    return best


@pytest.mark.parametrize(
    ("K", "l2", "weighted", "shaped"),
    [(3, 0.2, False, False), (3, 2.0, True, False), (10, 3.0, False, False), (3, 1.0, False, True)],
)
def test_no_refit_is_above_the_bound(K: int, l2: float, weighted: bool, shaped: bool) -> None:
    X, y = rows(60, K, 2, seed=K)
    weights = np.random.default_rng(1).uniform(0.3, 1.7, 60) if weighted else None
    Q = np.random.default_rng(2).normal(size=(2 * K, 2 * K))
    noise = fl.Gaussian(1.0, Q @ Q.T + np.eye(2 * K)) if shaped else fl.Gaussian(1.0)
    fit = fl.minimise(X, y, loss="softmax", l2=l2, sample_weight=weights)
    leak = fl.measure(fit, X, y, noise=noise, sample_weight=weights)
    box = {f"x{k}": (float(X[:, k].min()), float(X[:, k].max()) + 1.0) for k in range(2)}
    above, allowed = bounded(leak, box)
    found = searched(leak, allowed, K, seed=3, count=45)
    assert float(np.max(np.asarray(leak.per_example()))) <= above
    assert found <= above
    if l2 >= 1.0 and not shaped:
        assert above <= 2.0 * found
    ball = bounded(leak, {"norm": float(np.linalg.norm(X, axis=1).max())})[0]
    assert float(np.max(np.asarray(leak.per_example()))) <= ball < math.inf


def test_free_intercepts_have_none_and_the_certificate_takes_the_less() -> None:
    from fisherleak.protection.certificates.worst_record import certified

    X, y = rows(90, 3, 2, seed=5)
    box = {f"x{k}": (float(X[:, k].min()), float(X[:, k].max())) for k in range(2)}
    free = fl.measure(fl.minimise(X, y, loss="softmax", l2=1.0, intercept=True), X, y)
    assert bounded(free, box)[0] == math.inf
    held = fl.measure(fl.minimise(X, y, loss="softmax", l2=1.0), X, y)
    above = bounded(held, box)[0]
    assert certified(exchange_in(held, box)).upper <= above * (1 + 1e-9)


def trained(K: int, n: int, seed: int, l2: float, public: str, level: float, weighted: bool = False) -> Any:
    """A table with a column of few values other than zero, and a category, whose levels have a penalty."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    from fisherleak.tables import from_frame
    from fisherleak.training.trained_model import Settings, train, trained_on

    X, y = rows(n, K, 2, seed)
    rng = np.random.default_rng(seed)
    X[:, 1] = np.where(rng.random(n) < 0.15, 4.0, 0.0)
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "town": np.array(["Bonn", "Genua", "Ulm"])[np.arange(n) % 3]})
    frame["kind"] = [f"k{code}" for code in y]
    settings = Settings("kind", l2=l2, held_out=0.0, numbers=("a", "b"), public=public, intercept_l2=level * l2)
    found = train(from_frame(frame), settings)
    weights = rng.uniform(0.3, 1.7, n) if weighted else None
    if weights is None:
        return found
    return trained_on(found.kind, found.design, l2, weights, public, level * l2)


@pytest.mark.parametrize(
    ("K", "l2", "public", "level", "weighted", "column"),
    [
        (3, 1.5, "nothing", 1.0, False, None),
        (3, 0.2, "nothing", 0.3, True, None),
        (10, 3.0, "nothing", 1.0, False, None),
        (3, 1.0, "preprocessing", 1.0, False, None),
        (3, 1.0, "nothing", 1.0, False, ["b"]),
    ],
)
def test_no_refit_with_scales_of_its_own_is_above_the_bound(
    K: int, l2: float, public: str, level: float, weighted: bool, column: Any
) -> None:
    from fisherleak.releasing.any_record_noise import _in_levels

    leak, _ = _in_levels(trained(K, 90, 7, l2, public, level, weighted), {})
    X = np.asarray(one_release(leak._information).X)
    box = {name: (float(X[:, k].min()) - 0.5, float(X[:, k].max()) + 1.0) for k, name in enumerate("ab")}
    above, allowed = bounded(leak, box, column)
    assert math.isfinite(above)
    found = searched(leak, allowed, K, seed=4, count=40, attributes=column)
    assert found <= above
    if l2 >= 1.0 and column is None:
        assert above <= 2.5 * found


def test_derivatives_with_held_levels_and_folded_scales_are_those_of_refits() -> None:
    pandas = pytest.importorskip("pandas")
    from fisherleak.tables import from_frame
    from fisherleak.training.trained_model import Settings, train

    X, y = rows(70, 3, 2, seed=9)
    frame = pandas.DataFrame(X, columns=["a", "b"]).assign(kind=[f"k{code}" for code in y])
    settings = Settings("kind", l2=0.7, held_out=0.0, intercept_l2=0.7)

    def theta(change: float) -> Any:
        moved = frame.copy()
        moved.loc[5, "b"] += change
        return train(from_frame(moved), settings)

    here, step = theta(0.0), 1e-4
    difference = (np.asarray(theta(step).fit.theta) - np.asarray(theta(-step).fit.theta)) / (2.0 * step)
    jacobian: Any = one_release(here.leak._information)
    (attribute,) = jacobian.named(here.leak._chosen(["b"], False)[0])
    J = np.asarray(jacobian.dense([attribute], False)(jacobian.X[5:6], jacobian.y[5:6], None))[0, :, 0]
    (unit,) = (feature.scale for feature in here.design.features if feature.name == "b")
    assert pytest.approx(difference * unit, rel=1e-5, abs=1e-9) == J


LOW, HIGH = np.array([-3.0, -0.5, -1.0]), np.array([5.0, 8.0, 1.0])


def folded(weights: Any = None) -> tuple[Any, ExchangedScales]:
    """Two columns of learned scales, one of them with values in few rows, and one of a fixed scale."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(0.3, 1.2, 40), (rng.random(40) < 0.1) * 6.0, rng.uniform(-1, 1, 40)])
    folding = SimpleNamespace(
        totals=np.array([40.0, 40.0, 0.0]), shares=np.zeros((0, 3)), slopes=np.array([1.0, 1.0, 0.0]), weighted=True
    )
    fit = SimpleNamespace(l2=0.1, sample_weight=weights)
    jacobian: Any = SimpleNamespace(X=X, fit=fit, folding=folding)
    return X, exchanged_scales(jacobian)


@pytest.mark.parametrize("weighted", [False, True])
def test_factors_are_those_of_the_exchanged_table(weighted: bool) -> None:
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 40) if weighted else None
    X, scales = folded(weights)

    def variance(Z: Any) -> Any:
        mean = np.average(Z, axis=0, weights=weights)
        return np.average((Z - mean) ** 2, axis=0, weights=weights)

    for row in (0, 7, int(np.argmax(X[:, 1]))):
        for x in (LOW, HIGH, 0.5 * (LOW + HIGH)):
            other = X.copy()
            other[row] = x
            expected = np.where([True, True, False], variance(other) / variance(X), 1.0)
            assert scales.rows(slice(row, row + 1)).factor(x)[0] == pytest.approx(expected, rel=1e-9)


def test_the_largest_lengths_are_those_of_a_fine_grid() -> None:
    _, scales = folded()
    tried = [LOW + share * (HIGH - LOW) for share in np.linspace(0.0, 1.0, 4001)]
    once, twice = scales.longest(LOW, HIGH)
    root, whole = scales.pushes(LOW, HIGH)
    changes = scales.changes(LOW, HIGH)
    factors = [scales.factor(x) for x in tried]
    slopes = [2.0 * scales.bend * np.abs(x - scales.mean) for x in tried]
    found = {
        "once": (once, [x**2 / f for x, f in zip(tried, factors, strict=True)]),
        "twice": (twice, [(x / f) ** 2 for x, f in zip(tried, factors, strict=True)]),
        "root": (root, [s / np.sqrt(f) for s, f in zip(slopes, factors, strict=True)]),
        "whole": (whole, [s / f for s, f in zip(slopes, factors, strict=True)]),
    }
    for name, (bound, grid) in found.items():
        best = np.max(grid, axis=0)
        assert np.all(best <= bound * (1 + 1e-12)), name
        assert np.all(bound <= best * (1 + 1e-4)), name
    assert np.all(np.max([(f - 1.0) ** 2 / f for f in factors], axis=0) <= changes * (1 + 1e-12))
    assert np.all(np.max(factors, axis=(0, 1)) <= scales.largest(LOW, HIGH) * (1 + 1e-12))


def test_levels_of_a_category_are_taken_together() -> None:
    scales = ExchangedScales(np.ones((1, 4)), np.array([[0.1, 0.0, 0.0, 0.0]]), np.zeros((1, 4)))
    number, category = (
        np.array([[-2.0, 0, 0, 0], [3.0, 0, 0, 0]]),
        np.array([[0.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]),
    )
    found = columns_of(AllowedRecords(np.zeros(4), (number, category), np.arange(3.0), None, {}, True), scales)
    assert found.low.tolist() == [-2.0, 0.0, 0.0, 0.0]
    assert found.high.tolist() == [3.0, 1.0, 1.0, 0.0]
    squares = np.maximum(found.low**2, found.high**2)[None, :]
    assert found.total(squares, np.array([1.0, 4.0, 5.0, 7.0])).tolist() == [9.0 + 5.0]
