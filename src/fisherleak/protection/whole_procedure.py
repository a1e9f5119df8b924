r"""What IRFIL's whole procedure reveals, weights included, and the weights with which it reveals about as much of everyone.

A fit leans on row i by :math:`\eta_i = \omega_i f_i`, where f depends on the row and on the state (:math:`\theta`, H) alone:

.. math:: f_i = \| W B N_i V \|, \qquad N_i = [a\, x w^T + r I,\; c\, x], \qquad B = H^{-1} ,

with W the root of the noise's information and V the directions of the values looked at. A reweighting sets the logarithms of
weights to :math:`u_i = -\sum_s k_s \log f_{s,i}`, normalised, over a few parts s: what is to be equal, all features, the label.
The exponents (1, 0, 0) are those of the paper's algorithm, which makes etas equal *with the weights held fixed*.

**The derivative.** A value of row i moves the state of every fit on the way, by the implicit function theorem, and through it
and through its own f the next weights. It is carried backwards from the last parameters, as their derivative by the state of
a fit (by theta (p, p), by H (p, p, p)). That costs one pass over the rows for each fit, for all rows and values together, and
is exact: no differences but those of the loss's own second derivatives.

**Equal etas of the whole procedure.** Weights that followed each row's own end-to-end eta would add their own derivative, and
make matters worse. Here the exponents are public numbers, multiples of 1/8: what is chosen from the data is which of them, by
all rows together, and a small change of one row leaves it. So the derivative is that of the procedure as it runs, and the
exponents are those with which its etas spread least.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.progress import track
from fisherleak.engine.erm import Fit, fit_at
from fisherleak.engine.jacobian import jacobian_of
from fisherleak.engine.losses import Loss
from fisherleak.engine.noise import Noise
from fisherleak.engine.perturbation import Attribute
from fisherleak.engine.risk import Risk
from fisherleak.errors import InvalidInputError, NotConvergedError, SingularHessianError
from fisherleak.protection.counted import value_moves
from fisherleak.protection.limited import raw_map
from fisherleak.protection.reweight import SMALLEST_PART

__all__ = ["EndToEndEtas", "Procedure", "Round", "evenest"]

Vector = NDArray[np.float64]
STEP = 1e-5
"""Of the differences of a loss's second derivatives, in spreads of the predictor and of the label."""
STEPS = (0.5, 0.25, 0.125)
"""Of the search for exponents."""
MOST_NUMBERS = 2**27
"""Rows x parameters x values that are held at once: 1 GiB."""


@dataclass(frozen=True)
class EndToEndEtas:
    """Etas of all rows with the weights' own dependence on the data.

    Attributes
    ----------
    rows : array of shape (n,)
        Positions of the rows that count, the largest end-to-end eta first.
    fixed : array of shape (n,)
        Eta with the weights held fixed.
    eta : array of shape (n,)
        Eta of the whole procedure.
    exponents : dict
        What the weights were made with: minus the powers of the norms of ``chosen`` (the attributes asked for, everything with
        the label by default), ``features`` and ``label``.
    spread, before : float
        Standard deviation of ``eta`` relative to its mean, and that of the paper's weights (1 for ``chosen``).
    """

    rows: NDArray[np.int64] = field(repr=False)
    fixed: Vector = field(repr=False)
    eta: Vector = field(repr=False)
    exponents: dict[str, float]
    spread: float
    before: float


@dataclass(frozen=True)
class _RowNorms:
    """How one norm of each row depends on the state and on the row's own values."""

    log_norm: Vector
    g: Vector
    h: Vector
    """The derivative of the log norm by the Hessian is -g h^T: (n, p) both."""
    by_theta: Vector
    by_values: Vector
    """(n, p), and (n, m) at a fixed state."""


@dataclass(frozen=True)
class Round:
    """One fit on the way."""

    fit: Fit
    weights: Vector
    eta: Vector
    """With the weights held fixed."""
    B: Vector
    r: Vector
    a: Vector
    a_move: Vector
    """The derivative of a by each value, (n, m)."""
    slope: Vector
    """The derivative of a by the predictor."""
    N: Vector
    """(n, p, m)."""
    parts: dict[str, _RowNorms]

    @property
    def theta(self) -> Vector:
        return np.asarray(self.fit.theta)


