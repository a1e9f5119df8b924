"""The share of a value that a release reveals, row by row: one scale from 0 to 1 for every number, whatever its unit.

Mathematics: 5.1, ``docs/mathematics/shares.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fisherleak._support.checks import check_positive, nearest
from fisherleak._support.namespaces import Sums, Vector
from fisherleak.engine.beliefs.mean_squares import WORK
from fisherleak.engine.jacobian.perturbation import absent_in
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.measurement import measurement
from fisherleak.leakage.shares import share_of as share_of
from fisherleak.leakage.shares import share_unknown, squared_etas
from fisherleak.rows import map_rows, sum_rows
from fisherleak.rows.summary import Moments
from fisherleak.tables import Design, Feature
from fisherleak.training.defaults import EVEN_ODDS

if TYPE_CHECKING:
    from fisherleak.training.trained_model import Trained

HALF = 0.5
"""People are counted of whom more than this share of a value is revealed."""
LARGEST = 1e150
"""In place of a root mean square that has no bound: all of such a value may be revealed."""
UNBOUNDED = 1e100
"""Exposures past this come from such a value: no noise hides it."""
MOST_VALUES = 2**22
"""Numbers of a table whose shares take a minute or so; of the squared loss, whose shares are quick, ``QUICK`` times as many."""
QUICK = 4
SHARES = ("half", "max_revealed")
"""Limits that are on shares, and not on etas."""
MEANING = (
    "The share of a numeric value revealed is (h s)² / (1 + (h s)²): the largest part of its variance that an attacker who "
    "knows everything else learns (van Trees). The attacker's belief is normal around the column's mean, with spread s. h² is "
    "the mean of eta² over that belief, with the model refitted for each value. Shares are exact for the squared loss, and for "
    "the largest of each column where refits are possible; others are upper bounds."
)
"""What a share is."""
SEVERAL_ROWS = (
    "people have several rows, and a share would need an attacker's belief about all their values together. Limit max_eta "
    "or min_error"
)


def exposure_at(share: float) -> float:
    """The exposure at which that share of a value is revealed.

    Examples
    --------
    >>> exposure_at(0.5), round(exposure_at(0.9), 12)
    (1.0, 3.0)
    """
    return math.sqrt(share / (1.0 - share))


@dataclass(frozen=True)
class Limits:
    """Etas in the column's own unit past which rows are counted, by name of the limit: of columns, and of the label."""

    columns: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    label: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Share:
    """How much of the values of a column, or of the label, is revealed at an audit's noise."""

    spread: float
    worst: float
    high: float
    """Of one row in twenty it is more."""
    median: float
    count: int
    """Rows of which more than ``HALF`` is revealed, at most."""
    row: int
    """The row of the worst."""

    @classmethod
    def of(cls, spread: float, etas: tuple[float, float, float], count: int, row: int) -> Share:
        """From the largest root mean square of eta, its 95 % quantile and its median, in the unit of the spread."""
        worst, high, median = (share_of(eta * spread) for eta in etas)
        return cls(spread, worst, high, median, count, row)


@dataclass(frozen=True)
class Yardsticks:
    """What etas are compared with, (p + 1,) each with the label last: prior spreads in standard units, NaN for categories.

    Attributes
    ----------
    spreads : array
    levels : tuple of str
        Names of limits, the first of them "half".
    etas : array of shape (len(levels), p + 1)
        In standard units at noise of scale 1; infinite where there is no limit.
    """

    spreads: Vector = field(repr=False)
    levels: tuple[str, ...]
    etas: Vector = field(repr=False)

    def count(self, cells: Vector, rms: Vector) -> tuple[Any, Any]:
        """Cells (b, p + 1) above each limit, (levels, p + 1), and rows with a number of which more than half is revealed.

        Limits on shares hold the root mean squares ``rms`` of etas over what is believed beforehand.
        """
        shares = np.isin(self.levels, SHARES)[:, None, None]
        above = np.where(shares, rms[None, :, :], cells[None, :, :]) > self.etas[:, None, :]
        return above.sum(axis=1), int(above[0].any(axis=1).sum())


def prior_spreads(trained: Trained, spread: Mapping[str, float]) -> Vector:
    """What an outsider starts from about each column, and the label behind them, in their units; NaN for categories."""
    known = _declared(trained, spread)
    if shares_unknown(trained) is not None:
        return np.full(len(trained.design.features) + 1, np.nan)
    own = [known.get(f.name, f.prior if f.has_share else np.nan) for f in trained.design.features]
    return np.array([*own, known.get(trained.design.target.name, label_spread(trained.design))])


def spreads_in_units(trained: Trained, priors: Vector) -> Vector:
    """Prior spreads in standard units."""
    design = trained.design
    return np.asarray(priors / np.append([f.scale for f in design.features], design.target.unit))


def guarded_spreads(features: Sequence[Feature], spreads: Vector) -> Vector:
    """Spreads in standard units, the label's last, with that of even odds for every yes or no."""
    even = [EVEN_ODDS * feature.step / feature.scale if feature.yes_no else np.nan for feature in features]
    return np.where(np.isnan(spreads), [*even, np.nan], spreads)


