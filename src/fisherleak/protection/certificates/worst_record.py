"""A scale that nobody can move: calibrated to the worst row that could be there, not to the worst one that is.

What ``calibrate(over="any-record")`` does, step by step: the rows that could be there (``declared_bounds``), a certified bound
on the eta that any of them would have in place of any present one (``bound_quantities``, ``bound_for_any_record``), a value
from below (a search), how far one replaced row moves the bound (``spread_of``), and a public grid with a random offset
(``published_scale``).

Also here: the worst record within the bounds that a search finds: a value from below, an eta of a model that was
fitted with it.

From the corners where the bound is largest, one column at a time takes its other end or level while eta grows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Vector
from fisherleak.engine.fit.minimise import Fit, fit_at, risk_of_fit
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.jacobian import Jacobian, jacobian_of
from fisherleak.engine.jacobian.folding import Folding
from fisherleak.engine.losses import Loss
from fisherleak.errors import FisherleakError, InvalidInputError
from fisherleak.protection.certificates.bound_for_any_record import (
    Bound,
    Extent,
    bound,
    bound_by_penalty,
    drift_of,
    known_traits,
)
from fisherleak.protection.certificates.bound_quantities import Present, Quantities, maxima, quantities_of, strong_of
from fisherleak.protection.certificates.declared_bounds import AllowedRecords
from fisherleak.protection.certificates.exchange import Exchange, exchange_in
from fisherleak.protection.certificates.softmax_certificate import SoftmaxBound, softmax_bound

if TYPE_CHECKING:
    from fisherleak.leakage.leakage import Leakage

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


def ascend(exchange: Exchange, found: Bound | SoftmaxBound) -> Found:
    """The best row that was found, starting from the corners with the largest bounds; then in all rows of a person."""
    jacobian = exchange.jacobian
    n, p = jacobian.X.shape[0], int(jacobian.B.shape[1])
    left = [int(np.clip(WORK / (8.0 * n * p * p), 12, MOST))]
    rows = _replaced(jacobian)
    best: Found | None = None
    for start, choice, y in _starts(exchange, found):
        tried = [Found(eta_in_place(exchange, row, start, y), row, start, y) for row in rows]
        left[0] -= len(rows)
        here = _climbed(exchange, max(tried, key=lambda each: each.eta), choice, left)
        best = here if best is None or here.eta > best.eta else best
        if left[0] <= 0:
            break
    assert best is not None
    return best if exchange.count == 1 else _repeated(exchange, best)


def _repeated(exchange: Exchange, best: Found) -> Found:
    """The same record in all rows of a person, which are one record: their Jacobians add up (section 2.7)."""
    n = exchange.jacobian.X.shape[0]
    beside = [row for row in range(min(n, exchange.count)) if row != best.row][: exchange.count - 1]
    eta = (1 + len(beside)) * eta_in_place(exchange, best.row, best.features, best.label, beside)
    return replace(best, eta=max(best.eta, eta))


def eta_in_place(exchange: Exchange, row: int, features: Vector, y: float, beside: Sequence[int] = ()) -> float:
    """||J|| of a row in the model refitted with it in place of another; zero where there is no such model.

    With rows ``beside`` it, it stands in their place too, as in all rows of one person: of one of them.
    """
    jacobian = exchange.jacobian
    fit = jacobian.fit
    X = np.array(host(jacobian.X), dtype=np.float64)
    labels = np.array(host(jacobian.y), dtype=np.float64)
    X[[row, *beside]], labels[[row, *beside]] = features, y
    weights = None if fit.sample_weight is None else np.asarray(host(fit.sample_weight))
    folding = None if jacobian.folding is None else _on_host(jacobian.folding)
    scales = None if fit.scales is None else np.asarray(host(fit.scales))
    if folding is not None and scales is not None:
        scales = _scales(folding, scales, np.asarray(host(jacobian.X)), X, weights)
    risk = replace(risk_of_fit(fit, X, labels), weights=weights, scales=scales, known_centre=None)
    try:
        fresh = fit_at(risk, np.asarray(host(fit.theta)), polish=True)
    except FisherleakError:
        return 0.0
    if folding is not None:
        coef = np.ones(X.shape[1]) if jacobian.several else np.asarray(fresh.coef)
        folding = _refolded(folding, X, weights, fit.n * fit.l2 * coef)
    then = jacobian_of(fresh, X, labels, jacobian.noise, jacobian.attributes, folding)
    block = [X[row : row + 1], labels[row : row + 1], None if weights is None else weights[row : row + 1]]
    J = np.asarray(then.dense(exchange.attributes, exchange.label)(*block))[0]
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


def _starts(exchange: Exchange, found: Bound | SoftmaxBound) -> list[tuple[Vector, NDArray[np.int64], float]]:
    """Features, the choice of each column that they are made of, and a label."""
    jacobian, allowed, choices = exchange.jacobian, exchange.allowed, exchange.points.choices
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
    return [(_features(allowed, choices[k]), choices[k], float(y)) for k in order for y in allowed.labels]


def _features(allowed: AllowedRecords, choice: NDArray[np.int64]) -> Vector:
    return sum((part[k] for part, k in zip(allowed.parts, choice, strict=True)), allowed.base)


def _climbed(exchange: Exchange, here: Found, choice: NDArray[np.int64], left: list[int]) -> Found:
    """One column after the other takes another of its choices where eta grows."""
    choice, allowed = choice.copy(), exchange.allowed
    for _ in range(SWEEPS):
        before = here.eta
        for j, k in [(j, k) for j, part in enumerate(allowed.parts) for k in range(len(part))]:
            if k == choice[j] or left[0] <= 0:
                continue
            left[0] -= 1
            other = np.where(np.arange(len(choice)) == j, k, choice)
            features = _features(allowed, other)
            eta = eta_in_place(exchange, here.row, features, here.label)
            if eta > here.eta:
                here, choice = replace(here, eta=eta, features=features), other
        if left[0] <= 0 or here.eta <= before * (1.0 + NEAR):
            break
    return here


EPSILON = float(np.finfo(np.float64).eps)
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
    reached: Found
    certified: Certified = field(repr=False)
    margin: float


@dataclass(frozen=True)
class Certified:
    """The bound alone, at noise of scale 1, with what it is of."""

    upper: float
    """Of all rows of a person together, where they have several."""
    spread: float
    exchange: Exchange
    found: Bound | SoftmaxBound


def certified(exchange: Exchange, by_rows: bool = False) -> Certified:
    """The certified bound on the worst record, infinite where none holds, and how far one replaced row moves it.

    ``by_rows`` takes more products and gives a lower bound where few rows lie far out; how far a replaced row moves that one
    is not known. Of several rows the bound is on the eta of a person whose rows are all exchanged at once.
    """
    jacobian, count = exchange.jacobian, exchange.count
    error = rounding(jacobian.fit)
    if jacobian.several:
        # how far a replaced row moves this bound is not known
        several = softmax_bound(exchange)
        return Certified(count * several.value * (1.0 + error), math.inf, exchange, several)
    q, present = quantities_of(exchange)
    found = bound(exchange, q, drift_of(jacobian, q) if by_rows else None)
    strong = strong_of(exchange)
    cap = math.inf if strong is None else bound_by_penalty(exchange, strong, q.omega)
    known = exchange.allowed.stable_under_replacement and not by_rows and count == 1
    spread = spread_of(exchange, found, q, present, cap) if known else math.inf
    # section 6.11: all rows of a person tell at most ``count`` times what one of them does
    upper = count * min(found.value, cap) * (1.0 + error)
    return Certified(upper, spread + 2.0 * error, exchange, found)


def copies_enough(leakage: Leakage, bounds: Mapping[str, Any] | None, count: int) -> int | None:
    """How many times as many rows like these have a useful bound for ``count`` rows at once: a power of two, or None.

    Useful is one that is near its limit for ever more rows, which a person of copies of one record comes near to.
    """
    exchange = exchange_in(leakage, bounds, count=count)
    jacobian = exchange.jacobian
    if jacobian.several:
        return None

    def times(copies: int) -> float:
        q, _ = quantities_of(exchange, copies)
        drift = None if jacobian.fit.loss.quadratic else drift_of(jacobian, q, copies)
        return copies * bound(exchange, q, drift).value

    least = times(MOST_COPIES**2)
    return next((k for k in COPIES if times(k) <= 0.5 * LOOSEST * least), None)


def rounding(fit: Fit) -> float:
    """A bound's relative error, by rounding alone: no distance from the minimum is one, for the fit was moved there."""
    return EPSILON * (64.0 + fit.condition)


