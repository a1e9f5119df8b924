"""What noise costs: the utility of many noisy copies of a model, over a grid of scales.

Predictions of a copy are X w + sigma X b with b the noise at scale 1, so one product X b serves every scale. Models of several
classes have one such product for each. ``Scored`` is all that this needs of a model: that of a table, or any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from fisherleak._support.namespaces import Vector
from fisherleak._support.numbers import CALLED, number
from fisherleak._support.progress import track
from fisherleak.engine.noise import Noise
from fisherleak.rows import gather, sum_rows
from fisherleak.rows.selection import some_rows
from fisherleak.tables import Design
from fisherleak.training.model_kinds import Metric, leading_metric
from fisherleak.training.noise_words import unit_draws
from fisherleak.training.trained_model import Trained

GRID = np.logspace(-2, 2, 33)
"""Scales at which utility is measured, in units of the chosen one."""
MOST_ROWS = 20_000
"""Training rows on which utility is measured at most, where none are held out."""
MOST_PRODUCTS = 4_000_000
"""Predictions of all copies held at a time."""
LITTLE = 0.1
"""Part of the gain over the baseline below which a release is said to be hardly better."""
PARTS = 20
"""Of the rows, each left out once to see how sure the gain over the baseline is."""


@dataclass(frozen=True)
class UtilityPoint:
    """Utility at one scale: the mean over copies, and the range that holds 90 % of them."""

    scale: float
    utility: float
    low: float
    high: float
    unsure: float = 0.0
    """Half the width of the 95 % interval of the mean, by Student's t."""


@dataclass(frozen=True)
class Tradeoff:
    metric: Metric
    without_noise: float
    constant: float
    held_out: bool
    rows: int
    draws: int
    points: tuple[UtilityPoint, ...]
    unsure_gain: float = float("nan")
    """Half the width of the 95 % interval of what the model without noise does better than the baseline, over rows."""
    also: tuple[Tradeoff, ...] = ()
    """The same by other measures, where the kind of model has some."""

    @property
    def gain(self) -> float | None:
        """What the model without noise does better than the baseline; None where rows are too few to tell it from nothing."""
        gain = self.without_noise - self.constant
        better = gain if self.metric.higher_is_better else -gain
        return gain if better > self.unsure_gain else None

    def is_useful(self, utility: float) -> bool:
        """Whether a utility is better than the baseline's."""
        return utility > self.constant if self.metric.higher_is_better else utility < self.constant

    def how_little(self, utility: float) -> str:
        """How much better than the baseline: "no", "hardly" where less than a tenth of the gain is left, else an empty text."""
        if not self.is_useful(utility):
            return "no"
        gain = self.without_noise - self.constant
        return "hardly" if gain and 0.0 < (utility - self.constant) / gain < LITTLE else ""

    def led_by(self, name: str) -> Tradeoff:
        """The same with the measure of this name first, and all others beside it."""
        every = (replace(self, also=()), *self.also)
        (first,) = (each for each in every if each.metric.name == name)
        return replace(first, also=tuple(each for each in every if each is not first))


@dataclass(frozen=True)
class Scored:
    """A model as noise acts on it, and the rows that it is scored on.

    Attributes
    ----------
    X : array of shape (m, d)
        Rows as the parameters multiply them.
    y : array of shape (m,) or (m, K)
        Labels as the metrics take them.
    theta : array of shape (p,)
        Parameters where the noise acts: all coefficients, output by output, then the intercepts, if there are any.
    outputs : int
        Rows of coefficients.
    noise : Noise
        Its scale is not used.
    metrics : tuple of Metric
        The model's own first.
    lead : Metric
        The one of them that leads.
    constant : number, or array of shape (K,)
        The predictor of the model that ignores the rows.
    held_out : bool
        Whether the model was not fitted on these rows.
    unit : float
        The scale of noise on the model's own coefficients that is 1 in units of ``theta``.
    beside : array of shape (m, q), optional
        What the parameters behind the intercept multiply: one where a cell is missing whose fill they are.
    """

    X: Vector = field(repr=False)
    y: Vector = field(repr=False)
    theta: Vector = field(repr=False)
    outputs: int
    noise: Noise
    metrics: tuple[Metric, ...]
    lead: Metric
    constant: Any
    held_out: bool
    unit: float = 1.0
    beside: Vector | None = field(default=None, repr=False)

    @property
    def intercept(self) -> bool:
        beside = 0 if self.beside is None else self.beside.shape[1]
        return bool(self.theta.size - beside > self.outputs * self.X.shape[1])


@dataclass(frozen=True)
class _Copies:
    """Linear predictors of rows without noise (m, 1), and their change by each copy's noise of scale 1 (m, copies).

    For several outputs (m, K, 1) and (m, K, copies).
    """

    scored: Scored
    plain: Vector
    moved: Vector

    @property
    def count(self) -> int:
        return int(self.moved.shape[-1])


