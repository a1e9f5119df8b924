"""Whether replacing one row leaves all that a card tells beside the noise as it is: what the scale of the noise rests on.

Kinds of columns are taken as they are; the kind of model, levels, columns that are left out, centres and scales are looked at.
All of it errs on one side: what may change counts as changed.
"""

from __future__ import annotations

import math

import numpy as np

from fisherleak._support.grids import public_units
from fisherleak._support.namespaces import Json
from fisherleak.rows.moments import Moments
from fisherleak.tables import Design, Feature
from fisherleak.tables.decide.target import FEWEST_CODED, MOST_ASSUMED
from fisherleak.tables.design.gaps import Gaps, has_feature, has_level
from fisherleak.training.trained_model import Settings

__all__ = ["is_settled", "kind_settled", "most_rows", "unit_settled"]

DIGITS = 9
"""Decimals of labels that came back from standard units."""


def is_settled(design: Design, settings: Settings, bounds: Json) -> bool:
    """Whether one row more, less or exchanged within its bounds, or one person's, leaves all of it as it is."""
    return (
        kind_settled(design)
        and not design.thin
        and all(_feature_settled(design, settings, feature) for feature in design.features)
        and _units_settled(design, bounds)
    )


def kind_settled(design: Design) -> bool:
    """Whether the kind of model stays: it was given, or the labels are far from those that ask for another one."""
    target, most = design.target, most_rows(design)
    if not target.assumed:
        return True
    labels = np.asarray(design.labels())
    if labels.dtype.kind not in "fiu":
        return True  # classes of text, of which there are always enough rows
    values, counts = np.unique(np.round(labels, DIGITS), return_counts=True)
    if target.classes:
        return bool(counts.min() - most >= (FEWEST_CODED if len(values) > 2 else 1))
    left = len(values) - min(most, int(np.sum(counts <= most)))
    if left <= 2:
        return False
    whole = values % 1 == 0
    if counts[~whole].sum() > most or left > MOST_ASSUMED:
        return True
    # codes of classes are a run from 0 or 1: no row makes one of numbers that lack several rows of another
    stays = values[counts > most]
    between = np.count_nonzero(whole & (values >= 1) & (values <= stays.max(initial=0)))
    if most < FEWEST_CODED and (stays.min(initial=0) < 0 or between < stays.max(initial=0)):
        return True
    # codes of classes come about where every number that too few have goes, or gets enough
    short = counts[whole & (counts < FEWEST_CODED)]
    return bool(np.sum(np.minimum(short, FEWEST_CODED - short)) > 2 * most)


def most_rows(design: Design) -> int:
    """Rows of one person at most."""
    return 1 if design.people is None else int(design.people.sizes.max())


def _feature_settled(design: Design, settings: Settings, feature: Feature) -> bool:
    """Whether a column stays, with its levels: those that are not declared have rows to spare."""
    if feature.of is not None:
        return True
    if not _gaps_settled(feature):
        return False
    X, most = np.asarray(design.X), most_rows(design)
    if feature.kind == "number":
        if not feature.few:
            return True
        _, counts = np.unique(X[~design.lacking(feature), feature.columns[0]], return_counts=True)
        return bool(counts.sum() - counts.max() - most >= settings.rare)
    if feature.name in dict(settings.levels):
        return True
    counts = X[:, list(feature.columns)].sum(axis=0)
    fewest = min([X.shape[0] - counts.sum(), *counts])
    return not (feature.pooled or feature.strays or fewest <= settings.rare)


def _units_settled(design: Design, bounds: Json) -> bool:
    """Whether replacing one row by another within its bounds leaves all public centres and scales as they are."""
    moved = design.unbounded
    known = {
        f.name: ((f.centre, f.scale), design.raw(f)[~design.lacking(f)]) for f in design.features if f.name in moved
    }
    target = design.target
    if target.name in moved:
        own = target.centre + target.scale * np.asarray(design.y, dtype=np.float64)
        known[target.name] = ((target.centre, target.scale), own)
    return all(
        unit_settled(units, Moments.of(values), float(bounds[name]["low"]), float(bounds[name]["high"]))
        for name, (units, values) in known.items()
    )


def unit_settled(units: tuple[float, float], known: Moments, low: float, high: float, rows: int = 1) -> bool:
    r"""Whether k values more, less or exchanged between two ends move neither centre nor scale across an edge of its grid.

    With m the mean, R the farthest end from it and r = n - k, the mean moves by at most k (high - low) / r and the variance by
    at most :math:`k R^2 / r + (k (high - low) / r)^2`.
    """
    mean, variance, left = known.mean, known.squares / known.count, known.count - rows
    if left <= 0:
        return False
    shifted, reach = rows * (high - low) / left, max(high - mean, mean - low)
    moved = rows * reach**2 / left + shifted**2
    if variance <= moved:
        return False
    ends = {
        public_units(mean + shift, math.sqrt(variance + change))
        for shift in (-shifted, shifted)
        for change in (-moved, moved)
    }
    return ends == {units}


def _gaps_settled(feature: Feature) -> bool:
    """Whether one more or one less who lacks a column changes neither a level nor a feature for that."""
    gaps, rule = feature.gaps, has_feature if feature.kind == "number" else has_level
    if feature.kind == "category" and feature.pooled:
        return True
    near = [Gaps(gaps.rows, gaps.lacking + k, gaps.having - k) for k in (-1, 0, 1)]
    return len({rule(each) for each in near}) == 1
