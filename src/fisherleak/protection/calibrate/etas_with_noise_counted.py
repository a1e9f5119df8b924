r"""What a release reveals with its noise counted: noise that was calibrated on the data reveals them too.

For a release :math:`t \sim N(w^*, S)` of which the data move both the mean and the covariance, the information about
values a and b is exactly

.. math:: F_{ab} = (\partial_a w^*)^T S^{-1} \partial_b w^* + \tfrac12 \mathrm{tr}(S^{-1} \partial_a S\, S^{-1} \partial_b S) .

Every eta of a :class:`fisherleak.Leakage` is that of the first term. The second one is computed for a few rows: the Hessian
and the Jacobians of the rows that decide are differentiated through refits with each value of the row moved a little, both
ways, and the covariance through the equations that define it (``implicit``).

Also here: how noise that was calibrated on the data moves with them: the derivative of its covariance.

Mathematics: 7.3, ``docs/mathematics/noise.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fisherleak._support.arrays import host, is_lazy
from fisherleak._support.checks import check_positive
from fisherleak.engine.fit.minimise import fit_at, risk_of_fit
from fisherleak.engine.jacobian import Jacobian, jacobian_of
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.noise import Gaussian, check_noise
from fisherleak.engine.norms import information_of
from fisherleak.engine.norms.several_outputs import refuse_several
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage, check_leakage, is_leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.protection.calibrate.calibration import calibrate
from fisherleak.protection.calibrate.limit_terms import SingleRows, raw_map, value_moves
from fisherleak.protection.calibrate.shapes import LeastLoss, least_loss

Matrix = NDArray[np.float64]

RANK = 1e-7
"""Part of the largest multiplier below which a direction of a row does not decide."""
UNBALANCED = 1e-2
"""Part of the Hessian that the rows that decide may leave unexplained."""
UNEXPLAINED = 0.5
"""Part of it in any one direction: one that no row decides about, however little noise it has, is unexplained as a whole."""
MOST_UNKNOWNS = 6000


class Moving(Protocol):
    """A rule for noise, in coordinates in which its covariance is the identity."""

    @property
    def rows(self) -> tuple[int, ...]:
        """Those that decide."""

    def moved(self, dH: Matrix, dK: Matrix) -> Matrix:
        """DS for each of several changes of the data: (c, p, p) from dH (c, p, p) and dK (c, rows, p, m)."""


@dataclass(frozen=True)
class FixedShape:
    """Noise of a shape that no data move, scaled to the most exposed row: its k = K v."""

    rows: tuple[int, ...]
    k: Matrix
    v: Matrix

    def moved(self, dH: Matrix, dK: Matrix) -> Matrix:
        # section 7.3: dS = 2 dlog s I with k^T dS k = 2 k^T dK v
        return self._scaled(2.0 * np.einsum("p,cpm,m->c", self.k, dK[:, 0], self.v))

    def _scaled(self, factors: Matrix) -> Matrix:
        return np.asarray(factors[:, None, None] * np.eye(self.k.shape[0]) / float(self.k @ self.k))


@dataclass(frozen=True)
class HessianShape(FixedShape):
    """Noise shaped like the inverse Hessian, which is ``level`` times the identity in these coordinates."""

    level: float = 1.0

    def moved(self, dH: Matrix, dK: Matrix) -> Matrix:
        # the same with dS = 2 dlog s I - dH / h, h is ``level``
        turned = dH / self.level
        own = np.einsum("p,cpq,q->c", self.k, turned, self.k)
        return self._scaled(2.0 * np.einsum("p,cpm,m->c", self.k, dK[:, 0], self.v) + own) - turned


@dataclass(frozen=True)
class _Row:
    """A row at the limit: K (p, m), V (m, r), Pi (r, r), and R K^T of section 7.3."""

    K: Matrix
    V: Matrix
    Pi: Matrix
    beyond: Matrix

    @property
    def k(self) -> Matrix:
        return np.asarray(self.K @ self.V)

    def right(self, dK: Matrix) -> tuple[Matrix, Matrix]:
        """What changes of K (c, p, m) bring to both equations: (c, p, p) and (c, r, r)."""
        turned = np.swapaxes(dK @ self.V, 1, 2) @ self.K + self.k.T @ dK  # V^T dG
        # dK P K^T + k Pi V^T dG R K^T, as P = V Pi V^T; then with its transpose, [.]_sym, and V^T dG V
        pull = (dK @ self.V) @ self.Pi @ self.k.T + self.k @ self.Pi @ (turned @ self.beyond)
        return pull + np.swapaxes(pull, 1, 2), turned @ self.V


@dataclass(frozen=True)
class LeastLossShape:
    """Noise of least loss: the rows at the limit and the factored linear system."""

    rows: tuple[int, ...]
    at_limit: tuple[_Row, ...]
    factor: tuple[Matrix, Matrix]
    residual: float

    def moved(self, dH: Matrix, dK: Matrix) -> Matrix:
        top = -dH
        rest: list[Matrix] = []
        for place, row in enumerate(self.at_limit):
            pull, level = row.right(dK[:, place])
            top = top + pull
            rest.append(_packed(level))
        right = np.concatenate([_packed(top), *rest], axis=1)
        p = dH.shape[1]
        solved = scipy.linalg.lu_solve(self.factor, right.T).T
        return _unpacked(solved[:, : p * (p + 1) // 2], p)


def least_loss_shape(rows: Sequence[int], K: Matrix, P: Matrix, H: Matrix) -> LeastLossShape:
    """The linear system of rows with Jacobians K (k, p, m) and multipliers P (k, m, m)."""
    p = H.shape[0]
    at_limit = [_row(each, weight, P) for each, weight in zip(K, P, strict=True)]
    unknowns = p * (p + 1) // 2 + sum(row.V.shape[1] * (row.V.shape[1] + 1) // 2 for row in at_limit)
    if unknowns > MOST_UNKNOWNS:
        raise InvalidInputError(
            f"How much the covariance of least-loss noise reveals follows from a system of {unknowns} unknowns for {p} "
            f"parameters, and at most {MOST_UNKNOWNS} are possible. Take the covariance from public rows, or shape='hessian'."
        )
    # at S = I the condition S H S = sum K P K^T is H = sum k Pi k^T
    explained = sum((row.k @ row.Pi @ row.k.T for row in at_limit), start=np.zeros_like(H))
    residual = float(np.linalg.norm(H - explained) / np.linalg.norm(H))
    if residual > UNBALANCED or float(scipy.linalg.eigvalsh(H - explained, H)[-1]) > UNEXPLAINED:
        raise InvalidInputError(
            "How much the covariance of least-loss noise reveals is known only if the limits decide the noise on every "
            "parameter. Here some parameters have noise only as a precaution. Limit more attributes, or use shape='hessian'."
        )
    curved = _curvature(at_limit, H)
    across = [
        _packed(row.k @ _unpacked(basis[None, :], r)[0] @ row.k.T)
        for row in at_limit
        for r in [row.V.shape[1]]
        for basis in np.eye(r * (r + 1) // 2)
    ]
    A = np.stack(across, axis=1)
    # both equations of the last formula of section 7.3, unknowns dS and the X of the rows, packed
    system = np.block([[curved, -A], [A.T, np.zeros((A.shape[1], A.shape[1]))]])
    return LeastLossShape(tuple(rows), tuple(at_limit), scipy.linalg.lu_factor(system), residual)


def _row(K: Matrix, P: Matrix, every: Matrix) -> _Row:
    weights = np.linalg.eigvalsh(P)
    largest = float(np.max(np.trace(every, axis1=1, axis2=2)))
    rank = max(1, int(np.sum(weights > RANK * largest)))
    s, turn = np.linalg.eigh(K.T @ K)
    V, others = turn[:, -rank:], turn[:, :-rank]
    # R = (I - K^T K)^-1 on the directions that are not at the limit, times K^T
    beyond = (others / (1.0 - s[:-rank])) @ others.T @ K.T
    return _Row(K, V, V.T @ P @ V, beyond)


def _curvature(rows: Sequence[_Row], H: Matrix) -> Matrix:
    """The operator on dS, over packed symmetric matrices."""
    p = H.shape[0]
    # dS -> dS H + H dS + sum (N dS T + T dS N), N = k Pi k^T and T = K R K^T
    N = np.stack([row.k @ row.Pi @ row.k.T for row in rows])
    T = np.stack([row.K @ row.beyond for row in rows]).reshape(len(rows), p * p)
    places = np.zeros((p, p), dtype=np.int64)
    i, j = np.triu_indices(p)
    places[i, j] = places[j, i] = np.arange(i.size)
    out = np.zeros((i.size, i.size))
    for a in range(p):
        # the images of e_a e_b^T and its transpose for every b, each of which is half of one basis matrix
        images = np.swapaxes((N[:, :, a].T @ T).reshape(p, p, p), 0, 1).copy()
        images[:, a, :] += H
        images = images + np.swapaxes(images, 1, 2)
        share = np.where(np.arange(p) == a, 1.0, np.sqrt(0.5))
        out[:, places[a]] += (share[:, None] * _packed(images)).T
    return out


def _packed(matrices: Matrix) -> Matrix:
    """Symmetric matrices (..., p, p) as vectors with the same inner product."""
    i, j = np.triu_indices(matrices.shape[-1])
    return np.asarray(matrices[..., i, j] * np.where(i == j, 1.0, np.sqrt(2.0)))


def _unpacked(vectors: Matrix, p: int) -> Matrix:
    i, j = np.triu_indices(p)
    out = np.zeros((*vectors.shape[:-1], p, p))
    out[..., i, j] = out[..., j, i] = vectors * np.where(i == j, 1.0, np.sqrt(0.5))
    return out


TIGHT = 1e-6
"""Gap of the least-loss noise that is differentiated: what is left of it moves with the data as well."""
SAME = 1e-9
"""Difference of two rows' Jacobians, relative to their size, up to which they are copies."""


