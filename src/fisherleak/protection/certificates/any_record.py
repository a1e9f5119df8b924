"""A scale that nobody can move: calibrated to the worst row that could be there, not to the worst one that is.

What ``calibrate(over="any-record")`` does, step by step: the rows that could be there (``declared_bounds``), a certified bound
on the eta that any of them would have in place of any present one (``bound_quantities``, ``certificate``), a value from below
(a search), how far one replaced row moves the bound (``scale_sensitivity``), and a public grid with a random
offset (``noise_scale_grid``).

Also here: the worst record within the bounds that a search finds: a value from below, an eta of a model that was
fitted with it.

From the corners where the bound is largest, one column at a time takes its other end or level while eta grows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host, is_lazy
from fisherleak._support.namespaces import Seed, Vector
from fisherleak.engine.fit.minimise import Fit, fit_at, risk_of_fit
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.jacobian import Jacobian, jacobian_of
from fisherleak.engine.jacobian.folding import Folding
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibration_record import ANY_RECORD, Calibration, Confidential
from fisherleak.engine.norms import every_release, one_release
from fisherleak.engine.norms.several_outputs import refuse_several
from fisherleak.errors import FisherleakError, InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import final_estimator
from fisherleak.protection.certificates.bound_quantities import Points, Quantities, points_of, quantities_of, strong_of
from fisherleak.protection.certificates.certificate import Bound, bound, bound_by_penalty, drift_of
from fisherleak.protection.certificates.declared_bounds import AllowedRecords, allowed_records
from fisherleak.protection.certificates.scale_sensitivity import spread_of
from fisherleak.protection.certificates.softmax_certificate import SeveralBound, bound_of_several
from fisherleak.protection.noise_scale_grid import STEP, on_public_grid, pivot_probability

STARTS, SWEEPS = 3, 2
WORK, MOST = 2e9, 80
"""Products of all refits together, and how many there are at most."""
NEAR = 1e-9


@dataclass(frozen=True)
class Found:
    """A record within the bounds, the row it stands for, and eta of the refitted model at noise of scale 1."""

    eta: float
    row: int
    features: Vector
    label: float


def ascend(
    jacobian: Jacobian,
    attributes: Sequence[Attribute],
    label: bool,
    allowed: AllowedRecords,
    points: Points,
    found: Bound | SeveralBound,
    count: int = 1,
) -> Found:
    """The best row that was found, starting from the corners with the largest bounds; then in ``count`` rows of a person."""
    n, p = jacobian.X.shape[0], int(jacobian.B.shape[1])
    left = [int(np.clip(WORK / (8.0 * n * p * p), 12, MOST))]
    rows = _replaced(jacobian)
    best: Found | None = None
    for start, choice, y in _starts(jacobian, allowed, points, found):
        here = _best_row(jacobian, attributes, label, rows, start, y, left)
        here = _climbed(jacobian, attributes, label, allowed, here, choice, left)
        best = here if best is None or here.eta > best.eta else best
        if left[0] <= 0:
            break
    assert best is not None
    return best if count == 1 else _repeated(jacobian, attributes, label, best, count)


def _repeated(jacobian: Jacobian, attributes: Sequence[Attribute], label: bool, best: Found, count: int) -> Found:
    """The same record in all rows of a person, which are one record: their Jacobians add up (section 2.7)."""
    n = jacobian.X.shape[0]
    beside = [row for row in range(min(n, count)) if row != best.row][: count - 1]
    eta = (1 + len(beside)) * eta_in_place(jacobian, attributes, label, best.row, best.features, best.label, beside)
    return replace(best, eta=max(best.eta, eta))


def eta_in_place(
    jacobian: Jacobian,
    attributes: Sequence[Attribute],
    label: bool,
    row: int,
    features: Vector,
    y: float,
    beside: Sequence[int] = (),
) -> float:
    """||J|| of a row in the model refitted with it in place of another; zero where there is no such model.

    With rows ``beside`` it, it stands in their place too, as in all rows of one person: of one of them.
    """
    fit = jacobian.fit
    X = np.array(host(jacobian.X), dtype=np.float64)
    labels = np.array(host(jacobian.y), dtype=np.float64)
    X[[row, *beside]], labels[[row, *beside]] = features, y
    weights = None if fit.sample_weight is None else np.asarray(host(fit.sample_weight))
    folding = None if jacobian.folding is None else _on_host(jacobian.folding)
    scales = None if fit.scales is None else np.asarray(host(fit.scales))
    if folding is not None and scales is not None:
        scales = _scales(folding, scales, np.asarray(host(jacobian.X)), X, weights)
    several = jacobian.several
    risk = replace(risk_of_fit(fit, X, labels), weights=weights, scales=scales, known_centre=None)
    try:
        fresh = fit_at(risk, np.asarray(host(fit.theta)), polish=True)
    except FisherleakError:
        return 0.0
    if folding is not None:
        coef = np.ones(X.shape[1]) if several else np.asarray(fresh.coef)
        folding = _refolded(folding, X, weights, fit.n * fit.l2 * coef)
    then = jacobian_of(fresh, X, labels, jacobian.noise, jacobian.attributes, folding)
    block = [X[row : row + 1], labels[row : row + 1], None if weights is None else weights[row : row + 1]]
    J = np.asarray(then.dense(attributes, label)(*block))[0]
    return float(np.linalg.norm(J, 2))


def _on_host(folding: Folding) -> Folding:
    arrays: dict[str, Any] = {
        name: np.asarray(host(getattr(folding, name))) for name in ("slopes", "means", "values", "shares", "frame")
    }
    return replace(folding, **arrays)


def _scales(folding: Folding, scales: Vector, before: Vector, after: Vector, weights: Vector | None) -> Vector:
    """Standard deviations with the row replaced; columns that were not scaled keep theirs."""
    omega = weights if folding.weighted else None
    learned = np.asarray(folding.slopes) != 0
    ratio = np.sqrt(_variance(after, omega) / np.where(learned, _variance(before, omega), 1.0))
    return np.where(learned, scales * ratio, scales)


def _variance(X: Vector, omega: Vector | None) -> Vector:
    mean = np.average(X, axis=0, weights=omega)
    return np.asarray(np.average((X - mean) ** 2, axis=0, weights=omega))


def _refolded(folding: Folding, X: Vector, weights: Vector | None, push: Vector) -> Folding:
    omega = weights if folding.weighted and weights is not None else np.ones(X.shape[0])
    learned = np.asarray(folding.slopes) != 0
    slopes = np.where(learned, 2.0 * push / omega.sum(), 0.0)
    return replace(folding, slopes=slopes, means=np.average(X, axis=0, weights=omega))


def _replaced(jacobian: Jacobian) -> list[int]:
    """Rows that are tried as the one that leaves: those with the largest and the least part in the model."""
    fit = jacobian.fit
    X, y = np.asarray(host(jacobian.X), dtype=np.float64), np.asarray(host(jacobian.y), dtype=np.float64)
    weights = None if fit.sample_weight is None else np.asarray(host(fit.sample_weight))
    centre = None if fit.centre is None else np.asarray(host(fit.centre))
    x = with_constant(X, fit.intercept is not None, centre)
    if jacobian.several:
        A = jacobian.model.scores(X, y, weights).A
        moved = np.linalg.norm(np.asarray(A), 2, axis=(1, 2)) * np.linalg.norm(x, axis=1)
    else:
        a = np.asarray(fit.loss.a(x @ np.asarray(host(fit.centred_theta)), y)) * (1.0 if weights is None else weights)
        moved = a * np.linalg.norm(x @ np.asarray(host(jacobian.B)).T, axis=1)
    order = np.argsort(moved)
    heavy = np.arange(len(y)) if weights is None else np.flatnonzero(weights >= weights.max() * (1.0 - NEAR))
    chosen = [int(order[-1]), int(order[-2 if len(order) > 1 else -1]), int(heavy[np.argmin(moved[heavy])])]
    return list(dict.fromkeys(chosen))


def _starts(
    jacobian: Jacobian, allowed: AllowedRecords, points: Points, found: Bound | SeveralBound
) -> list[tuple[Vector, NDArray[np.int64], float]]:
    """Features, the choice of each column that they are made of, and a label."""
    d = allowed.base.shape[0]
    if allowed.radius is not None:
        _, _, right = np.linalg.svd(np.asarray(host(jacobian.B))[:, :d])
        w = np.atleast_2d(np.asarray(host(jacobian.fit.coef)))[0]
        ways = [right[0], w / (np.linalg.norm(w) or 1.0)]
        ways.append(ways[0] + np.sign(ways[0] @ ways[1] or 1.0) * ways[1])
        radius = allowed.radius * (1.0 - NEAR)
        ends = [side * radius * way / (np.linalg.norm(way) or 1.0) for way in ways for side in (-1.0, 1.0)]
        return [(end, np.zeros(0, dtype=np.int64), float(y)) for end in ends for y in allowed.labels]
    order = np.argsort(np.where(np.isfinite(found.points), found.points, 0.0))[::-1][:STARTS]
    return [(_features(allowed, points.choices[k]), points.choices[k], float(y)) for k in order for y in allowed.labels]


def _features(allowed: AllowedRecords, choice: NDArray[np.int64]) -> Vector:
    return sum((part[k] for part, k in zip(allowed.parts, choice, strict=True)), allowed.base)


def _best_row(
    jacobian: Jacobian,
    attributes: Sequence[Attribute],
    label: bool,
    rows: list[int],
    start: Vector,
    y: float,
    left: list[int],
) -> Found:
    tried = [Found(eta_in_place(jacobian, attributes, label, row, start, y), row, start, y) for row in rows]
    left[0] -= len(rows)
    return max(tried, key=lambda each: each.eta)


def _climbed(
    jacobian: Jacobian,
    attributes: Sequence[Attribute],
    label: bool,
    allowed: AllowedRecords,
    here: Found,
    choice: NDArray[np.int64],
    left: list[int],
) -> Found:
    """One column after the other takes another of its choices where eta grows."""
    choice = choice.copy()
    for _ in range(SWEEPS):
        before = here.eta
        for j, k in [(j, k) for j, part in enumerate(allowed.parts) for k in range(len(part))]:
            if k == choice[j] or left[0] <= 0:
                continue
            left[0] -= 1
            other = np.where(np.arange(len(choice)) == j, k, choice)
            features = _features(allowed, other)
            eta = eta_in_place(jacobian, attributes, label, here.row, features, here.label)
            if eta > here.eta:
                here, choice = replace(here, eta=eta, features=features), other
        if left[0] <= 0 or here.eta <= before * (1.0 + NEAR):
            break
    return here


EPSILON = float(np.finfo(np.float64).eps)
AT_MINIMUM = 1e-8
"""Relative gradient up to which a model counts as at its minimum."""
MOST_COPIES = 2**10
COPIES = tuple(2**k for k in range(1, 11))
"""Times as many rows that are looked at where so few have no useful bound."""
LOOSEST = 20.0
"""A bound this many times above what a search finds says nothing: the row moves the model farther than can be followed."""


class NoUsefulBoundError(InvalidInputError):
    """One record within the bounds would move the model farther than can be followed."""


@dataclass(frozen=True)
class WorstRecord:
    """The worst record within the bounds in place of a row, from below and from above. Confidential: numbers of the data.

    Attributes
    ----------
    upper, lower : float
        Etas at noise of scale 1: a certified bound, and what a model fitted with such a row was seen to have.
    present : float
        The largest eta of the rows that are there.
    spread : float
        How far log(upper) moves, at most, if another record within the bounds replaces one row; infinite where unknown.
    allowed : AllowedRecords
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
    allowed: AllowedRecords
    reached: Found
    certified: Certified = field(repr=False)
    margin: float


