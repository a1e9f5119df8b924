"""Noise whose covariance the rows decide, with what that reveals counted: for any record within the bounds.

Mathematics: 6.7, ``docs/mathematics/any-record.md``.

Also here: the same for the rows that are there, row by row.

Mathematics: 6.10, ``docs/mathematics/any-record.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Seed, Vector
from fisherleak._support.numbers import most_of_two_digits, number, two_digits
from fisherleak.engine.changes.remade_covariance import linear_part, public_curvature
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.magnitudes import spectral_norm
from fisherleak.engine.noise import Gaussian, Noise, grid_of
from fisherleak.engine.noise.calibration_record import (
    ANY_RECORD,
    FOR_ANYONE,
    HESSIAN,
    Calibration,
    Confidential,
    calibration_of,
    has_own_shape,
)
from fisherleak.engine.noise.noise import covariance_of
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.protection.calibrate.limit_terms import Matrix, raw_map
from fisherleak.protection.certificates.bound_quantities import Quantities, quantities_of
from fisherleak.protection.certificates.exchange import Exchange, exchange_in, heaviest, value_map
from fisherleak.protection.certificates.least_loss_for_any_record import (
    bound_in_own_metric,
    evenly_weighted,
    first_of_squared,
    shape_for_anyone,
    shape_metrics,
)
from fisherleak.protection.certificates.published_scale import STEP, on_public_grid, pivot_probability
from fisherleak.protection.certificates.worst_record import WorstRecord, check_useful, rounding, worst_record

FINEST = 2.0**-30
"""Of a coordinate's standard deviation: a finer grid would show the last bits of the model again."""


def own_shape(jacobian: Jacobian) -> Gaussian:
    """Noise of covariance G^-1 over the released parameters."""
    U = raw_map(linear_part(jacobian).fit)
    return Gaussian(1.0, U @ U.T)


@dataclass(frozen=True)
class TermBounds:
    """Bounds on both terms of any record within the bounds, as etas at noise of scale 1, and what they are made of."""

    exchange: Exchange
    """Under that noise."""
    worst: WorstRecord
    first: float
    second: float = 0.0
    """What a covariance that the rows decide reveals by itself, whatever the scale."""
    shape: str | None = None
    """The name of such a covariance."""
    N: Matrix | None = None

    def scale(self, eta: float) -> float:
        """The least scale that keeps a limit."""
        left = eta if self.shape is None else math.sqrt(eta**2 - self.second**2)
        return math.nextafter(self.first / left, math.inf)

    def noise(self, eta: float, random_state: Seed) -> tuple[Noise, Calibration]:
        """The noise with the least scale on a public grid that keeps a limit, and how it was found."""
        exchange, worst = self.exchange, self.worst
        assert exchange.leakage is not None
        if self.first == 0 and self.shape is None:
            raise InvalidInputError("eta is zero without any noise: the model does not depend on these values.")
        margin = min(worst.margin, check_useful(self.first, worst.lower, exchange.count))
        grid = on_public_grid(self.scale(eta), random_state)
        lower, spread = (worst.lower, worst.spread) if self.shape is None else (worst.present, math.inf)
        told = Calibration(
            *(ANY_RECORD, eta, exchange.allowed.bounds, STEP, grid.offset, pivot_probability(spread)),
            Confidential(lower, self.first, worst.present, spread, self.second, margin),
            shape=None if self.shape is None else HESSIAN if self.N is None else FOR_ANYONE,
            rows_per_person=None if exchange.count == 1 else exchange.count,
            least=None if self.shape is None else _least(exchange, self.N),
        )
        noise: Any = exchange.leakage.noise.rescaled(grid.scale)
        if self.shape is None:
            return noise, told
        noise = replace(noise, calibrated=told)
        check_grid(noise, self.shape)
        return noise, told


def term_bounds(exchange: Exchange, searched: bool) -> TermBounds:
    """For noise whose covariance is public: there is no second term. ``searched`` is as in ``worst_record``."""
    worst = worst_record(exchange, searched=searched)
    return TermBounds(exchange, worst, worst.upper)