@dataclass(frozen=True)
class CountedEtas:
    """Etas of a few rows with the noise's own dependence on the data.

    Attributes
    ----------
    rows : array of shape (k,)
        Positions, the most exposed first.
    first : array of shape (k,)
        Eta by the mean alone: what :meth:`Leakage.per_example` gives with this noise.
    second : array of shape (k,)
        Eta by the noise's scale and covariance alone.
    eta : array of shape (k,)
        By both: the root of the largest eigenvalue of the sum of both terms.
    noise : Gaussian
        The noise that was counted.
    """

    rows: NDArray[np.int64]
    first: Matrix = field(repr=False)
    second: Matrix = field(repr=False)
    eta: Matrix
    noise: Gaussian


def counted(
    leakage: Leakage,
    eta: float,
    shape: Any = "isotropic",
    *,
    attributes: Sequence[str | int] | str | int | None = None,
    label: bool | None = None,
    rows: Any = None,
    most: int = 10,
) -> CountedEtas:
    r"""Etas with the second term: that of noise calibrated to the most exposed row of these very data.

    What is counted is the procedure ``calibrate(leakage, eta, shape=shape)``, with exact least-loss noise where that is its
    shape (to a gap of 1e-6): release with the noise that comes back, not with one found to within a larger gap.

    Parameters
    ----------
    leakage : Leakage
        Of one release; its noise is not used.
    eta : float
        The limit that the noise is calibrated to, for the largest eta of a row by the first term.
    shape : {"isotropic", "hessian", "least-loss"} or matrix
        As for :func:`fisherleak.calibrate`. A matrix is taken as public: only the scale moves.
    attributes, label : optional
        The values that count, as in :meth:`Leakage.per_example`.
    rows : mask or positions, optional
        By default the rows that decide and the most exposed, ``most`` in all.
    most : int
        How many rows.

    Returns
    -------
    CountedEtas

    Notes
    -----
    **What holds, and when.** The second term does not fall with eta: a lower limit scales the noise, and the data move it by
    the same part. Preprocessing is fixed and public, and affine; rows are in memory. Exact to about three digits (six where
    only the scale moves) where no two rows tie for the largest eta; copies of a row are each charged with all of it. Rows that
    are not asked for have their own second term.

    Examples
    --------
    >>> import numpy as np
    >>> import fisherleak as fl
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 3.0, -1.0])
    >>> found = fl.counted(fl.measure(fl.minimise(X, y), X, y), eta=1.0)
    >>> print(found.first.max().round(6), found.eta.max().round(3))
    1.0 1.083
    """
    target = check_positive(eta, "eta")
    jacobian = _plain(leakage)
    chosen, with_label = measurement(leakage).chosen(attributes, label)
    units = SingleRows(jacobian, chosen, with_label)
    noise, covariance, rule = _rule(leakage, units, target, shape, attributes, label)
    W, _ = _white(covariance)
    asked = _asked(leakage, units, W, rule, rows, most)
    U = raw_map(jacobian.fit)
    moves = _CountedMoves(jacobian, chosen, with_label, W @ np.linalg.inv(U))
    found = [_terms(moves, units, W, rule, int(row)) for row in asked]
    parts = [(target**2 * first, second) for first, second in found]
    first, second, both = (
        np.array([_largest(each) for each in some])
        for some in ([a for a, _ in parts], [b for _, b in parts], [a + b for a, b in parts])
    )
    order = np.argsort(-both, kind="stable")
    return CountedEtas(np.asarray(asked)[order], first[order], second[order], both[order], noise)