@dataclass(frozen=True)
class Certified:
    """The bound alone, at noise of scale 1, with what a search needs and what it is made of."""

    upper: float
    spread: float
    allowed: AllowedRecords
    points: Points
    found: Bound | SeveralBound
    quantities: Quantities | None = field(repr=False)
    """None for several classes."""
    omega: float
    count: int = 1
    """Rows that a person may have, all of which are exchanged at once; counted in ``upper``."""


def certified(
    leakage: Leakage,
    bounds: Mapping[str, Any] | None = None,
    attributes: Any = None,
    label: bool | None = None,
    by_rows: bool = False,
    count: int = 1,
) -> Certified:
    """The certified bound on the worst record, infinite where none holds, and how far one replaced row moves it.

    ``by_rows`` takes more products and gives a lower bound where few rows lie far out; how far a replaced row moves that one
    is not known. With ``count`` the bound is on the eta of a person whose rows, at most so many, are all exchanged at once.
    """
    jacobian = bounded_release(leakage)
    chosen, counted = measurement(leakage).chosen(attributes, label)
    allowed = allowed_records(jacobian, measurement(leakage).table, bounds)
    points = points_of(jacobian, allowed)
    error = rounding(jacobian.fit)
    if jacobian.several:
        # how far a replaced row moves this bound is not known
        several = bound_of_several(jacobian, allowed, points, chosen, counted, count)
        above = count * several.value * (1.0 + error)
        return Certified(above, math.inf, allowed, points, several, None, 1.0, count)
    q, present, omega = quantities_of(jacobian, points, chosen, count)
    loss, labels = jacobian.fit.loss, allowed.labels
    found = bound(q, loss, labels, omega, counted, drift_of(jacobian, q) if by_rows else None)
    strong = strong_of(jacobian, points, chosen)
    cap = math.inf if strong is None else bound_by_penalty(strong, loss, labels, omega, counted)
    known = allowed.settled and not by_rows and count == 1
    spread = spread_of(found, q, present, loss, labels, omega, counted, cap) if known else math.inf
    # section 6.11: all rows of a person tell at most ``count`` times what one of them does
    upper = count * min(found.value, cap) * (1.0 + error)
    return Certified(upper, spread + 2.0 * error, allowed, points, found, q, omega, count)


