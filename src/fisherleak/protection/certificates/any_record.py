"""A scale that nobody can move: calibrated to the worst row that could be there, not to the worst one that is.

What ``calibrate(over="admissible")`` does, step by step: the rows that could be there (``declared_bounds``), a certified bound
on the eta that any of them would have in place of any present one (``bound_quantities``, ``certificate``), a value from below
(``worst_row_search``), how far one replaced row moves the bound (``scale_sensitivity``), and a public grid with a random
offset (``noise_scale_grid``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fisherleak._support.arrays import host, is_lazy
from fisherleak._support.namespaces import Seed
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibrated import ADMISSIBLE, Calibration, Confidential
from fisherleak.engine.norms import every_release, one_release, refuse_several
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import final_estimator
from fisherleak.protection.certificates.bound_quantities import Points, Quantities, points_of, quantities_of, strong_of
from fisherleak.protection.certificates.certificate import Bound, bound, bound_by_penalty
from fisherleak.protection.certificates.declared_bounds import Admissible, admissible_rows
from fisherleak.protection.certificates.parameter_change import drift_of
from fisherleak.protection.certificates.scale_sensitivity import spread_of
from fisherleak.protection.certificates.softmax_certificate import SeveralBound, bound_of_several
from fisherleak.protection.certificates.worst_row_search import Found, ascend
from fisherleak.protection.noise_scale_grid import STEP, on_public_grid, pivot_probability

__all__ = [
    "Certified",
    "NoUsefulBoundError",
    "WorstAdmissible",
    "admissible_scale",
    "bounded_release",
    "certified",
    "check_useful",
    "rounding",
    "worst_admissible",
]

EPSILON = float(np.finfo(np.float64).eps)
AT_MINIMUM = 1e-8
"""Relative gradient up to which a model counts as at its minimum."""
LOOSEST = 20.0
"""A bound this many times above what a search finds says nothing: the row moves the model farther than can be followed."""


class NoUsefulBoundError(InvalidInputError):
    """One admissible row would move the model farther than can be followed."""


@dataclass(frozen=True)
class WorstAdmissible:
    """The worst admissible row in place of any present one, from below and from above. Confidential: numbers of the data.

    Attributes
    ----------
    upper, lower : float
        Etas at noise of scale 1: a certified bound, and what a model fitted with such a row was seen to have.
    present : float
        The largest eta of the rows that are there.
    spread : float
        How far log(upper) moves, at most, if one row is replaced by an admissible one; infinite where that is not known.
    admissible : Admissible
    reached : Found
        The row that the search ended with, in place of which one; its eta is ``lower``, unless a present one is larger.
    certified : Certified
        The bound, and what it is made of.
    margin : float
        How far, as a logarithm, the bound is from where it would be refused, or where another one takes its place.
    """

    upper: float
    lower: float
    present: float
    spread: float
    admissible: Admissible
    reached: Found
    certified: Certified = field(repr=False)
    margin: float


@dataclass(frozen=True)
class Certified:
    """The bound alone, at noise of scale 1, with what a search needs and what it is made of."""

    upper: float
    spread: float
    admissible: Admissible
    points: Points
    found: Bound | SeveralBound
    quantities: Quantities | None = field(repr=False)
    """None for several classes."""
    omega: float


def certified(
    leakage: Leakage,
    bounds: Mapping[str, Any] | None = None,
    attributes: Any = None,
    label: bool | None = None,
    by_rows: bool = False,
) -> Certified:
    """The certified bound on the worst admissible row, infinite where none holds, and how far one replaced row moves it.

    ``by_rows`` takes more products and gives a lower bound where few rows lie far out; how far a replaced row moves that one
    is not known.
    """
    jacobian = bounded_release(leakage)
    chosen, counted = measurement(leakage).chosen(attributes, label)
    admissible = admissible_rows(jacobian, measurement(leakage).table, bounds)
    points = points_of(jacobian, admissible)
    error = rounding(jacobian.fit)
    if jacobian.several:
        # how far a replaced row moves this bound is not known
        several = bound_of_several(jacobian, admissible, points, chosen, counted)
        return Certified(several.value * (1.0 + error), math.inf, admissible, points, several, None, 1.0)
    q, present, omega = quantities_of(jacobian, points, chosen)
    loss, labels = jacobian.fit.loss, admissible.labels
    found = bound(q, loss, labels, omega, counted, drift_of(jacobian, q) if by_rows else None)
    strong = strong_of(jacobian, points, chosen)
    cap = math.inf if strong is None else bound_by_penalty(strong, loss, labels, omega, counted)
    known = admissible.settled and not by_rows
    spread = spread_of(found, q, present, loss, labels, omega, counted, cap) if known else math.inf
    return Certified(min(found.value, cap) * (1.0 + error), spread + 2.0 * error, admissible, points, found, q, omega)


def rounding(fit: Fit) -> float:
    """A bound's relative error, by rounding alone: no distance from the minimum is one, for the fit was moved there."""
    return EPSILON * (64.0 + fit.condition)