def yardsticks(trained: Trained, scale: float, priors: Vector, limits: Limits) -> Yardsticks:
    """Limits at a scale of noise, in standard units, as etas at noise of scale 1; prior spreads in columns' own units."""
    design = trained.design
    names = [f.name for f in design.features]
    units = np.append([f.scale for f in design.features], design.target.unit)
    spreads = spreads_in_units(trained, priors)
    levels = tuple(dict.fromkeys(name for given in (*limits.columns.values(), limits.label) for name in given))
    etas = np.full((1 + len(levels), spreads.size), np.inf)
    etas[0] = np.where(np.isfinite(spreads), 1.0 / spreads, np.inf)
    for j, given in [*((names.index(n), g) for n, g in limits.columns.items() if n in names), (-1, limits.label)]:
        for level, eta in given.items():
            etas[1 + levels.index(level), j] = eta * units[j]
    return Yardsticks(spreads, ("half", *levels), etas * scale)


def shares_unknown(trained: Trained) -> str | None:
    """Why no share is known for this model and noise, or None."""
    people, information = trained.design.people, measurement(trained.leak).information
    if people is not None and int(np.max(people.sizes)) > 1:
        return SEVERAL_ROWS
    numbers = sum(feature.has_share for feature in trained.design.features)
    quick = QUICK if all(each.jacobian.fit.loss.quadratic for each in information.releases) else 1
    if numbers * trained.design.n > quick * MOST_VALUES // (2 if trained.design.lazy else 1):
        return "the table is too large for a mean over a belief for each value: limit max_eta or min_error, or audit fewer rows"
    if trained.outputs > 1 and 20 * numbers * trained.outputs * trained.design.n**2 > WORK:
        return "the table is too large for refits of every value with several classes: limit max_eta or min_error"
    return share_unknown(information, trained.leak.noise)


def squares_of_values(trained: Trained, priors: Vector) -> tuple[Any, ...] | None:
    """Means of eta squared over what is believed of each value and label, (n, p + 1): what the mean of a release tells.

    At noise of scale 1 in its units; a second array has what a covariance that the rows decide tells by itself, the same at
    every scale. Lazy where the rows are. NaN for categories; None where nothing is known.
    """
    if shares_unknown(trained) is not None:
        return None
    spreads = spreads_in_units(trained, priors)
    centre = math.nan if trained.design.target.classes else _label_moments(trained.design).mean
    spread = float(spreads[-1]) * trained.design.target.counted  # as the model is fitted on it
    return squared_etas(trained.leak, spreads[:-1], (centre, spread))


def rms_of_values(trained: Trained, squares: tuple[Any, ...] | None) -> Any:
    """Their roots, both together at the model's noise, times its scale; NaN for cells that are missing too."""
    if squares is None:
        return None
    scale, attributes = trained.shaped_at or 0.0, measurement(trained.leak).information.attributes

    def roots(X: Any, first: Any, second: Any = None) -> Any:
        gone = absent_in(attributes, np.asarray(X))
        rms = np.sqrt(np.asarray(first) + (0.0 if second is None else scale**2 * np.asarray(second)))
        most = np.minimum(rms, LARGEST)  # so that quantiles of what has no bound are numbers
        return most if gone is None else np.where(np.pad(gone, ((0, 0), (0, 1))), np.nan, most)

    return map_rows(roots, trained.design.X, *squares, width=len(attributes) + 1)


def largest_exposure(features: Sequence[Feature], spreads: Vector, rms: Vector, etas: Vector) -> float | None:
    """The largest exposure of a column, or of the label, of the largest figures of each, (p + 1,); None where there is none.

    Of a yes or no that counts as a number of spread 1/2, by its eta at the value.
    """
    exposures = np.where(np.isfinite(spreads), rms * spreads, etas * guarded_spreads(features, spreads))
    largest = float(np.nanmax(exposures)) if np.isfinite(exposures).any() else 0.0
    return largest if 0.0 < largest < UNBOUNDED else None


def _label_moments(design: Design) -> Moments:
    def block(y: Any) -> Sums:
        return (Moments.of(np.asarray(y, dtype=np.float64)),)

    (found,) = sum_rows(block, design.y, join=lambda a, b: (a[0] + b[0],))
    moments: Moments = found
    return moments


def label_spread(design: Design) -> float:
    """Standard deviation of a number that is predicted, in its own unit; NaN for classes."""
    if design.target.classes:
        return math.nan
    found = _label_moments(design)
    return math.sqrt(found.squares / found.count) * design.target.scale


def _declared(trained: Trained, spread: Mapping[str, float]) -> Mapping[str, float]:
    """Spreads that were given, of numbers that the model uses or predicts."""
    design = trained.design
    numbers = [f.name for f in design.features if f.kind == "number"]
    numbers += [] if design.target.classes else [design.target.name]
    for name in spread:
        if name not in numbers:
            raise InvalidInputError(
                f"`spread` names '{name}', which is no numeric column of this model. {nearest(name, numbers)}"
            )
    return {name: check_positive(value, f"spread of '{name}'") for name, value in spread.items()}
