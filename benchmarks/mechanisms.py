"""Every way to release one model at the same largest eta: what it costs, and what it lets an attacker do on the worst row.

Prints the table of docs/mechanisms.md: ``python benchmarks/mechanisms.py iwpc`` (or ``adult``), data in FISHERLEAK_DATA; names
of ways after it make these rows alone.

Excess loss is that of draws of the mechanism on the training rows, per row. The attacker knows all other values. *Value*: the
cell with the largest eta of the row with the largest eta, either as it is or one standard deviation of its column away, equal
odds. *Membership*: that row in or out (n l2 kept). Both by the likelihood ratio of the mechanism's own density, over draws.
Objective perturbation of the logistic loss is calibrated by the upper limits of its etas, and its 2,048 draws serve the attacks
too: the best test is right (1 + E[max(0, 1 - L)]) / 2 of the time, L the likelihood ratio over draws of the data as they are.

Answers instead of a model: scores of 1,000 training rows with Gaussian noise on each (excess loss is that of an answer, and
the best test has a closed form), and for classes labels that are drawn, as many as are left until an eta of 1, training rows
in turn (the log-likelihood ratio is a sum over some thousand independent labels, and taken as normal).
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fisherleak as fl
from fisherleak.attacks.likelihoods import ratio_of_one_row
from fisherleak.engine.mechanisms.self_shaped import MECHANISMS
from fisherleak.engine.norms.averaged_over_draws import Averaged

Vector = NDArray[np.float64]
DRAWS = 20_000
QUERIES = 1000
TILT = 31.44
"""Scale from which that of the averaged mechanism is looked for."""


def hessian_inverse(fit: fl.Fit) -> Vector:
    half = np.asarray(fit.uncentred(np.asarray(fit.factor.inverse())))
    return np.asarray(fit.uncentred(half.T))


def density(way: Any, fit: fl.Fit) -> Callable[[Vector], Vector]:
    """The log-density of what is released, up to what does not depend on the data."""
    theta = np.asarray(fit.theta)
    if type(way).__name__ not in MECHANISMS:
        return lambda t: np.asarray(way.log_density(t - theta))
    B = hessian_inverse(fit)
    S = way.scale**2 * (B if isinstance(way, fl.Posterior) else B @ B)
    L = np.linalg.cholesky(S)
    volume = float(np.sum(np.log(np.diag(L))))
    return lambda t: np.asarray(-0.5 * np.sum(np.linalg.solve(L, (t - theta).T) ** 2, axis=0) - volume)


def drawn(way: Any, fit: fl.Fit, rng: np.random.Generator) -> Vector:
    if type(way).__name__ in MECHANISMS:
        return np.asarray(way.released_draws(fit, DRAWS, rng))
    theta = np.asarray(fit.theta)
    return np.asarray(theta + way.draws(DRAWS, theta.size, rng))


def success(way: Any, one: fl.Fit, other: fl.Fit) -> float:
    """How often the best test between two data sets is right, at equal odds."""
    rng = np.random.default_rng(1)
    first, second = density(way, one), density(way, other)
    right = []
    for fit, sign in ((one, 1.0), (other, -1.0)):
        t = drawn(way, fit, rng)
        with np.errstate(invalid="ignore"):
            ahead = sign * (first(t) - second(t))
        right.append(float(np.mean((ahead > 0) + 0.5 * (ahead == 0))))
    return 0.5 * sum(right)


def excess(way: Any, fit: fl.Fit, X: Vector, y: Vector) -> float:
    """Mean loss of draws on the rows, less that of the model, per row."""
    theta = np.asarray(fit.theta)
    rows = X if fit.intercept is None else np.column_stack([X, np.ones(len(X))])
    t = drawn(way, fit, np.random.default_rng(2))[:400]
    losses = fit.loss.value(rows @ t.T, y[:, None]).mean()
    penalty = 0.5 * fit.l2 * float(np.mean(np.sum(t[:, : X.shape[1]] ** 2, axis=1)) - np.sum(theta[: X.shape[1]] ** 2))
    return float(losses - fit.loss.value(rows @ theta, y).mean()) + penalty


def moved_fit(fit: fl.Fit, X: Vector, y: Vector, row: int, column: int) -> fl.Fit:
    other = X.copy()
    other[row, column] += X[:, column].std() * (1.0 if X[row, column] < X[:, column].mean() else -1.0)
    return fl.minimise(other, y, fit.loss, fit.l2, None, fit.intercept is not None)


def without(fit: fl.Fit, X: Vector, y: Vector, row: int) -> fl.Fit:
    weights = np.ones(len(y))
    weights[row] = 0.0
    return fl.minimise(X, y, fit.loss, fit.l2, weights, fit.intercept is not None)


def scores(fit: fl.Fit, X: Vector) -> Vector:
    rows = X if fit.intercept is None else np.column_stack([X, np.ones(len(X))])
    return np.asarray(rows @ np.asarray(fit.theta))


def told_apart_by_labels(one: fl.Fit, other: fl.Fit, X: Vector, counts: Vector) -> float:
    """How often drawn labels, so many of each row, are taken for those of the right one of two models."""
    z = [scores(fit, X) for fit in (one, other)]
    right = []
    for own, their in (z, z[::-1]):
        p = 1.0 / (1.0 + np.exp(-own))
        mean = float(counts @ (p * (own - their) - np.logaddexp(0.0, own) + np.logaddexp(0.0, their)))
        spread = math.sqrt(float(counts @ (p * (1.0 - p) * (own - their) ** 2)))
        right.append(0.5 * math.erfc(-mean / spread / math.sqrt(2.0)))
    return 0.5 * sum(right)


def served(fit: fl.Fit, leak: fl.Leakage, X: Vector, y: Vector) -> None:
    """The rows of answers to queries."""
    queries = np.arange(0, len(X), max(1, len(X) // QUERIES))[:QUERIES]
    way: Any = fl.calibrate(leak.with_noise(fl.Answers(X[queries], fl.Gaussian(1.0))), 1.0)
    noise = way.noise.draws(400, len(queries), np.random.default_rng(2))
    z = scores(fit, X[queries])
    cost = float(np.mean(fit.loss.value(z + noise, y[queries])) - np.mean(fit.loss.value(z, y[queries])))
    one, other = worst_pairs(leak.with_noise(way), fit, X, y)
    apart = [float(np.linalg.norm(scores(each, X[queries]) - z)) for each in (one, other)]
    value, membership = (0.5 * math.erfc(-gap / (2.0 * way.noise.scale) / math.sqrt(2.0)) for gap in apart)
    print(
        f"| Answers, scores of {len(queries)} queries | {cost:.3g} | {100 * value:.1f} % | {100 * membership:.1f} % |"
    )
    if fit.loss.name != "logistic":
        return
    count = fl.queries_until(leak, X, None, 1.0, of="label")
    counts = np.full(len(X), count // len(X)) + (np.arange(len(X)) < count % len(X))
    one, other = worst_pairs(leak.with_noise(fl.SampledLabels(X)), fit, X, y)
    value, membership = (told_apart_by_labels(fit, each, X, counts) for each in (one, other))
    print(f"| SampledLabels, {count:,.0f} queries | - | {100 * value:.1f} % | {100 * membership:.1f} % |")


def averaged(own: fl.Leakage, fit: fl.Fit, X: Vector, y: Vector) -> None:
    """The row of objective perturbation of a loss that it is averaged for; a model without an intercept."""
    told = own._information
    assert isinstance(told, Averaged)
    assert isinstance(told.mechanism, fl.ObjectivePerturbation)
    assert fit.intercept is None
    row, limit = told.largest_norm(told.attributes, True)
    column = int(np.argmax([told._one([attribute], False, row) for attribute in told.attributes]))
    other = X[row].copy()
    other[column] += X[:, column].std() * (1.0 if X[row, column] < X[:, column].mean() else -1.0)
    found = told.minima
    cells = []
    for new in ((other, y[row], 1.0), (X[row], y[row], 0.0)):
        drawn_at = (found.theta, -found.tilts, found.inverses)
        ratio = ratio_of_one_row(fit.loss, told.mechanism, drawn_at, (X[row], y[row], 1.0), new)
        apart = np.clip(1.0 - np.exp(ratio), 0.0, None)
        error = 50.0 * float(apart.std()) / math.sqrt(len(apart))
        cells.append(f"{50.0 + 50.0 * float(apart.mean()):.1f} % (± {2.0 * error:.1f})")
    t, theta = found.theta[:400], np.asarray(fit.theta)
    cost = float(fit.loss.value(X @ t.T, y[:, None]).mean() - fit.loss.value(X @ theta, y).mean())
    cost += 0.5 * fit.l2 * float(np.mean(np.sum(t**2, axis=1)) - np.sum(theta**2))
    print(f"| ObjectivePerturbation | {cost:.3g} | {' | '.join(cells)} |", flush=True)
    above = told.above_average(row)
    print(
        f"scale {told.mechanism.scale:.4g}, row {row}: limit {limit:.4f}, {100 * above:.1f} % above the average",
        flush=True,
    )


def worst_pairs(own: fl.Leakage, fit: fl.Fit, X: Vector, y: Vector) -> tuple[fl.Fit, fl.Fit]:
    """Models with the most exposed cell of the most exposed row moved, and without that row."""
    row = int(np.argmax(np.asarray(own.per_example())))
    column = int(np.argmax(np.asarray(own.per_cell())[row]))
    return moved_fit(fit, X, y, row, column), without(fit, X, y, row)


def data(name: str) -> tuple[Vector, Vector, str, float]:
    loaded: Any = fl.datasets.load_iwpc() if name == "iwpc" else fl.datasets.load_adult()
    X = np.asarray(loaded.preprocessing.fit_transform(loaded.X), dtype=float)
    y = np.asarray(loaded.y)
    y = y.astype(float) if y.dtype.kind in "fiu" else (y == np.unique(y)[1]) * 1.0
    return X, y, "squared" if name == "iwpc" else "logistic", 1e-3


def main(name: str, *only: str) -> None:
    X, y, loss, l2 = data(name)
    fit = fl.minimise(X, y, loss, l2)
    leak = fl.measure(fit, X, y)
    kinds: dict[str, Any] = {
        "Gaussian": fl.Gaussian(1.0),
        "Laplace": fl.Laplace(1.0),
        "Bounded": fl.Bounded(1.0),
    }
    if loss == "squared":
        kinds |= {"Posterior": fl.Posterior(1.0), "ObjectivePerturbation": fl.ObjectivePerturbation(1.0)}
    else:
        kinds["ObjectivePerturbation"] = fl.ObjectivePerturbation(TILT)
    kinds = {label: kind for label, kind in kinds.items() if not only or label in only}
    print(f"{name}: {X.shape[0]} x {X.shape[1]}, {loss}, l2 {l2:g}, loss {fit.loss.value(X @ fit.coef, y).mean():.4f}")
    started = {label: leak.with_noise(kind) for label, kind in kinds.items()}
    ways = {label: fl.calibrate(begun, 1.0) for label, begun in started.items()}
    if not only or "Gaussian, least-loss" in only:
        ways["Gaussian, least-loss"] = fl.calibrate(leak, 1.0, shape="least-loss", gap=0.02)
    for label, way in ways.items():
        own = started.get(label, leak).with_noise(way)
        if isinstance(own._information, Averaged):
            averaged(own, fit, X, y)
            continue
        value, membership = (success(way, fit, other) for other in worst_pairs(own, fit, X, y))
        if label == "Gaussian, least-loss":  # made anew without the row
            row = int(np.argmax(own.per_example()))
            membership = float(fl.attacks.Membership(fit, X, y, rows=[row]).accuracy(way)[0])
        cost = excess(way, fit, X, y)
        print(f"| {label} | {cost:.3g} | {100 * value:.1f} % | {100 * membership:.1f} % |", flush=True)
        assert math.isfinite(cost)
    if not only:
        served(fit, leak, X, y)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        main(*(sys.argv[1:] or ["iwpc"]))
