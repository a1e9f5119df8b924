"""The worst admissible row that a search finds: a value from below, each of it an eta of a model that was fitted with the row.

From the corners where the bound is largest, one column at a time takes its other end or level while eta grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak.engine.fit.minimise import fit_at, risk_of_fit
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.jacobian import Jacobian, jacobian_of
from fisherleak.engine.jacobian.folding import Folding
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.errors import FisherleakError
from fisherleak.protection.certificates.bound_quantities import Points
from fisherleak.protection.certificates.certificate import Bound
from fisherleak.protection.certificates.declared_bounds import Admissible
from fisherleak.protection.certificates.softmax_certificate import SeveralBound

__all__ = ["Found", "ascend", "eta_in_place"]

Vector = NDArray[np.float64]
STARTS, SWEEPS = 3, 2
WORK, MOST = 2e9, 80
"""Products of all refits together, and how many there are at most."""
NEAR = 1e-9


@dataclass(frozen=True)
class Found:
    """An admissible row, the row it stands for, and eta of the refitted model at noise of scale 1."""

    eta: float
    row: int
    features: Vector
    label: float


def ascend(
    jacobian: Jacobian,
    attributes: Sequence[Attribute],
    label: bool,
    admissible: Admissible,
    points: Points,
    found: Bound | SeveralBound,
) -> Found:
    """The best row that was found, starting from the corners with the largest bounds."""
    n, p = jacobian.X.shape[0], int(jacobian.B.shape[1])
    left = [int(np.clip(WORK / (8.0 * n * p * p), 12, MOST))]
    rows = _replaced(jacobian)
    best: Found | None = None
    for start, choice, y in _starts(jacobian, admissible, points, found):
        here = _best_row(jacobian, attributes, label, rows, start, y, left)
        here = _climbed(jacobian, attributes, label, admissible, here, choice, left)
        best = here if best is None or here.eta > best.eta else best
        if left[0] <= 0:
            break
    assert best is not None
    return best


def eta_in_place(
    jacobian: Jacobian,
    attributes: Sequence[Attribute],
    label: bool,
    row: int,
    features: Vector,
    y: float,
) -> float:
    """||J|| of a row in the model refitted with it in place of another; zero where there is no such model."""
    fit = jacobian.fit
    X = np.array(host(jacobian.X), dtype=np.float64)
    labels = np.array(host(jacobian.y), dtype=np.float64)
    X[row], labels[row] = features, y
    weights = None if fit.sample_weight is None else np.asarray(host(fit.sample_weight))
    folding = None if jacobian.folding is None else _on_host(jacobian.folding)
    scales = None if fit.scales is None else np.asarray(host(fit.scales))
    if folding is not None and scales is not None:
        scales = _scales(folding, scales, np.asarray(host(jacobian.X)), X, weights)
    several = jacobian.several
    risk = replace(risk_of_fit(fit, X, labels), weights=weights, scales=scales, known_centre=None)
    try:
        fresh = fit_at(risk, np.asarray(host(fit.theta)), polish=True)
    except FisherleakError:
        return 0.0
    if folding is not None:
        coef = np.ones(X.shape[1]) if several else np.asarray(fresh.coef)
        folding = _refolded(folding, X, weights, fit.n * fit.l2 * coef)
    then = jacobian_of(fresh, X, labels, jacobian.noise, jacobian.attributes, folding)
    block = [X[row : row + 1], labels[row : row + 1], None if weights is None else weights[row : row + 1]]
    J = np.asarray(then.dense(attributes, label)(*block))[0]
    return float(np.linalg.norm(J, 2))


def _on_host(folding: Folding) -> Folding:
    arrays: dict[str, Any] = {
        name: np.asarray(host(getattr(folding, name))) for name in ("slopes", "means", "values", "shares", "frame")
    }
    return replace(folding, **arrays)


def _scales(folding: Folding, scales: Vector, before: Vector, after: Vector, weights: Vector | None) -> Vector:
    """Standard deviations with the row replaced; columns that were not scaled keep theirs."""
    omega = weights if folding.weighted else None
    learned = np.asarray(folding.slopes) != 0
    ratio = np.sqrt(_variance(after, omega) / np.where(learned, _variance(before, omega), 1.0))
    return np.where(learned, scales * ratio, scales)


def _variance(X: Vector, omega: Vector | None) -> Vector:
    mean = np.average(X, axis=0, weights=omega)
    return np.asarray(np.average((X - mean) ** 2, axis=0, weights=omega))


def _refolded(folding: Folding, X: Vector, weights: Vector | None, push: Vector) -> Folding:
    omega = weights if folding.weighted and weights is not None else np.ones(X.shape[0])
    learned = np.asarray(folding.slopes) != 0
    slopes = np.where(learned, 2.0 * push / omega.sum(), 0.0)
    return replace(folding, slopes=slopes, means=np.average(X, axis=0, weights=omega))


def _replaced(jacobian: Jacobian) -> list[int]:
    """Rows that are tried as the one that leaves: those with the largest and the least part in the model."""
    fit = jacobian.fit
    X, y = np.asarray(host(jacobian.X), dtype=np.float64), np.asarray(host(jacobian.y), dtype=np.float64)
    weights = None if fit.sample_weight is None else np.asarray(host(fit.sample_weight))
    centre = None if fit.centre is None else np.asarray(host(fit.centre))
    x = with_constant(X, fit.intercept is not None, centre)
    if jacobian.several:
        A = jacobian.model.scores(X, y, weights).A
        moved = np.linalg.norm(np.asarray(A), 2, axis=(1, 2)) * np.linalg.norm(x, axis=1)
    else:
        a = np.asarray(fit.loss.a(x @ np.asarray(host(fit.centred_theta)), y)) * (1.0 if weights is None else weights)
        moved = a * np.linalg.norm(x @ np.asarray(host(jacobian.B)).T, axis=1)
    order = np.argsort(moved)
    heavy = np.arange(len(y)) if weights is None else np.flatnonzero(weights >= weights.max() * (1.0 - NEAR))
    chosen = [int(order[-1]), int(order[-2 if len(order) > 1 else -1]), int(heavy[np.argmin(moved[heavy])])]
    return list(dict.fromkeys(chosen))


def _starts(
    jacobian: Jacobian, admissible: Admissible, points: Points, found: Bound | SeveralBound
) -> list[tuple[Vector, NDArray[np.int64], float]]:
    """Features, the choice of each column that they are made of, and a label."""
    d = admissible.base.shape[0]
    if admissible.radius is not None:
        _, _, right = np.linalg.svd(np.asarray(host(jacobian.B))[:, :d])
        w = np.atleast_2d(np.asarray(host(jacobian.fit.coef)))[0]
        ways = [right[0], w / (np.linalg.norm(w) or 1.0)]
        ways.append(ways[0] + np.sign(ways[0] @ ways[1] or 1.0) * ways[1])
        radius = admissible.radius * (1.0 - NEAR)
        ends = [side * radius * way / (np.linalg.norm(way) or 1.0) for way in ways for side in (-1.0, 1.0)]
        return [(end, np.zeros(0, dtype=np.int64), float(y)) for end in ends for y in admissible.labels]
    order = np.argsort(np.where(np.isfinite(found.points), found.points, 0.0))[::-1][:STARTS]
    return [
        (_features(admissible, points.choices[k]), points.choices[k], float(y))
        for k in order
        for y in admissible.labels
    ]


def _features(admissible: Admissible, choice: NDArray[np.int64]) -> Vector:
    return sum((part[k] for part, k in zip(admissible.parts, choice, strict=True)), admissible.base)


def _best_row(
    jacobian: Jacobian,
    attributes: Sequence[Attribute],
    label: bool,
    rows: list[int],
    start: Vector,
    y: float,
    left: list[int],
) -> Found:
    tried = [Found(eta_in_place(jacobian, attributes, label, row, start, y), row, start, y) for row in rows]
    left[0] -= len(rows)
    return max(tried, key=lambda each: each.eta)


def _climbed(
    jacobian: Jacobian,
    attributes: Sequence[Attribute],
    label: bool,
    admissible: Admissible,
    here: Found,
    choice: NDArray[np.int64],
    left: list[int],
) -> Found:
    """One column after the other takes another of its choices where eta grows."""
    choice = choice.copy()
    for _ in range(SWEEPS):
        before = here.eta
        for j, k in [(j, k) for j, part in enumerate(admissible.parts) for k in range(len(part))]:
            if k == choice[j] or left[0] <= 0:
                continue
            left[0] -= 1
            other = np.where(np.arange(len(choice)) == j, k, choice)
            features = _features(admissible, other)
            eta = eta_in_place(jacobian, attributes, label, here.row, features, here.label)
            if eta > here.eta:
                here, choice = replace(here, eta=eta, features=features), other
        if left[0] <= 0 or here.eta <= before * (1.0 + NEAR):
            break
    return here
