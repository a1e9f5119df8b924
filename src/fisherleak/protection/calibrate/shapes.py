"""What ``shape=`` may be where noise is calibrated: a name, a matrix, or the leakage of rows that are public.

Also here: noise that costs the least loss among all that keep a limit, with a certificate.

Mathematics: 7.2, ``docs/mathematics/noise.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from fisherleak._support.arrays import host, is_lazy
from fisherleak._support.numbers import number
from fisherleak.engine.noise import Gaussian, Noise
from fisherleak.engine.noise.calibration_record import ANY_RECORD
from fisherleak.engine.norms import one_release
from fisherleak.errors import InvalidInputError, NotConvergedError
from fisherleak.leakage.leakage import Leakage, is_leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.protection.calibrate.limit_terms import Units, covering, raw_map, units_of

Matrix = NDArray[np.float64]

MOST_STEPS = 200
"""Passes over all units after which the search is given up."""
INNER = 500
"""Steps on the chosen units between two passes."""
FLOOR = 0.1
"""Part of the gap that may be spent so that no direction is left without noise."""
FAINT = 1e-10
"""Share of the weight below which a vector is let go."""
THIN = 1e-24
"""Eigenvalues of M below this part of the largest count as that in gradients."""
SQUARED = 128
"""Values of a unit up to which its most exposed direction is found by squaring a matrix ten times."""
POWERS = 20
"""Products that find it elsewhere: near is enough but for the most exposed unit, since weights turn it further."""
AT_ONCE = 2**22
"""Values of units that are written out at a time."""
HELD = 2**25
"""Values of written-out units past which single directions of them are kept instead."""


@dataclass(frozen=True)
class Weights:
    """M as weights on a few units: C of shape (k, p, m) with a vector f each, and all units together with one weight.

    ``everyone`` is the sum of K K^T over all units, so divided that it stands for a weight of one.
    """

    units: tuple[int, ...]
    C: Matrix
    f: Matrix
    everyone: Matrix
    f0: float = 1.0

    def normalised(self) -> Weights:
        """Of weight one in all, without the faint."""
        weight = float(np.sqrt(self.f0**2 + np.sum(self.f * self.f)))
        f = self.f / weight
        kept = np.flatnonzero(np.sum(f * f, axis=1) > FAINT)
        return replace(
            self, units=tuple(self.units[k] for k in kept), C=self.C[kept], f=f[kept], f0=abs(self.f0) / weight
        )

    def matrix(self) -> Matrix:
        """M itself, of whatever weight there is."""
        a = (self.C @ self.f[:, :, None])[:, :, 0]
        return np.asarray(self.f0**2 * self.everyone + a.T @ a)


@dataclass(frozen=True)
class LeastLoss:
    """Noise that keeps a limit of one, in the coordinates of ``limit_terms``.

    Attributes
    ----------
    covariance : array of shape (p, p)
        Sigma, positive definite.
    gap : float
        Its trace is at most 1 + gap times the least there is.
    steps : int
        Passes over all units that it took.
    weights : Weights
        Those of M, one in all.
    """

    covariance: Matrix
    gap: float
    steps: int
    weights: Weights


def least_loss(units: Units, gap: float, steps: int = MOST_STEPS) -> LeastLoss:
    """The noise of least loss that keeps all etas at or below one, to within a gap.

    Raises
    ------
    NotConvergedError
        Where the gap is not reached in ``steps`` passes; the message says what was.
    """
    weights = _start(units)
    if units.shape[0] == 1:
        return _of_one(units, gap, weights)
    least = np.inf
    for step in range(1, steps + 1):
        size = units.shape[1]
        s, V = np.linalg.eigh(weights.matrix())
        # section 7.2: Sigma = M^1/2, g its trace
        root = np.sqrt(np.clip(s, 0.0, None))
        g = float(root.sum())
        noise = np.maximum(root, FLOOR * min(gap, 1.0) * g / size)
        W = (V / np.sqrt(noise)).T
        top = units.worst(W, max(8, size))
        # lambda tr(Sigma) / g^2 - 1: Sigma scaled by lambda keeps the limit, and no noise that does has a
        # trace below g^2
        reached = max(top[0][1] * float(noise.sum()) / g**2 - 1.0, 0.0)
        if reached <= gap:
            return LeastLoss(top[0][1] * (V * noise) @ V.T, reached, step, weights)
        least = min(least, reached)
        # at the best M, lambda_max(K_i^T Sigma^-1 K_i) is g at most for all units: those above come in
        weights = _climbed(_with(weights, units, W, [unit for unit, square in top if square > g], reached), reached)
    raise _unreached(least, gap, steps)


def _unreached(least: float, gap: float, steps: int) -> NotConvergedError:
    passes = f"{steps} passes" if steps > 1 else "one pass"
    return NotConvergedError(
        f"Least-loss noise was found to within a gap of {number(least, 2)} in {passes} over the rows, and the gap asked "
        f"for is {number(gap, 2)}: ask for a larger one."
    )


def _of_one(units: Units, gap: float, weights: Weights) -> LeastLoss:
    r"""The noise for a single unit: :math:`K K^T`, and a part of the gap where that leaves a direction with less.

    Its :math:`M = K P K^T` has :math:`P = K^T K` over the trace, one vector :math:`K^T v` for each eigenvector v.
    """
    # the end of section 7.2: Sigma = K K^T keeps the limit, and its trace is the least
    s, V = np.linalg.eigh(weights.everyone * units.shape[2])
    least = float(np.clip(s, 0.0, None).sum())
    noise = np.maximum(s, FLOOR * min(gap, 1.0) * least / len(s))
    ((_, top),) = units.worst((V / np.sqrt(noise)).T, 1)
    reached = max(top * float(noise.sum()) / least - 1.0, 0.0)
    if reached > gap:
        raise _unreached(reached, gap, 1)
    K = units.written_out([0])[0]
    alone = Weights((0,) * len(s), np.broadcast_to(K, (len(s), *K.shape)), V.T @ K, weights.everyone, 0.0)
    return LeastLoss(top * (V * noise) @ V.T, reached, 1, alone.normalised())


def _start(units: Units) -> Weights:
    """All units and all their directions with the same weight."""
    count, size, values = units.shape
    total = units.total()
    if not float(np.trace(total)) > 0:
        raise InvalidInputError("eta is zero without any noise: the model does not depend on these values.")
    width = values if 4 * max(8, size) * size * values <= HELD else 1
    return Weights((), np.zeros((0, size, width)), np.zeros((0, width)), total / (count * values))


def _with(weights: Weights, units: Units, W: Matrix, entering: Sequence[int], reached: float) -> Weights:
    """Some more units let in, each in its most exposed direction, with a weight that the gap suggests."""
    _, size, values = units.shape
    most = max(1, AT_ONCE // (size * values))
    length = np.sqrt(0.5 * min(1.0, reached) / max(len(entering), 1))
    C, f = [weights.C], [weights.f]
    for start in range(0, len(entering), most):
        K = units.written_out(entering[start : start + most])
        v = _exposed(K, W)
        narrow = weights.C.shape[2] < values
        C.append(K @ v[:, :, None] if narrow else K)
        f.append(length * (np.ones((v.shape[0], 1)) if narrow else v))
    return replace(weights, units=(*weights.units, *entering), C=np.concatenate(C), f=np.concatenate(f))


def _exposed(K: Matrix, W: Matrix) -> Matrix:
    """The top right singular vector of each W K, or one near it, (k, m): exactly for the first, by powers for the others."""
    Y = W.T @ W
    if K.shape[2] <= SQUARED:
        G = np.swapaxes(K, 1, 2) @ (Y @ K)
        for _ in range(10):
            G = G / np.trace(G, axis1=1, axis2=2)[:, None, None]
            G = G @ G
        longest = np.argmax(np.diagonal(G, axis1=1, axis2=2), axis=1)
        v = G[np.arange(K.shape[0]), longest]
    else:
        v = K[np.arange(K.shape[0]), np.argmax(np.sum(K * K, axis=2), axis=1)]
        for _ in range(POWERS):
            v = v / np.linalg.norm(v, axis=1, keepdims=True)
            v = (((K @ v[:, :, None])[:, :, 0] @ Y)[:, None, :] @ K)[:, 0, :]
    v[0] = np.linalg.eigh(K[0].T @ Y @ K[0])[1][:, -1]
    return np.asarray(v / np.linalg.norm(v, axis=1, keepdims=True))


def _climbed(weights: Weights, reached: float) -> Weights:
    """The best weights on the chosen units, well below the gap."""
    C, everyone, shape = weights.C, weights.everyone, weights.f.shape
    turned = np.ascontiguousarray(np.swapaxes(C, 1, 2))

    def objective(z: Matrix) -> tuple[float, Matrix]:
        f0, f = z[0], z[1:].reshape(shape)
        a = (C @ f[:, :, None])[:, :, 0]
        s, V = np.linalg.eigh(f0**2 * everyone + a.T @ a)
        root = np.sqrt(np.clip(s, THIN * s[-1], None))
        # section 7.2: minus log g - 1/2 log sum |f|^2 and its gradient, Y = Sigma^-1 and a = K f; ``everyone`` is one
        # more unit
        g, squares = float(root.sum()), float(z @ z)
        Y = (V / root) @ V.T
        by_f = (turned @ (a @ Y)[:, :, None])[:, :, 0]
        gradient = np.concatenate([[f0 * np.sum(Y * everyone)], by_f.ravel()])
        return 0.5 * np.log(squares) - np.log(g), z / squares - gradient / g

    options = {"maxiter": INNER, "maxcor": 20, "ftol": 1e-16, "gtol": max(1e-12, min(1e-3, 1e-2 * reached))}
    start = np.concatenate([[weights.f0], weights.f.ravel()])
    z = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
    return replace(weights, f0=float(z[0]), f=z[1:].reshape(shape)).normalised()


ISOTROPIC, LEAST_LOSS = "isotropic", "least-loss"
OWN = ("hessian", LEAST_LOSS)
"""Shapes that rows decide."""
SHAPES = (LEAST_LOSS, ISOTROPIC, "hessian")


def noise_shaped(
    leakage: Leakage, shape: Any, over: str, attributes: Any, label: bool | None, groups: Any, gap: float
) -> Noise:
    """The noise whose scale remains to be found: the leakage's own for None."""
    if shape is None:
        own: Noise = leakage.noise
        return own
    of_parameters = is_leakage(shape) or (isinstance(shape, str) and shape != ISOTROPIC)
    if of_parameters and getattr(one_release(measurement(leakage).information), "gradient", False):
        raise InvalidInputError(
            "shape must be 'isotropic' or a matrix for the leakage of a gradient: the others are covariances of parameters."
        )
    if not (isinstance(shape, str) and shape == ISOTROPIC):
        check_fills_have_noise(leakage)
    if is_leakage(shape):
        return _of_public_rows(leakage, shape, over, attributes, label, gap)
    if not isinstance(shape, str):
        noise = Gaussian(1.0, shape)
        noise.unit_information_root(_size(leakage))
        return noise
    if shape == ISOTROPIC:
        return Gaussian(1.0)
    if shape == "hessian":
        return Gaussian(1.0, _unit(_released(leakage, None)))
    if shape == LEAST_LOSS:
        found = least_loss(units_of(leakage, over, attributes, label, groups), gap)
        return Gaussian(1.0, _unit(_released(leakage, found.covariance)), found.gap)
    raise InvalidInputError(
        f"shape must be one of {', '.join(SHAPES)}, a matrix, or a leakage of public rows; got {shape!r}."
    )