def worst_record(exchange: Exchange, by_rows: bool = False, searched: bool = True) -> WorstRecord:
    """The worst record within the bounds.

    ``by_rows`` takes the lower bound at once, for whoever has no use of how far a replaced row moves it. Without ``searched``
    nothing is looked for where a row that is there shows already that the bound is useful: ``upper`` is the same, and
    ``present`` may be that of some rows.
    """
    loss, count = exchange.jacobian.fit.loss, exchange.count
    closer = not loss.quadratic and not loss.several
    above = certified(exchange, by_rows and closer)
    closer = closer and not by_rows
    if not math.isfinite(above.upper):
        above = certified(exchange, by_rows=True) if closer else above
        closer = False
        check_useful(above.upper, math.inf, count)  # no search where nothing holds
    for seen in () if searched else ("present_in_some", "present"):
        present = getattr(exchange, seen)
        if above.upper <= LOOSEST * present:
            margin = check_useful(above.upper, present, count)
            return WorstRecord(
                above.upper, present, present, above.spread, Found(present, 0, np.zeros(0), 0.0), above, margin
            )
    present = exchange.present
    best = ascend(exchange, above.found)
    lower, margin = max(best.eta, present), math.inf
    if closer and not above.upper <= LOOSEST * lower:
        margin = math.log(above.upper / (LOOSEST * lower)) if lower > 0 else 0.0
        above = certified(exchange, by_rows=True)
    margin = min(margin, check_useful(above.upper, lower, count))
    return WorstRecord(above.upper, lower, present, above.spread, best, above, margin)