def worst_admissible(
    leakage: Leakage,
    bounds: Mapping[str, Any] | None = None,
    attributes: Any = None,
    label: bool | None = None,
    by_rows: bool = False,
) -> WorstAdmissible:
    """The worst admissible row over the values that count, as in :meth:`Leakage.per_example`.

    ``by_rows`` takes the lower bound at once, for whoever has no use of how far a replaced row moves it.
    """
    loss = leakage.fits[0].loss
    closer = not loss.quadratic and not loss.several
    above = certified(leakage, bounds, attributes, label, by_rows and closer)
    closer = closer and not by_rows
    if not math.isfinite(above.upper):
        above = certified(leakage, bounds, attributes, label, by_rows=True) if closer else above
        closer = False
        check_useful(above.upper, math.inf)  # no search where nothing holds
    chosen, counted = measurement(leakage).chosen(attributes, label)
    largest = float(np.max(host(leakage.per_example(attributes, label)))) * leakage.noise.scale
    best = ascend(bounded_release(leakage), chosen, counted, above.admissible, above.points, above.found)
    lower, margin = max(best.eta, largest), math.inf
    if closer and not above.upper <= LOOSEST * lower:
        margin = math.log(above.upper / (LOOSEST * lower)) if lower > 0 else 0.0
        above = certified(leakage, bounds, attributes, label, by_rows=True)
    margin = min(margin, check_useful(above.upper, lower))
    return WorstAdmissible(above.upper, lower, largest, above.spread, above.admissible, best, above, margin)


def check_useful(upper: float, lower: float) -> float:
    """Refuse a bound that is far above what was found, or infinite; else how far it is from that, as a logarithm."""
    if not math.isfinite(upper) or not upper <= LOOSEST * lower:
        raise NoUsefulBoundError(
            "No useful bound holds for the worst admissible row: one such row would move the model too far (few rows, little "
            "l2, or wide bounds). Declare narrower bounds, use a larger l2 or more rows, or `over='max'`."
        )
    return math.log(LOOSEST * lower / upper) if upper > 0 else math.inf


def admissible_scale(
    leakage: Leakage,
    eta: float,
    bounds: Mapping[str, Any] | None = None,
    attributes: Any = None,
    label: bool | None = None,
    random_state: Seed = None,
) -> tuple[Noise, Calibration]:
    """The noise of the same kind whose scale keeps every admissible row at or below a limit, and how it was found."""
    worst = worst_admissible(leakage, bounds, attributes, label)
    if worst.upper == 0:
        raise InvalidInputError("eta is zero without any noise: the model does not depend on these values.")
    grid = on_public_grid(math.nextafter(worst.upper / eta, math.inf), random_state)
    told = Calibration(
        ADMISSIBLE,
        eta,
        worst.admissible.bounds,
        STEP,
        grid.offset,
        pivot_probability(worst.spread),
        Confidential(*(worst.lower, worst.upper, worst.present, worst.spread), margin=worst.margin),
    )
    return leakage.noise.rescaled(grid.scale), told


def _check_weights(leakage: Leakage) -> None:
    """Refuse weights that one row's label moves past what rows that are there have."""
    queried = measurement(leakage).queried
    model = None if queried is None else queried.model
    weighting = None if model is None else getattr(final_estimator(model), "class_weight", None)
    if isinstance(weighting, str):
        raise InvalidInputError(
            f"over='admissible' takes weights as public, and class_weight={weighting!r} computes them from the labels of all "
            "rows: give class_weight as a dict of numbers, or use `over='max'`."
        )
    if weighting is None:
        return
    fit, jacobian = leakage.fits[0], one_release(measurement(leakage).information)
    if fit.sample_weight is None or is_lazy(jacobian.X):
        return
    of_class = np.array([float(weighting.get(each, 1.0)) for each in final_estimator(model).classes_.tolist()])
    classes = np.unique(np.asarray(host(jacobian.y)), return_inverse=True)[1]
    if classes.max() >= len(of_class) or not np.allclose(of_class[classes], np.asarray(host(fit.sample_weight))):
        raise InvalidInputError(
            "over='admissible' takes weights as public, and with class_weight and sample_weight a row's weight changes with "
            "its label: give all of it as sample_weight, or use `over='max'`."
        )


def bounded_release(leakage: Leakage) -> Jacobian:
    """The Jacobian of a release for which the bound holds, or a refusal by name."""
    _check_weights(leakage)
    information = measurement(leakage).information
    alone = len(information.fits) == 1 and not information.data_dependent
    if not (alone and information.fits[0].loss.shares):
        refuse_several(information, "calibrate(over='admissible')")
    jacobian, *others = every_release(information)
    if measurement(leakage).noise is None or others:
        raise InvalidInputError(
            "over='admissible' is for one release: calibrate each release of a composition by itself, to a part of the limit."
        )
    if jacobian.gradient:
        raise InvalidInputError("over='admissible' is for released parameters, and this leakage is of a gradient.")
    if is_lazy(jacobian.X):
        raise InvalidInputError(
            "over='admissible' needs rows in memory, and X is a Dask array: measure X.compute(), or use `over='max'`."
        )
    folding = jacobian.folding
    if not jacobian.several and folding is not None and folding.filling is not None:
        raise InvalidInputError(
            "over='admissible' has no bound for a mean or median that an imputer learned: fill missing values with a "
            "declared one, SimpleImputer(strategy='constant', fill_value=…), or use `over='max'`."
        )
    if jacobian.fit.gradient > AT_MINIMUM:
        raise InvalidInputError(
            "over='admissible' needs a model at its minimum, from which moves are bounded: measure with polish=True."
        )
    return jacobian
