"""A bound for several classes by the penalty alone, where every parameter has one: no move of the model need be followed.

Mathematics: 6.6, ``docs/mathematics/any-record.md``.

Also here: scales that are folded into the penalty, with one row exchanged for another record: exactly, column by
column.

Mathematics: 6.3, ``docs/mathematics/any-record.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Vector
from fisherleak.engine.fit.minimise import risk_of_fit
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.magnitudes import spectral_norm
from fisherleak.protection.certificates.declared_bounds import AllowedRecords, check_deviations

if TYPE_CHECKING:
    from fisherleak.protection.certificates.exchange import Exchange

ROUNDING = 1e-12
"""Of a variance."""


@dataclass(frozen=True)
class ExchangedScales:
    """Factors of the penalty, (n, d) each: kept + bend (x - mean)^2, for a value x in place of that of row i."""

    kept: Vector
    bend: Vector
    mean: Vector

    def rows(self, some: slice) -> ExchangedScales:
        return ExchangedScales(self.kept[some], self.bend[some], self.mean[some])

    def factor(self, x: Vector) -> Vector:
        return self.kept + self.bend * (x - self.mean) ** 2

    def largest(self, low: Vector, high: Vector) -> Vector:
        """The largest factor of each column for any row, (d,)."""
        return np.asarray(np.maximum(self.factor(low), self.factor(high)).max(axis=0, initial=1.0))

    def longest(self, low: Vector, high: Vector) -> tuple[Vector, Vector]:
        """The largest x^2 over the factor, and over its square, for x from low to high; (n, d) each."""
        with np.errstate(divide="ignore", invalid="ignore"):
            steep = self.kept / self.bend
            turned = np.sqrt(self.mean**2 + steep)
            # x - m_i where the derivative of x^2 / f is zero, and of (x / f)^2: q = c m_i (x - m_i), and the quadratic
            # equation of section 6.3, c (x - m_i)^2 + 2 c m_i (x - m_i) = q
            once, twice = [steep / self.mean], [-self.mean - turned, turned - self.mean]
        first = [x**2 / self.factor(x) for x in self._tried(low, high, once)]
        second = [(x / self.factor(x)) ** 2 for x in self._tried(low, high, twice)]
        return np.max(first, axis=0), np.max(second, axis=0)

    def changes(self, low: Vector, high: Vector) -> Vector:
        """The largest (f - 1)^2 / f of a factor f, (n, d): convex in f, so that its least and its largest decide."""
        factors = [self.kept, self.factor(low), self.factor(high)]
        return np.asarray(np.max([(f - 1.0) ** 2 / f for f in factors], axis=0))

    def pushes(self, low: Vector, high: Vector) -> tuple[Vector, Vector]:
        """The factor's largest slope, over its root and over the factor itself, (n, d) each."""
        with np.errstate(divide="ignore", invalid="ignore"):
            steep = np.sqrt(self.kept / self.bend)
        # f' = 2 c (x - m_i): over the root of f it grows with |x - m_i|, over f it is largest where
        # |x - m_i| = sqrt(q / c)
        first = [np.abs(x - self.mean) / np.sqrt(self.factor(x)) for x in self._tried(low, high, [])]
        second = [np.abs(x - self.mean) / self.factor(x) for x in self._tried(low, high, [-steep, steep])]
        return 2.0 * self.bend * np.max(first, axis=0), 2.0 * self.bend * np.max(second, axis=0)

    def _tried(self, low: Vector, high: Vector, turns: list[Vector]) -> list[Vector]:
        """Both ends, and where a derivative is zero, less the mean, brought between them."""
        inside = [np.where(np.isfinite(turn), np.clip(self.mean + turn, low, high), low) for turn in turns]
        return [np.broadcast_to(low, self.mean.shape), np.broadcast_to(high, self.mean.shape), *inside]


