"""What a bound is asked of: any record within the bounds in place of any row of a fit, or of all rows of a person."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host, is_lazy
from fisherleak._support.namespaces import Vector
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.fit.risk import with_constant
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.noise import Noise
from fisherleak.engine.norms import every_release, information_of, one_release
from fisherleak.engine.norms.several_outputs import refuse_several
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.measurement import measurement
from fisherleak.models.preprocessed import final_estimator
from fisherleak.protection.certificates.declared_bounds import AllowedRecords, allowed_in
from fisherleak.rows import gather
from fisherleak.rows.selection import some_rows

SOME_ROWS = 64
"""Rows that are measured where one that is there may show already that a bound is useful."""

if TYPE_CHECKING:
    from fisherleak.leakage.leakage import Leakage

MOST_POINTS = 2**14
"""Corners of the box that are looked at one by one; what is left of it is bounded by norms."""
AT_MINIMUM = 1e-8
"""Relative gradient up to which a model counts as at its minimum."""


@dataclass(frozen=True)
class Points:
    """Points (V, p) whose hull, widened by the ``rest``, holds all records within the bounds; in the coordinates of the fit."""

    x: Vector
    rest: tuple[Vector, ...]
    """What is not enumerated: deviations (k, p) of a column's choices from their middle."""
    radius: float
    """Of a ball over all features, or zero."""
    choices: NDArray[np.int64]
    """(V, parts): which choice of each column a point is made of; an end where the column is not enumerated."""
    spans: Vector
    """(d,): how far apart two values of a feature within the bounds are, at most."""

    def reach(self, matrix: Vector) -> float:
        """|matrix @ deviation| for what is not enumerated, at most."""
        lengths = [float(np.linalg.norm(part @ matrix.T, axis=1).max()) for part in self.rest]
        total = sum(lengths)
        if len(self.rest) > 1 and all(len(part) == 2 for part in self.rest):
            together = np.stack([part[1] for part in self.rest], axis=1)
            total = min(total, math.sqrt(len(self.rest)) * float(np.linalg.norm(matrix @ together, 2)))
        if self.radius:
            total += self.radius * float(np.linalg.norm(matrix[:, : len(self.spans)], 2))
        return total


def points_of(jacobian: Jacobian, allowed: AllowedRecords) -> Points:
    """Corners of the box of bounds, as many as can be looked at; the widest columns first."""
    d = allowed.base.shape[0]
    centre = np.zeros(d) if jacobian.fit.centre is None else np.asarray(host(jacobian.fit.centre))
    constant = [1.0] if jacobian.fit.intercept is not None else []
    x, rest, still = (allowed.base - centre)[None, :], [], np.zeros(d)
    choices = np.zeros((1, len(allowed.parts)), dtype=np.int64)
    spans = np.full(d, 2.0 * (allowed.radius or 0.0))
    widths = [float(np.linalg.norm(part - part.mean(axis=0), axis=1).max()) for part in allowed.parts]
    for k in sorted(range(len(widths)), key=lambda k: -widths[k]):
        part = allowed.parts[k]
        spans += part.max(axis=0) - part.min(axis=0)
        if len(x) * len(part) <= MOST_POINTS:
            choices = np.repeat(choices, len(part), axis=0)
            choices[:, k] = np.tile(np.arange(len(part)), len(x))
            x = (x[:, None, :] + part[None, :, :]).reshape(-1, d)
        else:
            middle = 0.5 * (part.max(axis=0) + part.min(axis=0))
            still += middle
            rest.append(np.pad(part - middle, ((0, 0), (0, len(constant)))))
    x = np.column_stack([x + still, *[np.ones(len(x))] * len(constant)])
    return Points(x, tuple(rest), allowed.radius or 0.0, choices, spans)