@dataclass(frozen=True)
class Procedure:
    """IRFIL on given features and labels: reweightings by single rows, without limits.

    Parameters
    ----------
    risk : Risk
        With the weights of the first fit: those of zero stay, and their sum does.
    theta : array
        Where the first fit starts.
    noise : Noise
        What etas are measured with.
    every, attributes : sequences of Attribute
        All that the rows have, and those whose etas are made equal and reported.
    label : bool
    count : int
        Reweightings.
    """

    risk: Risk
    theta: Vector
    noise: Noise
    every: tuple[Attribute, ...]
    attributes: tuple[Attribute, ...]
    label: bool
    count: int

    def __post_init__(self) -> None:
        numbers = self.rows.size * self.directions["chosen"].shape[1]
        if numbers > MOST_NUMBERS:
            raise InvalidInputError(
                f"account='end-to-end' holds rows x parameters x values at once, {numbers:,} numbers here and at most "
                f"{MOST_NUMBERS:,}: use fewer rows or attributes, or account='weights-fixed'."
            )

    @cached_property
    def rows(self) -> Vector:
        """With the constant, (n, p)."""
        X = np.asarray(self.risk.X, dtype=np.float64)
        return np.column_stack([X, np.ones(len(X))]) if self.risk.intercept else X

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        weights = self.risk.weights
        return np.ones(len(self.rows), dtype=bool) if weights is None else np.asarray(weights) > 0

    @cached_property
    def directions(self) -> dict[str, Vector]:
        """Moves of (features, label) by unit moves of values, (d + 1, m), for each part; a part that is another is left out."""
        fit = fit_at(self.risk, self.theta, False)
        jacobian = jacobian_of(fit, self.risk.X, self.risk.y, self.noise, self.every)
        features = tuple(attribute for attribute in self.every if not attribute.local)
        wanted = {"chosen": (self.attributes, self.label), "features": (features, False), "label": ((), True)}
        found: dict[str, Vector] = {}
        for name, (attributes, label) in wanted.items():
            V = value_moves(jacobian, attributes, label)[1].T
            if V.shape[1] and not any(V.shape == other.shape and np.array_equal(V, other) for other in found.values()):
                found[name] = V
        return found

    def run(self, exponents: Mapping[str, float]) -> list[Round]:
        """All fits: the plain one and as many as there are reweightings."""
        risk, theta, found = self.risk, self.theta, []
        given = self.counted if risk.weights is None else risk.weights
        weights: Vector = np.asarray(given, dtype=np.float64)
        total = weights.sum()
        for _ in range(self.count + 1):
            fit = fit_at(replace(risk, weights=weights), theta, True)
            theta = np.asarray(fit.theta)
            found.append(self._round(fit, weights))
            u = np.zeros(len(weights))
            for name, power in exponents.items():
                u -= power * found[-1].parts[name].log_norm
            raised = np.where(self.counted, np.exp(u - np.max(u[self.counted])), 0.0)
            weights = np.asarray(raised * (total / raised.sum()))
        return found

    def etas(self, rounds: Sequence[Round], exponents: Mapping[str, float]) -> Vector:
        """Of the whole procedure, (n,)."""
        J = self._derivative(rounds, exponents)
        root = self.noise.unit_information_root(J.shape[1])
        return _top(J if root is None else root @ J)[0] / float(self.noise.scale)

    def _round(self, fit: Fit, weights: Vector) -> Round:
        X, y, theta = self.rows, np.asarray(self.risk.y, dtype=np.float64), np.asarray(fit.theta)
        z, U = X @ theta, raw_map(fit)
        curve = _Curve.of(fit.loss, z, y)
        V = _split(self.directions["chosen"], X.shape[1])
        parts = {
            name: self._part(_split(E, X.shape[1]), V, curve, theta, U @ U.T) for name, E in self.directions.items()
        }
        eta = weights * np.exp(parts["chosen"].log_norm) / float(self.noise.scale)
        a_move = np.outer(curve.a_z, theta @ V[0]) + np.outer(curve.a_y, V[1])
        N = _moves(X, V, curve, theta)
        return Round(fit, weights, eta, U @ U.T, curve.r, curve.a, a_move, curve.a_z, N, parts)

    def _part(self, E: _Split, V: _Split, at: _Curve, theta: Vector, B: Vector) -> _RowNorms:
        X, root = self.rows, self.noise.unit_information_root(B.shape[0])
        WB = B if root is None else root @ B
        N = _moves(X, E, at, theta)
        norms, left, v = _top(WB @ N)
        counted = norms[self.counted]
        if not np.all(counted > SMALLEST_PART * counted.mean()):
            raise InvalidInputError(
                "account='end-to-end' needs an eta above zero for every row, of its features and of its label, and some row "
                "has none: leave such rows out."
            )
        norms = np.where(self.counted, norms, 1.0)
        g = left @ WB / norms[:, None]
        h = np.einsum("npm,nm->np", N, v, optimize=True) @ B
        e, e_y = v @ E[0].T, v @ E[1]
        along, gx, ge = e @ theta, np.sum(g * X, axis=1), np.sum(g * e, axis=1)
        bend = gx * (at.a_z * along + at.a_y * e_y) + at.a * ge
        by_theta = bend[:, None] * X + (gx * at.a)[:, None] * e
        dz, dy = theta @ V[0], V[1]
        by_values = (
            (g @ V[0]) * (at.a * along + at.c * e_y)[:, None]
            + np.outer(bend, dz)
            + np.outer(gx * (at.a_y * along + at.c_y * e_y) + ge * at.c, dy)
        )
        return _RowNorms(np.log(norms), g, h, by_theta, by_values)

    def _derivative(self, rounds: Sequence[Round], exponents: Mapping[str, float]) -> Vector:
        """Of the last parameters by each row's values, (n, p, m): backwards through all fits."""
        X, p = self.rows, self.rows.shape[1]
        Vx = _split(self.directions["chosen"], p)[0]
        by_theta, by_H = np.eye(p), np.zeros((p, p, p))
        J = np.zeros(rounds[-1].N.shape)
        for k in range(len(rounds) - 1, -1, -1):
            at, w = rounds[k], rounds[k].weights
            bent = np.einsum("jab,na,nb->nj", by_H, X, X, optimize=True)
            A = -(by_theta + ((w * at.slope)[:, None] * bent).T @ X) @ at.B
            turned = np.einsum("na,jab,bm->njm", X, by_H, Vx, optimize=True)
            own = A @ at.N + bent[:, :, None] * at.a_move[:, None, :] + 2.0 * at.a[:, None, None] * turned
            J += w[:, None, None] * own
            if k == 0:
                break
            M = w[:, None] * (at.r[:, None] * (X @ A.T) + at.a[:, None] * bent)
            M -= np.outer(w / w.sum(), M.sum(axis=0))
            by_theta, by_H = np.zeros((p, p)), np.zeros((p, p, p))
            for name, power in exponents.items():
                part = rounds[k - 1].parts[name]
                J -= power * M[:, :, None] * part.by_values[:, None, :]
                by_theta -= power * M.T @ part.by_theta
                one = power * np.einsum("nj,na,nb->jab", M, part.g, part.h, optimize=True)
                by_H += 0.5 * (one + one.transpose(0, 2, 1))
        return J