def check_useful(upper: float, lower: float, count: int = 1) -> float:
    """Refuse a bound that is far above what was found, or infinite; else how far it is from that, as a logarithm."""
    if (not math.isfinite(upper) or not upper <= LOOSEST * lower) and count > 1:
        raise NoUsefulBoundError(
            f"No useful bound holds for a person with {count} rows, each any record within the bounds: they could move the "
            "model too far (few people, little l2, or wide bounds). Declare narrower bounds or fewer rows per person, use a "
            "larger l2 or more people."
        )
    if not math.isfinite(upper) or not upper <= LOOSEST * lower:
        raise NoUsefulBoundError(
            "No useful bound holds for any record within the bounds: one record could move the model too far (few rows, little "
            "l2, or wide bounds). Declare narrower bounds, use a larger l2 or more rows, or `over='max'`."
        )
    return math.log(LOOSEST * lower / upper) if upper > 0 else math.inf


# How much one replaced row moves the bound behind a scale
#
# Replacing a row changes the Hessian to :math:`H' = H^{1/2} K^{-1} H^{1/2}` with the spectrum of K between
#
# .. math:: k_{low} = \frac{e^{-\tau}}{1 + s h}, \qquad k_{high} = \frac{e^{\tau}}{1 - \mathrm{leverage}},
#
# and moves the parameters by at most a known length (``certificate.Extent``). Every quantity of the bound has an interval under
# such changes, and the bound grows with each of them, so that it stays between its values at the lower and at the upper ends.


def spread_of(exchange: Exchange, found: Bound, q: Quantities, present: Present, cap: float) -> float:
    """The largest |log M' - log M| over all data sets with one row replaced by another record; ``cap`` bounds all M."""
    now = min(found.value, cap)
    if not (math.isfinite(found.value) and now > 0):
        return math.inf  # without a finite bound there is no interval either
    loss = exchange.jacobian.fit.loss
    high, low = (bound(exchange, _moved(q, present, found.extent, loss, side)).value for side in (1, -1))
    high, low = min(high, cap), min(low, cap)
    return math.inf if low <= 0 or not math.isfinite(high) else max(math.log(high / now), math.log(now / low), 0.0)