def copies_enough(leakage: Leakage, bounds: Mapping[str, Any] | None, count: int) -> int | None:
    """How many times as many rows like these have a useful bound for ``count`` rows at once: a power of two, or None.

    Useful is one that is near its limit for ever more rows, which a person of copies of one record comes near to.
    """
    jacobian = bounded_release(leakage)
    if jacobian.several:
        return None
    chosen, counted = measurement(leakage).chosen(None, None)
    allowed = allowed_records(jacobian, measurement(leakage).table, bounds)
    points, loss = points_of(jacobian, allowed), jacobian.fit.loss

    def times(copies: int) -> float:
        q, _, omega = quantities_of(jacobian, points, chosen, count, copies)
        drift = None if loss.quadratic else drift_of(jacobian, q, copies)
        return copies * bound(q, loss, allowed.labels, omega, counted, drift).value

    least = times(MOST_COPIES**2)
    return next((k for k in COPIES if times(k) <= 0.5 * LOOSEST * least), None)


def rounding(fit: Fit) -> float:
    """A bound's relative error, by rounding alone: no distance from the minimum is one, for the fit was moved there."""
    return EPSILON * (64.0 + fit.condition)


def worst_record(
    leakage: Leakage,
    bounds: Mapping[str, Any] | None = None,
    attributes: Any = None,
    label: bool | None = None,
    by_rows: bool = False,
    count: int = 1,
    searched: bool = True,
) -> WorstRecord:
    """The worst record within the bounds over the values that count, as in :meth:`Leakage.per_example`.

    ``by_rows`` takes the lower bound at once, for whoever has no use of how far a replaced row moves it. ``count`` is as in
    :func:`certified`. Without ``searched`` nothing is looked for where a row that is there shows already that the bound is
    useful: ``upper`` is the same.
    """
    loss = leakage.fits[0].loss
    closer = not loss.quadratic and not loss.several
    above = certified(leakage, bounds, attributes, label, by_rows and closer, count)
    closer = closer and not by_rows
    if not math.isfinite(above.upper):
        above = certified(leakage, bounds, attributes, label, by_rows=True, count=count) if closer else above
        closer = False
        check_useful(above.upper, math.inf, count)  # no search where nothing holds
    chosen, counted = measurement(leakage).chosen(attributes, label)
    largest = float(np.max(host(leakage.per_example(attributes, label)))) * leakage.noise.scale
    if not searched and above.upper <= LOOSEST * largest:
        found = Found(largest, 0, np.zeros(0), 0.0)
        known = (above.upper, largest, largest, above.spread, above.allowed, found, above)
        return WorstRecord(*known, check_useful(above.upper, largest, count))
    best = ascend(bounded_release(leakage), chosen, counted, above.allowed, above.points, above.found, count)
    lower, margin = max(best.eta, largest), math.inf
    if closer and not above.upper <= LOOSEST * lower:
        margin = math.log(above.upper / (LOOSEST * lower)) if lower > 0 else 0.0
        above = certified(leakage, bounds, attributes, label, by_rows=True, count=count)
    margin = min(margin, check_useful(above.upper, lower, count))
    return WorstRecord(above.upper, lower, largest, above.spread, above.allowed, best, above, margin)