def _plain(leakage: Leakage) -> Jacobian:
    """The release's Jacobian with rows in NumPy, where the second term is known."""
    check_leakage(leakage, "counted")
    if len(leakage.fits) > 1:
        raise InvalidInputError(
            "counted takes the leakage of one release; count each release of a composition by itself."
        )
    known = measurement(leakage)
    refuse_several(known.information, "counted()")
    if known.noise is not None:
        check_noise(known.noise)
    jacobian = known.information.jacobians[0]
    if jacobian.gradient:
        raise InvalidInputError("counted is for released parameters, and this leakage is of a gradient.")
    if is_lazy(jacobian.X):
        raise InvalidInputError("counted needs rows in memory; X is a Dask array. Measure a sample that fits.")
    if jacobian.folding is not None or any(attribute.local for attribute in jacobian.attributes):
        raise InvalidInputError(
            "counted is for preprocessing that is public and affine; here it is folded into the model or differs from row to "
            "row. Measure with public='preprocessing' and without curved steps."
        )
    return jacobian


def _white(covariance: Matrix) -> tuple[Matrix, Matrix]:
    """W with W^T W the inverse of a covariance, and its eigenvalues."""
    s, V = np.linalg.eigh(covariance)
    return (V / np.sqrt(s)).T, s


def _rule(
    leakage: Leakage, units: SingleRows, target: float, shape: Any, attributes: Any, label: bool | None
) -> tuple[Gaussian, Matrix, Moving]:
    """The noise, its covariance at a limit of one in the coordinates of ``limit_terms``, and how it moves."""
    U = raw_map(units.jacobian.fit)
    if isinstance(shape, str) and shape == "least-loss":
        found = least_loss(units, TIGHT)
        S = U @ found.covariance @ U.T
        unit = Gaussian(1.0, S * (len(S) / np.trace(S)), found.gap)
        again: Any = calibrate(leakage.with_noise(unit), target, attributes=attributes, label=label)
        return again, found.covariance, _least_loss_rule(units, found)
    if is_leakage(shape):
        raise InvalidInputError("counted takes a covariance from public rows as a matrix: pass the noise's `shape`.")
    noise: Any = calibrate(leakage, target, attributes=attributes, label=label, shape=shape)
    size = len(U)
    back = np.linalg.inv(U)
    S = noise.scale**2 * target**2 * (np.eye(size) if noise.shape is None else noise.shape)
    covariance = back @ S @ back.T
    W, s = _white(covariance)
    ((row, _),) = units.worst(W, 1)
    K = W @ units.written_out([row])[0]
    v = np.linalg.svd(K)[2][0]
    if isinstance(shape, str) and shape == "hessian":
        return noise, covariance, HessianShape((row,), K @ v, v, float(np.mean(s)))
    return noise, covariance, FixedShape((row,), K @ v, v)


