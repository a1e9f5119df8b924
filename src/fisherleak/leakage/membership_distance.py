r"""Rows that are recognised by the public frame: those whose removal moves a centre or a scale that was computed from the rows.

Noise acts in a frame, a centre and a scale of each column. Where no bounds were declared for a column, both come from the
rows, on a public grid (``_support.grids``). They are published, or can be read off the grid of the released parameters. So a
row whose removal moves one of them by a step is told for certain: its mu is infinite, whatever the noise.

With W the total weight of a column, m its mean, v its variance, and :math:`\delta = x - m` for the rows S that leave,

.. math:: W' = W - \sum_S \omega, \qquad m' = m - \frac{\sum_S \omega\delta}{W'}, \qquad
          v' = \frac{W v - \sum_S \omega\delta^2}{W'} - \Big(\frac{\sum_S \omega\delta}{W'}\Big)^2 .

Also here: how far releases with and without rows are apart, whatever is released and by however many releases.

With :math:`w_{(-S)}` the minimiser without the rows S and :math:`W^T W` the information of the noise at scale 1,
:math:`|W (w_{(-S)} - w)|`; the squares of independent releases add up. S is one row, or all rows of a group.

Where the rows decide the covariance of the noise there is no such mu. Then it is that of equal accuracy of the best test at
even odds, with the noise computed again without the rows (``remade_covariance``): it does not add up.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, host, is_lazy, like, namespace
from fisherleak._support.grids import GAP, GRID, public_units, units_within
from fisherleak._support.namespaces import Vector
from fisherleak.engine.changes.remade_covariance import FromGram, Reshaped, equivalent_norms
from fisherleak.engine.changes.removal import EXACT, check_fixed, check_normal, is_light, removal_norms
from fisherleak.engine.information import Information
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.mechanisms.interface_answers import is_interface
from fisherleak.engine.mechanisms.self_shaped import is_self_shaped
from fisherleak.engine.noise.calibration_record import Frame, has_own_shape
from fisherleak.engine.noise.noise import covariance_of
from fisherleak.engine.norms import every_release, information_of, one_release
from fisherleak.engine.norms.data_shaped import refuse_membership
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.measurement import measurement
from fisherleak.rows import map_rows, sum_rows

UNSURE = 1e-9
"""Distance from an edge of the grid, relative to the place on it, up to which the grid's own rounding decides."""
Sets = Sequence[NDArray[np.int64]]


@dataclass(frozen=True)
class FrameColumn:
    """A column whose centre or scale, or both, come from the rows."""

    place: int | None
    """Among the features; None for the label."""
    centre: float
    scale: float
    """As they are public."""
    offset: float = 0.0
    unit: float = 1.0
    """A value is ``offset + unit * x``, x as the rows have it."""
    centred: bool = True
    scaled: bool = True
    """Which of the two come from the rows."""
    name: str | None = None
    """Of the raw column that the feature is, as it is."""
    by_moments: bool = True
    """Whether they are its mean and standard deviation; how rows move others is not known, and counts as moving them."""

    def stays(self, mean: Vector, spread: Vector) -> NDArray[np.bool_]:
        """Whether rows with such a mean and standard deviation, in the column's own unit, have the same centre and scale."""
        there = (spread > 0) & self.by_moments
        power = GRID * np.log2(np.where(there, spread, 1.0)) if self.scaled else np.zeros(mean.shape)
        own = round(GRID * math.log2(self.scale)) if self.scaled else 0
        step = mean / self.scale if self.centred else np.zeros(mean.shape)
        multiple = round(self.centre / self.scale) if self.centred else 0
        apart = np.maximum(np.abs(power - own), np.abs(step - multiple))
        same = there & (apart < 0.5)
        slack = UNSURE * (1.0 + np.abs(power) + np.abs(step))
        for k in np.flatnonzero(there & (np.abs(apart - 0.5) <= slack)):
            spread_k = float(spread[k]) if self.scaled else self.scale
            same[k] = public_units(float(mean[k]) if self.centred else 0.0, spread_k) == (self.centre, self.scale)
        return np.asarray(same)


