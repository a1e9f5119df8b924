r"""The grid of a release whose noise the rows shape: one step for all parameters, from numbers that its model card has anyway.

A grid that follows each parameter's own noise would publish the covariance, coarsely and without noise. One that follows the
exact number of rows would tell that number at powers of two. So a bound on the noise's least deviation is computed here from
the columns, the penalty and two digits of the number of rows, and rounded down to a power of two: whoever has the model card
computes it again, digit for digit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fisherleak._support.namespaces import Json
from fisherleak._support.numbers import most_of_two_digits
from fisherleak.engine.changes.remade_covariance import public_curvature
from fisherleak.engine.losses import LOSSES
from fisherleak.engine.noise.calibration_record import FOR_ANYONE, HESSIAN
from fisherleak.tables import Feature
from fisherleak.training.model_kinds import Kind

EVEN = 2.0**-14
"""Of noise whose mean variance is one: no parameter has less, all others known, or the release is refused."""
MEAN_SQUARE = 4.0
"""Above that of any number in its public scale: 3 with declared bounds, 1.2 + 1/4 with a scale and a centre from the rows."""


def least_deviation(
    shape: str,
    kind: Kind,
    features: Sequence[Feature],
    rows: int,
    l2: float,
    bounds: Json | None = None,
) -> float:
    """A deviation, at scale 1, that noise of a named shape has in every direction, a power of two.

    Parameters
    ----------
    shape : str
        As a model card names it.
    kind, features
        Of the model, with the columns' public centres and scales.
    rows : int
        To two digits.
    l2 : float
        The penalty of coefficients; the intercept of one output has none.
    bounds : dict, optional
        For any record: what a model card says of them, in the columns' own units.
    """
    loss = LOSSES.get(kind.loss) if isinstance(kind.loss, str) else kind.loss
    if kind.several or loss is None or loss.traits is None or shape not in (HESSIAN, FOR_ANYONE):
        return EVEN
    squares = sum(MEAN_SQUARE if each.kind == "number" else 1.0 for each in features)
    penalty = l2 * MEAN_SQUARE / public_curvature(loss)
    # no eigenvalue of G is above its trace without the penalty, and the largest penalty
    least = 1.0 / math.sqrt(most_of_two_digits(rows) * (squares + 1.0 + penalty))
    if shape == FOR_ANYONE:
        # S^-1 <= G^1/2 (G^1/2 N^-1 G^1/2)^1/2 G^1/2
        least = least**1.5 * _least_of_all_rows(features, bounds or {}) ** 0.25
    return math.ldexp(1.0, math.frexp(least)[1] - 1)


def _least_of_all_rows(features: Sequence[Feature], bounds: Json) -> float:
    """What no eigenvalue of N (``evenly_weighted``) is below: of C + m m^T with a constant, C the covariance of all columns."""
    varies, far = 1.0, 0.0
    for feature in features:
        if feature.kind == "number":
            low, high = (bounds[feature.name][end] for end in ("low", "high"))
            varies = min(varies, (0.5 * (high - low) / feature.scale) ** 2)
            far += (abs(0.5 * (low + high) - feature.centre) / feature.scale) ** 2
        else:
            levels = len(feature.levels)
            varies, far = min(varies, 1.0 / levels**2), far + (levels - 1) / levels**2
    return varies / (2.0 + far)