def check_useful(upper: float, lower: float, count: int = 1) -> float:
    """Refuse a bound that is far above what was found, or infinite; else how far it is from that, as a logarithm."""
    if (not math.isfinite(upper) or not upper <= LOOSEST * lower) and count > 1:
        raise NoUsefulBoundError(
            f"No useful bound holds for a person with {count} rows of any record within the bounds: they would move the model "
            "too far (few people, little l2, or wide bounds). Declare narrower bounds or fewer rows per person, use a larger "
            "l2 or more people."
        )
    if not math.isfinite(upper) or not upper <= LOOSEST * lower:
        raise NoUsefulBoundError(
            "No useful bound holds for any record within the bounds: one record could move the model too far (few rows, little "
            "l2, or wide bounds). Declare narrower bounds, use a larger l2 or more rows, or `over='max'`."
        )
    return math.log(LOOSEST * lower / upper) if upper > 0 else math.inf


def scale_for_any_record(
    leakage: Leakage,
    eta: float,
    bounds: Mapping[str, Any] | None = None,
    attributes: Any = None,
    label: bool | None = None,
    random_state: Seed = None,
    count: int = 1,
    searched: bool = True,
) -> tuple[Noise, Calibration]:
    """The noise of the same kind whose scale keeps every record within the bounds at or below a limit, and how it was found.

    With ``count``, every person of at most so many rows. ``searched`` is as in ``worst_record``.
    """
    worst = worst_record(leakage, bounds, attributes, label, count=count, searched=searched)
    if worst.upper == 0:
        raise InvalidInputError("eta is zero without any noise: the model does not depend on these values.")
    grid = on_public_grid(math.nextafter(worst.upper / eta, math.inf), random_state)
    told = Calibration(
        ANY_RECORD,
        eta,
        worst.allowed.bounds,
        STEP,
        grid.offset,
        pivot_probability(worst.spread),
        Confidential(*(worst.lower, worst.upper, worst.present, worst.spread), margin=worst.margin),
        rows_per_person=None if count == 1 else count,
    )
    return leakage.noise.rescaled(grid.scale), told


