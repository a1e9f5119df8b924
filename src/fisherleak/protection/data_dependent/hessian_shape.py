"""Noise shaped like the inverse Hessian of the rows themselves, for any record within the bounds, with its shape counted.

Mathematics: 6.7, ``docs/mathematics/any-record.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Seed
from fisherleak._support.numbers import most_of_two_digits, number, two_digits
from fisherleak.engine.changes.remade_covariance import linear_part, public_curvature
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.noise import Gaussian, grid_of
from fisherleak.engine.noise.calibration_record import ANY_RECORD, FOR_ANYONE, HESSIAN, Calibration, Confidential
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.protection.calibrate.limit_terms import Matrix, raw_map
from fisherleak.protection.certificates.any_record import (
    WorstRecord,
    bounded_release,
    check_useful,
    rounding,
    worst_record,
)
from fisherleak.protection.certificates.bound_quantities import Quantities, feature_map, quantities_of
from fisherleak.protection.certificates.declared_bounds import AllowedRecords, allowed_records
from fisherleak.protection.data_dependent.least_loss_for_any_record import (
    between,
    bound_in_own_metric,
    evenly_weighted,
    first_of_squared,
    shape_for_anyone,
)
from fisherleak.protection.noise_scale_grid import STEP, on_public_grid

FINEST = 2.0**-30
"""Of a coordinate's standard deviation: a finer grid would show the last bits of the model again."""


def own_shape(jacobian: Jacobian) -> Gaussian:
    """Noise of covariance G^-1 over the released parameters."""
    U = raw_map(linear_part(jacobian).fit)
    return Gaussian(1.0, U @ U.T)


def own_shape_for_any_record(
    leakage: Leakage,
    shape: str,
    eta: float,
    bounds: Mapping[str, Any] | None = None,
    attributes: Any = None,
    label: bool | None = None,
    random_state: Seed = None,
    count: int = 1,
    searched: bool = True,
) -> tuple[Gaussian, Calibration]:
    """The noise, on a public grid, with which both terms of every record within the bounds stay at or below a limit.

    ``shape`` is "hessian", or "least-loss" for that of ``least_loss_for_any_record``. With ``count``, both terms of every
    person of at most so many rows. ``searched`` is as in ``worst_record``.
    """
    found = own_shape_bounds(leakage, shape, eta, bounds, attributes, label, count, searched)
    fit, N, unit, worst, first, second = leakage.fits[0], found.N, found.unit, found.worst, found.first, found.second
    margin = min(worst.margin, check_useful(first, worst.lower, count))
    grid = on_public_grid(found.scale(eta), random_state)
    least = _least(fit, worst.allowed)
    told = Calibration(
        *(ANY_RECORD, eta, worst.allowed.bounds, STEP, grid.offset, 1.0),
        Confidential(worst.present, first, worst.present, math.inf, second, margin),
        shape=HESSIAN if N is None else FOR_ANYONE,
        rows_per_person=None if count == 1 else count,
        # S^-1 <= G^1/2 (G^1/2 N^-1 G^1/2)^1/2 G^1/2
        least=least if N is None else least**1.5 * float(np.linalg.eigvalsh(N)[0]) ** 0.25,
    )
    noise = replace(unit.rescaled(grid.scale), calibrated=told)
    check_grid(noise, shape)
    return noise, told


@dataclass(frozen=True)
class OwnShapeBounds:
    """Bounds on both terms of any record within the bounds, as etas at scale 1, and what they are made of."""

    unit: Gaussian
    N: Matrix | None
    worst: WorstRecord
    first: float
    second: float

    def scale(self, eta: float) -> float:
        """The least scale that keeps a limit."""
        return math.nextafter(self.first / math.sqrt(eta**2 - self.second**2), math.inf)


def own_shape_bounds(
    leakage: Leakage,
    shape: str,
    eta: float,
    bounds: Mapping[str, Any] | None = None,
    attributes: Any = None,
    label: bool | None = None,
    count: int = 1,
    searched: bool = True,
) -> OwnShapeBounds:
    """The bounds alone; refuses a limit that no scale keeps. ``searched`` is as in ``worst_record``."""
    fit = leakage.fits[0]
    if fit.loss.several or fit.loss.traits is None:
        raise InvalidInputError(
            f"shape={shape!r} with over='any-record' is counted for the package's own losses of one output, and the loss is "
            f"{fit.loss.name}: take the covariance from public rows, or 'isotropic'."
        )
    jacobian = bounded_release(leakage)
    N = None
    if shape != HESSIAN:
        N = evenly_weighted(jacobian, allowed_records(jacobian, measurement(leakage).table, bounds))
    unit = own_shape(jacobian) if N is None else shape_for_anyone(linear_part(jacobian), N)
    shaped = leakage.with_noise(unit)
    # a replaced row changes the shape anyway, so that no probability is told that the scale stays
    worst = worst_record(shaped, bounds, attributes, label, by_rows=True, count=count, searched=searched)
    first, second = (_terms if N is None else partial(_terms_for_anyone, N))(shaped, worst, attributes, label)
    check_useful(first, worst.lower, count)
    if not second < eta:
        raise InvalidInputError(
            f"eta of {eta:g} cannot hold with `shape={shape!r}`: what the covariance itself reveals of any record within "
            f"the bounds is at most {number(second, 2)}, whatever the scale. Use `shape='isotropic'`, a "
            "larger `l2` or more rows."
        )
    return OwnShapeBounds(unit, N, worst, first, second)