def evenest(procedure: Procedure) -> tuple[EndToEndEtas, list[Round]]:
    """The exponents, multiples of 1/8, at which the procedure's own etas spread least, found step by step from the paper's."""
    names = tuple(procedure.directions)
    best = tuple(1.0 if name == "chosen" else 0.0 for name in names)
    seen: dict[tuple[float, ...], float] = {}

    def spread(powers: tuple[float, ...]) -> float:
        if powers not in seen:
            seen[powers] = _spread_or_far(procedure, dict(zip(names, powers, strict=True)))
        return seen[powers]

    before = spread(best)
    for step in STEPS if procedure.count else ():
        while True:
            around = list(_neighbours(best, step))
            for powers in track(around, len(around), "Equalising"):
                spread(powers)
            near = min(around, key=spread)
            if not spread(near) < spread(best):
                break
            best = near
    exponents = dict(zip(names, best, strict=True))
    rounds = procedure.run(exponents)
    rows = np.flatnonzero(procedure.counted)
    eta, fixed = procedure.etas(rounds, exponents)[rows], rounds[-1].eta[rows]
    order = np.argsort(-eta, kind="stable")
    return EndToEndEtas(rows[order], fixed[order], eta[order], exponents, spread(best), before), rounds


def _neighbours(powers: tuple[float, ...], step: float) -> Iterator[tuple[float, ...]]:
    """One exponent moved, or two of them against each other."""
    units = np.eye(len(powers)) * step
    for unit in units:
        yield from (tuple((np.array(powers) + side * unit).tolist()) for side in (1.0, -1.0))
    for one, other in permutations(units, 2):
        yield tuple((np.array(powers) + one - other).tolist())


