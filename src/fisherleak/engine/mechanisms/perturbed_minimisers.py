r"""Minimisers of perturbed objectives, :math:`risk(w) + b \cdot w`, for many b at once: what objective perturbation releases.

First steps with the Hessian of the unperturbed fit, which all points share and which cost gradients alone, for as long as they
bring a point nearer; then damped Newton steps on all of them together, often none but the one that finds them done. The
Hessians are one product: with the pairs :math:`x_j x_k` of each row, (n, q), and the curvatures of every row at every point,
(n, c), they are (q, c). Columns are taken in units in which the Hessian of the unperturbed fit has a unit diagonal, and a point
is done when its Newton decrement is a small part of the tilt's own length in the norm of that Hessian: neither depends on the
units of columns or of the loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Vector
from fisherleak.engine.fit.minimise import Fit, risk_of_fit
from fisherleak.engine.fit.newton import ARMIJO, MOST_STEPS
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.losses import LOSSES, Loss
from fisherleak.engine.losses.loss import FARTHEST, within_reach
from fisherleak.errors import InvalidInputError, NotConvergedError


def _tilts(loss: Loss) -> bool:
    """Whether perturbed minima are averaged over: the curvature is known, and changes by at most itself."""
    return loss.traits is not None and not loss.unit_curvature and loss.traits.log_slope <= 1


TILTED_LOSSES = tuple(name for name, loss in LOSSES.items() if _tilts(loss))
"""Losses of the package beside the squared whose perturbed minima are averaged over."""
TILTS_AT_ONCE = 512
"""Minima that are looked for together."""
PAIRS = 2**22
"""Values of the pairs of columns that are held at a time."""
DONE = 1e-10
"""Newton decrement at which a point is done, as a part of the tilt's length."""
ROUNDED = 1e-5
"""The same where rounding lets it fall no further."""
NEARER = 0.7
"""Part of its decrement that a step with the shared Hessian leaves at most; points that are left with more go no further."""
FREE = 8.0
"""Standard deviations of a tilt of a free intercept that leave a minimum."""


@dataclass(frozen=True)
class Minima:
    """Minimisers of perturbed objectives, for rows less the fit's centre."""

    tilts: Vector
    """(c, p): b, over the parameters that are released."""
    theta: Vector
    """(c, p)."""
    inverses: Vector
    """(c, p, p): the inverse Hessians there."""


def check_tilt(fit: Fit, X: Vector, y: Vector, scale: float) -> None:
    """Refuse what need not have a minimum when it is tilted."""
    if not _tilts(fit.loss):
        raise InvalidInputError(
            f"ObjectivePerturbation is known for the losses squared, {', '.join(TILTED_LOSSES)}, and this model's is "
            f"{fit.loss.name}: use noise on its parameters, fisherleak.Gaussian."
        )
    if not fit.l2 > 0:
        raise InvalidInputError(
            f"ObjectivePerturbation of the {fit.loss.name} loss needs l2 > 0: without a penalty a perturbed objective may have "
            "no minimum."
        )
    if fit.intercept is None or fit.intercept_l2 > 0:
        return
    omega = np.ones(len(y)) if fit.sample_weight is None else np.asarray(host(fit.sample_weight))
    ends = [abs(float(np.sum(omega * fit.loss.r(np.full(len(y), side * FARTHEST), y)))) for side in (-1.0, 1.0)]
    if min(ends) < FREE * scale:
        raise InvalidInputError(
            f"scale is {scale:g}, and must be at most {min(ends) / FREE:.4g} here: the intercept has no penalty, and "
            "a larger perturbation of it leaves no minimum. Use a smaller scale, or fit without an intercept."
        )


def minima(fit: Fit, X: Vector, y: Vector, tilts: Vector) -> Minima:
    """The minimisers of risk(w) + b.w on a fit's own rows, one for each b, (c, p), over coefficients and intercept."""
    found = [
        _together(_Problem.of(fit, X, y), tilts[k : k + TILTS_AT_ONCE]) for k in range(0, len(tilts), TILTS_AT_ONCE)
    ]
    theta, inverses = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Minima(tilts, theta, inverses)