def _least_loss_rule(units: SingleRows, found: LeastLoss) -> Moving:
    weights = found.weights
    W, s = _white(found.covariance)
    level = float(
        np.trace(found.covariance) / np.sum(np.sqrt(np.clip(np.linalg.eigvalsh(weights.matrix()), 0.0, None)))
    )
    rows = sorted(set(weights.units))
    P = np.zeros((len(rows), weights.f.shape[1], weights.f.shape[1]))
    for row, f in zip(weights.units, weights.f, strict=True):
        # S = level M^1/2 solves S H S = sum K P K^T of section 7.3 (H = I here) with P = level^2 f f^T
        P[rows.index(row)] += level**2 * np.outer(f, f)
    K = W @ units.written_out(rows)
    rows, K, P = _without_copies(rows, K, P)
    order = np.argsort(-np.trace(P, axis1=1, axis2=2), kind="stable")
    return least_loss_shape([rows[k] for k in order], K[order], P[order], np.diag(s))


def _without_copies(rows: list[int], K: Matrix, P: Matrix) -> tuple[list[int], Matrix, Matrix]:
    """One row of each set of copies, with the multipliers of all."""
    kept: list[int] = []
    P = P.copy()
    for place in range(len(rows)):
        twin = next((k for k in kept if np.abs(K[place] - K[k]).max() <= SAME * np.abs(K[k]).max()), None)
        if twin is None:
            kept.append(place)
        else:
            P[twin] += P[place]
    return [rows[k] for k in kept], K[kept], P[kept]


