"""A certified bound on eta of any admissible row in place of any present one, for models of several classes (softmax).

Mathematics: 6.4, ``docs/mathematics/any-record.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.errors import InvalidInputError
from fisherleak.protection.certificates.bound_quantities import Points, feature_map
from fisherleak.protection.certificates.declared_bounds import Admissible
from fisherleak.protection.certificates.exchanged_scales import columns_of, exchanged_scales
from fisherleak.protection.certificates.softmax_path import Followed, followed, lengths_at
from fisherleak.protection.certificates.softmax_penalty_bound import bound_by_the_penalty

__all__ = ["SeveralBound", "bound_of_several"]

Vector = NDArray[np.float64]
MOST_PARAMETERS = 2000
"""Of which dense matrices are made."""
MOST_FOLLOWED = 300
"""Beyond which the bound by the rows, which takes minutes, is not looked at where that by the penalty holds."""


@dataclass(frozen=True)
class SeveralBound:
    """The bound at noise of scale 1, infinite where none holds; and by corner."""

    value: float
    points: Vector
    """(V,) the bound for each corner, over all labels."""


@dataclass(frozen=True)
class _At:
    """The fit in dense matrices: parameters are vec(V), V of shape (L, p)."""

    root: Vector
    """C^1/2, (L p, L p): |root v|^2 = v.C v."""
    V: Vector
    E: Vector
    directions: Vector
    """(K, L): rows of the frame; e_k - e_l is the difference of two."""


def bound_of_several(
    jacobian: Jacobian, admissible: Admissible, points: Points, attributes: Sequence[Attribute], label: bool
) -> SeveralBound:
    """The largest ||J|| over corners and labels: the less of the bound by the penalty and of that by the rows."""
    if int(jacobian.B.shape[1]) > MOST_PARAMETERS:
        raise InvalidInputError(
            f"over='admissible' has a bound for models of up to {MOST_PARAMETERS} parameters of several classes, and this one "
            f"has {int(jacobian.B.shape[1])}: use `over='max'`."
        )
    scales = exchanged_scales(jacobian)
    columns = columns_of(admissible, scales)
    capped = bound_by_the_penalty(jacobian, scales, columns, attributes, label)
    if math.isfinite(capped) and int(jacobian.B.shape[1]) > MOST_FOLLOWED:
        return SeveralBound(capped, _by_length(jacobian, points))
    found = followed(jacobian, points, scales, columns)
    if found is None:
        return SeveralBound(capped, _by_length(jacobian, points))
    best = _by_rows(jacobian, found, points, attributes, label)
    return SeveralBound(min(float(best.max()), capped), best)


def _by_length(jacobian: Jacobian, points: Points) -> Vector:
    """How long corners are, for a search to begin with; (V,)."""
    return np.asarray(np.linalg.norm(points.x, axis=1))


def _by_rows(
    jacobian: Jacobian, found: Followed, points: Points, attributes: Sequence[Attribute], label: bool
) -> Vector:
    """The bound by what the rows hold, (V,)."""
    at, M = _at(jacobian, found, attributes), np.asarray(host(jacobian.metric))
    # the formula of section 6.4: k is ``found.low``, ``middle`` is (1 + k) / 2, ``half`` is (1 - k) / 2 ||M C^1/2||;
    # ``seen`` are the parts of ||M C Z||, ``long`` those of ||C^1/2 Z||
    middle, half = 0.5 * (1.0 + found.low), 0.5 * (1.0 - found.low) * _norm(M @ found.root.T)
    omega = 1.0 if jacobian.fit.sample_weight is None else float(np.max(host(jacobian.fit.sample_weight)))
    seen = _Sizes.of(jacobian, at, M @ found.root.T @ found.root, points, label, found.move)
    long = _Sizes.of(jacobian, at, at.root, points, label, found.move)
    best = np.zeros(len(points.x))
    for y in range(len(at.directions)):
        value = omega * (middle * seen.largest(y) + half * long.largest(y))
        best = np.maximum(best, value + middle * seen.folded + half * long.folded)
    return best


@dataclass(frozen=True)
class _Sizes:
    """||T Z|| at most, for T either M C or C^1/2: its parts at every corner."""

    direct: Vector
    """(K, K): ||T ((e_k - e_l) (x) E)||."""
    bent: Vector
    """(V,) the largest |T ((e_k - e_l) (x) x)| |(e_k - e_l)^T W E|, moves of W counted."""
    label: Vector
    """(V,) ||T (D (x) x)||, zero where the label does not count."""
    folded: Vector
    """(V,) what folded scales add, with weights counted."""

    @classmethod
    def of(cls, jacobian: Jacobian, at: _At, T: Vector, points: Points, label: bool, move: float) -> _Sizes:
        K, (L, p) = len(at.directions), at.V.shape
        direct, bent = np.zeros((K, K)), np.zeros(len(points.x))
        blocks = T.reshape(T.shape[0], L, p)
        E = at.E
        for k, other in combinations(range(K), 2):
            d = at.directions[k] - at.directions[other]
            one = np.einsum("ilp,l->ip", blocks, d, optimize=True)
            direct[k, other] = direct[other, k] = _norm(one @ E)
            far = lengths_at(one, points)
            # (e_k - e_l)^T (W + dW) E: the move is at most its length in the metric times that of what reads it
            reads = _norm(at.root.reshape(-1, L, p).transpose(0, 2, 1) @ d @ E) if E.size else 0.0
            slope = float(np.linalg.norm(d @ at.V @ E)) + move * reads if E.size else 0.0
            bent = np.maximum(bent, far * slope)
        if label:
            by_label = np.asarray(host(jacobian.by_label))
            each = [lengths_at(np.einsum("ilp,l->ip", blocks, c, optimize=True), points) for c in by_label.T]
            written = np.sqrt(np.sum(np.square(each), axis=0))
        else:
            written = np.zeros(len(points.x))
        return cls(direct, bent, written, _folded(jacobian, at, T, points, move))

    def largest(self, y: int) -> Vector:
        """Over all scores of a row of class y, (V,)."""
        K = len(self.direct)
        # section 6.4, "The row's own derivatives": s is the share of the own class. The sum of p_k p_l over k < l is
        # (1 - sum p_k^2) / 2, largest for given s where the other classes share evenly
        first, c = float(np.max(self.direct[y])), 0.5 * self.bent
        # f(s) = (1 - s) first + c (1 - s^2 - (1 - s)^2 / (K - 1)) is concave on [0, 1]
        other = 1.0 / (K - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            # where f' = 0
            s = np.where(c > 0, (2.0 * c * other - first) / (2.0 * c * (1.0 + other)), 0.0)
        s = np.clip(s, 0.0, 1.0)
        features = (1.0 - s) * first + c * (1.0 - s**2 - (1.0 - s) ** 2 * other)
        return np.asarray(np.hypot(features, self.label))


def _folded(jacobian: Jacobian, at: _At, T: Vector, points: Points, move: float) -> Vector:
    """What a change of a feature does through its folded scale: m_a (W e_a) (x) e_a for every feature a."""
    folding, (L, p) = jacobian.folding, at.V.shape
    if folding is None:
        return np.zeros(len(points.x))
    if folding.totals is None or np.any(np.asarray(host(folding.shares))):
        raise InvalidInputError(
            "over='admissible' knows standard deviations as folded scales only: order statistics jump when a row is replaced. "
            "Use StandardScaler, or over='max'."
        )
    fit = jacobian.fit
    slopes, means = np.asarray(host(folding.slopes)), np.asarray(host(folding.means))
    d = slopes.size
    weights = None if fit.sample_weight is None else np.asarray(host(fit.sample_weight))
    heavy = 1.0 if weights is None or not folding.weighted else float(weights.max())
    total = float(np.max(np.asarray(host(folding.totals)), initial=1.0))
    centre = 0.0 if fit.centre is None else np.asarray(host(fit.centre))
    spans = np.where(slopes > 0, points.spans, 0.0)
    far = np.abs(points.x[:, :d] - (means - centre)) + spans * (
        heavy / total + 0.5 * bool(points.rest or points.radius)
    )
    m = heavy * slopes * far
    blocks = T.reshape(T.shape[0], L, p)
    # |T ((W e_a) (x) e_a)|, and what a move of W adds to it
    held = np.linalg.norm(np.einsum("ild,ld->id", blocks[:, :, :d], at.V[:, :d]), axis=0)
    by_move = np.array([_norm(blocks[:, :, a]) * _norm(at.root.reshape(-1, L, p)[:, :, a]) for a in range(d)])
    reads = _norm(at.E[:d][slopes > 0])
    return np.asarray(reads * np.sqrt(np.sum((m * (held + move * by_move)) ** 2, axis=1)))


def _at(jacobian: Jacobian, found: Followed, attributes: Sequence[Attribute]) -> _At:
    V = np.asarray(host(jacobian.slopes))
    E = feature_map(jacobian, attributes, V.shape[1])
    return _At(found.root, V, E, np.asarray(host(jacobian.fit.frame)))


def _norm(matrix: Vector) -> float:
    return float(np.linalg.norm(matrix, 2)) if matrix.size else 0.0