def _check_weights(leakage: Leakage) -> None:
    """Refuse weights that one row's label moves past what rows that are there have."""
    queried = measurement(leakage).queried
    model = None if queried is None else queried.model
    weighting = None if model is None else getattr(final_estimator(model), "class_weight", None)
    if isinstance(weighting, str):
        raise InvalidInputError(
            f"over='any-record' takes weights as public, and class_weight={weighting!r} computes them from the labels of all "
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
            "over='any-record' takes weights as public, and with class_weight and sample_weight a row's weight changes with "
            "its label: give all of it as sample_weight, or use `over='max'`."
        )


def bounded_release(leakage: Leakage) -> Jacobian:
    """The Jacobian of a release for which the bound holds, or a refusal by name."""
    _check_weights(leakage)
    information = measurement(leakage).information
    alone = len(information.fits) == 1 and not information.data_dependent
    if not (alone and information.fits[0].loss.shares):
        refuse_several(information, "calibrate(over='any-record')")
    jacobian, *others = every_release(information)
    if measurement(leakage).noise is None or others:
        raise InvalidInputError(
            "over='any-record' is for one release: calibrate each release of a composition by itself, to a part of the limit."
        )
    if jacobian.gradient:
        raise InvalidInputError("over='any-record' is for released parameters, and this leakage is of a gradient.")
    if is_lazy(jacobian.X):
        raise InvalidInputError(
            "over='any-record' needs rows in memory, and X is a Dask array: measure X.compute(), or use `over='max'`."
        )
    folding = jacobian.folding
    if not jacobian.several and folding is not None and folding.filling is not None:
        raise InvalidInputError(
            "over='any-record' has no bound for a mean or median that an imputer learned: fill missing values with a "
            "declared one, SimpleImputer(strategy='constant', fill_value=…), or call fl.protect with bounds, whose centres "
            "it fills in."
        )
    if jacobian.fit.gradient > AT_MINIMUM:
        raise InvalidInputError(
            "over='any-record' needs a model at its minimum, from which moves are bounded: measure with polish=True."
        )
    return jacobian