def _asked(leakage: Leakage, units: SingleRows, W: Matrix, rule: Moving, rows: Any, most: int) -> list[int]:
    if rows is not None:
        return [int(row) for row in np.atleast_1d(host(measurement(leakage).rows(rows)))]
    if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < 1:
        raise InvalidInputError(f"most must be a whole number, one or more; got {most!r}.")
    exposed = [row for row, _ in units.worst(W, int(most))]
    return list(dict.fromkeys([*rule.rows, *exposed]))[: int(most)]


def _largest(F: Matrix) -> float:
    return float(np.sqrt(max(np.linalg.eigvalsh(F)[-1], 0.0)))


def _terms(moves: _CountedMoves, units: SingleRows, W: Matrix, rule: Moving, row: int) -> tuple[Matrix, Matrix]:
    """Both terms of a row's information at a limit of one, (m, m) each."""
    K = W @ units.written_out([row])[0]
    deciding = list(rule.rows)
    if row not in deciding:
        # a copy of a row that decides is as good as it
        held = W @ units.written_out(deciding)
        twins = np.flatnonzero(np.abs(held - K).max(axis=(1, 2)) <= SAME * np.abs(K).max())
        for place in twins:
            deciding[place] = row
    dH, dK = moves.of(row, deciding)
    dS = rule.moved(dH, dK).reshape(dH.shape[0], -1)
    # both terms of F where S = I
    return K.T @ K, 0.5 * dS @ dS.T


@dataclass(frozen=True)
class _CountedMoves:
    """Refits with one value moved, in coordinates in which the noise is white: ``into`` takes parameters there."""

    jacobian: Jacobian
    attributes: tuple[Attribute, ...]
    label: bool
    into: Matrix

    def of(self, row: int, deciding: Sequence[int]) -> tuple[Matrix, Matrix]:
        """Derivatives of the Hessian, (c, p, p), and of some rows' Jacobians, (c, rows, p, m), by each of the row's values."""
        steps, directions = value_moves(self.jacobian, self.attributes, self.label)
        dB, dK = [], []
        for step, direction in zip(steps, directions, strict=True):
            up, down = (self._refitted(row, side * step * direction, deciding) for side in (1.0, -1.0))
            dB.append((up[0] - down[0]) / (2.0 * step))
            dK.append((up[1] - down[1]) / (2.0 * step))
        fit = self.jacobian.fit
        U = self.into @ raw_map(fit)
        H = np.linalg.inv(U @ U.T)
        # dH = -H dB H
        return -H @ np.stack(dB) @ H, np.stack(dK)

    def _refitted(self, row: int, move: Matrix, deciding: Sequence[int]) -> tuple[Matrix, Matrix]:
        """The inverse Hessian and some rows' Jacobians with one row moved."""
        own = self.jacobian
        fit = own.fit
        X, y = (np.array(host(x), dtype=np.float64) for x in (own.X, own.y))
        X[row] += move[:-1]
        y[row] += move[-1]
        weights, centre, scales = (
            None if x is None else np.asarray(host(x)) for x in (fit.sample_weight, fit.centre, fit.scales)
        )
        risk = replace(risk_of_fit(fit, X, y), weights=weights, known_centre=centre, scales=scales)
        moved = fit_at(risk, np.asarray(host(fit.theta)), polish=True)
        information = information_of(jacobian_of(moved, X, y, Gaussian(1.0), own.attributes))
        J = information.written_out(self.attributes, self.label, np.asarray(deciding, dtype=np.int64))
        U = self.into @ raw_map(moved)
        return U @ U.T, self.into @ np.asarray(J)