def check_fills_have_noise(leakage: Leakage) -> None:
    """Refuse a covariance of the model's own parameters where more leaves: it has no variance for that."""
    folding = one_release(measurement(leakage).information).folding
    if folding is not None and folding.filling is not None:
        raise InvalidInputError(
            "shape must be 'isotropic' where an imputer learned what it fills in, which is released with noise too: other "
            "shapes are covariances of the model's own parameters. Use shape='isotropic' (shapes=['isotropic'] in fl.protect), "
            "fill missing values with a declared one, SimpleImputer(strategy='constant', fill_value=…), or pass "
            "public='preprocessing'."
        )


def _of_public_rows(
    leakage: Leakage, public: Leakage, over: str, attributes: Any, label: bool | None, gap: float
) -> Noise:
    """The shape of least loss for public rows; the gap is that of their problem, so it is not passed on."""
    if over in ("group", "person"):
        raise InvalidInputError("shape from public rows cannot be limited by group: it has no groups. Use over='max'.")
    if _size(public) != _size(leakage):
        raise InvalidInputError(
            f"shape must come from a model with the same {_size(leakage)} released parameters; the public one has "
            f"{_size(public)}."
        )
    check_other_rows(leakage, public)
    # for a shape, any record counts as the rows that are there: its scale is found for all of them
    limited = "max" if over == ANY_RECORD else over
    noise: Any = noise_shaped(public, LEAST_LOSS, limited, attributes, label, None, gap)
    alone: Noise = replace(noise, gap=None)
    return alone