@dataclass(frozen=True)
class RowsFrame:
    """Centres and scales that come from the rows, and these rows.

    Parameters
    ----------
    X, y, weights : arrays of shape (n, d), (n,) and (n,)
        Rows as the columns' places are; the weights with which means and deviations are taken, None for equal ones.
    columns : tuple of FrameColumn
    published : bool
        Whether centres and scales are published whatever the noise; else they show only where noise acts in their frame.
    """

    X: Any = field(repr=False)
    y: Any = field(repr=False)
    weights: Any = field(repr=False)
    columns: tuple[FrameColumn, ...]
    published: bool = False

    def shows(self, noise: Any) -> bool:
        """Whether a release with a noise tells the frame: a shape is over raw parameters, and answers have no grid of it."""
        elsewhere = is_interface(noise) or is_self_shaped(noise)
        return self.published or not (elsewhere or covariance_of(noise) is not None)

    def without(self, frame: Frame) -> RowsFrame | None:
        """What still comes from the rows where declared bounds give the centres and scales of some features."""
        given = {place for place, _, _ in frame}
        columns = tuple(column for column in self.columns if column.place not in given)
        return replace(self, columns=columns) if columns else None

    def unnamed(self, names: Collection[str]) -> RowsFrame:
        """The same with columns of these names known by their place only, so that bounds give them nothing."""
        return replace(self, columns=tuple(replace(c, name=None) if c.name in names else c for c in self.columns))

    def named(self, names: Mapping[int, str]) -> RowsFrame:
        """The same with names of more features, by place."""
        known = (replace(c, name=names.get(-1 if c.place is None else c.place, c.name)) for c in self.columns)
        return replace(self, columns=tuple(known))

    def within(self, bounds: Mapping[str, Any]) -> Frame:
        """The centres and scales that bounds, which are checked, give to features that are columns of these names."""
        known = [(column.place, bounds.get(column.name or "")) for column in self.columns]
        return tuple(
            (place, *units_within(float(ends[0]), float(ends[1])))
            for place, ends in known
            if place is not None and ends is not None
        )

    def told_rows(self) -> Array:
        """Infinite for every row whose removal moves the frame, zero for others, (n,)."""
        columns, total = self.columns, self._totals()

        def block(X: Any, y: Any, weights: Any) -> Vector:
            return _told(columns, total, _leaving(columns, total[1], X, y, weights))

        return map_rows(block, *self._arrays())

    def told_sets(self, sets: Sets) -> Vector:
        """The same for sets of rows that leave together, (m,)."""
        total = self._totals()
        parts = _leaving(self.columns, total[1], *self._arrays())
        sums = np.stack([parts[:, rows].sum(axis=1) for rows in sets], axis=1)
        return _told(self.columns, total, sums)

    def _arrays(self) -> tuple[Any, Any, Any]:
        return _here(self.X), _here(self.y), _here(self.weights)

    def _totals(self) -> tuple[Vector, Vector, Vector]:
        """Weight, mean and variance of every column, (m,) each, in two passes: columns of years keep their digits."""
        columns, zero = self.columns, np.zeros(len(self.columns))
        weight, total, _ = sum_rows(lambda *rows: tuple(_leaving(columns, zero, *rows).sum(axis=1)), *self._arrays())
        mean = total / weight
        _, rest, squares = sum_rows(lambda *rows: tuple(_leaving(columns, mean, *rows).sum(axis=1)), *self._arrays())
        return weight, mean + rest / weight, squares / weight - (rest / weight) ** 2


def _here(x: Any) -> Any:
    """Rows as NumPy has them, or lazy."""
    return x if x is None or is_lazy(x) else np.asarray(host(x))


def _leaving(columns: Sequence[FrameColumn], mean: Vector, X: Any, y: Any, weights: Any) -> Vector:
    """What each row of a block takes with it from every column: weight, and weight times delta and its square, (3, b, m)."""
    values = np.stack([np.asarray(y if c.place is None else X[:, c.place], dtype=np.float64) for c in columns], axis=1)
    there = values != GAP
    omega = there * (1.0 if weights is None else np.asarray(weights, dtype=np.float64)[:, None])
    apart = np.where(there, values - mean[None, :], 0.0)
    return np.stack([omega, omega * apart, omega * apart**2])


def _told(columns: Sequence[FrameColumn], total: tuple[Vector, Vector, Vector], gone: Vector) -> Vector:
    """Infinite where any column's centre or scale is another without what is gone, (3, b, m); else zero."""
    weight, mean, variance = total
    left = weight[None, :] - gone[0]
    some = left > UNSURE * weight[None, :]
    left = np.where(some, left, 1.0)
    shift = gone[1] / left
    later = (weight * variance - gone[2]) / left - shift**2
    spread = np.sqrt(np.where(some, np.clip(later, 0.0, None), 0.0))
    moved = np.zeros(gone.shape[1], dtype=bool)
    for k, column in enumerate(columns):
        touched = gone[0, :, k] > 0
        own = column.offset + column.unit * (mean[k] - shift[:, k])
        moved |= touched & ~column.stays(own, column.unit * spread[:, k])
    return np.where(moved, np.inf, 0.0)


def acting_in(information: Information, frames: Sequence[RowsFrame], frame: Frame) -> Information:
    """The same release with noise that acts in the rows' frame but for the features that ``frame`` gives."""
    jacobian: Any = getattr(information, "jacobian", None) or one_release(information)
    own = [(column.place, column.centre, column.scale) for each in frames for column in each.columns]
    matrix, d = np.array(host(jacobian.folding.frame)), int(jacobian.X.shape[1])
    for place, centre, scale in (*own, *frame):
        matrix[place, place] = scale
        if jacobian.fit.intercept is not None:
            matrix[d, place] = centre
    there = like(matrix, jacobian.folding.frame, namespace(jacobian.folding.frame))
    other: Any = replace(jacobian, folding=replace(jacobian.folding, frame=there))
    return information_of(other.with_noise(jacobian.noise))