def tradeoff(
    trained: Trained, scales: Vector | Sequence[float], draws: int, seed: int, metric: str | None = None
) -> Tradeoff:
    """Utility on held-out rows (training rows where there are none) at each scale of noise on the model's coefficients.

    The kind of noise is that of the trained model's leakage. ``metric`` is the measure that leads, by default that of
    ``leading_metric``.
    """
    found = utility_of(_scored(trained, seed, metric), scales, draws, seed)
    # rows of one class have no AUC
    own = trained.kind.metric.name
    return found if metric is not None or np.isfinite(found.without_noise) else found.led_by(own)


def utility_of(scored: Scored, scales: Vector | Sequence[float], draws: int, seed: int) -> Tradeoff:
    """Utility at each scale of noise on the model's coefficients."""
    copies, y = _copies(scored, draws, seed), scored.y
    every = track(scales, len(scales), "Adding noise")
    points = [_points(copies, float(scale), scored.metrics) for scale in every]
    baseline, parts = _constant(copies), _parts(int(y.shape[0]), seed)
    first, *more = (
        Tradeoff(
            metric=metric,
            without_noise=float(metric.of(copies.plain, y)[0]),
            constant=float(metric.of(baseline, y)[0]),
            held_out=scored.held_out,
            rows=int(y.shape[0]),
            draws=copies.count,
            points=tuple(each[k] for each in points),
            unsure_gain=_unsure_gain(metric, copies, baseline, parts),
        )
        for k, metric in enumerate(scored.metrics)
    )
    return replace(first, also=tuple(more)).led_by(scored.lead.name)


def utility_at(trained: Trained, scale: float, draws: int, seed: int, metric: str | None = None) -> float:
    """Mean utility of copies at one scale, by the measure that leads."""
    scored = _scored(trained, seed, metric)
    (point,) = _points(_copies(scored, draws, seed), scale, (scored.lead,))
    return point.utility


def led_metric(trained: Trained, asked: str | None) -> Metric:
    """The measure that leads for these training rows."""
    classes = len(trained.design.target.classes)
    rarest = float(np.min(_shares(trained))) * classes if classes else None
    return leading_metric(trained.kind.metrics, rarest, asked, trained.kind.words)


def _scored(trained: Trained, seed: int, metric: str | None) -> Scored:
    """The model of a table."""
    X, y, held_out = _rows(trained.design, seed)
    kind, theta, noise = trained.kind, np.asarray(trained.fit.theta), trained.leak.noise
    own = (trained.outputs, noise, kind.metrics, led_metric(trained, metric), _ignoring_rows(trained))
    return Scored(X, y, theta, *own, held_out, trained.unit)


def _shares(trained: Trained) -> Vector:
    """The share of each class in the training rows."""
    design = trained.design
    if not trained.kind.several:
        return np.array([1.0 - design.label_mean, design.label_mean])
    K = trained.outputs
    (counts,) = sum_rows(lambda y: (np.bincount(np.asarray(y, dtype=np.int64), minlength=K),), design.y)
    return np.asarray(counts / design.n)


def _ignoring_rows(trained: Trained) -> Any:
    """The predictor of the model that ignores the rows, or one for each class."""
    kind = trained.kind
    return kind.constant(_shares(trained) if kind.several else trained.design.label_mean)


def _parts(rows: int, seed: int) -> NDArray[np.int64]:
    """The part of each row, of at most ``PARTS`` that are alike in size."""
    return np.random.default_rng(seed).permutation(np.arange(rows) % PARTS)


def _unsure_gain(metric: Metric, copies: _Copies, baseline: Vector, parts: NDArray[np.int64]) -> float:
    """Half the width of the 95 % interval of the gain over the baseline, by leaving out one part of the rows after another.

    The delete-a-group jackknife: with g parts the variance is (g - 1) / g times the sum of squares of what the g gains differ
    from their mean, with g - 1 degrees of freedom. NaN where rows are too few, or a class is in one part only.
    """
    count = int(parts.max(initial=-1)) + 1
    if count < 2:
        return float("nan")
    y, gains = copies.scored.y, np.empty(count)
    for k in range(count):
        kept = parts != k
        with_model, without = (metric.of(z[kept], y[kept])[0] for z in (copies.plain, baseline))
        gains[k] = with_model - without
    spread = np.sqrt((count - 1) / count * np.sum((gains - gains.mean()) ** 2))
    return float(stdtrit(count - 1, 0.975) * spread)


def _constant(copies: _Copies) -> Vector:
    """Predictors of the model that ignores the rows, as ``plain`` has them."""
    constant, shape = np.asarray(copies.scored.constant, dtype=np.float64), copies.plain.shape
    return np.asarray(np.broadcast_to(constant[None, :, None] if constant.ndim else constant, shape))


