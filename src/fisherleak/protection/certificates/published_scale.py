r"""A scale that may be published: on a public grid, where small changes of the data rarely show, and how far one row moves it.

With an offset :math:`2^{u/4}`, u uniform and independent of the data, the scale is rounded up to the next
:math:`2^{(k + u)/4}`. A row that can move the logarithm of the scale by D changes the published value with a probability of
at most D / log step, whatever the data.

Replacing a row changes the Hessian to :math:`H' = H^{1/2} K^{-1} H^{1/2}` with the spectrum of K between

.. math:: k_{low} = \frac{e^{-\tau}}{1 + s h}, \qquad k_{high} = \frac{e^{\tau}}{1 - \mathrm{leverage}},

and moves the parameters by at most a known length (``certificate.Extent``). Every quantity of the bound has an interval under
such changes, and the bound grows with each of them, so that it stays between its values at the lower and at the upper ends.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fisherleak._support.grids import rounded_up
from fisherleak._support.namespaces import Seed, Vector
from fisherleak.engine.losses import Loss
from fisherleak.errors import InvalidInputError
from fisherleak.protection.certificates.bound_quantities import Present, Quantities, maxima
from fisherleak.protection.certificates.certificate import Bound, Extent, bound, known_traits
from fisherleak.protection.certificates.exchange import Exchange

STEPS = 4
STEP = 2.0 ** (1.0 / STEPS)
BITS = 53
SAID = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
"""Probabilities that are told: a finer number would be one of the data itself."""


@dataclass(frozen=True)
class OnGrid:
    """A scale on the grid, and the grid's offset as a part of a step."""

    scale: float
    offset: float


def on_public_grid(scale: float, random_state: Seed = None) -> OnGrid:
    """The least scale of a grid with a new offset that is not below the one given."""
    offset = drawn_offset(random_state)
    return OnGrid(up_to_grid(scale, offset), offset)


def drawn_offset(random_state: Seed = None) -> float:
    """Uniform between 0 and 1, by the operating system's randomness; to be told with whatever follows from it.

    An offset that is drawn and not told would spread the grid's edges, and what follows would move smoothly with the numbers.
    """
    try:
        if random_state is None:
            return secrets.randbits(BITS) / 2.0**BITS
        return float(np.random.default_rng(random_state).random())
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"random_state must be None, a whole number, zero or more, or a numpy Generator; got {random_state!r}."
        ) from None


def up_to_grid(scale: float, offset: float) -> float:
    """The least number of the grid with an offset that is not below one."""
    place = math.ceil(STEPS * math.log2(scale) - offset)
    while _at(place, offset) < scale:
        place += 1
    return _at(place, offset)


def nearest_on_grid(scale: float, offset: float) -> float:
    """The number of the grid with an offset that is nearest to one."""
    return _at(round(STEPS * math.log2(scale) - offset), offset)


def seven_digits(scale: float) -> float:
    """A scale as files have it: seven digits, never below, so that the last bits of a power and a product carry nothing."""
    return rounded_up(scale, 7)


def _at(place: int, offset: float) -> float:
    return math.ldexp(2.0 ** ((place % STEPS + offset) / STEPS), place // STEPS)


def pivot_probability(spread: float) -> float:
    """That a replaced row changes the value on the grid, at most, if it moves the logarithm by ``spread``: in coarse steps."""
    exact = spread / math.log(STEP)
    return next((said for said in SAID if exact <= said), 1.0)


# How much one replaced row moves the bound behind a scale


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
