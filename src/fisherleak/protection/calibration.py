r"""From a limit on eta to the noise that keeps it.

eta is inversely proportional to the scale of the noise, whatever its kind, so no search is needed:
:math:`\sigma = \eta(1) / \eta_{target}`, enlarged by the error of eta(1) (rounding, and the model's distance from its
minimum) so that the limit holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fisherleak._support.checks import check_positive
from fisherleak._support.namespaces import VectorLike
from fisherleak.engine.noise import Noise
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.rows.summary import digest

__all__ = ["calibrate", "enough"]

OVER = ("max", "mean", "group", "dataset")


def calibrate(
    leakage: Leakage,
    eta: float,
    over: str = "max",
    *,
    attributes: Sequence[str | int] | str | int | None = None,
    label: bool | None = None,
    groups: VectorLike = None,
) -> Noise:
    """The least noise, of the same kind as the leakage's, that keeps eta at or below a limit.

    Parameters
    ----------
    leakage : Leakage
        Of one release; its noise gives the kind (and shape), not the scale.
    eta : float
        The limit, greater than zero.
    over : {"max", "mean", "group", "dataset"}
        What is limited: the largest per-example eta, the mean per-example eta, the largest eta of a group (with
        ``groups``), or the eta of the whole data set.
    attributes, label : optional
        The values that count, as in :meth:`Leakage.per_example`. Not for ``over="group"``.
    groups : array of shape (n,), optional
        The group of each row, for ``over="group"``.

    Returns
    -------
    Noise
        On the safe side: with it, the measured eta is at or below the limit.

    Notes
    -----
    The scale depends on the data, so publishing it reveals something too; this package does not account for that. The
    limit holds for this data set, not for others.

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
    noise = leakage.noise
    return enough(noise, _safe(leakage, over, attributes, label, groups), target)


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