@dataclass(frozen=True)
class _Problem:
    """Rows, and the units in which they are taken."""

    fit: Fit
    X: Vector
    y: Vector
    omega: Vector
    centre: Vector | None
    scale: Vector
    penalty: Vector
    start: Vector

    @classmethod
    def of(cls, fit: Fit, X: Vector, y: Vector) -> _Problem:
        scale = np.asarray(host(fit.factor.scale))
        omega = np.ones(len(y)) if fit.sample_weight is None else np.asarray(host(fit.sample_weight), dtype=np.float64)
        centre = None if fit.centre is None else np.asarray(host(fit.centre))
        penalty = np.asarray(host(risk_of_fit(fit, X, y).penalty)) * scale**2
        return cls(fit, np.asarray(X), y, omega, centre, scale, penalty, np.asarray(host(fit.centred_theta)) / scale)

    def tilted(self, tilts: Vector) -> Vector:
        """The tilts for parameters of rows less the centre, in the units of the columns."""
        if self.centre is None:
            return tilts * self.scale
        return np.concatenate([tilts[:, :-1] - tilts[:, -1:] * self.centre, tilts[:, -1:]], axis=1) * self.scale

    def gradients(self, T: Vector) -> Vector:
        """Of the risk at points T (c, p)."""
        gradient = T * self.penalty
        for x, part in self._parts(PAIRS // max(len(T), 1)):
            z = np.asarray(within_reach(x @ T.T))
            gradient = gradient + (self.omega[part, None] * self.fit.loss.r(z, self.y[part, None])).T @ x
        return gradient

    def at(self, T: Vector) -> tuple[Vector, Vector, Vector]:
        """The risk (c,), its gradients (c, p) and Hessians (c, p, p) at points T (c, p)."""
        p = T.shape[1]
        first, second = np.triu_indices(p)
        value, gradient, pairs = 0.5 * (T * T) @ self.penalty, T * self.penalty, np.zeros((first.size, len(T)))
        for x, part in self._parts(PAIRS // first.size):
            z = np.asarray(within_reach(x @ T.T))
            labels, omega, loss = self.y[part, None], self.omega[part, None], self.fit.loss
            value = value + np.sum(omega * loss.value(z, labels), axis=0)
            gradient = gradient + (omega * loss.r(z, labels)).T @ x
            pairs += (x[:, first] * x[:, second]).T @ (omega * loss.a(z, labels))
        H = np.empty((len(T), p, p))
        H[:, first, second] = H[:, second, first] = pairs.T
        return value, gradient, H + np.diag(self.penalty)

    def _parts(self, step: int) -> Iterator[tuple[Vector, slice]]:
        """Rows in the units of the columns, so many at a time, and where they are."""
        for start in range(0, len(self.y), max(1, step)):
            part = slice(start, start + max(1, step))
            yield with_constant(self.X[part], self.fit.intercept is not None, self.centre) * self.scale, part


def _nearer(problem: _Problem, b: Vector, core: Vector, size: Vector) -> Vector:
    """Points from which the search begins, (c, p): steps with the Hessian that all share, while they bring a point nearer."""
    T = np.tile(problem.start, (len(b), 1))
    gradient, left = b.copy(), np.arange(len(b))  # the start is the minimum without a tilt
    last = size
    for _ in range(MOST_STEPS):
        there = T[left] - gradient @ core
        gradient = problem.gradients(there) + b[left]
        now = np.sqrt(np.clip(np.einsum("cj,jk,ck->c", gradient, core, gradient), 0.0, None))
        nearer = now <= NEARER * last
        T[left[nearer]] = there[nearer]
        going = nearer & (now > 0.1 * DONE * size[left])
        left, gradient, last = left[going], gradient[going], now[going]
        if not left.size:
            break
    return T


def _together(problem: _Problem, tilts: Vector) -> tuple[Vector, Vector]:
    """Minimisers and inverse Hessians for some tilts."""
    b = problem.tilted(tilts)
    core = np.asarray(host(problem.fit.factor.core))
    size = np.sqrt(np.einsum("cj,jk,ck->c", b, core, b))
    theta, inverses = np.empty_like(b), np.empty((*b.shape, b.shape[1]))
    left = np.arange(len(b))
    state = _TiltedPoints.of(problem, _nearer(problem, b, core, size), b)
    for _ in range(MOST_STEPS):
        now = state.decrement()
        still = (now >= 0.25 * state.last) & (now <= ROUNDED * size[left])
        done = (now <= DONE * size[left]) | still
        theta[left[done]] = state.T[done]
        inverses[left[done]] = np.linalg.inv(state.H[done])
        left = left[~done]
        if not left.size:
            scale = problem.scale
            return theta * scale, inverses * scale[:, None] * scale[None, :]
        state = state.take(~done).moved(problem, b[left], now[~done])
    raise NotConvergedError(
        f"The minimum of a perturbed objective was not found in {MOST_STEPS} Newton steps. Use a smaller scale, or a larger l2."
    )


@dataclass(frozen=True)
class _TiltedPoints:
    """Points of the search, their risk and its derivatives with the tilt, and the Newton steps from there."""

    T: Vector
    value: Vector
    gradient: Vector
    H: Vector
    step: Vector
    last: Vector
    """Decrements at the points before."""

    @classmethod
    def of(cls, problem: _Problem, T: Vector, b: Vector) -> _TiltedPoints:
        value, gradient, H = problem.at(T)
        gradient = gradient + b
        step = np.asarray(-np.linalg.solve(H, gradient[:, :, None])[:, :, 0], dtype=np.float64)
        return cls(T, value + np.sum(b * T, axis=1), gradient, H, step, np.full(len(T), np.inf))

    def decrement(self) -> Vector:
        return np.asarray(np.sqrt(np.clip(-np.sum(self.gradient * self.step, axis=1), 0.0, None)))

    def take(self, rows: Any) -> _TiltedPoints:
        fields = (self.T, self.value, self.gradient, self.H, self.step, self.last)
        return _TiltedPoints(*(x[rows] for x in fields))

    def moved(self, problem: _Problem, b: Vector, decrement: Vector) -> _TiltedPoints:
        """After a step, shortened until the risk falls."""
        length = np.ones(len(b))
        slack = 1e-13 * (np.abs(self.value) + 1.0)
        while True:
            there = _TiltedPoints.of(problem, self.T + length[:, None] * self.step, b)
            fallen = there.value <= self.value - ARMIJO * length * decrement**2 + slack
            if np.all(fallen | (length < 1e-12)):
                return replace(there, last=decrement)
            length = np.where(fallen, length, 0.5 * length)