def check_other_rows(leakage: Leakage, public: Leakage, name: str = "shape") -> None:
    """Refuse rows as public that are the private ones: most are found there, each once, to six digits of a column's spread."""
    own, theirs = (one_release(measurement(each).information) for each in (leakage, public))
    if own.X is not theirs.X:
        if is_lazy(own.X) or is_lazy(theirs.X) or own.X.shape[1] != theirs.X.shape[1]:
            return
        here, there = (np.asarray(host(each.X), dtype=np.float64) for each in (own, theirs))
        spread = np.where(here.std(axis=0) > 0, here.std(axis=0), 1.0)
        times, given = (Counter(map(bytes, np.round(rows / spread, 6) + 0.0)) for rows in (here, there))
        if 2 * sum(count == times[row] == 1 for row, count in given.items()) <= len(there):
            return
    raise InvalidInputError(
        f"`{name}` must come from public rows, and most of these are rows of the table itself: a covariance from them "
        "reveals them. Give other rows, or use `shape='hessian'`, whose covariance is not published and is counted."
    )


def _released(leakage: Leakage, covariance: Any) -> Any:
    """A covariance in the coordinates of ``limit_terms``, the identity for None, over the released parameters."""
    fit = leakage.fits[0]
    U = raw_map(fit)
    return covering(U @ U.T if covariance is None else U @ covariance @ U.T, fit)


def _size(leakage: Leakage) -> int:
    return int(leakage.noise is not None and leakage.fits[0].theta.shape[0])


def _unit(S: Any) -> Any:
    """With a mean variance of one, so that the scale is a standard deviation."""
    return S * (S.shape[0] / np.trace(S))
