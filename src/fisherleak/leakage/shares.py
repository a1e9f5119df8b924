r"""Root mean squares of eta over what is believed about each value beforehand: what shares revealed follow from.

For a belief :math:`v \sim N(m, s^2)`, m the column's mean and s its standard deviation unless another is given, no estimate has
a mean squared error below :math:`1 / (\overline{\eta^2} + 1 / s^2)`, with :math:`\overline{\eta^2}` the mean over that belief
of the squared eta of the model refitted with v in place (van Trees' inequality). The squares of independent releases add up.
Where the rows decide the covariance of the noise, eta has both terms, with the covariance made anew for each v.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, as_real, host, like, namespace
from fisherleak._support.grids import GAP
from fisherleak._support.namespaces import Sums, Vector
from fisherleak.engine.beliefs.believed_cells import Beliefs
from fisherleak.engine.beliefs.mean_squares import Means, means_over
from fisherleak.engine.beliefs.moving_noise import MovingNoise
from fisherleak.engine.information import Information, Release
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.noise.calibration_record import has_own_shape
from fisherleak.errors import UnsupportedModelError
from fisherleak.rows import map_rows, sum_rows

SAME = 1e-6
"""Difference of two features by the value that moves both, relative to their size, that is rounding."""


def share_of(exposure: Any) -> Any:
    """The share of a value revealed at an exposure: the root mean square of eta over the belief, times its spread.

    Examples
    --------
    >>> share_of(0.0), share_of(1.0), share_of(3.0)
    (0.0, 0.5, 0.9)
    """
    return 1.0 - 1.0 / (1.0 + exposure * exposure)


def share_unknown(information: Information, noise: Any) -> str | None:
    """Why shares revealed are not known for a release, or None."""
    if information.closed_mechanism is not None:
        return None
    if not information.shares_known:
        shaped = type(noise).__name__ if noise is not None else "one of these releases"
        return f"the covariance of {shaped} depends on the data: use fisherleak.Gaussian"
    for jacobian in (each.jacobian for each in information.releases):
        if jacobian.answered and getattr(noise, "of", None) != "score":
            return "what such answers reveal depends on the model that is refitted: measure noisy scores, of='score'"
        folding = jacobian.folding
        if folding is not None and folding.totals is None:
            return (
                "scales other than standard deviations, or imputers, move with the value: measure with "
                "public='preprocessing'"
            )
        if has_own_shape(jacobian.noise) and _moving_by_shape(jacobian) is None:
            return _unknown_shape(jacobian)
    return None


def _unknown_shape(jacobian: Jacobian) -> str:
    if jacobian.several:
        return "the covariance of this noise is data-dependent, which is counted for one output: use shape='isotropic'"
    return (
        "the covariance of this noise, and its scale, follow the rows that weigh most: calibrate with over='any-record', "
        "or use shape='isotropic'"
    )


def _moving_by_shape(jacobian: Jacobian) -> MovingNoise | None:
    return None if jacobian.several else MovingNoise.of_shape(jacobian)


def rms_etas(leak: Any, spreads: Vector, label: tuple[float, float] = (np.nan, np.nan)) -> Array:
    """Of every value, and of the label behind them: (n, attributes + 1); NaN where no spread is given, or nothing is known.

    ``label`` has the centre and the spread of the belief about labels. Infinite where neither refits nor a bound were found.
    """
    scale, absent = leak._scale, leak._absent
    parts = squared_etas(leak, spreads, label)
    xp = namespace(parts[0])

    def together(first: Array, second: Array | None = None) -> Array:
        return xp.sqrt(first / scale / scale + (0.0 if second is None else second))

    total = map_rows(together, *parts, width=len(spreads) + 1)
    if absent is None:
        return total
    gone = like(np.pad(np.asarray(host(absent)), ((0, 0), (0, 1))), total, xp)
    return xp.where(gone, xp.full_like(total, float("nan")), total)


def squared_etas(leak: Any, spreads: Vector, label: tuple[float, float] = (np.nan, np.nan)) -> tuple[Array, ...]:
    """Means of both terms: of the first at noise of scale 1, and, where rows decide its covariance, of the second at any."""
    information = leak._information
    why = share_unknown(information, leak._noise)
    if why is not None:
        raise UnsupportedModelError(f"The share of a value that is revealed is not known here: {why}.")
    found = [_means(leak, each.jacobian, _moving(each), spreads, label) for each in information.releases]
    parts = [each.squares for each in found], [each.by_shape for each in found if each.by_shape is not None]
    return tuple(
        map_rows(lambda *each: sum(each[1:], start=each[0]), *some, width=len(spreads) + 1) for some in parts if some
    )


def _moving(release: Release) -> MovingNoise | None:
    """The noise of a release, where that has a covariance that the rows decide."""
    if release.mechanism is not None:
        return MovingNoise.of_mechanism(release.jacobian, release.mechanism)
    return _moving_by_shape(release.jacobian) if has_own_shape(release.jacobian.noise) else None


def _means(
    leak: Any, jacobian: Jacobian, noise: MovingNoise | None, spreads: Vector, label: tuple[float, float]
) -> Means:
    names, absent = leak.attributes, leak._absent
    own = {attribute.name: attribute for attribute in jacobian.attributes}
    gone = np.zeros((1, len(names)), dtype=bool) if absent is None else np.asarray(host(absent))
    attributes = tuple(_where_there(own[name], gone[:, j]) for j, name in enumerate(names))
    known = np.array([_moves_evenly(attribute, jacobian.folding) for attribute in attributes])
    asked = np.where(known, spreads, np.nan)
    showing = _showing(attributes)
    places, centres, values = _values_of(leak, attributes, np.isfinite(asked) & ~_plain(attributes, showing), gone)
    # behind steps that mix columns, a feature does not show the value of any of them
    shown = [places[j] >= 0 or _agree(jacobian.X, attribute, showing[j]) for j, attribute in enumerate(attributes)]
    asked = np.where(shown, asked, np.nan)
    pairs = zip(attributes, showing, strict=True)
    features = np.array([(*own, *each.columns)[0] for each, own in pairs], dtype=np.int64)
    centres = np.where(places >= 0, centres, _centres(jacobian.X, features, absent))
    centre, spread = label
    if jacobian.several or not _takes_any_label(jacobian):
        spread = np.nan
    beliefs = Beliefs(attributes, asked, centres, features, places, values, spread, centre)
    return means_over(jacobian, beliefs, noise)


def _showing(attributes: Sequence[Attribute]) -> list[NDArray[np.int64]]:
    """Features that each attribute moves and no other does, the one that it moves most first."""
    moved = [(np.asarray(each.columns), _sizes(each)) for each in attributes]
    width = 1 + max((int(columns.max()) for columns, _ in moved), default=0)
    feeding = np.zeros(width, dtype=np.int64)
    for columns, sizes in moved:
        feeding[columns] += sizes > 0
    own = [np.flatnonzero((feeding[columns] == 1) & (sizes > 0)) for columns, sizes in moved]
    order = [places[np.argsort(-sizes[places], kind="stable")] for places, (_, sizes) in zip(own, moved, strict=True)]
    return [columns[places] for places, (columns, _) in zip(order, moved, strict=True)]


def _plain(attributes: Sequence[Attribute], showing: Sequence[NDArray[np.int64]]) -> NDArray[np.bool_]:
    """Which attributes are features as they are."""
    pairs = zip(attributes, showing, strict=True)
    return np.array([each.directions is None and own.size == len(each.columns) for each, own in pairs], dtype=bool)


def _agree(X: Array, attribute: Attribute, showing: NDArray[np.int64]) -> bool:
    """Whether there are features that show a value, and all of these show the same, but for a constant."""
    if showing.size < 2 or attribute.size > 1 or attribute.curved:
        return bool(showing.size)
    places = [attribute.columns.index(j) for j in showing]
    along = np.ones(showing.size) if attribute.directions is None else np.asarray(attribute.directions)[places, 0]

    def block(X: Array) -> Sums:
        values = np.asarray(host(as_real(X, namespace(X))), dtype=np.float64)[:, showing] / along
        apart = values[:, 1:] - values[:, :1]
        return apart.max(axis=0), -apart.min(axis=0), np.abs(values).max(axis=0)

    high, low, size = sum_rows(block, X, join=lambda a, b: tuple(map(np.maximum, a, b)))
    return bool((high + low <= SAME * (size[1:] + size[0])).all())


def _sizes(attribute: Attribute) -> Vector:
    """How far each of its features moves with it, in any row."""
    if attribute.directions is None:
        return np.ones(len(attribute.columns))
    directions = np.abs(attribute.directions)
    return np.asarray(directions.max(axis=(*range(directions.ndim - 2), -1), initial=0.0))


def _values_of(
    leak: Any, attributes: Sequence[Attribute], asked: NDArray[np.bool_], gone: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], Vector, Vector | None]:
    """Values of attributes that are columns of the table: places in the third, or -1, and means; filled cells have the mean."""
    places, centres = np.full(len(attributes), -1, dtype=np.int64), np.zeros(len(attributes))
    found: list[Vector] = []
    table = leak._table
    for j in np.flatnonzero(asked) if leak._raw and not table.lazy else ():
        attribute = attributes[j]
        column = table.names.index(attribute.name)
        if attribute.coded or not table.holds_numbers(column):
            continue
        values = table.numbers(column)
        there = ~(np.isnan(values) | gone[:, j])
        centres[j] = values[there].mean() if there.any() else 0.0
        places[j] = len(found)
        found.append(np.where(there, values, centres[j]))
    return places, centres, np.column_stack(found) if found else None


def _where_there(attribute: Attribute, gone: NDArray[np.bool_]) -> Attribute:
    """With one direction for all rows, where only cells that an imputer filled have another, which is zero."""
    if not attribute.affine or not attribute.curved or not gone.any() or gone.all():
        return attribute
    moves = np.asarray(attribute.directions)[~gone]
    return replace(attribute, directions=moves[0]) if (moves == moves[:1]).all() else attribute


def _moves_evenly(attribute: Attribute, folding: Any) -> bool:
    """Whether features are affine in the attribute, and at most one of its scales moves."""
    return (
        attribute.size == 1
        and attribute.affine
        and not attribute.curved
        and (folding is None or len(attribute.columns) == 1)
    )


def _takes_any_label(jacobian: Jacobian) -> bool:
    """Whether a refit exists for every label that a normal belief allows: not where the curvature changes its sign with it."""
    loss = jacobian.fit.loss
    return loss.quadratic or (loss.traits is not None and not loss.traits.by_label)


def _centres(X: Array, columns: NDArray[np.int64], absent: Array | None) -> Vector:
    """Means of a feature of each attribute, of the values that are there."""

    def block(X: Array, gone: Array | None = None) -> Sums:
        x = np.asarray(host(as_real(X, namespace(X))), dtype=np.float64)[:, columns]
        there = x != GAP if gone is None else ~np.asarray(host(gone))
        return np.where(there, x, 0.0).sum(axis=0), there.sum(axis=0)

    total, count = sum_rows(block, X) if absent is None else sum_rows(block, X, absent)
    return np.asarray(total / np.maximum(count, 1))
