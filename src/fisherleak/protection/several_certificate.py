r"""A certified bound on eta of any admissible row in place of any present one, for models of several classes (softmax).

Row i leaves and (x, y) takes its place. With :math:`B = H^{-1}` at the fit, M the noise's view of the parameters, and
:math:`B_-` the inverse Hessian at the new minimum,

.. math::

    J = -\omega M B_- Z, \qquad Z = [\,r \otimes E + (A W E) \otimes x + \mathrm{diag}(m)\,W E,\; -C \otimes x\,], \qquad
    k_{low} B \preceq B_- \preceq k_{high} B

    \|J\| \le \omega \Big( \frac{k_{high} + k_{low}}{2} \|M B Z\|
        + \frac{k_{high} - k_{low}}{2} \|M B^{1/2}\| \|B^{1/2} Z\| \Big) .

*Curvature*: that of a row, :math:`A = \mathrm{diag}(p) - p p^T`, changes by factors of at most :math:`e^{\pm \rho}` where the
scores move by :math:`\Delta z` of range :math:`\rho \le \sqrt 2 |\Delta z|`, as its third derivative is a third moment. So
moves of the parameters and k are those of ``drift``, with rows :math:`A_j^{1/2} \otimes x_j` and their largest lengths. *The
row's own derivatives*: whatever its scores are, r is p less its class, so that r (x) E is a mean of the finitely many
:math:`(e_k - e_y) \otimes E` and :math:`A = \sum_{k<l} p_k p_l (e_k - e_l)(e_k - e_l)^T` one of finitely many rank-one terms:
with s the share of the own class the first part is at most 1 - s of its largest, the second
:math:`(1 - s^2 - (1-s)^2 / (K-1)) / 2` of its, and the largest over s is a parabola's. The rest is convex in x, so that corners
of the box suffice; the move of W is added by its length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak.engine.outputs.several_jacobian import OutputsJacobian
from fisherleak.engine.perturbation import Attribute
from fisherleak.errors import InvalidInputError
from fisherleak.protection.drift import FLATTEST, LENGTHS, Drift
from fisherleak.protection.quantities import Points, feature_map

__all__ = ["SeveralBound", "bound_of_several"]

Vector = NDArray[np.float64]
STEEPEST = math.sqrt(2.0)
"""The largest range of scores by their length."""
MOST_PARAMETERS = 2000
"""Of which dense matrices are made."""


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
    """B^1/2, (L p, L p): |root v|^2 = v.B v."""
    seen: Vector
    """M B."""
    V: Vector
    E: Vector
    directions: Vector
    """(K, L): rows of the frame; e_k - e_l is the difference of two."""

    @property
    def outputs(self) -> int:
        return int(self.V.shape[0])

    def kron(self, matrix: Vector, direction: Vector, features: Vector) -> Vector:
        """Matrix (direction (x) x) for points (V, p), as rows (V, rows of the matrix)."""
        L, p = self.V.shape
        by_output = matrix.reshape(matrix.shape[0], L, p)
        return np.asarray(features @ np.einsum("ilp,l->pi", by_output, direction, optimize=True))


@dataclass(frozen=True)
class _Moves:
    """How far an exchange goes: |move of vec(V)| in the metric of H, and the spectrum of the inverse Hessian beside B."""

    move: float
    low: float
    high: float


def bound_of_several(
    jacobian: OutputsJacobian, points: Points, attributes: Sequence[Attribute], label: bool
) -> SeveralBound:
    """The largest ||J|| over corners and labels."""
    if int(jacobian.B.shape[1]) > MOST_PARAMETERS:
        raise InvalidInputError(
            f"over='admissible' has a bound for models of up to {MOST_PARAMETERS} parameters of several classes, and this one "
            f"has {int(jacobian.B.shape[1])}: use `over='max'`."
        )
    at = _at(jacobian, attributes)
    omega, moves = _moves(jacobian, at, points)
    if not math.isfinite(moves.high):
        none = np.full(len(points.x), math.inf)
        return SeveralBound(math.inf, none)
    middle, half = 0.5 * (moves.high + moves.low), 0.5 * (moves.high - moves.low)
    whole = _norm(at.seen @ np.linalg.inv(at.root))
    best = np.zeros(len(points.x))
    seen = _Sizes.of(jacobian, at, at.seen, points, label, moves.move)
    long = _Sizes.of(jacobian, at, at.root, points, label, moves.move)
    for y in range(len(at.directions)):
        found = omega * (middle * seen.largest(y) + half * whole * long.largest(y)) + (
            middle * seen.folded + half * whole * long.folded
        )
        best = np.maximum(best, found)
    return SeveralBound(float(best.max()), best)


@dataclass(frozen=True)
class _Sizes:
    """||T Z|| at most, for T either M B or B^1/2: its parts at every corner."""

    direct: Vector
    """(K, K): ||T ((e_k - e_l) (x) E)||."""
    bent: Vector
    """(V,) the largest |T ((e_k - e_l) (x) x)| |(e_k - e_l)^T W E|, moves of W counted."""
    label: Vector
    """(V,) ||T (C (x) x)||, zero where the label does not count."""
    folded: Vector
    """(V,) what folded scales add, with weights counted."""

    @classmethod
    def of(cls, jacobian: OutputsJacobian, at: _At, T: Vector, points: Points, label: bool, move: float) -> _Sizes:
        K, (L, p) = len(at.directions), at.V.shape
        direct, bent = np.zeros((K, K)), np.zeros(len(points.x))
        blocks = T.reshape(T.shape[0], L, p)
        E = at.E
        for k, other in combinations(range(K), 2):
            d = at.directions[k] - at.directions[other]
            one = np.einsum("ilp,l->ip", blocks, d, optimize=True)
            direct[k, other] = direct[other, k] = _norm(one @ E)
            far = np.linalg.norm(points.x @ one.T, axis=1) + points.reach(one)
            # (e_k - e_l)^T (W + dW) E: the move is at most its length in the metric times that of what reads it
            reads = _norm(at.root.reshape(-1, L, p).transpose(0, 2, 1) @ d @ E) if E.size else 0.0
            slope = float(np.linalg.norm(d @ at.V @ E)) + move * reads if E.size else 0.0
            bent = np.maximum(bent, far * slope)
        if label:
            by_label = np.asarray(host(jacobian.by_label))
            each = [at.kron(T, column, points.x) for column in by_label.T]
            lengths = np.sqrt(sum(np.sum(part**2, axis=1) for part in each))
            reach = math.sqrt(
                sum(points.reach(np.einsum("ilp,l->ip", blocks, c, optimize=True)) ** 2 for c in by_label.T)
            )
            written = lengths + reach
        else:
            written = np.zeros(len(points.x))
        return cls(direct, bent, written, _folded(jacobian, at, T, points, move))

    def largest(self, y: int) -> Vector:
        """Over all scores of a row of class y, (V,)."""
        K = len(self.direct)
        first, c = float(np.max(self.direct[y])), 0.5 * self.bent
        # f(s) = (1 - s) first + c (1 - s^2 - (1 - s)^2 / (K - 1)) is concave on [0, 1]
        other = 1.0 / (K - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            s = np.where(c > 0, (2.0 * c * other - first) / (2.0 * c * (1.0 + other)), 0.0)
        s = np.clip(s, 0.0, 1.0)
        features = (1.0 - s) * first + c * (1.0 - s**2 - (1.0 - s) ** 2 * other)
        return np.asarray(np.hypot(features, self.label))


def _folded(jacobian: OutputsJacobian, at: _At, T: Vector, points: Points, move: float) -> Vector:
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
    held = np.linalg.norm(np.einsum("ild,ld->id", blocks[:, :, :d], at.V[:, :d]), axis=0)
    by_move = np.array([_norm(blocks[:, :, a]) * _norm(at.root.reshape(-1, L, p)[:, :, a]) for a in range(d)])
    reads = _norm(at.E[:d][slopes > 0])
    return np.asarray(reads * np.sqrt(np.sum((m * (held + move * by_move)) ** 2, axis=1)))


def _at(jacobian: OutputsJacobian, attributes: Sequence[Attribute]) -> _At:
    fit = jacobian.fit
    scale, core = np.asarray(host(fit.factor.scale)), np.asarray(host(fit.factor.core))
    root = np.linalg.cholesky(core).T * scale[None, :]
    V = np.asarray(host(jacobian.slopes))
    E = feature_map(jacobian, attributes, V.shape[1])
    return _At(root, np.asarray(host(jacobian.B)), V, E, np.asarray(host(fit.frame)))


def _moves(jacobian: OutputsJacobian, at: _At, points: Points) -> tuple[float, _Moves]:
    """The largest weight, and how far any exchange goes."""
    fit, (L, p) = jacobian.fit, at.V.shape
    X, y = np.asarray(host(jacobian.X), dtype=np.float64), np.asarray(host(jacobian.y))
    weights = None if fit.sample_weight is None else np.asarray(host(fit.sample_weight))
    counted = np.ones(len(y), dtype=bool) if weights is None else weights > 0
    own = None if weights is None else weights[counted]
    part = jacobian.scores()(X[counted], y[counted], own)
    x, r, A, omega = (np.asarray(host(each)) for each in (part.x, part.r, part.A, part.omega))
    blocks = at.root.reshape(-1, L, p)
    U = np.einsum("np,ilp->nil", x, blocks, optimize=True)  # B^1/2 (I (x) x_j), (n, L p, L)
    values, turns = np.linalg.eigh(A)
    halves = turns * np.sqrt(np.clip(values, 0.0, None))[:, None, :]
    G = U @ halves  # (n, L p, L): sum over rows of G G^T is the curvature of the rows in the metric of B
    leverage = float(np.max(np.linalg.norm(G, 2, axis=(1, 2)) ** 2, initial=0.0))
    lengths = np.linalg.norm(U, 2, axis=(1, 2))
    pushes = np.linalg.norm(np.einsum("nil,nl->ni", U, r), axis=1)
    heavy = float(omega.max())
    stretch, pull = _stretched(jacobian, at, points)
    if not leverage < 1.0 - 1e-9 or not math.isfinite(stretch):
        return heavy, _Moves(math.inf, 0.0, math.inf)
    left = math.exp(stretch) / (1.0 - leverage)
    # the gradient of the new row is a mean of finitely many, whatever its scores are
    newcomer = heavy * max(_widest(at, points, pair) for pair in _pairs(at))
    gradient = math.sqrt(left) * (float(pushes.max()) + newcomer + pull)
    drift = _drift(G, STEEPEST * lengths * math.sqrt(left), left)
    moved = drift.moved(gradient)
    if not math.isfinite(moved):
        return heavy, _Moves(math.inf, 0.0, math.inf)
    tau = drift.log_factor(moved)
    gain = heavy * 0.5 * _largest_length(at, points) ** 2
    high = math.exp(tau) * left
    low = 1.0 / (math.exp(tau + stretch) + gain)
    return heavy, _Moves(math.sqrt(left) * moved, low, high)


def _pairs(at: _At) -> list[Vector]:
    return [one - other for one, other in combinations(at.directions, 2)]


def _widest(at: _At, points: Points, direction: Vector) -> float:
    """|B^1/2 (direction (x) x)| at most, over all admissible x: r is at most such a direction, a mean of them."""
    one = np.einsum("ilp,l->ip", at.root.reshape(-1, *at.V.shape), direction, optimize=True)
    return float(np.linalg.norm(points.x @ one.T, axis=1).max()) + points.reach(one)


def _largest_length(at: _At, points: Points) -> float:
    """||B^1/2 (I (x) x)|| at most, by the Frobenius norm."""
    return math.sqrt(sum(_widest(at, points, e) ** 2 for e in np.eye(at.outputs)))


def _drift(G: Vector, lengths: Vector, left: float) -> Drift:
    """Tables of what moves of the parameters do to the curvature, by all rows."""
    size = G.shape[1]
    falls, grows = [], []
    for length in LENGTHS.tolist():
        exponent = np.minimum(lengths * length, FLATTEST)
        pair = []
        for weight in (-np.expm1(-exponent), np.expm1(exponent)):
            rows = (G * np.sqrt(weight)[:, None, None]).transpose(1, 0, 2).reshape(size, -1)
            pair.append(left * float(np.linalg.eigvalsh(rows @ rows.T)[-1]) * (1.0 + 1e-9) + 1e-12)
        falls.append(pair[0])
        grows.append(pair[1])
        if not falls[-1] < 1:
            break
    rest = [math.inf] * (len(LENGTHS) - len(falls))
    return Drift(np.array([*falls, *rest]), np.array([*grows, *rest]))


def _stretched(jacobian: OutputsJacobian, at: _At, points: Points) -> tuple[float, float]:
    """Relative change of a folded scale's penalty, as a logarithm, and the gradient that it leaves in the metric of B."""
    folding, fit = jacobian.folding, jacobian.fit
    if folding is None or fit.l2 == 0:
        return 0.0, 0.0
    scales, slopes = np.asarray(host(fit.scales)), np.asarray(host(folding.slopes))
    d = slopes.size
    weights = None if fit.sample_weight is None else np.asarray(host(fit.sample_weight))
    share = 1.0 / fit.n if not folding.weighted or weights is None else float(weights.max() / weights.sum())
    change = np.where(slopes > 0, points.spans, 0.0) ** 2 * (share + share**2)
    worst = float(np.max(change / scales**2, initial=0.0))
    each = at.root.reshape(-1, *at.V.shape)[:, :, :d]
    lengths = np.linalg.norm(np.einsum("ild,ld->id", each, at.V[:, :d]), axis=0)
    pull = float(np.sum(fit.n * fit.l2 * change * lengths))
    return (-math.log1p(-worst) if worst < 1 else math.inf), pull


def _norm(matrix: Vector) -> float:
    return float(np.linalg.norm(matrix, 2)) if matrix.size else 0.0