def own_shape_bounds(leakage: Leakage, shape: str, eta: float, searched: bool, *asked: Any) -> TermBounds:
    """For noise with a covariance that the rows decide; refuses a limit that no scale keeps.

    ``shape`` is "hessian", or "least-loss" for that of ``least_loss_for_any_record``. ``asked`` are those of ``exchange_in``.
    """
    fit = leakage.fits[0]
    if fit.loss.several or fit.loss.traits is None:
        raise InvalidInputError(
            f"shape={shape!r} with over='any-record' is counted for the package's own losses of one output, and the loss is "
            f"{fit.loss.name}: take the covariance from public rows, or 'isotropic'."
        )
    exchange = exchange_in(leakage, *asked)
    linear = linear_part(exchange.jacobian)
    N = None if shape == HESSIAN else evenly_weighted(exchange.jacobian, exchange.allowed)
    shaped = exchange.with_noise(own_shape(exchange.jacobian) if N is None else shape_for_anyone(linear, N))
    # a replaced row changes the shape anyway, so that no probability is told that the scale stays
    worst = worst_record(shaped, by_rows=True, searched=searched)
    first, second = _terms(shaped, worst.upper, N)
    check_useful(first, worst.lower, shaped.count)
    if not second < eta:
        raise InvalidInputError(
            f"eta of {eta:g} cannot be certified with `shape={shape!r}`: the covariance itself may reveal up to "
            f"{number(second, 2)} of any record within the bounds, whatever the scale. Use `shape='isotropic'`, a "
            "larger `l2` or more rows."
        )
    return TermBounds(shaped, worst, first, second, shape, N)


def _terms(shaped: Exchange, upper: float, N: Matrix | None) -> tuple[float, float]:
    """Bounds on both terms at scale 1, as etas: for noise of the shape G^-1, or with N of the shape G^-1 (G # N) G^-1."""
    fit, count = shaped.jacobian.fit, shaped.count
    linear = replace(shaped, jacobian=linear_part(shaped.jacobian))
    q, _ = quantities_of(linear)
    metrics = None if N is None else shape_metrics(linear.jacobian, N)
    # section 6.7, "First": G' <= (e^sigma + omega h) G, sigma is ``stretch``; the root of the factor multiplies the
    # bound for fixed noise. Of all rows of a person, h is the sum of theirs, and both terms are ``count`` times those of
    # one row (section 6.11)
    grown = math.sqrt(math.exp(q.stretch) + count * q.omega * float(q.root.max()) ** 2)
    first = upper * (grown if metrics is None else metrics.shrinking(linear, q))
    if fit.loss.unit_curvature:
        directly = (bound_in_own_metric if metrics is None else first_of_squared)(linear, q)
        first = min(first, count * directly * (1.0 + rounding(fit)))
    return first, count * (_second(linear, q) if metrics is None else metrics.second(linear, q))


def _second(exchange: Exchange, q: Quantities) -> float:
    """The second term of any record within the bounds, as an eta."""
    # section 6.7, "Second": B' <= ``grown`` B before the new row enters, so that its leverage omega h' is at most
    # gain / (1 + gain)
    if not q.leverage < 1:
        return math.inf
    grown = math.exp(q.stretch) / (1.0 - q.leverage)
    gain = q.omega * grown * float(q.root.max()) ** 2
    # the root of 2 omega^2 h' e.B'e for the worst e = E d with |d| = 1
    moved = math.sqrt(2.0 * q.omega * gain / (1.0 + gain) * grown) * q.whole_e
    # the root of 1/2 max delta^2 ||B'||^2 over the columns whose scales are folded in
    return moved + math.sqrt(0.5) * q.scale_push * spectral_norm(exchange.directions) * grown * q.columns_root**2


def _least(exchange: Exchange, N: Matrix | None) -> float:
    """A standard deviation that noise of such a covariance is never below, from public numbers: two digits of the rows."""
    fit, allowed = exchange.jacobian.fit, exchange.allowed
    rows = most_of_two_digits(two_digits(fit.n))
    low, high = allowed.base.copy(), allowed.base.copy()
    for part in allowed.parts:
        low, high = low + part.min(axis=0), high + part.max(axis=0)
    far = float(np.sum(np.maximum(low**2, high**2))) if allowed.radius is None else allowed.radius**2
    # a variance is at most a quarter of the squared range
    spread = 1.0 if fit.scales is None else max(1.0, 0.25 * float(np.max((high - low) ** 2, initial=0.0)))
    penalty = max(fit.l2 * spread, fit.intercept_l2) / public_curvature(fit.loss)
    # no eigenvalue of G is above n (the heaviest weight times the largest |x|^2, plus the penalty over a_0)
    least = 1.0 / math.sqrt(rows * (heaviest(fit) * (far + 1.0) + penalty))
    # S^-1 <= G^1/2 (G^1/2 N^-1 G^1/2)^1/2 G^1/2
    return least if N is None else least**1.5 * float(np.linalg.eigvalsh(N)[0]) ** 0.25


