r"""What the rule for penalty and covariance knows of a model of scikit-learn, and releases by it.

A limit in Python is per unit of the columns as they are given, and the rule counts in units of the bounds. A change of length
one in raw units is at most :math:`1 / \min_k u_k` in units :math:`u_k = (high_k - low_k) / \sqrt{12}`, so that a limit of eta
is taken as :math:`\eta \min_k u_k`: over the columns that it is on, and the label where that is a number.

The penalty of an estimator acts on the features that it sees. Behind a scaler these have a unit that is known beforehand, and
elsewhere that of their bounds: the l2 of the rule is multiplied by the geometric mean of these units squared.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fisherleak._support.namespaces import Estimator
from fisherleak._support.numbers import two_digits
from fisherleak.engine.changes.remade_covariance import public_curvature
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import final_estimator
from fisherleak.models.estimators import has_penalty, set_l2
from fisherleak.models.steps.scalers import Scale
from fisherleak.protection.certificates.declared_bounds import (
    LABEL,
    NORM,
    AllowedRecords,
    allowed_records,
    with_gaps_filled,
)
from fisherleak.protection.release.penalty_and_shape import (
    DEVIATIONS_IN_A_UNIT,
    PublicNumbers,
    PublicPenalty,
    taken_to_vary,
)
from fisherleak.protection.release.procedure import PUBLIC_NUMBERS, MadeRelease, ReleaseRequest, make_release

__all__ = ["model_numbers", "released_by_rule", "unit_of_penalty", "with_l2"]

Vector = NDArray[np.float64]
BY_DEVIATION = ("StandardScaler", "RobustScaler")
"""Scalers behind which a column varies by about one; behind others it is about one wide."""
USELESS = (
    "This release may be no better than the baseline. By rows, parameters, bounds and limit alone, the noise is as large as "
    "what many models learn: use a larger eta, declare narrower bounds, or get more rows."
)
HALF_WIDTH = 6.0
"""Of bounds, in deviations: they are twelve apart."""


def model_numbers(
    leak: Leakage, scales: Sequence[Scale] | None, bounds: Mapping[str, Any] | None, eta: float, attributes: Any
) -> PublicNumbers:
    """Public numbers of a measured model; ``scales`` are those of scalers that are folded in."""
    known = measurement(with_gaps_filled(leak, bounds))
    jacobian, loss = known.information.jacobians[0], leak.fits[0].loss
    allowed = allowed_records(jacobian, known.table, bounds)
    units = _units(allowed)
    chosen, label = known.chosen(attributes, None)
    limited = [units[name] for name in units if (label if name == LABEL else _is_of(name, chosen))]
    limit = eta * min(limited, default=1.0)
    count = len(jacobian.X[0]) if allowed.radius is not None else len(units.keys() - {LABEL})
    rest = sum(float(np.max(np.sum(part**2, axis=1))) for part in _categories(allowed))
    scaled = scales is not None and any(scale.scaled for scale in scales)
    unit_of_label = units.get(LABEL, 1.0) if loss.unit_curvature else 1.0
    return PublicNumbers(
        *(int(jacobian.fit.theta.shape[0]), two_digits(jacobian.fit.n), limit, limit / DEVIATIONS_IN_A_UNIT),
        longest=math.sqrt(1.0 + count * HALF_WIDTH**2 + rest),
        widest=2.0 * HALF_WIDTH if scaled else 0.0,
        typical=_typical(allowed, scales, bounds),
        varies=taken_to_vary(loss.unit_curvature, LABEL in units) * unit_of_label**2,
        curvature=1.0 if loss.traits is None else public_curvature(loss),
        squared=loss.unit_curvature,
        shaped=not loss.several and loss.traits is not None,
    )


def _units(allowed: AllowedRecords) -> dict[str, float]:
    """Of columns and of the label, where they are numbers that vary; of a ball that of each of its columns."""
    wide = {name: each["high"] - each["low"] for name, each in allowed.bounds.items() if "low" in each}
    if allowed.radius is not None:
        wide[NORM] = 2.0 * allowed.radius / math.sqrt(len(allowed.base))
    return {name: width / math.sqrt(12.0) for name, width in wide.items() if width > 0}


def _is_of(name: str, attributes: Sequence[Attribute]) -> bool:
    """Whether bounds of this name are of one of some attributes: its own, those of a feature of a block, or of all."""
    return name == NORM or any(name == each.name or name.startswith(f"{each.name}[") for each in attributes)


def _categories(allowed: AllowedRecords) -> list[Vector]:
    """Choices of the attributes that are no numbers."""
    records = [record for name, record in allowed.bounds.items() if name not in (LABEL, NORM)]
    return [part for record, part in zip(records, allowed.parts, strict=True) if "levels" in record]


def _widths(allowed: AllowedRecords) -> tuple[Vector, Vector]:
    """Of every feature: the width that its bounds give it, and the middle."""
    if allowed.radius is not None:
        wide = np.full(len(allowed.base), 2.0 * allowed.radius / math.sqrt(len(allowed.base)))
        return wide, np.zeros_like(wide)
    low, high = allowed.base.copy(), allowed.base.copy()
    for part in allowed.parts:
        low, high = low + part.min(axis=0), high + part.max(axis=0)
    return high - low, 0.5 * (low + high)


def _typical(allowed: AllowedRecords, scales: Sequence[Scale] | None, bounds: Mapping[str, Any] | None) -> float:
    """The squared length of a typical row where noise that is the same on all acts: in the frame, or on raw features."""
    wide, middle = _widths(allowed)
    if scales is None:
        return 1.0 + float(np.sum((wide / (2.0 * HALF_WIDTH)) ** 2 + middle**2))
    # Bounds are taken to be six deviations apart here, as those of a target are, and a learned scale is one. Noise that is the
    # same on all is compared where one column's unit is far below the others', and a twelfth takes it for too cheap: of
    # diabetes in its own units, eta 1, R² is 0.09 with a twelfth and 0.31 with a sixth.
    return 1.0 + len(wide) * (12.0 / 36.0 if bounds else 1.0)


def unit_of_penalty(leak: Leakage, scales: Sequence[Scale] | None, bounds: Mapping[str, Any] | None) -> float:
    """The geometric mean of the squared units of the features that an estimator sees."""
    known = measurement(with_gaps_filled(leak, bounds))
    allowed = allowed_records(known.information.jacobians[0], known.table, bounds)
    units = _widths(allowed)[0] / math.sqrt(12.0)
    for part in _categories(allowed):
        units[np.ptp(part, axis=0) > 0] = 1.0  # an indicator, as a table's model has it
    for k, scale in enumerate(scales or ()):
        if scale.scaled:
            units[k] = 1.0 if scale.name in BY_DEVIATION else 1.0 / math.sqrt(12.0)
    seen = units[units > 0]
    return float(f"{math.exp(2.0 * float(np.mean(np.log(seen)))):.1e}") if seen.size else 1.0


def released_by_rule(
    estimator: Estimator, fit: Callable[[Any], Any], request: ReleaseRequest, stacklevel: int = 4
) -> MadeRelease:
    """A model of scikit-learn whose penalty and covariance public numbers decide, as for a table (``penalty_and_shape``).

    ``fit`` fits and measures an unfitted copy of the estimator. One without a penalty that can be set keeps what it has.
    """
    settable = has_penalty(final_estimator(estimator))
    request = replace(request, strategy=PUBLIC_NUMBERS.name, penalty_given=not settable)
    read = fit(clone(estimator))
    rows, unit = two_digits(read.measured.n), read.unit_of_penalty(request)

    def fitted(penalty: PublicPenalty | None) -> Any:
        return read if penalty is None else fit(with_l2(estimator, penalty.l2 * unit, rows))

    made = make_release(fitted, request, read=read, stacklevel=stacklevel)
    if made.fitted.is_useless(request, made.noise, made.shape):
        warnings.warn(USELESS, stacklevel=stacklevel)
    return made


def with_l2(estimator: Estimator, l2: float, rows: int) -> Any:
    """An unfitted copy with a penalty of l2 for each of so many rows."""
    model = clone(estimator)
    set_l2(final_estimator(model), l2, rows)
    return model
