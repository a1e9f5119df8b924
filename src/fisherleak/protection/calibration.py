r"""From a limit on eta to the noise that keeps it.

eta is inversely proportional to the scale of the noise, whatever its kind and shape, so no search is needed for the scale:
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
from fisherleak.protection.accuracy import Attack, least_noise_against
from fisherleak.protection.shapes import noise_shaped
from fisherleak.rows.summary import digest

__all__ = ["calibrate", "enough"]

OVER = ("max", "mean", "group", "dataset")


def calibrate(
    leakage: Leakage | Attack,
    eta: float | None = None,
    over: str | int = "max",
    *,
    attributes: Sequence[str | int] | str | int | None = None,
    label: bool | None = None,
    groups: VectorLike = None,
    shape: Any = None,
    gap: float = 0.01,
    accuracy: float | None = None,
) -> Noise:
    r"""The least noise, of the same kind as the leakage's or of a given shape, that keeps eta at or below a limit.

    Parameters
    ----------
    leakage : Leakage, or an attack
        Of one release; its noise gives the kind (and shape), not the scale. Or :class:`fisherleak.attacks.WhiteBox` or
        :class:`fisherleak.attacks.Membership`, with ``accuracy`` in place of ``eta``.
    eta : float
        The limit, greater than zero.
    over : {"max", "mean", "group", "dataset"}, or int for attacks
        What is limited: the largest per-example eta, the mean per-example eta, the largest eta of a group (with
        ``groups``), or the eta of the whole data set. For attacks: the row that is guessed best, the mean over rows, or all
        rows but a number of them.
    attributes, label : optional
        The values that count, as in :meth:`Leakage.per_example`. Not for ``over="group"``.
    groups : array of shape (n,), optional
        The group (or person) of each row, for ``over="group"``.
    shape : optional
        Of Gaussian noise; the leakage's own noise if not given. "least-loss" costs the least training loss,
        :math:`\mathrm{tr}(H S) / 2` to second order, among all covariances S that keep the limit; "isotropic" is the same
        on every parameter; "hessian" is S in proportion to the inverse Hessian, as in posterior sampling. Or a matrix
        of shape (p, p), or a :class:`Leakage` of public rows, whose least-loss shape is used here. A shape is over the
        released parameters: coefficients, then the intercept; where preprocessing is folded in, those in raw units.
    gap : float
        For least-loss noise: its cost is certified to be at most 1 + gap times the least. What was reached is ``.gap``
        of the noise; where 200 passes over the rows do not reach it, ``NotConvergedError`` says so.
    accuracy : float
        For attacks, how often the attacker may be right, below 1: in closed form, for normal noise and, of
        attributes, two or three candidates. ``shape`` may be a matrix or "isotropic". An attacker with a prior is taken as
        he expects to be right before he sees the model (``WhiteBox.accuracy(over="prior")``).

    Returns
    -------
    Noise
        On the safe side: with it, the measured eta is at or below the limit.

    Notes
    -----
    Scale and shape depend on the data, so what the release reveals has a second term beside eta: :func:`fisherleak.counted`
    computes it. A shape that comes from public rows, or a matrix that does, has none but for its scale. The limit holds for
    this data set, not for others.

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
    if accuracy is not None:
        if any(given is not None for given in (eta, attributes, label, groups)):
            raise InvalidInputError(
                "eta, attributes, label and groups are for a leakage: leave them out with accuracy."
            )
        return least_noise_against(leakage, accuracy, over, shape)
    if not isinstance(leakage, Leakage):
        raise InvalidInputError(f"calibrate takes a leakage from fisherleak.measure; got {type(leakage).__name__}.")
    target = check_positive(eta, "eta")
    if not isinstance(over, str) or over not in OVER:
        raise InvalidInputError(f"over must be one of {', '.join(OVER)}; got {over!r}.")
    if (groups is not None) != (over == "group"):
        raise InvalidInputError("groups must be given with over='group', and only then.")
    if shape is not None:
        unit = noise_shaped(leakage, shape, over, attributes, label, groups, check_positive(gap, "gap"))
        leakage = leakage.with_noise(unit)
    return enough(leakage.noise, _safe(leakage, over, attributes, label, groups), target)


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