@dataclass(frozen=True)
class ScalesOfSeveralRows(ExchangedScales):
    """The same for several rows that are exchanged at once, whichever they are: (1, d) each, and bounds (section 6.11).

    ``kept`` is the least factor. ``bend`` is what one value bends it by, and ``count`` values come.
    """

    count: int = 1

    def rows(self, some: slice) -> ExchangedScales:
        return self

    def largest(self, low: Vector, high: Vector) -> Vector:
        # v' - v is at most the sum of the parts of all rows that come, times span^2
        return np.asarray((1.0 + self.count * self.bend * (high - low) ** 2)[0])

    def longest(self, low: Vector, high: Vector) -> tuple[Vector, Vector]:
        far = np.maximum(low**2, high**2)
        with np.errstate(divide="ignore"):
            return far / self.kept, far / self.kept**2

    def changes(self, low: Vector, high: Vector) -> Vector:
        factors = [self.kept, self.largest(low, high)[None, :]]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.max([(f - 1.0) ** 2 / f for f in factors], axis=0))

    def pushes(self, low: Vector, high: Vector) -> tuple[Vector, Vector]:
        # |f'| <= 2 c |x - m'|, and |x - m'| is at most the span
        slope = 2.0 * self.bend * (high - low)
        with np.errstate(divide="ignore"):
            return slope / np.sqrt(self.kept), slope / self.kept


def exchanged_scales(jacobian: Jacobian, count: int = 1) -> ExchangedScales:
    """For every row of the table as the one that leaves; for any ``count`` of them at once."""
    folding, fit = jacobian.folding, jacobian.fit
    X = np.asarray(host(jacobian.X), dtype=np.float64)
    n, d = X.shape
    weights = None if fit.sample_weight is None else np.asarray(host(fit.sample_weight), dtype=np.float64)
    if folding is None or fit.l2 == 0:
        one, nothing = (np.full((n if count == 1 else 1, d), value) for value in (1.0, 0.0))
        return (
            ExchangedScales(one, nothing, nothing) if count == 1 else ScalesOfSeveralRows(one, nothing, nothing, count)
        )
    check_deviations(folding, totals=True)
    omega = weights if folding.weighted and weights is not None else np.ones(n)
    part = (omega / omega.sum())[:, None]
    learned = np.asarray(host(folding.slopes)) != 0
    # section 6.3: rho is ``part``, delta is ``away``, m is ``mean`` and v is ``variance``
    mean = part.T @ X
    away = X - mean
    variance = np.where(learned, part.T @ away**2, 1.0)
    if count > 1:
        # section 6.11: n v' >= sum of (x - m)^2 over those who stay, about their own mean
        heavy = float(part.max())
        gone = np.sort(part * away**2, axis=0)[-count:].sum(axis=0) / (variance * (1.0 - count * heavy))
        least = np.maximum(1.0 - gone - ROUNDING, 0.0) if count * heavy < 1 else np.zeros((1, d))
        bend = np.where(learned, heavy / variance, 0.0)
        return ScalesOfSeveralRows(np.where(learned, least, 1.0).reshape(1, d), bend.reshape(1, d), mean, count)
    # q, then c and m_i, of v' / v = q + c (x - m_i)^2
    kept = 1.0 - part * away**2 / ((1.0 - part) * variance) - ROUNDING
    return ExchangedScales(
        np.where(learned, np.maximum(kept, 0.0), 1.0),
        np.where(learned, part * (1.0 - part) / variance, 0.0),
        mean - part * away / (1.0 - part),
    )


@dataclass(frozen=True)
class ColumnRanges:
    """The records within the bounds by columns, in the features' own units."""

    low: Vector
    high: Vector
    """(d,) each: ends of every feature."""
    joint: tuple[tuple[NDArray[np.int64], Vector], ...]
    """Features of fixed scales that take one of some choices together, and these, (k, features)."""
    alone: NDArray[np.bool_]
    """(d,) whether a feature is in none of these."""
    radius: float | None

    def total(self, values: Vector, weight: Vector) -> Vector:
        """The largest sum over features of weights (d,) times ``values`` (n, d), which are largest squares; (n,)."""
        found = values[:, self.alone] @ weight[self.alone]
        for places, choices in self.joint:
            found = found + float(np.max(choices**2 @ weight[places]))
        return np.asarray(found)


