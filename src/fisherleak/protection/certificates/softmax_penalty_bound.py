"""A bound for several classes by the penalty alone, where every parameter has one: no move of the model need be followed.

Mathematics: 6.6, ``docs/mathematics/any-record.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak.engine.fit.minimise import risk_of_fit
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.protection.certificates.bound_quantities import feature_map
from fisherleak.protection.certificates.exchanged_scales import ColumnRanges, ExchangedScales

__all__ = ["bound_by_the_penalty"]

Vector = NDArray[np.float64]
SHARES = 48
"""Intervals of the own class's share."""
MOST_VALUES = 2**21
"""Of rows that leave times columns, at a time."""
SAFE = 1.0 + 1e-9
"""For rounding of norms."""


@dataclass(frozen=True)
class _Held:
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

    def rows(self, some: slice) -> tuple[Vector, Vector, Vector]:
        return self.x[some], self.pushed[some], self.omega[some]


@dataclass(frozen=True)
class _Lengths:
    """At most, for each row that leaves, (n,): in the noise's view after the inverse penalty, and in the penalty's metric."""

    by_noise: Vector
    by_penalty: Vector


def bound_by_the_penalty(
    jacobian: Jacobian,
    scales: ExchangedScales,
    columns: ColumnRanges,
    attributes: Sequence[Attribute],
    label: bool,
) -> float:
    """The largest ||J|| over admissible rows and labels in place of any row, at noise of scale 1.

    Infinite where a parameter has no penalty, or where the scale of a column rests on one row.

    Parameters
    ----------
    jacobian : Jacobian
        Of classes whose shares add up to one.
    scales, columns
        What an exchanged row does to folded scales, and the admissible rows by columns.
    attributes, label
        The values that count.
    """
    penalty = np.asarray(host(risk_of_fit(jacobian.fit, jacobian.X, jacobian.y).penalty))
    if not float(penalty.min(initial=math.inf)) > 0 or jacobian.fit.centre is not None:
        return math.inf
    held = _held(jacobian, penalty[: jacobian.width], attributes, label)
    best, size = 0.0, max(1, MOST_VALUES // max(jacobian.width, 1))
    for start in range(0, len(scales.kept), size):
        some = slice(start, start + size)
        best = max(best, _largest(held, scales.rows(some), columns, *held.rows(some)))
    return best * SAFE if math.isfinite(best) else math.inf


def _held(jacobian: Jacobian, penalty: Vector, attributes: Sequence[Attribute], label: bool) -> _Held:
    fit, L = jacobian.fit, jacobian.outputs
    X, y = np.asarray(host(jacobian.X), dtype=np.float64), np.asarray(host(jacobian.y))
    omega = np.ones(len(y)) if fit.sample_weight is None else np.asarray(host(fit.sample_weight), dtype=np.float64)
    part = jacobian.model.scores(X, y, omega)
    x, r = np.asarray(host(part.x)), np.asarray(host(part.r))
    # D~ <= 1/2 I (x) Lambda^-1/2 sum omega x x^T Lambda^-1/2, as curvatures are at most 1/2 (section 6.6)
    inside = x * np.sqrt(omega)[:, None] / np.sqrt(penalty)
    frame = np.asarray(host(fit.frame))
    first, second = np.triu_indices(len(frame), 1)
    return _Held(
        penalty,
        _view(np.asarray(host(jacobian.metric)), L, penalty),
        0.5 * _norm(inside) ** 2 * SAFE,
        np.asarray(host(jacobian.slopes)),
        frame[first] - frame[second],
        feature_map(jacobian, attributes, jacobian.width),
        _norm(np.asarray(host(jacobian.by_label))) if label else 0.0,
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
    held: _Held, scales: ExchangedScales, columns: ColumnRanges, x: Vector, pushed: Vector, omega: Vector
) -> float:
    """Over the rows of a block as those that leave."""
    d = scales.kept.shape[1]
    penalty, u, W = held.penalty, held.u, held.W
    # the least Lambda for each row that leaves: penalties times ``kept``, q of section 6.3
    least = penalty * np.column_stack([scales.kept, np.ones((len(x), len(penalty) - d))])
    if not float(least.min()) > 0:
        return math.inf
    far = _farthest(held, scales, columns, least)
    looser = np.max(penalty / least, axis=1)
    lengths = np.linalg.norm(W[:, :d], axis=0)
    # the third formula of section 6.6: |Lambda^-1/2 (Lambda - Lambda_0) W|^2 is the sum of (f - 1)^2 / f Lambda_0
    # |W_j|^2 over columns, f their factors; then all three terms, with |r'| <= sqrt(2)
    shifted = np.sqrt(scales.changes(columns.low, columns.high) @ (penalty[:d] * lengths**2))
    moved = math.sqrt(2.0) * omega * far.by_penalty + pushed * np.linalg.norm(x / np.sqrt(least), axis=1) + shifted
    # k = 1 / (1 + ||D~||), and the two factors of the second formula of section 6.6
    k = 1.0 / (1.0 + looser * held.curved + 0.5 * omega * far.by_penalty**2)
    evenly, unevenly = 0.5 * (1.0 + k), 0.5 * (1.0 - k) * np.max(u / np.sqrt(least), axis=1)

    def seen(length: _Lengths) -> Vector:
        return np.asarray(evenly * length.by_noise + unevenly * length.by_penalty)

    # z for r (x) E: |Lambda^-1/2 E| and |u Lambda^-1 E|, at the least Lambda
    read = np.sqrt(looser) * _norm(held.E / np.sqrt(penalty)[:, None])
    direct = seen(_Lengths(looser * _norm((u / penalty)[:, None] * held.E), read))
    folded = _norm(held.E) * seen(_folded(held, scales, columns, lengths, moved, least))
    away, best = seen(far), 0.0
    for r, bent in _derivatives(held, moved * read):
        # |r| and ||A W E|| times their lengths, |a (x) x| = |a| |x|; the label's part stands beside them
        values = omega * (r * direct + bent * away) + folded
        best = max(best, float(np.max(np.hypot(values, omega * held.label * away))))
    return best


def _farthest(held: _Held, scales: ExchangedScales, columns: ColumnRanges, least: Vector) -> _Lengths:
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
    held: _Held, scales: ExchangedScales, columns: ColumnRanges, lengths: Vector, moved: Vector, least: Vector
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


def _derivatives(held: _Held, moved: Vector) -> list[tuple[float, Vector]]:
    """Bounds of |r| and of ||A W E||, (n,), that hold together, for every interval of the own class's share."""
    slope, whole = 0.0, 0.0
    if held.E.size:
        slope = float(np.linalg.norm(held.pairs @ held.W @ held.E, axis=1).max())
        whole = _norm(held.W @ held.E)
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


def _norm(matrix: Vector) -> float:
    return float(np.linalg.norm(matrix, 2)) if matrix.size else 0.0