@dataclass(frozen=True)
class Exchange:
    """Any record within the bounds in place of any row of a fit, and which of its values count."""

    jacobian: Jacobian
    attributes: tuple[Attribute, ...]
    label: bool
    allowed: AllowedRecords
    points: Points = field(repr=False)
    count: int = 1
    """Rows that a person may have, all of which are exchanged at once."""
    leakage: Leakage | None = field(default=None, repr=False)
    """Of the rows that are there."""

    @property
    def labels(self) -> Vector:
        """The ends of the label, or all classes."""
        return self.allowed.labels

    @cached_property
    def present(self) -> float:
        """The largest eta of the rows that are there, at noise of scale 1."""
        assert self.leakage is not None
        known = measurement(self.leakage)
        etas = known.information.example_norms(self.attributes, self.label) / known.scale
        return float(np.max(host(etas))) * float(self.leakage.noise.scale)

    @property
    def present_in_some(self) -> float:
        """The same of a few rows of a large model of several outputs, of which each costs much: no more than of all."""
        assert self.leakage is not None
        known = measurement(self.leakage)
        if self.jacobian.fit.n <= SOME_ROWS or not self.jacobian.several or is_lazy(self.jacobian.X):
            return self.present
        own = one_release(known.information)
        if any(attribute.curved for attribute in own.attributes):
            return self.present
        X, y, weights = gather(own.arrays, some_rows(own.fit.n, SOME_ROWS, 0))
        few: Any = replace(own, fit=replace(own.fit, sample_weight=weights), X=X, y=y)
        etas = information_of(few).example_norms(self.attributes, self.label) / known.scale
        return float(np.max(host(etas))) * float(self.leakage.noise.scale)

    def with_noise(self, noise: Noise) -> Exchange:
        """The same under another noise."""
        assert self.leakage is not None
        leakage = self.leakage.with_noise(noise)
        return replace(self, leakage=leakage, jacobian=bounded_release(leakage))

    @cached_property
    def directions(self) -> Vector:
        """(p, m): what the values that count do to the features, as bounds take it."""
        return feature_map(self.jacobian, self.attributes, self.jacobian.width)


def exchange_in(
    leakage: Leakage,
    bounds: Mapping[str, Any] | None = None,
    attributes: Any = None,
    label: bool | None = None,
    count: int = 1,
) -> Exchange:
    """Of a leakage of one release, over the values that its ``per_example`` takes; refuses by name what has no bound."""
    jacobian = bounded_release(leakage)
    chosen, counted = measurement(leakage).chosen(attributes, label)
    allowed = allowed_in(leakage, bounds)
    return Exchange(jacobian, chosen, counted, allowed, points_of(jacobian, allowed), count, leakage)


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
    if jacobian.fit.gradient > AT_MINIMUM:
        raise InvalidInputError(
            "over='any-record' needs a model at its minimum, from which moves are bounded: measure with polish=True."
        )
    return jacobian


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


# What numbers of bounds are made of


def weighted_rows(jacobian: Jacobian) -> tuple[Vector, Vector, Vector]:
    """Rows that have a weight, as they are centred and with their constant, (n, p), with labels and weights, (n,) each."""
    fit = jacobian.fit
    X, y = (np.asarray(host(each), dtype=np.float64) for each in (jacobian.X, jacobian.y))
    omega = np.ones(len(y)) if fit.sample_weight is None else np.asarray(host(fit.sample_weight), dtype=np.float64)
    counted, centre = omega > 0, None if fit.centre is None else np.asarray(host(fit.centre))
    x = np.asarray(with_constant(X[counted], fit.intercept is not None, centre))
    return x, y[counted], omega[counted]


def heaviest(fit: Fit) -> float:
    """The largest weight of a row."""
    return 1.0 if fit.sample_weight is None else float(np.max(host(fit.sample_weight)))


def feature_map(jacobian: Jacobian, attributes: Sequence[Attribute], size: int) -> Vector:
    """E, (p, m), as bounds take it: values that move several columns whose scales move too count as these columns."""
    E = value_map(jacobian, attributes, size)
    if jacobian.folding is None:
        return E
    totals = jacobian.folding.totals
    scaled = np.zeros(size, dtype=bool)
    scaled[: jacobian.X.shape[1]] = True if totals is None else np.asarray(host(totals)) > 0
    several = np.any(E[scaled] != 0, axis=0) & (np.count_nonzero(E, axis=0) > 1)
    if not several.any():
        return E
    # section 6.1: |diag(m) E| is at most max |m| |E| where every value has a column of its own. With S these columns,
    # E = S (S^T E), and the Jacobian along E is no longer than ||E|| times that along S
    touched = np.flatnonzero(np.any(E[:, several] != 0, axis=1))
    wide = max(1.0, float(np.linalg.norm(E[:, several], 2)))
    return np.concatenate([E[:, ~several], wide * np.eye(size)[:, touched]], axis=1)


def value_map(jacobian: Jacobian, attributes: Sequence[Attribute], size: int) -> Vector:
    """E, (p, m): what the values that count do to the features, and nothing to the intercept."""
    if not attributes:
        return np.zeros((size, 0))
    found = jacobian.map(attributes)
    if found.matrix is not None:
        return np.asarray(host(found.matrix))
    return np.eye(size)[:, np.asarray(host(found.columns))]