def certain(mu: Array, frames: Sequence[RowsFrame], sets: Sets | None = None) -> Array:
    """Mu of rows, (n,), or of sets of rows, (m,), infinite where their removal moves a frame."""
    for frame in frames:
        told = frame.told_rows() if sets is None else frame.told_sets(sets)
        told = told if is_lazy(mu) else like(np.asarray(told), mu, namespace(mu))
        mu = map_rows(lambda own, more: own + more, mu, told)
    return mu


def recognised_words(
    count: int, total: int, people: bool = False, remedy: str = "Declare bounds with `bounds`."
) -> str:
    """How many rows, or people, are recognised by the frame, and the remedy; nothing where there are none."""
    if not count:
        return ""
    who, them = "people" if people else "rows", "it" if count == 1 and not people else "them"
    return (
        f"{count:,} of {total:,} {who} can be recognised with certainty: without {them}, the public scale or centre of a "
        f"column would differ. {remedy}"
    )


NOT_KNOWN = "Membership is not known for this noise: "


def membership_of(leakage: Any, tolerance: float, sets: Sets | None = None) -> Array:
    """Mu of every row of a leakage, (n,), or of every set of rows, (m,), at its own noise."""
    information, count = measurement(leakage).information, leakage.n if sets is None else len(sets)
    reshaped = _reshaped(leakage, count)
    if reshaped is None:
        return membership_norms(information, tolerance, sets) / measurement(leakage).scale
    jacobian = measurement(leakage).jacobian
    found = equivalent_norms(reshaped, jacobian, tolerance, sets)
    return like(found, jacobian.X, namespace(jacobian.X))


def membership_kind_of(leakage: Any) -> str:
    """What a leakage's mu is: "mu", "equivalent", or "upper bound" of that; what is not known is refused by name."""
    people = measurement(leakage).people
    count = leakage.n if people is None else len(people.rows)
    reshaped = _reshaped(leakage, count)
    if reshaped is None:
        return "mu"
    return "upper bound" if reshaped.is_bounded(count) else "equivalent"


def unknown_by_shape(leakage: Any, count: int) -> str:
    """Why membership of so many rows, or sets of them, is not measured where rows decide the noise; nothing where it can be."""
    try:
        reshaped = _reshaped(leakage, count)
    except InvalidInputError as error:
        return f"not known: {str(error).removeprefix(NOT_KNOWN).removesuffix('.')}"
    if reshaped is None or (reshaped.is_light(count) and is_light(measurement(leakage).jacobian, count)):
        return ""
    return "not measured here: the noise is computed again without each row, and with so many it takes long (leak.membership)"


def _reshaped(leakage: Any, count: int) -> Reshaped | None:
    information = measurement(leakage).information
    if information.data_dependent:
        if information.closed_mechanism is None:
            refuse_membership(information)
        return FromGram.of_mechanism(information.releases[0].jacobian, information.closed_mechanism)
    noise = measurement(leakage).noise
    if not has_own_shape(noise):
        return None
    if information.several:
        _refuse_own(noise, "for models of one output only: ")
    return reshaped_by(information.jacobians[0], noise, count)


def reshaped_by(jacobian: Jacobian, noise: Any, count: int) -> Reshaped:
    """Gaussian noise with a data-dependent covariance as it is made anew, for so many rows or sets that are left out."""
    check_fixed(jacobian)
    if not isinstance(jacobian.X, np.ndarray):
        _refuse_own(noise, "for NumPy rows in memory only: compute the rows first, bring them to the host, or ")
    if noise.calibrated.asked is not None:
        # a folder further down docs/design.md: loaded when called
        made: Reshaped = import_module("fisherleak.protection.calibrate.remade_noise").made_anew(jacobian, noise, count)
        return made
    found = FromGram.of_shape(jacobian, noise, noise.calibrated.shape)
    if found is None:
        _refuse_own(
            noise,
            "only with the rows and the call that it came from, and these are not known: calibrate again on this leakage, or ",
        )
    return found


def _refuse_own(noise: Any, where: str) -> NoReturn:
    raise InvalidInputError(
        f"{NOT_KNOWN}its covariance, shape='{noise.calibrated.shape}', was computed from the rows. What it is without a row "
        f"is known {where}use shape='isotropic'."
    )


def membership_norms(information: Information, tolerance: float, sets: Sets | None = None) -> Array:
    """For every row, (n,), or for every set of rows, (m,), at noise of scale 1; never below the truth.

    Of several releases each is as exact as can be: squares add up.
    """
    tolerance = tolerance if len(information.fits) == 1 else min(tolerance, EXACT)
    if information.data_dependent:
        refuse_membership(information)
    jacobians = every_release(information)
    for jacobian in jacobians:
        check_normal(jacobian.noise)
        check_fixed(jacobian)
    norms = [removal_norms(jacobian, tolerance, sets=sets) for jacobian in jacobians]
    if len(norms) == 1:
        return norms[0]
    xp = namespace(norms[0])
    return map_rows(lambda *each: xp.sqrt(sum(mu**2 for mu in each)), *norms)