def check_grid(noise: Any, shape: str) -> None:
    """Refuse one public grid that is too fine for some parameters, or too coarse."""
    S = covariance_of(noise)
    assert S is not None
    coordinate, step = noise.scale * math.sqrt(float(np.max(np.diag(S)))), float(grid_of(noise, 1)[0])
    finest = grid_of(replace(noise, calibrated=None), len(S)).min()
    if step < FINEST * coordinate or step > finest:
        raise InvalidInputError(
            f"`shape={shape!r}` gives parameters noise of such different sizes that one public grid cannot fit them all: bring "
            "the columns to similar units, or use `shape='isotropic'`."
        )


# Of the rows that are there


@dataclass(frozen=True)
class ShapeTerm:
    """Small matrices that rows need, so that they can travel to them."""

    K: Vector
    """(p, p)"""
    E: Vector
    """(p, m): what values do to features."""
    spans: tuple[slice, ...]
    """The columns of E that each attribute has."""
    slopes: Vector
    """(d,): c is this times the distance from the mean; zero where no scale moves."""
    means: Vector
    centre: Vector | None
    intercept: bool
    weighted: bool
    """Whether rows' weights count in the scales."""

    def rows(self, X: Any, weights: Any = None) -> Vector:
        """An eta that no row's own is above, (n,), over all its values."""
        x, omega, c = self._of(X, weights)
        u = x @ self.K
        # section 6.10: omega (||K|| h + |u|^2)^1/2 + max |c| (1/2 ||K o K||)^1/2, over the values that E
        # moves; u is K x
        along = spectral_norm(self.E.T @ self.K @ self.E) * np.sum(x * u, axis=1) + np.sum((u @ self.E) ** 2, axis=1)
        return np.asarray(omega * np.sqrt(along) + self._by_penalty(c, np.flatnonzero(self.slopes), self.E))

    def cells(self, X: Any, weights: Any = None) -> Vector:
        """Etas of every attribute of every row, (n, attributes): exact for numbers, not below for others."""
        x, omega, c = self._of(X, weights)
        u = x @ self.K
        h, found = np.sum(x * u, axis=1), np.empty((len(x), len(self.spans)))
        for j, span in enumerate(self.spans):
            E = self.E[:, span]
            inner, seen = E.T @ self.K @ E, u @ E
            # the first part of F of section 6.10: omega^2 (K h + u u^T)
            square = omega**2 * (spectral_norm(inner) * h + np.sum(seen**2, axis=1))
            if E.shape[1] == 1:
                e, d = E[:, 0], c.shape[1]
                # e^T F e: 2 omega sum_a c_a e_a u_a (K e)_a, and 1/2 sum_ab c_a e_a c_b e_b K_ab^2
                moved, along = c * e[:d], u[:, :d] * (self.K @ e)[:d]
                by_scales = 0.5 * np.sum((moved @ self.K[:d, :d] ** 2) * moved, axis=1)
                square = square + 2.0 * omega * np.sum(moved * along, axis=1) + by_scales
                found[:, j] = np.sqrt(np.maximum(square, 0.0))
                continue
            touched = np.flatnonzero((self.slopes != 0) & np.any(E[: len(self.slopes)] != 0, axis=1))
            found[:, j] = np.sqrt(np.maximum(square, 0.0)) + self._by_penalty(c, touched, E)
        return found

    def _by_penalty(self, c: Vector, columns: NDArray[np.int64], E: Vector) -> Vector:
        """What moves along E do at most through the scales of some columns, (n,)."""
        # max |c| (1/2 ||K o K||)^1/2 of section 6.10, times the longest move of these columns
        size = math.sqrt(0.5 * spectral_norm(self.K[np.ix_(columns, columns)] ** 2)) * max(
            1.0, spectral_norm(E[columns])
        )
        return np.asarray(size * np.max(np.abs(c[:, columns]), axis=1, initial=0.0))

    def _of(self, X: Any, weights: Any) -> tuple[Vector, Vector, Vector]:
        """Centred rows (n, p), weights (n,) and c (n, d)."""
        plain = np.asarray(host(X), dtype=np.float64)
        x = np.asarray(with_constant(plain, self.intercept, self.centre))
        omega = np.ones(len(x)) if weights is None else np.asarray(host(weights), dtype=np.float64)
        c = self.slopes * (plain - self.means)
        return x, omega, c * omega[:, None] if self.weighted else c