def _copies(scored: Scored, draws: int, seed: int) -> _Copies:
    rows, size = scored.X.shape[0], scored.theta.size
    count = max(2, min(draws, MOST_PRODUCTS // max(1, rows * scored.outputs)))
    noise = unit_draws(scored.noise, size, count, seed)
    return _Copies(scored, _predictors(scored, scored.theta[:, None]), _predictors(scored, noise))


def _predictors(scored: Scored, theta: Vector) -> Vector:
    """Of parameters (p, copies)."""
    X, K = scored.X, scored.outputs
    size = K * X.shape[1]
    if K == 1:
        z = X @ theta[:size] + (theta[size] if scored.intercept else 0.0)
        return np.asarray(z if scored.beside is None else z + scored.beside @ theta[size + int(scored.intercept) :])
    coef = theta[:size].reshape(K, X.shape[1], -1)
    z = np.einsum("md,kdc->mkc", X, coef, optimize=True)
    return np.asarray(z + theta[None, size:, :] if scored.intercept else z)


def _rows(design: Design, seed: int) -> tuple[Vector, Vector, bool]:
    if design.y_test.size:
        return design.X_test, design.y_test, True
    X, y = gather([design.X, design.y], some_rows(design.n, MOST_ROWS, seed))
    return np.asarray(X), np.asarray(y), False


def _points(copies: _Copies, scale: float, metrics: Sequence[Metric]) -> list[UtilityPoint]:
    z = copies.plain + scale / copies.scored.unit * copies.moved
    found = []
    for metric in metrics:
        values = metric.of(z, copies.scored.y)
        low, high = np.quantile(values, [0.05, 0.95])
        unsure = stdtrit(values.size - 1, 0.975) * values.std(ddof=1) / np.sqrt(values.size)
        found.append(UtilityPoint(scale, float(values.mean()), float(low), float(high), float(unsure)))
    return found


# What a curve of noise and utility does not say by itself, in words

DRAWN = "That is within the error of the {draws} draws of noise: it is no gain."
HELPS = (
    "That is more than the error of the {draws} draws: noise shrinks what the model learned, and on these {rows} rows that "
    "happens to help. Do not count on it for others."
)


def _size(metric: str, value: float) -> str:
    """The size of a difference."""
    return f"{100 * value:.1f} points" if metric == "accuracy" else number(value)


def gain_in_words(cost: Tradeoff) -> list[str]:
    """That a gain is within its own error, so that no share of it is shown; nothing where it is not."""
    metric, gain = cost.metric.name, cost.without_noise - cost.constant
    if cost.gain is not None or not math.isfinite(gain):
        return []
    better = gain if cost.metric.higher_is_better else -gain
    if better <= 0:
        return ["Without noise the model is no better than the baseline: no share of its gain is shown."]
    error = f"± {_size(metric, cost.unsure_gain)}" if math.isfinite(cost.unsure_gain) else "unknown, of so few rows"
    return [
        f"The gain over the baseline in {CALLED.get(metric, metric)}, {_size(metric, better)}, is within its own error "
        f"({error}, from {number(cost.rows)} rows): no share of it is shown."
    ]


def rise_in_words(cost: Tradeoff) -> list[str]:
    """Why a utility is better somewhere with more noise than with less; nothing where none is, as they are written."""
    found = [(each.metric.name, *_largest_rise(each)) for each in (cost, *cost.also)]
    said = []
    for why, within in ((DRAWN, True), (HELPS, False)):
        told = [
            f"{CALLED.get(name, name)} by {_size(name, rise)} (± {_size(name, error)})"
            for name, rise, error in found
            if rise > 0 and (rise <= error) == within
        ]
        if told:
            reason = why.format(draws=number(cost.draws), rows=number(cost.rows))
            said.append(f"At some noise scales utility rises with more noise: {' and '.join(told)}. {reason}")
    return said


def _largest_rise(cost: Tradeoff) -> tuple[float, float]:
    """By how much utility is better with more noise than with less, at most and as it is written, and the error of that."""
    metric, sign = cost.metric.name, 1.0 if cost.metric.higher_is_better else -1.0
    least, most, error = (sign * cost.without_noise, 0.0), 0.0, 0.0
    for point in cost.points:
        rise = _as_written(metric, sign * point.utility) - _as_written(metric, least[0])
        if rise > most:
            most, error = rise, math.hypot(point.unsure, least[1])
        least = min(least, (sign * point.utility, point.unsure))
    return most, error


def _as_written(metric: str, value: float) -> float:
    """To the digits that are shown."""
    return round(value, 3) if metric == "accuracy" else float(f"{value:.2e}")
