r"""From a limit on eta to the noise that keeps it.

eta is inversely proportional to the scale of the noise, whatever its kind, so no search is needed:
:math:`\sigma = \eta(1) / \eta_{target}`, enlarged by the error of eta(1) (rounding, and the model's distance from its
minimum) so that the limit holds. A noise keeps how its scale was found, and a release with a scale that the present rows
decide says so.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from fisherleak._support.checks import check_positive
from fisherleak._support.namespaces import Seed, VectorLike
from fisherleak.engine.calibrated import ADMISSIBLE, Calibration
from fisherleak.engine.noise import Noise
from fisherleak.errors import InvalidInputError, UncountedScaleWarning
from fisherleak.leakage.leakage import Leakage
from fisherleak.protection.admissible import admissible_scale
from fisherleak.rows.summary import digest

__all__ = ["calibrate", "enough", "publishable"]

OVER = ("max", "mean", "group", "dataset", ADMISSIBLE)


def calibrate(
    leakage: Leakage,
    eta: float,
    over: str = "max",
    *,
    attributes: Sequence[str | int] | str | int | None = None,
    label: bool | None = None,
    groups: VectorLike = None,
    bounds: Mapping[str, Any] | None = None,
    random_state: Seed = None,
) -> Noise:
    """The least noise, of the same kind as the leakage's, that keeps eta at or below a limit.

    Parameters
    ----------
    leakage : Leakage
        Of one release; its noise gives the kind (and shape), not the scale.
    eta : float
        The limit, greater than zero.
    over : {"max", "mean", "group", "dataset", "admissible"}
        What is limited: the largest per-example eta, the mean per-example eta, the largest eta of a group (with
        ``groups``), or the eta of the whole data set. "admissible": the eta of whoever could have been in the table, in place
        of any row, in the model refitted with that row; on a public grid, for scales that leave with a release.
    attributes, label : optional
        The values that count, as in :meth:`Leakage.per_example`. Not for ``over="group"``.
    groups : array of shape (n,), optional
        The group of each row, for ``over="group"``.
    bounds : mapping, optional
        For ``over="admissible"``: of each column (low, high), or its levels; of the label (low, high) under "label"; or a norm
        of all features together under "norm". Columns left out take their observed range on a coarse public grid on which
        leaving out any one row changes no bound, and levels with at least five rows.
    random_state : int or Generator, optional
        For ``over="admissible"``, and for tests only: the grid's offset is drawn from the operating system's randomness.

    Returns
    -------
    Noise
        On the safe side: with it, the measured eta is at or below the limit.

    Notes
    -----
    A scale that the rows present decide depends on the data, and most on the row that decides it: for "max", "mean", "group"
    and "dataset" publishing it reveals something that is not counted, and :func:`fisherleak.release` warns
    (``UncountedScaleWarning``). The limit then holds for this data set, not for others.

    **What holds for "admissible".** With M the largest eta, at noise of scale 1, of any admissible row in place of any present
    one (its effect on H, w and folded scales included), the scale is at least M / eta: a certified bound from above is used. It
    is rounded up to a power of :math:`2^{1/4}` times a random public offset, so that small changes of the data change nothing,
    and replacing a whole row by an admissible one changes the published value with at most the probability that
    ``noise.calibrated.probability`` says (in coarse steps, over offsets; 1 where no more is known). ``noise.calibrated`` also
    has the bounds, step and offset, for a card, and as ``confidential`` the bound and what a search found from below: numbers
    of the data, which no record, copy or pickle of the noise holds. Weights, and the frame of noise on folded scales, are
    taken as public. One release, rows in memory, affine preprocessing and the package's own losses; else refused by name.

    Examples
    --------
    >>> import numpy as np
    >>> import fisherleak as fl
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 3.0, -1.0])
    >>> leak = fl.measure(fl.minimise(X, y), X, y)
    >>> noise = fl.calibrate(leak, eta=0.1)
    >>> bool(leak.with_noise(noise).per_example().max() <= 0.1)
    True
    """
    if not isinstance(leakage, Leakage):
        raise InvalidInputError(f"calibrate takes a leakage from fisherleak.measure; got {type(leakage).__name__}.")
    target = check_positive(eta, "eta")
    if over not in OVER:
        raise InvalidInputError(f"over must be one of {', '.join(OVER)}; got {over!r}.")
    if (groups is not None) != (over == "group"):
        raise InvalidInputError("groups must be given with over='group', and only then.")
    if over == ADMISSIBLE:
        return _with(*admissible_scale(leakage, target, bounds, attributes, label, random_state))
    if bounds is not None or random_state is not None:
        raise InvalidInputError("bounds and random_state are for over='admissible' only.")
    noise = enough(leakage.noise, _safe(leakage, over, attributes, label, groups), target)
    return _with(noise, Calibration(over, target))


def _safe(leakage: Leakage, over: str, attributes: Any, label: bool | None, groups: VectorLike) -> float:
    """The eta that is limited, enlarged by its error."""
    if over == "max":
        return leakage._certain(attributes, label, digest(leakage.per_example(attributes, label)).top)
    if over == "group":
        if attributes is not None or label is not None:
            raise InvalidInputError("attributes and label cannot be limited by group; leave them out.")
        current = max(leakage.by_group(groups).values())
    elif over == "dataset":
        current = leakage.of(None, attributes, label)
    else:
        current = digest(leakage.per_example(attributes, label)).mean
    return current * (1.0 + leakage._information.error)


def enough(noise: Noise, current: float, target: float) -> Noise:
    """The least noise that brings an eta, that of a release with some noise, down to a target."""
    if current == 0:
        raise InvalidInputError("eta is zero without any noise: the model does not depend on these values.")
    return noise.rescaled(math.nextafter(noise.scale * current / target, math.inf))


def _with(noise: Noise, calibrated: Calibration) -> Noise:
    """The noise with how its scale was found; a noise from outside that keeps no such record stays as it is."""
    if "calibrated" not in getattr(noise, "__dataclass_fields__", ()):
        return noise
    kept: Noise = dataclasses.replace(noise, calibrated=calibrated)  # type: ignore[type-var]
    return kept


def publishable(noise: Noise, stacklevel: int = 3) -> Noise:
    """The noise as it may leave: without confidential numbers, and with a warning where its scale is one itself."""
    calibrated = getattr(noise, "calibrated", None)
    if not isinstance(calibrated, Calibration):
        return noise
    if not calibrated.counted:
        warnings.warn(
            f"The scale of this noise was computed from the rows present (over='{calibrated.over}'), so that the scale itself "
            "tells about the row that decides it: use over='admissible' for a release.",
            UncountedScaleWarning,
            stacklevel=stacklevel,
        )
    return _with(noise, dataclasses.replace(calibrated, confidential=None))