def _terms(shaped: Leakage, worst: WorstRecord, attributes: Any, label: bool | None) -> tuple[float, float]:
    """Bounds on both terms at scale 1 for noise of the shape G^-1, as etas."""
    chosen, counted = measurement(shaped).chosen(attributes, label)
    linear = linear_part(measurement(shaped).information.jacobians[0])
    count = worst.certified.count
    q, _, omega = quantities_of(linear, worst.certified.points, chosen, count)
    # section 6.7, "First": G' <= (e^sigma + omega h) G, sigma is ``stretch``; the root of the factor multiplies the
    # bound for fixed noise. Of all rows of a person, h is the sum of theirs, and both terms are ``count`` times those of
    # one row (section 6.11)
    first = worst.upper * math.sqrt(math.exp(q.stretch) + count * omega * float(q.root.max()) ** 2)
    fit = shaped.fits[0]
    if fit.loss.unit_curvature:
        ends = worst.allowed.labels
        directly = bound_in_own_metric(linear, q, worst.certified.points, chosen, ends, omega, counted)
        first = min(first, count * directly * (1.0 + rounding(fit)))
    return first, count * _second(q, omega, linear, chosen)


def _terms_for_anyone(
    N: Matrix, shaped: Leakage, worst: WorstRecord, attributes: Any, label: bool | None
) -> tuple[float, float]:
    """The same for noise of the shape G^-1 (G # N) G^-1."""
    chosen, counted = measurement(shaped).chosen(attributes, label)
    linear, points = linear_part(measurement(shaped).information.jacobians[0]), worst.certified.points
    count = worst.certified.count
    q, _, omega = quantities_of(linear, points, chosen, count)
    metrics, fit = between(linear, N), shaped.fits[0]
    first = worst.upper * metrics.shrinking(q, points, linear)
    if fit.loss.unit_curvature:
        directly = first_of_squared(linear, q, points, chosen, worst.allowed.labels, omega, counted)
        first = min(first, count * directly * (1.0 + rounding(fit)))
    return first, count * metrics.second(q, points, linear, chosen)


def _second(q: Quantities, omega: float, linear: Jacobian, attributes: Sequence[Attribute]) -> float:
    """The second term of any record within the bounds, as an eta."""
    # section 6.7, "Second": B' <= ``grown`` B before the new row enters, so that its leverage omega h' is at most
    # gain / (1 + gain)
    if not q.leverage < 1:
        return math.inf
    grown = math.exp(q.stretch) / (1.0 - q.leverage)
    gain = omega * grown * float(q.root.max()) ** 2
    # the root of 2 omega^2 h' e.B'e for the worst e = E d with |d| = 1
    moved = math.sqrt(2.0 * omega * gain / (1.0 + gain) * grown) * q.whole_e
    E = feature_map(linear, attributes, len(linear.B))
    size = float(np.linalg.norm(E, 2)) if E.size else 0.0
    # the root of 1/2 max delta^2 ||B'||^2 over the columns whose scales are folded in
    return moved + math.sqrt(0.5) * q.scale_push * size * grown * q.columns_root**2


def _least(fit: Fit, allowed: AllowedRecords) -> float:
    """A standard deviation that noise of covariance B is never below, from public numbers: two digits of the rows."""
    rows = most_of_two_digits(two_digits(fit.n))
    heaviest = 1.0 if fit.sample_weight is None else float(np.max(host(fit.sample_weight)))
    low, high = allowed.base.copy(), allowed.base.copy()
    for part in allowed.parts:
        low, high = low + part.min(axis=0), high + part.max(axis=0)
    far = float(np.sum(np.maximum(low**2, high**2))) if allowed.radius is None else allowed.radius**2
    # a variance is at most a quarter of the squared range
    spread = 1.0 if fit.scales is None else max(1.0, 0.25 * float(np.max((high - low) ** 2, initial=0.0)))
    penalty = max(fit.l2 * spread, fit.intercept_l2) / public_curvature(fit.loss)
    # no eigenvalue of G is above n (the heaviest weight times the largest |x|^2, plus the penalty over a_0)
    return 1.0 / math.sqrt(rows * (heaviest * (far + 1.0) + penalty))


def check_grid(noise: Gaussian, shape: str) -> None:
    """Refuse one public grid that is too fine for some parameters, or too coarse."""
    assert noise.shape is not None
    coordinate, step = noise.scale * math.sqrt(float(np.max(np.diag(noise.shape)))), float(grid_of(noise, 1)[0])
    finest = grid_of(replace(noise, calibrated=None), len(noise.shape)).min()
    if step < FINEST * coordinate or step > finest:
        raise InvalidInputError(
            f"`shape={shape!r}` leaves parameters with noise of such different sizes that no public grid suits all: bring the "
            "columns to similar units, or use `shape='isotropic'`."
        )