@dataclass(frozen=True)
class ShapeTermForAnyone(ShapeTerm):
    """The same for noise of least loss for anyone: never below."""

    S: Vector = field(kw_only=True)
    """(p, p), for rows as they are centred."""
    M: Vector = field(kw_only=True)
    """M^-1."""

    def rows(self, X: Any, weights: Any = None) -> Vector:
        x, omega, c = self._of(X, weights)
        s, m, b = (spectral_norm(self.E.T @ each @ self.E) for each in (self.S, self.M, self.K))
        by_s, by_m, by_b = (np.sum((x @ each) * x, axis=1) for each in (self.S, self.M, self.K))
        learned = np.flatnonzero(self.slopes)
        scales = self._by_scales(learned) * spectral_norm(self.E[learned])
        # the fourth formula of section 6.9 at its most: 2 (e^T S x)(e^T M^-1 x) is no more than its first two terms
        square = 2.0 * (s * by_m + m * by_s) + 0.5 * b * by_b
        return np.asarray(omega * np.sqrt(square) + scales * np.max(np.abs(c), axis=1, initial=0.0))

    def cells(self, X: Any, weights: Any = None) -> Vector:
        x, omega, c = self._of(X, weights)
        metrics = (self.S, self.M, self.K)
        length = [np.sum((x @ each) * x, axis=1) for each in metrics]
        found = np.empty((len(x), len(self.spans)))
        for j, span in enumerate(self.spans):
            E = self.E[:, span]
            s, m, b = (E.T @ each @ E for each in metrics)
            along = [x @ each @ E for each in metrics]
            # the fourth formula of section 6.9, term by term: exactly for one value, by lengths for several
            square = spectral_norm(s) * length[1] + spectral_norm(m) * length[0] + 0.25 * spectral_norm(b) * length[2]
            if E.shape[1] == 1:
                square = square + 2.0 * along[0][:, 0] * along[1][:, 0]
            else:
                square = square + 2.0 * np.sqrt(np.prod([np.sum(each**2, axis=1) for each in along[:2]], axis=0))
            square = square + 0.25 * np.sum(along[2] ** 2, axis=1)
            touched = np.flatnonzero(np.any(E[: c.shape[1]] != 0, axis=1))
            moved = np.max(np.abs(c[:, touched]), axis=1, initial=0.0) * self._by_scales(touched)
            found[:, j] = omega * np.sqrt(np.maximum(square, 0.0)) + moved * spectral_norm(E)
        return found

    def _by_scales(self, columns: Any) -> float:
        """What a push of one on the penalties of some columns, through their scales, does at most."""
        s, m, b = (spectral_norm(each[np.ix_(columns, columns)]) for each in (self.S, self.M, self.K))
        # (||M^-1|| ||S|| + ||K||^2 / 8)^1/2 over these columns, the end of section 6.10
        return math.sqrt(s * m + b**2 / 8.0)


def knows_shape(noise: Any, outputs: int = 1) -> bool:
    """Whether noise has a data-dependent covariance of which this is the term: G^-1 of one output, or that for anyone.

    What shapes of least loss, and those of several outputs, tell by themselves is not known here, and nothing stands for it.
    """
    return outputs == 1 and has_own_shape(noise) and noise.calibrated.shape in (HESSIAN, FOR_ANYONE)


def shape_term(jacobian: Jacobian, noise: Any = None) -> ShapeTerm:
    """Of one release, whose noise has a shape that :func:`knows_shape` knows; that of G^-1 if none is given."""
    linear, fit, folding = linear_part(jacobian), jacobian.fit, jacobian.folding
    K = np.asarray(host(linear.fit.factor.inverse()))
    d = int(jacobian.X.shape[1])
    slopes, means, weighted = np.zeros(d), np.zeros(d), False
    if folding is not None and folding.totals is not None and fit.l2 > 0:
        totals = np.asarray(host(folding.totals))
        learned = totals > 0
        # G has n l2 / a_0 times a column's variance, which a value moves by 2 omega (x - mean) / total
        slopes[learned] = 2.0 * fit.l2 / public_curvature(fit.loss) * fit.n / totals[learned]
        means, weighted = np.asarray(host(folding.means)), folding.weighted
    edges = np.cumsum([0, *(attribute.size for attribute in jacobian.attributes)]).tolist()
    spans = tuple(slice(a, b) for a, b in pairwise(edges))
    centre = None if fit.centre is None else np.asarray(host(fit.centre))
    E = value_map(jacobian, jacobian.attributes, len(K))
    known = (K, E, spans, slopes, means, centre, fit.intercept is not None, weighted)
    told = calibration_of(noise)
    if told is None or told.shape != FOR_ANYONE:
        return ShapeTerm(*known)
    S = np.asarray(noise.shape, dtype=np.float64)
    if centre is not None:  # from the released parameters to those of centred rows: the level is b + coef . centre
        back = np.eye(len(S))
        back[-1, :-1] = centre
        S = back @ S @ back.T
    # S = K M K, so that M^-1 = K S^-1 K
    root = np.linalg.solve(np.linalg.cholesky(S), K)
    return ShapeTermForAnyone(*known, S=S, M=root.T @ root)
