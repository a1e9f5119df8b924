r"""What the noise's scale on a card follows from, and how likely leaving out a row changes it, or the penalty.

For a release for any record within the bounds a card tells the scale that the certified bound U asks for, rounded up on a grid
with a random offset (``published_scale``). So the release of a table and that of the same table without a row have different
scales with the probability :math:`\min(1, |\log U - \log U_{-i}| / \log \mathrm{step})` over offsets. Both bounds are computed
here, for every row. Where a rule chose the penalty, by the scales at several, one of those changes with at most the sum of
their probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fisherleak._support.namespaces import Vector
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibration_record import FOR_ANYONE, IN_FILES
from fisherleak.errors import FisherleakError
from fisherleak.leakage.leakage import Leakage
from fisherleak.protection.calibrate.calibration import bounds_for_any_record
from fisherleak.protection.calibrate.shapes import ISOTROPIC, LEAST_LOSS
from fisherleak.protection.certificates.published_scale import STEP
from fisherleak.protection.certificates.worst_record import NoUsefulBoundError
from fisherleak.protection.release.penalty_and_shape import NO_SHAPE, NOT_GIVEN, PublicPenalty
from fisherleak.releasing.any_record_noise import AnyRecordLimit, Shape, declared_on, leaks_of_limits, public_numbers
from fisherleak.releasing.cards.cards import rows_per_person_on
from fisherleak.tables import Design
from fisherleak.training.trained_model import Trained, trained_on

if TYPE_CHECKING:
    from fisherleak.releasing.files.released_files import SavedModel

MOST_FITS = 2000
"""Fits without a row, each at one penalty: about a minute or two."""
ROUNDING = 1e-9
"""Of the logarithm of a bound."""


@dataclass(frozen=True)
class ScaleRule:
    """What a scale on a model card follows from, so that it can be found again without a row.

    Attributes
    ----------
    asked : AnyRecordLimit
    tried : tuple of pairs
        Each `l2` and shape at which a scale was looked at; several where a rule chose among them.
    """

    asked: AnyRecordLimit
    tried: tuple[tuple[float, Shape], ...]

    def too_many(self, rows: int) -> bool:
        """Whether finding it again without each of so many rows takes long."""
        return rows * len(self.tried) > MOST_FITS


def changes_of_scale(trained: Trained, rule: ScaleRule) -> Vector:
    """For every row, the probability over offsets that a release without it has another scale or penalty, at most: (n,)."""
    design, step = trained.design, math.log(STEP)
    found = np.zeros(design.n)
    for l2, shape in rule.tried:
        now = _logs(trained, design, l2, shape, rule)
        if now is None:  # whether it is refused without a row too takes a search for each
            return np.ones(design.n)
        for row in range(design.n):
            without = _logs(trained, _without(design, row), l2, shape, rule)
            # a refusal tells the row for certain
            apart = math.inf if without is None else float(np.sum(np.abs(now - without)))
            found[row] += (apart + ROUNDING) / step
    return np.minimum(found, 1.0)


def _logs(trained: Trained, design: Design, l2: float, shape: Shape, rule: ScaleRule) -> Vector | None:
    """Logarithms of the scales that rows ask for, one for each limited column; None where a release would be refused."""
    held = l2 if trained.kind.several else trained.fit.intercept_l2
    try:
        other = trained_on(trained.kind, design, l2, None, trained.public, held)
        limits = leaks_of_limits(other, rule.asked)
        return np.log([_scale(*each, shape) for each in limits])
    except FisherleakError:
        return None


def _scale(leak: Leakage, limit: float, attributes: Sequence[str] | None, bounds: Any, shape: Shape) -> float:
    """What ``calibrate(over="any-record")`` rounds up to its grid."""
    try:
        return bounds_for_any_record(leak, limit, shape, bounds, attributes, searched=False).scale(limit)
    except NoUsefulBoundError:  # what a search finds may show that the bound is useful
        return bounds_for_any_record(leak, limit, shape, bounds, attributes).scale(limit)


def _without(design: Design, row: int) -> Design:
    """The training rows but one, with means and spreads of those that are left; centres and scales are declared."""
    X, y = np.delete(np.asarray(design.X), row, axis=0), np.delete(np.asarray(design.y), row)
    features = tuple(
        replace(
            feature,
            mean=feature.centre + feature.scale * float(np.mean(X[:, feature.columns[0]])),
            spread=feature.scale * float(np.std(X[:, feature.columns[0]])),
        )
        if feature.kind == "number"
        else feature
        for feature in design.features
    )
    return replace(design, X=X, y=y, features=features, rows=np.delete(np.asarray(design.rows), row))


def scale_rule(saved: SavedModel, trained: Trained, noise: Noise) -> ScaleRule | None:
    """None where a limit on any record within the bounds did not decide the scale."""
    record = saved.card["noise"].get("calibrated")
    if record is None or record["over"] != IN_FILES:
        return None
    return ScaleRule(limit_on(saved), tuple(_tried(saved, trained, noise)))


def limit_on(saved: SavedModel) -> AnyRecordLimit:
    """What the model card says of a limit for any record."""
    limit, columns = float(saved.card["eta"]["limit"]), saved.card["eta"]["limit_columns"]
    limited = None if columns is None else tuple(columns)
    most = rows_per_person_on(saved.card)
    return AnyRecordLimit(limit, limited, declared_on(saved.card), shape_on(saved), most)


def shape_on(saved: SavedModel) -> Shape:
    """What the model card says of the noise's shape: a matrix, the name that asks for it, or nothing."""
    shape = saved.card["noise"].get("shape")
    if isinstance(shape, str):
        return LEAST_LOSS if shape == FOR_ANYONE else shape
    return shape if shape is None else np.asarray(shape)


def _tried(saved: SavedModel, trained: Trained, noise: Noise) -> Iterator[tuple[float, Shape]]:
    """Each penalty with the shape at which a release looked at a scale, as ``make_release`` compares them."""
    said, l2 = [str(each) for each in saved.card["assumptions"]], float(saved.settings.l2)
    numbers = public_numbers(trained, limit_on(saved))
    by_rule = any(each.startswith(NO_SHAPE) for each in said)

    def shape(l2: float, compared: bool) -> Shape:
        if not by_rule:
            return shape_on(saved)
        found = numbers.shape(l2)
        name = (found.by_the_hessian() if compared else found).shape
        return None if name == ISOTROPIC else name

    penalties: tuple[PublicPenalty, ...] = ()
    if any(each.startswith(NOT_GIVEN) for each in said):
        penalties = replace(numbers.penalty(), alone=saved.card["shape"]["from"] is not None).compared()
    place = next((k for k, each in enumerate(penalties) if each.l2 == l2), 0)
    if len(penalties) < 2:
        yield l2, shape(l2, compared=False)
        return
    name = saved.card["shape"]["name"]
    for k, each in enumerate(penalties[: place + 2]):
        # the next is not looked at where its penalty alone costs more than all of this one; of least loss that is not known
        paid = k > place and name != LEAST_LOSS and numbers.penalty_cost(each.l2) >= numbers.cost(noise.scale, name, l2)
        if not paid:
            yield each.l2, shape(each.l2, compared=True)
    if shape(l2, compared=False) != shape(l2, compared=True):
        yield l2, shape(l2, compared=False)