def _spread_or_far(procedure: Procedure, exponents: Mapping[str, float]) -> float:
    """Of the end-to-end etas, relative to their mean; infinite where such weights have no fit."""
    try:
        eta = procedure.etas(procedure.run(exponents), exponents)[procedure.counted]
    except (NotConvergedError, SingularHessianError):
        return float("inf")
    return float(np.std(eta) / np.mean(eta)) if np.all(np.isfinite(eta)) else float("inf")


@dataclass(frozen=True)
class _Curve:
    """Derivatives of the loss at each row: r, a, c, and of a and c by the predictor and the label (c_z is a_y)."""

    r: Vector
    a: Vector
    c: Vector
    a_z: Vector
    a_y: Vector
    c_y: Vector

    @classmethod
    def of(cls, loss: Loss, z: Vector, y: Vector) -> _Curve:
        r, a, c = (np.asarray(function(z, y)) for function in (loss.r, loss.a, loss.c))
        if loss.quadratic:
            return cls(r, a, c, np.zeros_like(z), np.zeros_like(z), np.zeros_like(z))
        s, t = (STEP * (float(np.std(x)) or 1.0) for x in (z, y))
        a_z, a_y = ((np.asarray(f(z + s, y)) - np.asarray(f(z - s, y))) / (2.0 * s) for f in (loss.a, loss.c))
        c_y = (np.asarray(loss.c(z, y + t)) - np.asarray(loss.c(z, y - t))) / (2.0 * t)
        return cls(r, a, c, a_z, a_y, c_y)


_Split = tuple[Vector, Vector]


def _split(V: Vector, p: int) -> _Split:
    """Directions of features, (p, m) with nothing for the constant, and of the label, (m,)."""
    features = np.zeros((p, V.shape[1]))
    features[: len(V) - 1] = V[:-1]
    return features, V[-1]


def _moves(X: Vector, V: _Split, at: _Curve, theta: Vector) -> Vector:
    """N V of each row, (n, p, m)."""
    scale = np.outer(at.a, theta @ V[0]) + np.outer(at.c, V[1])
    return X[:, :, None] * scale[:, None, :] + at.r[:, None, None] * V[0]


def _top(M: Vector) -> tuple[Vector, Vector, Vector]:
    """Largest singular values of (n, p, m) with their left, (n, p), and right vectors, (n, m)."""
    tall = M.shape[2] <= M.shape[1]
    flat = M.transpose(0, 2, 1)
    vectors = np.linalg.eigh(flat @ M if tall else M @ flat)[1][:, :, -1]
    other = np.einsum("npm,nm->np" if tall else "npm,np->nm", M, vectors)
    norms = np.linalg.norm(other, axis=1)
    other = other / np.where(norms > 0, norms, 1.0)[:, None]
    return (norms, other, vectors) if tall else (norms, vectors, other)
