"""Objective perturbation for losses other than the squared: information averaged over draws, and what that leaves uncertain.

Mathematics: 3.5, ``docs/mathematics/mechanisms.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self, cast

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host
from fisherleak._support.namespaces import Vector
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.information import Release
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.losses import Loss
from fisherleak.engine.losses.loss import Traits
from fisherleak.engine.mechanisms.perturbed_minimisers import Minima, check_tilt, minima
from fisherleak.engine.mechanisms.self_shaped import ObjectivePerturbation, SelfShaped
from fisherleak.engine.norms.data_shaped import DataShaped, check_measurable
from fisherleak.errors import InvalidInputError

DOUBT = 0.005
"""Chance that one limit is too low."""
FAR_OUT = 5.0
"""Standard deviations that what is normal, or nearly so, is taken to reach."""
ALONG = 41
"""Points at which a curvature is looked at over the reach of a score."""
VALUES = 2**23
"""Values of the scores of a block of rows that are held at a time."""
LARGEST_SET = 2**13
"""Draws, or values, of a set whose matrix is decomposed."""
LARGEST = 2**27
"""Values of the inverse Hessians of all draws at most."""


def shaped_by(jacobian: Jacobian, mechanism: SelfShaped) -> DataShaped:
    """The information of a mechanism about the data of a fit, or a refusal by name."""
    check_measurable(jacobian, mechanism)
    tilted = mechanism.by_draws(jacobian.fit.loss)
    if tilted is None:
        return DataShaped((Release(jacobian, mechanism),))
    p = int(jacobian.theta.shape[0])
    last = tilted.scale * float(np.linalg.norm(tilted.root(p)[-1]))
    check_tilt(jacobian.fit, np.asarray(jacobian.X), np.asarray(jacobian.y), last)
    if tilted.draws * p * p > LARGEST:
        raise InvalidInputError(
            f"draws is {tilted.draws}, with {p} x {p} Hessians each: use at most {LARGEST // (p * p)}, or "
            "fisherleak.Gaussian."
        )
    return Averaged((Release(jacobian, tilted),))


@dataclass(frozen=True)
class Averaged(DataShaped):
    """The information of objective perturbation, averaged over its draws: etas are upper limits, ``fim`` is the average."""

    cut = 0.0

    @property
    def jacobian(self) -> Jacobian:
        return self.releases[0].jacobian

    @property
    def mechanism(self) -> ObjectivePerturbation:
        return cast("ObjectivePerturbation", self.releases[0].mechanism)

    @property
    def closed_mechanism(self) -> None:
        return None

    @property
    def averaged(self) -> Self:
        return self

    @property
    def count(self) -> int:
        """N."""
        return int(self.mechanism.draws)

    def is_of(self, mechanism: SelfShaped) -> bool:
        """Whether it is the information of such a mechanism: of that kind and scale, over as many draws."""
        return mechanism == self.mechanism and getattr(mechanism, "draws", 0) == self.count

    @cached_property
    def root(self) -> Vector:
        """L with L L^T = C."""
        return self.mechanism.root(int(self.jacobian.theta.shape[0]))

    @cached_property
    def minima(self) -> Minima:
        """Of the draws, the same in every run: they are no noise of a release."""
        p, scale = int(self.jacobian.theta.shape[0]), float(self.mechanism.scale)
        tilts = scale * np.random.default_rng(0).standard_normal((self.count, p)) @ self.root.T
        return minima(self.jacobian.fit, np.asarray(self.jacobian.X), np.asarray(self.jacobian.y), tilts)

    def example_norms(self, attributes: Sequence[Attribute], label: bool) -> Array:
        parts = _DrawnScores.of(self, attributes)
        found = [parts.limits(*block, label) for block in self._row_blocks(parts, label)]
        return np.sqrt(np.concatenate(found)) if found else np.zeros(0)

    def cell_norms(self, attributes: Sequence[Attribute]) -> Array:
        named = self.jacobian.named(attributes)
        found = np.empty((self.jacobian.X.shape[0], len(named)))
        for k, attribute in enumerate(named):
            found[:, k] = self.example_norms([attribute], False)
        return found

    def set_norm(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> float:
        """From the scores of all draws: averages over few of them see a set's directions as larger, not less."""
        parts = _DrawnScores.of(self, attributes)
        count = int(self.jacobian.X.shape[0] if rows is None else rows.shape[0])
        values = count * (int(parts.by_t.shape[1]) + int(label))
        if min(values, self.count) > LARGEST_SET:
            raise InvalidInputError(
                f"The eta of {values} values together needs matrices of {self.count} draws: use at most {LARGEST_SET} draws, "
                "or fewer rows."
            )
        if not values:
            return 0.0
        blocks = self._row_blocks(parts, label, rows)
        sides = (np.moveaxis(parts.scores(*block, label), 1, 0).reshape(self.count, -1) for block in blocks)
        q = _of_few(sides) if values <= self.count else _of_many(sides, self.count)
        most = max(float(q.max()), FAR_OUT**2 * float(q.mean()))
        return float(np.sqrt(_limit(q[None, :], np.array([most]))[0]))

    def largest_norm(self, attributes: Sequence[Attribute], label: bool) -> tuple[int, float]:
        """The row with the largest of ``example_norms``, and it: rows that cheap ceilings keep below are not looked at."""
        parts = _DrawnScores.of(self, attributes)
        whole = np.concatenate(
            [parts.ceilings(*block, label) for block in self._row_blocks(parts, label)] or [np.zeros(0)]
        )
        order = np.argsort(-whole, kind="stable")
        row, best, at_once = 0, 0.0, max(1, VALUES // (self.count * (parts.width + 4 + int(label))))
        for start in range(0, order.size, at_once):
            chosen = order[start : start + at_once]
            if whole[chosen[0]] <= best:
                break
            (block,) = self._row_blocks(parts, label, chosen)
            found = parts.limits(*block, label)
            if found.max() > best:
                row, best = int(chosen[np.argmax(found)]), float(found.max())
        return row, math.sqrt(best)

    def above_average(self, row: int) -> float:
        """By which part the limit of one row is above its average."""
        S = self.written_out(self.attributes, True, np.array([row]))[0]
        average = float(np.linalg.norm(S, 2))
        limit = float(self._one(self.attributes, True, row))
        return limit / average - 1.0 if average > 0 else 0.0

    def _one(self, attributes: Sequence[Attribute], label: bool, row: int) -> float:
        parts = _DrawnScores.of(self, attributes)
        (block,) = self._row_blocks(parts, label, np.array([row]))
        return math.sqrt(float(parts.limits(*block, label)[0]))

    def certain(self, attributes: Sequence[Attribute], label: bool, row: int, norm: float) -> float:
        return norm * (1.0 + self.error)

    def written_out(self, attributes: Sequence[Attribute], label: bool, rows: Array | None) -> Array:
        """Scores of all draws over sqrt N, (b, N, m + label): their Gram is the average."""
        parts = _DrawnScores.of(self, attributes)
        blocks = [parts.scores(*block, label) for block in self._row_blocks(parts, label, rows)]
        return np.concatenate(blocks) / math.sqrt(self.count)

    def _row_blocks(
        self, parts: _DrawnScores, label: bool, rows: Array | None = None
    ) -> Iterator[tuple[Vector, Vector, Vector]]:
        chosen = slice(None) if rows is None else np.asarray(host(rows))
        X, y = (np.asarray(a)[chosen] for a in self.rows)
        weights = self.jacobian.fit.sample_weight
        omega = np.ones(len(y)) if weights is None else np.asarray(host(weights))[chosen]
        step = max(1, VALUES // (self.count * (parts.width + 4 + int(label))))
        for start in range(0, len(y), step):
            yield X[start : start + step], y[start : start + step], omega[start : start + step]


@dataclass(frozen=True)
class _DrawnScores:
    """What blocks of rows need of the draws: E^T t and E^T C^-1 b (N, m), and H^-1 of all of them."""

    loss: Loss
    intercept: bool
    centre: Vector | None
    variance: float
    minima: Minima
    by_t: Vector
    by_b: Vector
    flat: Vector
    """The inverse Hessians side by side, (p, N p)."""
    E: Vector
    plain: NDArray[np.intp] | None
    """Which columns E picks, where it picks some as they are."""
    white: Vector
    """L^-1, (p, p)."""
    pull: Vector
    """C^-1 b, (N, p)."""
    widest: float
    """||L^-1 E||"""

    @classmethod
    def of(cls, information: Averaged, attributes: Sequence[Attribute]) -> _DrawnScores:
        J, found = information.jacobian, information.minima
        p = int(J.theta.shape[0])
        E = np.asarray(J.map(J.named(attributes)).after(np.eye(p))) if attributes else np.zeros((p, 0))
        centre = None if J.fit.centre is None else np.asarray(host(J.fit.centre))
        flat = np.moveaxis(found.inverses, 1, 0).reshape(p, -1)
        scale = float(information.mechanism.scale)
        picks = bool(np.all((E == 0.0) | (E == 1.0)) and np.all(E.sum(axis=0) == 1.0))
        plain = np.argmax(E, axis=0) if picks else None
        white = np.linalg.inv(information.root)
        pull = found.tilts @ (white.T @ white)
        widest = float(np.linalg.norm(white @ E, 2)) if E.size else 0.0
        by = (found.theta @ E, pull @ E, flat, E, plain, np.asarray(white), pull, widest)
        return cls(J.fit.loss, J.fit.intercept is not None, centre, scale**2, found, *by)

    @property
    def traits(self) -> Traits:
        assert self.loss.traits is not None
        return self.loss.traits

    @property
    def width(self) -> int:
        """Values of a row that are held for each draw."""
        return int(self.by_t.shape[1]) + int(self.minima.theta.shape[1])

    def scores(self, X: Vector, y: Vector, omega: Vector, label: bool) -> Vector:
        """Of every row and draw, (b, N, m + label)."""
        return self._scores(self._rows(X, y, omega), label)

    def _rows(self, X: Vector, y: Vector, omega: Vector) -> _AtDraws:
        x = with_constant(X, self.intercept, self.centre)
        z = x @ self.minima.theta.T
        raw = with_constant(X, self.intercept, None)
        bent = (x @ self.flat).reshape(*z.shape, -1)
        moved = bent @ self.E if self.plain is None else bent[:, :, self.plain]
        h = np.matmul(bent, x[:, :, None])[:, :, 0]
        length = np.linalg.norm(raw @ self.white.T, axis=1)
        return _AtDraws(y[:, None], omega[:, None], z, raw @ self.pull.T, h, moved, length)

    def _scores(self, at: _AtDraws, label: bool) -> Vector:
        y, omega, z = at.y, at.omega, at.z
        a = omega * self.loss.a(z, y)
        # the score of section 3.5: its parts along t, along b and along H^-1 x, then that of the label; x . b is
        # `tilted`
        along = a * at.tilted / self.variance + omega * self.traits.slope(z, y) * at.h
        found = np.asarray(along[:, :, None] * self.by_t, dtype=np.float64)
        found += (omega * self.loss.r(z, y) / self.variance)[:, :, None] * self.by_b
        found += (2.0 * a)[:, :, None] * at.moved
        if not label:
            return found
        last = omega * (self.loss.c(z, y) * at.tilted / self.variance + self.traits.slope_by_label(z, y) * at.h)
        return np.concatenate([found, last[:, :, None]], axis=2)

    def limits(self, X: Vector, y: Vector, omega: Vector, label: bool) -> Vector:
        """Upper limits of the largest eigenvalue of each row's information, (b,)."""
        at = self._rows(X, y, omega)
        S = self._scores(at, label)
        # v of section 3.5, the direction of the largest average, and q = (v . s)^2
        along = np.linalg.eigh(np.matmul(np.moveaxis(S, 1, 2), S))[1][:, :, -1]
        return _limit(np.matmul(S, along[:, :, None])[:, :, 0] ** 2, self._most(at, label))

    def ceilings(self, X: Vector, y: Vector, omega: Vector, label: bool) -> Vector:
        r"""What ``limits`` are certainly not above, (b,), without :math:`H^{-1} x`, which is at most :math:`|x| / \lambda`.

        The norm of a sum is at most the sum of norms: :math:`|E[s s^T]|^{1/2}` is at most that of its three parts, the part
        along b with r at its largest.
        """
        x, raw = (with_constant(X, self.intercept, centre) for centre in (self.centre, None))
        z, tilted = x @ self.minima.theta.T, raw @ self.pull.T
        far, length = np.linalg.norm(x, axis=1), np.linalg.norm(raw @ self.white.T, axis=1)
        labels, weights = y[:, None], omega[:, None]
        bent = self.stretch * np.outer(far, self.softest)
        h = np.outer(far**2, self.softest)
        a = weights * self.loss.a(z, labels)
        along = np.abs(a * tilted) / self.variance + np.abs(weights * self.traits.slope(z, labels)) * h
        r = np.max(np.abs(weights * self.loss.r(z, labels)), axis=1) / self.variance
        of_t = along * np.linalg.norm(self.by_t, axis=1)
        mean = np.sqrt(np.mean(of_t**2, axis=1)) + r * self.tilt + 2.0 * np.sqrt(np.mean((a * bent) ** 2, axis=1))
        top = of_t + r[:, None] * np.linalg.norm(self.by_b, axis=1) + 2.0 * a * bent
        mean, top = mean**2, top**2
        if label:
            last = (
                np.abs(self.loss.c(z, labels) * tilted) / self.variance
                + np.abs(self.traits.slope_by_label(z, labels)) * h
            )
            mean, top = mean + np.mean((weights * last) ** 2, axis=1), top + (weights * last) ** 2
        count, doubt = z.shape[1], math.log(2.0 / DOUBT)
        moved = bent.max(axis=1, keepdims=True)[:, :, None]
        most = self._most(_AtDraws(labels, weights, z, tilted, h, moved, length), label)
        # the variance of q is at most N / (N - 1) times the largest q times its mean
        spread = np.sqrt(2.0 * np.max(top, axis=1) * mean * doubt / (count - 1))
        return np.asarray(np.minimum(mean + spread + 7.0 * most * doubt / (3.0 * (count - 1)), most) * (1.0 + 1e-9))

    @cached_property
    def softest(self) -> Vector:
        """The largest eigenvalue of each inverse Hessian, (N,)."""
        return np.asarray(np.linalg.eigvalsh(self.minima.inverses)[:, -1])

    @cached_property
    def stretch(self) -> float:
        """The largest factor by which E^T makes a change longer."""
        return float(np.linalg.norm(self.E, 2)) if self.E.size else 0.0

    @cached_property
    def tilt(self) -> float:
        """The root of the largest eigenvalue of the average of what is made of E^T C^-1 b."""
        return float(np.linalg.norm(self.by_b, 2)) / math.sqrt(len(self.by_b)) if self.by_b.size else 0.0

    def _most(self, at: _AtDraws, label: bool) -> Vector:
        """M of every row, (b,)."""
        loss, spread = self.loss, FAR_OUT * np.std(at.z, axis=1, keepdims=True)
        reach = np.mean(at.z, axis=1, keepdims=True) + spread * np.linspace(-1.0, 1.0, ALONG)
        # between two points a curvature changes by no more than exp(half their distance)
        between = np.exp(np.minimum(spread[:, 0] / (ALONG - 1), 50.0))
        a = np.minimum(np.max(loss.a(reach, at.y), axis=1) * between, self.traits.largest)
        r = np.max(np.abs(loss.r(reach, at.y)), axis=1)
        h, sigma = 2.0 * np.max(at.h, axis=1), math.sqrt(self.variance)
        # x . b / sigma^2 has the standard deviation |L^-1 x| / sigma
        tilted = FAR_OUT * at.length / sigma
        most = np.zeros(len(a))
        if self.by_t.shape[1]:
            t = 2.0 * float(np.max(np.linalg.norm(self.by_t, axis=1)))
            bent = 2.0 * np.max(np.linalg.norm(at.moved, axis=2), axis=1)
            # M of section 3.5: the largest score, squared; |a'| <= a
            most = (a * (tilted + h) * t + r * FAR_OUT * self.widest / sigma + 2.0 * a * bent) ** 2
        if label:
            c = np.max(np.abs(loss.c(reach, at.y)), axis=1)
            most = most + (c * tilted + h * np.max(np.abs(self.traits.slope_by_label(reach, at.y)), axis=1)) ** 2
        return np.asarray(at.omega[:, 0] ** 2 * most)


@dataclass(frozen=True)
class _AtDraws:
    """Rows at every draw: z, x . C^-1 b and h, (b, N) each, E^T H^-1 x, (b, N, m), and |L^-1 x|, (b,)."""

    y: Vector
    omega: Vector
    z: Vector
    tilted: Vector
    h: Vector
    moved: Vector
    length: Vector


def _of_few(sides: Iterable[Vector]) -> Vector:
    """(v . s)^2 of every draw along the top direction of few values."""
    S = np.concatenate(list(sides), axis=1)
    last = S.shape[1] - 1
    _, vector = scipy.linalg.eigh(S.T @ S, subset_by_index=[last, last])
    return np.asarray((S @ vector[:, 0]) ** 2)


def _of_many(sides: Iterable[Vector], count: int) -> Vector:
    """The same of many values, from the products of draws with each other."""
    gram = np.zeros((count, count))
    for S in sides:
        gram += S @ S.T
    value, vector = scipy.linalg.eigh(gram, subset_by_index=[count - 1, count - 1])
    return np.asarray(max(float(value[0]), 0.0) * vector[:, 0] ** 2)


def _limit(q: Vector, most: Vector) -> Vector:
    """Upper limits of the means of q, (b, N), that are never above ``most``, (b,)."""
    count, doubt = q.shape[1], math.log(2.0 / DOUBT)
    # the bound of section 3.5: L is `doubt`, V the variance, M is `most`
    spread = np.sqrt(2.0 * np.var(q, axis=1, ddof=1) * doubt / count)
    return np.asarray(np.minimum(np.mean(q, axis=1) + spread + 7.0 * most * doubt / (3.0 * (count - 1)), most))