def columns_of(allowed: AllowedRecords, scales: ExchangedScales) -> ColumnRanges:
    """Every column's range; levels of a category, whose features no other column has, stay together."""
    d = allowed.base.shape[0]
    radius = allowed.radius
    if radius is not None:
        return ColumnRanges(np.full(d, -radius), np.full(d, radius), (), np.ones(d, dtype=bool), radius)
    fixed = ~(scales.bend > 0).any(axis=0)
    parts = allowed.parts
    touched = np.array([(part != 0).any(axis=0) for part in parts]).reshape(len(parts), d)
    own, alone, joint = touched.sum(axis=0) <= 1, np.ones(d, dtype=bool), []
    for part, places in zip(parts, touched, strict=True):
        if np.all((own & fixed)[places]) and places.any():
            where = np.flatnonzero(places)
            joint.append((where, (allowed.base + part)[:, where]))
            alone[where] = False
    low = allowed.base + sum((part.min(axis=0) for part in parts), np.zeros(d))
    high = allowed.base + sum((part.max(axis=0) for part in parts), np.zeros(d))
    return ColumnRanges(low, high, tuple(joint), alone, None)


SHARES = 48
"""Intervals of the own class's share."""
MOST_VALUES = 2**21
"""Of rows that leave times columns, at a time."""
SAFE = 1.0 + 1e-9
"""For rounding of norms."""


@dataclass(frozen=True)
class _FixedTerms:
    """All that no exchanged row changes."""

    penalty: Vector
    """(p,): of one output."""
    u: Vector
    """(p,): |M v| <= |u v| for moves of the parameters."""
    curved: float
    """||D~|| at the present scales, of the rows that are there."""
    W: Vector
    """(L, p)"""
    pairs: Vector
    """(pairs, L): e_k - e_l."""
    E: Vector
    """(p, m)"""
    label: float
    """||C||, zero where the label does not count."""
    pushed: Vector
    """(n,): omega |r| of every row."""
    x: Vector
    """(n, p)"""
    omega: Vector


@dataclass(frozen=True)
class _Lengths:
    """At most, for each row that leaves, (n,): in the noise's view after the inverse penalty, and in the penalty's metric."""

    by_noise: Vector
    by_penalty: Vector


