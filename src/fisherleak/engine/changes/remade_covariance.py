"""Releases whose noise has a covariance that the rows decide: what it is without some of them, and what that tells.

Mathematics: 4.10, ``docs/mathematics/changes.md``.

Also here: how well the best test tells one normal distribution from another: total variation, and the mu that is
worth the same.

Mathematics: 4.11, ``docs/mathematics/changes.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from fisherleak._support.arrays import host, like, namespace
from fisherleak._support.namespaces import Vector
from fisherleak.engine.changes.changed_rows import Rows
from fisherleak.engine.changes.removal import removal_moves
from fisherleak.engine.changes.starting_fit import MovingPenalty
from fisherleak.engine.fit.minimise import risk_of_fit
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.losses import LOSSES, Loss
from fisherleak.engine.mechanisms.self_shaped import SelfShaped
from fisherleak.engine.noise import Gaussian
from fisherleak.engine.noise.calibration_record import FOR_ANYONE, HESSIAN

STEP = 0.5
"""In u, to begin with."""
MOST_HALVINGS = 9
SETTLED = 1e-5
"""Change, as a part of TV and 0.01, or of 1 - TV where that is less, at which no step is halved any more."""
SAFETY = 3.0
"""Times the last change that is added."""
FARTHEST = 32.0
"""Largest u: the weight there is 3e-14."""
VALUES_AT_ONCE = 2**18
"""Values that are held at a time."""


def equivalent_mu(variances: Vector, moves: Vector) -> Vector:
    """The mu with the accuracy of the best test between N(0, I) and N(m, diag(v)) at even odds, (b,), from (b, k) each.

    Infinite where a move is, or where a variance is not a finite number above zero.
    """
    known = np.isfinite(moves).all(axis=1) & (np.isfinite(variances) & (variances > 0)).all(axis=1)
    found = np.full(len(moves), np.inf)
    found[known] = _mu(*_apart(variances[known], moves[known]))
    return found


def mu_along_a_row(left: Vector, residual: Vector, variance: Vector) -> Vector:
    r"""The same in closed form for the squared loss and noise of covariance T H^-1, (b,).

    ``left`` is 1 - h, with h the leverage of the row, ``residual`` r = x.w - y and ``variance`` T / omega. The likelihood ratio
    depends on the draw t through z = x.t alone: z - y is N(r, T h / omega) with the row and
    N(r / (1 - h), T h / (omega (1 - h))) without it, and the best test says "present" where |z - y| < c,
    :math:`c^2 = r^2 / (1 - h) - (T / \omega) \log(1 - h)`.
    """
    h = 1.0 - left
    still, lost = h <= 0, left <= 0
    h, left = np.where(still | lost, 0.5, h), np.where(still | lost, 0.5, left)
    r, c = np.abs(residual), np.sqrt(residual**2 / left - variance * np.log1p(-h))
    near, far = np.sqrt(variance * h), np.sqrt(variance * h / left)
    # by tails alone, so that neither a small nor a nearly certain total variation is lost in rounding
    missed = ndtr((r - c) / near) + ndtr(-(r + c) / near)
    taken = ndtr((c - r / left) / far) - ndtr(-(c + r / left) / far)
    told = ndtr((c - r) / near) - ndtr((c - r / left) / far) + ndtr(-(c + r / left) / far) - ndtr(-(c + r) / near)
    return np.where(lost, np.inf, np.where(still, 0.0, _mu(np.maximum(told, 0.0), missed + taken)))


def bounded_mu(divergence: Vector) -> Vector:
    r"""A mu that the equivalent one is not above, from a Kullback-Leibler divergence in either direction, (b,).

    Pinsker, :math:`\mathrm{TV} \le \sqrt{\mathrm{KL}/2}`, or Bretagnolle and Huber,
    :math:`\mathrm{TV} \le \sqrt{1 - e^{-\mathrm{KL}}}`: the least.
    """
    gone = np.exp(-divergence)
    # 1 - sqrt(1 - g) = g / (1 + sqrt(1 - g))
    told, kept = np.sqrt(-np.expm1(-divergence)), gone / (1.0 + np.sqrt(-np.expm1(-divergence)))
    pinsker = np.sqrt(0.5 * divergence)
    first = pinsker < told
    return _mu(np.where(first, pinsker, told), np.where(first, 1.0 - np.minimum(pinsker, 1.0), kept))


def _mu(told: Vector, kept: Vector) -> Vector:
    r"""2 Phi^-1((1 + TV) / 2) from TV and 1 - TV, by whichever is known better."""
    with np.errstate(divide="ignore"):
        small = 2.0 * ndtri(0.5 * (1.0 + np.minimum(told, 0.5)))
        return np.asarray(np.where(told < 0.5, small, -2.0 * ndtri(0.5 * np.clip(kept, 0.0, 1.0))))


def _apart(variances: Vector, moves: Vector) -> tuple[Vector, Vector]:
    """TV and 1 - TV, (b,): the first not below the truth and the second not above it, but for rounding."""
    step, nodes = STEP, np.asarray(STEP * np.arange(int(FARTHEST / STEP) + 1), dtype=np.float64)
    pair: Vector = np.asarray(STEP * _sums(variances, moves, nodes, first=0.5), dtype=np.float64)
    error, unsettled = np.full_like(pair, np.inf), np.arange(len(moves))
    for _ in range(MOST_HALVINGS):
        between = np.asarray(step * (np.arange(int(FARTHEST / step)) + 0.5), dtype=np.float64)
        before: Vector = pair[:, unsettled]
        more = _sums(variances[unsettled], moves[unsettled], between)
        finer: Vector = np.asarray(0.5 * before + 0.5 * step * more, dtype=np.float64)
        error[:, unsettled], pair[:, unsettled] = np.abs(finer - before), finer
        step *= 0.5
        # whichever of the two is the smaller is what counts
        change, least = np.abs(finer - before), np.where(finer[0] < finer[1], finer[0] + 0.01, np.abs(finer[1]))
        unsettled = unsettled[np.where(finer[0] < finer[1], *change) > SETTLED * least]
        if not unsettled.size:
            break
    # TV and 1 - TV are 2 / pi times the integrals over u of (1 - Re M) / cosh u and of Re M / cosh u (section 4.11)
    told, kept = 2.0 / np.pi * (pair + SAFETY * np.array([[1.0], [-1.0]]) * error)
    return np.clip(told, 0.0, 1.0), np.clip(kept, 0.0, 1.0)


def _sums(variances: Vector, moves: Vector, nodes: Vector, first: float = 1.0) -> Vector:
    """Sums of (1 - Re M) / cosh u and of Re M / cosh u over nodes u, (2, b); the first node counts ``first`` times."""
    weight, found = 1.0 / np.cosh(nodes), np.zeros((2, len(moves)))
    weight[0] *= first
    most = max(1, VALUES_AT_ONCE // max(1, len(moves)))
    for start in range(0, len(nodes), most):
        some = slice(start, start + most)
        size, phase = _log_ratio(variances, moves, 0.5 * np.sinh(nodes[some]))
        # 1 - e^R cos I = (1 - e^R) + 2 e^R sin^2(I / 2)
        found[0] += (2.0 * np.exp(size) * np.sin(0.5 * phase) ** 2 - np.expm1(size)) @ weight[some]
        found[1] += (np.exp(size) * np.cos(phase)) @ weight[some]
    return found


def _log_ratio(variances: Vector, moves: Vector, tau: Vector) -> tuple[Vector, Vector]:
    """The real and the imaginary part of log M at every tau, (b, t) each."""
    size, phase = np.zeros((2, len(moves), len(tau)))
    square = 0.25 + tau**2
    for j in range(variances.shape[1]):
        wider, log = variances[:, j, None] - 1.0, np.log(variances[:, j, None])
        # 1 + alpha (v - 1) = real + i tau (v - 1), of squared size 1 + (v - 1) + (v - 1)^2 (1/4 + tau^2)
        real, above = 1.0 + 0.5 * wider, wider + wider**2 * square
        pull = 0.5 * square * moves[:, j, None] ** 2 / (1.0 + above)
        # with s = 1 + alpha (v - 1), log M is the sum over j of
        # alpha log(v) / 2 - log(s) / 2 - (1/4 + tau^2) m^2 / (2 s) (section 4.11)
        size += 0.25 * (log - np.log1p(above)) - pull * real
        phase += 0.5 * (tau * log - np.arctan(tau * wider / real)) + pull * tau * wider
    return size, phase


AT_ONCE = 2**21
"""Values of covariances that are held at a time."""
WORK = 2**34
"""Products n x p^3 of one decomposition for each row up to which all are decomposed: a minute or so."""
LIGHT = 2**31
"""Such products that take seconds."""
SAME = 1e-6
"""Part of a covariance by which one that is made again from the same rows may differ."""
SINGULAR = 1e-12
"""An eigenvalue of K below which the other rows do not determine the noise."""


class Reshaped(ABC):
    """Normal noise of one release, whose covariance is made anew without rows."""

    @property
    @abstractmethod
    def white(self) -> Vector:
        """W, (p, p) over the released parameters, with which the noise has the covariance I."""

    @abstractmethod
    def covariances(self, sets: Sequence[Rows]) -> Vector:
        """Those of W times the release without each set of rows, (b, p, p); not finite where there is none."""

    @abstractmethod
    def is_light(self, count: int) -> bool:
        """Whether so many rows, or sets of them, take seconds rather than minutes."""

    def is_bounded(self, count: int) -> bool:
        """Whether so many rows, or sets of them, get an upper bound in place of the best test's own figure."""
        return False

    def equivalents(self, jacobian: Jacobian, sets: Sequence[Rows], moves: Vector, alone: bool) -> Vector:
        """The equivalent mu of leaving out each set of rows, (b,), or each row ``alone``, with the moves of the parameters."""
        return np.concatenate([np.empty(0), *self._walked(sets, moves)])

    def _walked(self, sets: Sequence[Rows], moves: Vector) -> Iterator[Vector]:
        white = self.white
        most = max(1, AT_ONCE // white.size)
        for start in range(0, len(sets), most):
            some = slice(start, start + most)
            covariances = self.covariances(sets[some])
            known = np.asarray(np.isfinite(covariances).all(axis=(1, 2)))
            values, vectors = np.linalg.eigh(np.where(known[:, None, None], covariances, np.eye(len(white))))
            turned = (np.swapaxes(vectors, 1, 2) @ (moves[some] @ white.T)[:, :, None])[:, :, 0]
            yield np.where(known, equivalent_mu(values, turned), np.inf)


def public_curvature(loss: Loss) -> float:
    """A at no parameters: a public number of a loss with traits."""
    assert loss.traits is not None
    return loss.traits.at_zero


def linear_part(jacobian: Jacobian) -> Jacobian:
    """The same rows under the squared loss, whose Hessian is G; nothing else of it is used."""
    fit = jacobian.fit
    a = public_curvature(fit.loss)
    own = risk_of_fit(fit, jacobian.X, jacobian.y)
    risk = replace(own, loss=LOSSES["squared"], l2=fit.l2 / a, intercept_l2=fit.intercept_l2 / a)
    factor = risk.factor(risk.at(fit.centred_theta, curvature=True))
    there = replace(fit, loss=risk.loss, l2=risk.l2, intercept_l2=risk.intercept_l2, factor=factor)
    return replace(jacobian, fit=there)


@dataclass(frozen=True)
class FromGram(Reshaped):
    """Noise whose covariance follows from G: see the module."""

    linear: Jacobian
    """The rows under the squared loss."""
    root: Vector
    """Q, (p, p), for rows as they are centred."""
    centring: Vector
    """(p, p): from the released parameters to those of centred rows."""
    scale: float
    remade: Callable[[Vector], Vector] | None
    """Covariances at scale 1 from K, (b, p, p); None for those that are K^-1."""

    @classmethod
    def of_mechanism(cls, jacobian: Jacobian, mechanism: SelfShaped) -> FromGram:
        """Posterior sampling or objective perturbation, squared loss."""
        root, centring = _root(jacobian), centring_of(jacobian)
        tilt = mechanism.root(len(root))
        if tilt is None:
            return cls(jacobian, root, centring, mechanism.scale, None)
        # C is over released gradients: those of centred parameters are centring^-T times these
        half = root @ np.linalg.solve(centring.T, tilt)
        middle = half @ half.T

        def remade(K: Vector) -> Vector:
            # K^-1 C' K^-1, C' = Q C Q^T is `middle` (section 4.10)
            turned = np.linalg.solve(K, np.broadcast_to(middle, K.shape))
            return np.asarray(np.linalg.solve(K, np.swapaxes(turned, 1, 2)), dtype=np.float64)

        return cls(jacobian, root, centring, mechanism.scale, remade)

    @classmethod
    def of_shape(cls, jacobian: Jacobian, noise: Gaussian, name: str) -> FromGram | None:
        """Gaussian noise of a named shape; None where it is not made of these rows' G."""
        if jacobian.fit.loss.traits is None or name not in (HESSIAN, FOR_ANYONE) or noise.shape is None:
            return None
        linear = linear_part(jacobian)
        root, centring = _root(linear), centring_of(linear)
        # the covariance of the parameters Q^-T w with all rows, in which K = I
        turn = np.linalg.solve(root.T, centring)
        given = turn @ noise.shape @ turn.T
        if name == HESSIAN:
            same = bool(np.abs(given - np.eye(len(given))).max() <= SAME)
            return cls(linear, root, centring, noise.scale, None) if same else None
        N = given @ given

        def remade(K: Vector) -> Vector:
            # K^(-1/2) (K^(-1/2) N' K^(-1/2))^(1/2) K^(-1/2), N' the square of that covariance (section 4.10)
            inner = _power(K, -0.5)
            return np.asarray(inner @ _power(inner @ N @ inner, 0.5) @ inner)

        return cls(linear, root, centring, noise.scale, remade)

    @property
    def white(self) -> Vector:
        return np.asarray(self._outer @ np.linalg.solve(self.root.T, self.centring) / self.scale, dtype=np.float64)

    @property
    def _outer(self) -> Vector:
        """What whitens the covariance with all rows, by the parameters in which K = I."""
        size = len(self.root)
        if self.remade is None:
            return np.eye(size)
        return np.asarray(np.linalg.inv(np.linalg.cholesky(self.remade(np.eye(size)[None, :, :])[0])), dtype=np.float64)

    def covariances(self, sets: Sequence[Rows]) -> Vector:
        K = np.stack([self._left(rows, push) for rows, push in zip(sets, self._pushes(sets), strict=True)])
        values = np.linalg.eigvalsh(K)
        K[values[:, 0] <= SINGULAR] = np.nan
        known = np.isfinite(K[:, 0, 0])
        found, outer = np.full_like(K, np.nan), self._outer
        made = np.linalg.inv(K[known]) if self.remade is None else self.remade(K[known])
        found[known] = outer @ made @ outer.T
        return found

    @property
    def direct(self) -> bool:
        """Whether K changes along one direction alone when a row leaves: nothing else is made of it, and no penalty moves."""
        folding, moving = self.linear.folding, MovingPenalty.of(self.linear)
        scaled = folding is not None and folding.totals is not None and bool(np.any(host(folding.totals) > 0))
        part = moving is not None and moving.part > 0
        return self.remade is None and not (part or (scaled and self.linear.fit.l2 > 0))

    def is_light(self, count: int) -> bool:
        return self.direct or self.is_bounded(count) or count * len(self.root) ** 3 <= LIGHT

    def is_bounded(self, count: int) -> bool:
        return self.remade is None and not self.direct and count * len(self.root) ** 3 > WORK

    def equivalents(self, jacobian: Jacobian, sets: Sequence[Rows], moves: Vector, alone: bool) -> Vector:
        if alone and self.direct:
            return self.along_rows(jacobian, np.arange(len(sets)), moves)
        return (
            self.bounds(sets, moves)
            if self.is_bounded(len(sets))
            else super().equivalents(jacobian, sets, moves, alone)
        )

    def _left(self, rows: Rows, push: Vector | None) -> Vector:
        """K without a set of rows, with the diagonal of P."""
        x, omega = self._rows(rows)
        q = x @ self.root.T
        # the first formula of section 4.10; q are the rows Q x
        K = np.eye(len(self.root)) - (q * omega[:, None]).T @ q
        return K if push is None else np.asarray(K + (self.root * push) @ self.root.T)

    def _pushes(self, sets: Sequence[Rows]) -> Sequence[Vector | None]:
        """Diagonals of P, (p,) each; None where no penalty moves."""
        moving, X = MovingPenalty.of(self.linear), self.linear.X
        if moving is None:
            return [None] * len(sets)
        omega = np.ones(len(X)) if self.linear.fit.sample_weight is None else self.linear.fit.sample_weight
        # single rows at once, sets one by one
        single = all(len(rows) == 1 for rows in sets)
        parts = [np.concatenate(list(sets))[:, None]] if single else [rows[None, :] for rows in sets]
        found: list[Any] = [moving.push(X[rows], omega[rows], np.ones(rows.shape)) for rows in parts]
        return [*np.concatenate(found)]

    @cached_property
    def _known(self) -> tuple[Vector, Vector]:
        """All centred rows (n, p) and their weights."""
        fit = self.linear.fit
        X = np.asarray(self.linear.X, dtype=np.float64)
        centre = None if fit.centre is None else np.asarray(host(fit.centre))
        omega = np.ones(len(X)) if fit.sample_weight is None else np.asarray(fit.sample_weight, dtype=np.float64)
        return np.asarray(with_constant(X, fit.intercept is not None, centre)), omega

    def _rows(self, rows: Rows) -> tuple[Vector, Vector]:
        x, omega = self._known
        return x[rows], omega[rows]

    def along_rows(self, jacobian: Jacobian, rows: Rows, moves: Vector) -> Vector:
        """The equivalent mu of single rows where K changes along one direction alone, (b,)."""
        x, omega = self._rows(rows)
        q = x @ self.root.T
        length = np.sum(q * q, axis=1)
        left = 1.0 - omega * length
        if jacobian.fit.loss.unit_curvature:
            z = x @ np.asarray(host(jacobian.fit.centred_theta))
            residual = z - np.asarray(host(jacobian.y), dtype=np.float64)[rows]
            return mu_along_a_row(left, residual, self.scale**2 / np.where(omega > 0, omega, 1.0))
        # K = I - omega q q^T: the covariance K^-1 is 1 / (1 - omega |q|^2) along q and 1 across it
        m = moves @ self.white.T
        along = np.sum(m * q, axis=1) / np.sqrt(np.where(length > 0, length, 1.0))
        across = np.sqrt(np.maximum(np.sum(m * m, axis=1) - along**2, 0.0))
        variances = 1.0 / np.where(left > SINGULAR, left, np.nan)
        return equivalent_mu(np.stack([variances, np.ones_like(left)], axis=1), np.stack([along, across], axis=1))

    def bounds(self, sets: Sequence[Rows], moves: Vector) -> Vector:
        r"""Mus that those of noise of the shape G^-1 are not above, without a decomposition, (b,).

        With :math:`K = I + E`, KL of the release with the rows from that without is
        :math:`\tfrac12 (\mathrm{tr} E - \log\det(I + E) + m^T K m)`, and for eigenvalues e of E above -d,
        :math:`e - \log(1 + e) \le e^2 / (2 (1 - d))`.
        """
        found = []
        B = self.root.T @ self.root
        for rows, push, move in zip(sets, self._pushes(sets), moves @ self.white.T, strict=True):
            x, omega = self._rows(rows)
            q = x @ self.root.T
            C = np.sqrt(omega)[:, None] * q
            inner = C @ C.T
            # E = Q P Q^T - C^T C, C the rows sqrt(omega) q: `square` is tr E^2, `down` is d, `bent` is m^T K m
            square, down = float(np.sum(inner**2)), float(np.linalg.norm(inner, 2))
            bent = float(move @ move) - float(np.sum((C @ move) ** 2))
            if push is not None:
                turned = C @ self.root
                square += float(push @ (B**2) @ push) - 2.0 * float(np.sum(turned**2 * push))
                # below zero, Q P Q^T is not further than its negative entries' own trace
                down += float(np.sum(np.maximum(-push, 0.0) * np.diag(B)))
                bent += float(np.sum((move @ self.root) ** 2 * push))
            found.append(0.5 * (square / (2.0 * (1.0 - down)) + bent) if down < 1.0 - SINGULAR else np.inf)
        return bounded_mu(np.asarray(found))


def equivalent_norms(
    reshaped: Reshaped, jacobian: Jacobian, tolerance: float, sets: Sequence[Rows] | None = None
) -> Vector:
    """The mu of equal accuracy of leaving out every row, (n,), or every set of rows, (m,), at the noise's own scale.

    Infinite where there is no minimum without them; an upper bound where the noise's ``is_bounded`` says so.
    """
    alone = sets is None
    everyone = np.arange(int(jacobian.X.shape[0]))
    parts: Sequence[Rows] = [everyone[k : k + 1] for k in everyone] if sets is None else sets
    xp = namespace(jacobian.X)
    asked: Any = like(everyone, jacobian.X, xp) if alone else list(parts)
    moves = np.asarray(host(removal_moves(jacobian, asked, tolerance)), dtype=np.float64)
    lost = np.asarray(~np.isfinite(moves).all(axis=1))
    # total variation grows along a move, since both densities fall off evenly from their means: what may be missing is added
    missing = 0.0 if jacobian.fit.loss.quadratic else 2.0 * tolerance
    moves = np.where(lost[:, None], 0.0, (1.0 + missing) * moves)
    return np.where(lost, np.inf, reshaped.equivalents(jacobian, parts, moves, alone))


def _root(jacobian: Jacobian) -> Vector:
    factor = jacobian.fit.factor
    return np.asarray(np.linalg.cholesky(host(factor.core)).T * host(factor.scale)[None, :])


def centring_of(jacobian: Jacobian) -> Vector:
    """From the released parameters to those of centred rows: the level is b + coef . centre."""
    fit = jacobian.fit
    found = np.eye(len(host(fit.centred_theta)))
    if fit.centre is not None:
        found[-1, :-1] = np.asarray(host(fit.centre))
    return found


def _power(S: Vector, power: float) -> Vector:
    """Powers of symmetric positive definite matrices, (b, p, p)."""
    values, V = np.linalg.eigh(S)
    kept = np.maximum(values, np.finfo(np.float64).tiny)
    return np.asarray((V * kept[:, None, :] ** power) @ np.swapaxes(V, 1, 2))