def _moved(q: Quantities, present: Present, extent: Extent, loss: Loss, side: int) -> Quantities:
    """All quantities at their upper (side 1) or lower ends."""
    left = 1.0 / (1.0 - q.leverage)
    high, low = math.exp(extent.tau) * left, math.exp(-extent.tau) / (1.0 + extent.gain)
    # K = middle I + half U with ||U|| <= 1: |L B' x| differs from middle |L B x| by at most half ||L B^1/2|| |B^1/2 x|
    middle, half, move = 0.5 * (high + low), 0.5 * (high - low), extent.move
    k = high if side > 0 else low

    def length(value: Vector, whole: float, root: Vector) -> Vector:
        return np.maximum(middle * value + side * half * whole * root, 0.0)

    def number(value: float, whole: float, root: float) -> float:
        return max(middle * value + side * half * whole * root, 0.0)

    moved = _rows_moved(q, present, loss, (middle, half, k), move, side)
    rows: dict[str, Any] = maxima(moved, without_the_largest=side < 0)
    if side > 0:
        rows = {name: max(value, _newcomer(extent, name)) for name, value in rows.items()}
    wide = middle * q.direct + half * q.whole * q.whole_e
    # how far L B E u moves, u = E^T w, and then its product with L B x
    turned = abs(middle - 1.0) * q.along + half * q.whole * q.whole_e * q.u + wide * q.whole_e * move
    apart = (abs(middle - 1.0) * q.p + half * q.whole * q.root) * (q.along + turned) + q.p * turned
    return replace(
        q,
        **rows,
        whole=q.whole * math.sqrt(k),
        whole_e=q.whole_e * math.sqrt(k),
        direct=number(q.direct, q.whole, q.whole_e),
        columns=number(q.columns, q.whole, q.columns_root),
        u=max(q.u + side * q.whole_e * move, 0.0),
        along=max(q.along + side * turned, 0.0),
        root=q.root * math.sqrt(k),
        p=length(q.p, q.whole, q.root),
        e=length(q.e, q.whole_e, q.root),
        up=np.maximum(q.up + side * apart, 0.0),
        down=np.maximum(q.down + side * apart, 0.0),
        z_low=q.z_low - side * q.root * move,
        z_high=q.z_high + side * q.root * move,
        lowest=q.lowest - side * float(q.root.max()) * move,
        highest=q.highest + side * float(q.root.max()) * move,
        **_folding_moved(q, k, move, side),
    )


def _rows_moved(
    q: Quantities,
    present: Present,
    loss: Loss,
    spectrum: tuple[float, float, float],
    move: float,
    side: int,
) -> Present:
    """The rows that stay, with parameters and Hessian moved."""
    middle, half, k = spectrum
    root = np.sqrt(present.h)
    shift = root * move
    ends = [np.abs(np.asarray(loss.r(present.z + way * shift, present.y))) for way in (-1.0, 1.0)]
    crossing = np.asarray(loss.r(present.z - shift, present.y)) * np.asarray(loss.r(present.z + shift, present.y)) <= 0
    return replace(
        present,
        r=np.maximum(*ends) if side > 0 else np.where(crossing, 0.0, np.minimum(*ends)),
        a=present.a * np.exp(side * known_traits(loss).log_slope * shift),
        h=present.h * k,
        lb=np.maximum(middle * present.lb + side * half * q.whole * root, 0.0),
        eb=np.maximum(middle * present.eb + side * half * q.whole_e * root, 0.0),
    )


def _newcomer(extent: Extent, name: str) -> float:
    """What the new row may bring to a maximum over rows."""
    if name == "leverage":
        return extent.gain / (1.0 + extent.gain)
    return float(getattr(extent, name))


def _folding_moved(q: Quantities, k: float, move: float, side: int) -> dict[str, Any]:
    """Folded scales, their means and their pull."""
    if q.stretch == 0:
        return {}
    change = -math.expm1(-q.stretch)
    then = change / (1.0 - side * change)
    drift = q.m_by_move * move + q.m_by_mean
    return {
        "stretch": -math.log1p(-then) if then < 1 else math.inf,
        "pull": max(q.pull + side * q.pull_by_move * move, 0.0) * math.sqrt(k),
        "m": np.maximum(q.m + side * drift, 0.0),
        "m_by_move": q.m_by_move * math.sqrt(k),
    }