def bound_by_the_penalty(exchange: Exchange, scales: ExchangedScales, columns: ColumnRanges) -> float:
    """The largest ||J|| over records within the bounds and labels in place of any row, at noise of scale 1.

    Infinite where a parameter has no penalty, or where the scale of a column rests on one row. Of several rows that are
    exchanged at once, for one of them.

    Parameters
    ----------
    exchange : Exchange
        Of classes whose shares add up to one.
    scales, columns
        What an exchanged row does to folded scales, and the records within the bounds by columns.
    """
    jacobian = exchange.jacobian
    penalty = np.asarray(host(risk_of_fit(jacobian.fit, jacobian.X, jacobian.y).penalty))
    if not float(penalty.min(initial=math.inf)) > 0 or jacobian.fit.centre is not None:
        return math.inf
    held = _fixed_terms(exchange, penalty[: jacobian.width])
    if exchange.count > 1:
        return _of_several_rows(held, scales, columns, exchange.count)
    best, size = 0.0, max(1, MOST_VALUES // max(jacobian.width, 1))
    for start in range(0, len(scales.kept), size):
        some = slice(start, start + size)
        x, pushed, omega = held.x[some], held.pushed[some], held.omega[some]
        least = _least(held, scales.rows(some))
        with np.errstate(divide="ignore", invalid="ignore"):
            leaving = pushed * np.linalg.norm(x / np.sqrt(least), axis=1)
        best = max(best, _largest(held, scales.rows(some), columns, least, leaving, omega))
    return best * SAFE if math.isfinite(best) else math.inf


def _of_several_rows(held: _FixedTerms, scales: ExchangedScales, columns: ColumnRanges, count: int) -> float:
    """The same where any ``count`` rows are exchanged at once: section 6.11."""
    least = _least(held, scales)
    if not float(least.min()) > 0:
        return math.inf
    leaving = np.sort(held.pushed * np.linalg.norm(held.x / np.sqrt(least), axis=1))[-count:].sum(keepdims=True)
    best = _largest(held, scales, columns, least, leaving, held.omega.max(keepdims=True), count)
    return best * SAFE if math.isfinite(best) else math.inf


def _least(held: _FixedTerms, scales: ExchangedScales) -> Vector:
    """The least Lambda for each row that leaves: penalties times ``kept``, q of section 6.3."""
    d = scales.kept.shape[1]
    free = np.ones((len(scales.kept), len(held.penalty) - d))
    return np.asarray(held.penalty * np.column_stack([scales.kept, free]))


def _fixed_terms(exchange: Exchange, penalty: Vector) -> _FixedTerms:
    jacobian = exchange.jacobian
    fit, L = jacobian.fit, jacobian.outputs
    X, y = np.asarray(host(jacobian.X), dtype=np.float64), np.asarray(host(jacobian.y))
    omega = np.ones(len(y)) if fit.sample_weight is None else np.asarray(host(fit.sample_weight), dtype=np.float64)
    part = jacobian.model.scores(X, y, omega)
    x, r = np.asarray(host(part.x)), np.asarray(host(part.r))
    # D~ <= 1/2 I (x) Lambda^-1/2 sum omega x x^T Lambda^-1/2, as curvatures are at most 1/2 (section 6.6)
    inside = x * np.sqrt(omega)[:, None] / np.sqrt(penalty)
    frame = np.asarray(host(fit.frame))
    first, second = np.triu_indices(len(frame), 1)
    return _FixedTerms(
        penalty,
        _view(np.asarray(host(jacobian.metric)), L, penalty),
        0.5 * spectral_norm(inside) ** 2 * SAFE,
        np.asarray(host(jacobian.slopes)),
        frame[first] - frame[second],
        exchange.directions,
        spectral_norm(np.asarray(host(jacobian.by_label))) if exchange.label else 0.0,
        np.linalg.norm(r, axis=1),
        x,
        omega,
    )


def _view(M: Vector, outputs: int, penalty: Vector) -> Vector:
    """U with M^T M at most I (x) diag(u^2), (p,): exactly where M is diagonal."""
    square = M.T @ M
    u = np.sqrt(np.diag(square).reshape(outputs, -1).max(axis=0))
    u = np.maximum(u, 1e-6 * float(np.max(u / np.sqrt(penalty))) * np.sqrt(penalty) + 1e-300)
    each = np.tile(u, outputs)
    return np.asarray(u * math.sqrt(float(np.linalg.eigvalsh(square / each[:, None] / each[None, :])[-1])) * SAFE)


def _largest(
    held: _FixedTerms,
    scales: ExchangedScales,
    columns: ColumnRanges,
    least: Vector,
    leaving: Vector,
    omega: Vector,
    count: int = 1,
) -> float:
    """Over the rows of a block as those that leave; ``leaving`` is |Lambda^-1/2 (r_i (x) x_i)|, their sum for several."""
    d = scales.kept.shape[1]
    penalty, u, W = held.penalty, held.u, held.W
    if not float(least.min()) > 0:
        return math.inf
    far = _farthest(held, scales, columns, least)
    looser = np.max(penalty / least, axis=1)
    lengths = np.linalg.norm(W[:, :d], axis=0)
    # the third formula of section 6.6: |Lambda^-1/2 (Lambda - Lambda_0) W|^2 is the sum of (f - 1)^2 / f Lambda_0
    # |W_j|^2 over columns, f their factors; then all three terms, with |r'| <= sqrt(2)
    shifted = np.sqrt(scales.changes(columns.low, columns.high) @ (penalty[:d] * lengths**2))
    moved = math.sqrt(2.0) * count * omega * far.by_penalty + leaving + shifted
    # k = 1 / (1 + ||D~||), and the two factors of the second formula of section 6.6
    k = 1.0 / (1.0 + looser * held.curved + 0.5 * count * omega * far.by_penalty**2)
    evenly, unevenly = 0.5 * (1.0 + k), 0.5 * (1.0 - k) * np.max(u / np.sqrt(least), axis=1)

    def seen(length: _Lengths) -> Vector:
        return np.asarray(evenly * length.by_noise + unevenly * length.by_penalty)

    # z for r (x) E: |Lambda^-1/2 E| and |u Lambda^-1 E|, at the least Lambda
    read = np.sqrt(looser) * spectral_norm(held.E / np.sqrt(penalty)[:, None])
    direct = seen(_Lengths(looser * spectral_norm((u / penalty)[:, None] * held.E), read))
    folded = spectral_norm(held.E) * seen(_folded(held, scales, columns, lengths, moved, least))
    away, best = seen(far), 0.0
    for r, bent in _derivatives(held, moved * read):
        # |r| and ||A W E|| times their lengths, |a (x) x| = |a| |x|; the label's part stands beside them
        values = omega * (r * direct + bent * away) + folded
        best = max(best, float(np.max(np.hypot(values, omega * held.label * away))))
    return best


def _farthest(held: _FixedTerms, scales: ExchangedScales, columns: ColumnRanges, least: Vector) -> _Lengths:
    """Of x, with its 1."""
    d = scales.kept.shape[1]
    penalty, u = held.penalty[:d], held.u[:d]
    levels = held.penalty[d:]
    constant = (float(np.sum((held.u[d:] / levels) ** 2)), float(np.sum(1.0 / levels)))
    if columns.radius is not None:
        by_noise = columns.radius * np.max(u / least[:, :d], axis=1, initial=0.0)
        by_penalty = columns.radius * np.max(least[:, :d] ** -0.5, axis=1, initial=0.0)
        return _Lengths(np.sqrt(by_noise**2 + constant[0]), np.sqrt(by_penalty**2 + constant[1]))
    # ``twice`` is the largest x^2 / f^2, for |u Lambda^-1 x|^2; ``once`` the largest x^2 / f, for |Lambda^-1/2 x|^2
    once, twice = scales.longest(columns.low, columns.high)
    by_noise = columns.total(twice, (u / penalty) ** 2)
    by_penalty = columns.total(once, 1.0 / penalty)
    return _Lengths(np.sqrt(by_noise + constant[0]), np.sqrt(by_penalty + constant[1]))


def _folded(
    held: _FixedTerms, scales: ExchangedScales, columns: ColumnRanges, lengths: Vector, moved: Vector, least: Vector
) -> _Lengths:
    """Of diag(m) W e_j for the worst column j: m is the penalty's derivative by the value."""
    d = scales.kept.shape[1]
    penalty, u = held.penalty[:d], held.u[:d]
    # |W e_j| at most: in the metric of Lambda, W moves by at most ``moved``
    coefficients = lengths + moved[:, None] / np.sqrt(least[:, :d])
    once, twice = scales.pushes(columns.low, columns.high)
    # m = Lambda_0 f', so that u Lambda^-1 m = u f' / f and Lambda^-1/2 m = Lambda_0^1/2 f' / f^1/2
    by_noise = np.max(u * twice * coefficients, axis=1, initial=0.0)
    return _Lengths(by_noise, np.max(np.sqrt(penalty) * once * coefficients, axis=1, initial=0.0))


def _derivatives(held: _FixedTerms, moved: Vector) -> list[tuple[float, Vector]]:
    """Bounds of |r| and of ||A W E||, (n,), that hold together, for every interval of the own class's share."""
    slope, whole = 0.0, 0.0
    if held.E.size:
        slope = float(np.linalg.norm(held.pairs @ held.W @ held.E, axis=1).max())
        whole = spectral_norm(held.W @ held.E)
    K = 0.5 * (1.0 + math.sqrt(1.0 + 8.0 * len(held.pairs)))
    ends, other = np.linspace(0.0, 1.0, SHARES + 1), 1.0 / (K - 1.0)
    top = other / (1.0 + other)  # where 1 - s^2 - (1 - s)^2 / (K - 1) is largest
    found = []
    for low, high in pairwise(ends.tolist()):
        s = min(max(top, low), high)
        # ||A W E|| <= sum over k < l of p_k p_l |e_k - e_l| |(e_k - e_l)^T W E|, and at most
        # ||A|| ||W E|| <= ||W E|| / 2
        products = 0.5 * (1.0 - s**2 - (1.0 - s) ** 2 * other)
        bent = np.minimum(products * math.sqrt(2.0) * (slope + math.sqrt(2.0) * moved), 0.5 * (whole + moved))
        found.append((math.sqrt(2.0) * (1.0 - low), bent))
    return found
