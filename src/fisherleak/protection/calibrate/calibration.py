r"""From a limit on eta to the noise that keeps it.

eta is inversely proportional to the scale of the noise, whatever its kind and shape, so no search is needed for the scale:
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

from fisherleak._support.checks import check_limit, check_positive
from fisherleak._support.namespaces import Seed, VectorLike
from fisherleak.engine.mechanisms.self_shaped import is_self_shaped
from fisherleak.engine.mechanisms.served import is_interface
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibrated import (
    ADMISSIBLE,
    Calibration,
    CalibrationCall,
    calibration_of,
    keeps_calibration,
)
from fisherleak.engine.norms import one_release
from fisherleak.errors import InvalidInputError, UncountedScaleWarning
from fisherleak.leakage.leakage import Leakage, is_leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.protection.calibrate.accuracy import Attack, least_noise_against
from fisherleak.protection.calibrate.scale_search import searched
from fisherleak.protection.calibrate.shapes import OWN, noise_shaped
from fisherleak.protection.certificates.any_record import admissible_scale
from fisherleak.protection.certificates.declared_bounds import admissible_rows
from fisherleak.protection.data_dependent.hessian_shape import admissible_own_shape
from fisherleak.rows.summary import digest

__all__ = ["calibrate", "enough", "publishable", "remembering"]

GAP = 0.01
"""Of least-loss noise, where none is asked for."""
OVER = ("max", "mean", "group", "dataset", ADMISSIBLE)


def calibrate(
    leakage: Leakage | Attack,
    eta: float | None = None,
    over: str | int = "max",
    *,
    attributes: Sequence[str | int] | str | int | None = None,
    label: bool | None = None,
    groups: VectorLike = None,
    bounds: Mapping[str, Any] | None = None,
    shape: Any = None,
    gap: float | None = None,
    accuracy: float | None = None,
    random_state: Seed = None,
) -> Noise:
    r"""The least noise, of the same kind as the leakage's or of a given shape, that keeps eta at or below a limit.

    Parameters
    ----------
    leakage : Leakage, or an attack
        Of one release; its noise gives the kind (and shape), not the scale: for :class:`fisherleak.Answers` it is the noise on
        each answer that is found, for :class:`fisherleak.Posterior` the temperature. Or :class:`fisherleak.attacks.WhiteBox` or
        :class:`fisherleak.attacks.Membership`, with ``accuracy`` in place of ``eta``.
    eta : float
        The limit, greater than zero.
    over : {"max", "mean", "group", "dataset", "admissible"}, or int for attacks
        What is limited: the largest per-example eta, the mean per-example eta, the largest eta of a group (with
        ``groups``), or the eta of the whole data set. "admissible": the eta of whoever could have been in the table, in place
        of any row, in the model refitted with that row; on a public grid, for scales that leave with a release. For attacks:
        the row that is guessed best, the mean over rows, or all rows but a number of them.
    attributes, label : optional
        The values that count, as in :meth:`Leakage.per_example`. Not for ``over="group"``.
    groups : array of shape (n,), optional
        The group (or person) of each row, for ``over="group"``.
    bounds : mapping, optional
        For ``over="admissible"``: of each column (low, high), or its levels; of the label (low, high) under "label"; or a norm
        of all features together under "norm". Columns left out take their observed range on the finest of a few public
        grids on which the two values farthest out have the same bound (an outlier makes it coarser, and tells its rough size:
        declare such ranges), and levels with at least five rows. Measured end to end, the scale and centre in which noise
        without a shape acts on a scaled column follow from its bounds, (high - low) / sqrt(12) and (low + high) / 2, so that
        no row moves them; the noise remembers that, and :func:`fisherleak.release` does the same.
    shape : optional
        Of Gaussian noise; the leakage's own noise if not given. "least-loss" costs the least training loss,
        :math:`\mathrm{tr}(H S) / 2` to second order, among all covariances S that keep the limit; "isotropic" is the same
        on every parameter; "hessian" is S in proportion to the inverse Hessian, as in posterior sampling; with
        ``over="admissible"`` both are of the rows at no parameters (the Gram matrix and the penalty), "least-loss" for all rows
        that could be there, evenly, and what they tell is counted. Or a matrix of shape (p, p), or a :class:`Leakage` of public
        rows, whose least-loss shape is used here. A shape is over the released parameters: coefficients, then the intercept;
        where preprocessing is folded in, those in raw units.
    gap : float
        For least-loss noise, 0.01 if not given: its cost is certified to be at most 1 + gap times the least. What was reached
        is ``.gap`` of the noise; where 200 passes over the rows do not reach it, ``NotConvergedError`` says so.
    accuracy : float
        For attacks, how often the attacker may be right, below 1: in closed form, for normal noise and, of
        attributes, two or three candidates. ``shape`` may be a matrix or "isotropic". An attacker with a prior is taken as
        he expects to be right before he sees the model (``WhiteBox.accuracy(over="prior")``).
    random_state : int or Generator, optional
        For ``over="admissible"``, and for tests only: the grid's offset is drawn from the operating system's randomness.

    Returns
    -------
    Noise
        On the safe side: with it, the measured eta is at or below the limit.

    Notes
    -----
    Where scale and shape depend on the data, what the release reveals has a second term beside eta: :func:`fisherleak.counted`
    computes it for "max". A shape that comes from public rows, or a matrix that does, has none but for its scale.

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

    With ``shape="hessian"`` the covariance is :math:`s^2 H^{-1}`, H the Hessian of these rows where all parameters are zero
    (that of the squared loss is the same everywhere), so that no label or parameter shapes it, and the limit is on both terms
    of what the release reveals, the mean's and the covariance's (``confidential.second`` is the bound on the latter). With
    ``shape="least-loss"`` it is :math:`s^2 H^{-1} (H \# N) H^{-1}`, # the geometric mean of two matrices and N the second
    moment of what rows within the bounds, evenly, pull at a model: it costs less and tells more by itself. No row that is
    there decides which rows weigh, so that no ``gap`` is certified, and the least there is may be about half. The
    noise then holds H: it stays in the house, its record says the shape by name, and a release is rounded to a grid that
    follows from the bounds alone. A matrix, or a leakage of public rows, must not depend on the rows: it is taken as public.

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
        if any(given is not None for given in (eta, attributes, label, groups, bounds, gap, random_state)):
            raise InvalidInputError(
                "eta, attributes, label, groups, bounds, gap and random_state are for a leakage: leave them out with accuracy."
            )
        return least_noise_against(leakage, accuracy, over, shape)
    leakage, gap = _of_a_leakage(leakage), _asked_gap(gap, shape, over)
    target = check_limit(eta)
    if not isinstance(over, str) or over not in OVER:
        raise InvalidInputError(f"over must be one of {', '.join(OVER)}; got {over!r}.")
    if (groups is not None) != (over == "group"):
        raise InvalidInputError("groups must be given with over='group', and only then.")
    if over != ADMISSIBLE and (bounds is not None or random_state is not None):
        raise InvalidInputError("bounds and random_state are for over='admissible' only.")
    own_noise = measurement(leakage).noise
    if is_interface(own_noise) and (shape is not None or over == ADMISSIBLE):
        raise InvalidInputError(
            "shape= and over='admissible' are for noise on parameters, and this leakage is of "
            f"{type(own_noise).__name__}: leave them out, or start from a leakage of a release."
        )
    if is_self_shaped(own_noise):
        if shape is not None or over == ADMISSIBLE:
            raise InvalidInputError(
                f"shape= and over='admissible' are for noise that does not depend on the data, and "
                f"{type(own_noise).__name__} does: leave them out."
            )
        found = searched(leakage, target, lambda leak: _safe(leak, over, attributes, label, groups))
        return remembering(found, Calibration(over, target))
    if over == ADMISSIBLE and isinstance(shape, str) and shape in OWN:
        own, counted = admissible_own_shape(leakage, shape, target, bounds, attributes, label, random_state)
        return remembering(own, dataclasses.replace(counted, folded=measurement(leakage).information.folded))
    if shape is not None:
        unit = noise_shaped(leakage, shape, over, attributes, label, groups, gap)
        leakage = leakage.with_noise(unit)
    if over == ADMISSIBLE:
        leakage = _in_declared_frame(leakage, bounds)
        noise, told = admissible_scale(leakage, target, bounds, attributes, label, random_state)
    else:
        noise = enough(leakage.noise, _safe(leakage, over, attributes, label, groups), target)
        told = Calibration(over, target)
        if isinstance(shape, str) and shape in OWN:
            members = None if groups is None else measurement(leakage).labels(groups)
            told = Calibration(over, target, shape=shape, asked=CalibrationCall(over, attributes, label, members, gap))
    known = measurement(leakage)
    return remembering(noise, dataclasses.replace(told, folded=known.information.folded, frame=known.frame or None))


def _in_declared_frame(leakage: Leakage, bounds: Any) -> Leakage:
    """Folded scalers with the scales and centres that declared bounds give: noise without a shape acts there."""
    known = measurement(leakage)
    if getattr(known.noise, "shape", None) is not None or not bounds or not known.frames:
        return leakage
    admissible_rows(one_release(known.information), known.table, bounds)  # refuses bounds that are none
    return known.within(bounds)


def _of_a_leakage(given: Any) -> Leakage:
    """What eta is limited of; an attack is told what it takes."""
    if is_leakage(given):
        return given
    name = given.__name__ if isinstance(given, type) else type(given).__name__
    if hasattr(given, "certain_accuracy"):
        raise InvalidInputError(
            f"accuracy must be given for an attack, how often it may be right, in place of eta; got {name} without it. Write "
            "calibrate(attack, accuracy=0.9), say, or pass a leakage from fisherleak.measure."
        )
    raise InvalidInputError(
        f"calibrate takes a leakage from fisherleak.measure, or an attack such as fisherleak.attacks.WhiteBox with "
        f"accuracy=; got {name}."
    )


def _asked_gap(gap: Any, shape: Any, over: Any) -> float:
    if gap is None:
        return GAP
    searched_for = isinstance(shape, str) and shape == "least-loss" and over != ADMISSIBLE
    if not (is_leakage(shape) or searched_for):
        raise InvalidInputError(
            "gap is for noise of least loss for the rows present, shape='least-loss' without over='admissible', or for public "
            f"rows; got gap={gap!r} without it. Leave it out."
        )
    return check_positive(gap, "gap")


def _safe(leakage: Leakage, over: str, attributes: Any, label: bool | None, groups: VectorLike) -> float:
    """The eta that is limited, enlarged by its error."""
    known, information = measurement(leakage), measurement(leakage).information
    if over == "max" and information.averaged is not None:
        _, largest = information.averaged.largest_norm(*known.chosen(attributes, label))
        return largest * (1.0 + information.error)
    if over == "max":
        return known.certain(attributes, label, digest(leakage.per_example(attributes, label)).top)
    if over == "group":
        if attributes is not None or label is not None:
            raise InvalidInputError("attributes and label cannot be limited by group; leave them out.")
        current = max(leakage.by_group(groups).values())
    elif over == "dataset":
        current = leakage.of(None, attributes, label)
    else:
        current = digest(leakage.per_example(attributes, label)).mean
    return current * (1.0 + information.error)


def enough(noise: Noise, current: float, target: float) -> Noise:
    """The least noise that brings an eta, that of a release with some noise, down to a target."""
    if current == 0:
        raise InvalidInputError("eta is zero without any noise: the model does not depend on these values.")
    return noise.rescaled(math.nextafter(noise.scale * current / target, math.inf))


def remembering(noise: Noise, calibrated: Calibration) -> Noise:
    """The noise with how its scale was found; a noise from outside that keeps no such record stays as it is."""
    if not keeps_calibration(noise):
        return noise
    kept: Noise = dataclasses.replace(noise, calibrated=calibrated)  # type: ignore[type-var]
    return kept


def publishable(noise: Noise, stacklevel: int = 3) -> Noise:
    """The noise as it may leave: without confidential numbers, and with a warning where its scale is one itself."""
    calibrated = calibration_of(noise)
    if calibrated is None:
        return noise
    if calibrated.by_present_rows:
        warnings.warn(
            f"The scale of this noise was computed from the rows present (over='{calibrated.over}'), so that the scale itself "
            "tells about the row that decides it: use over='admissible' for a release.",
            UncountedScaleWarning,
            stacklevel=stacklevel,
        )
    return remembering(noise, dataclasses.replace(calibrated, confidential=None, asked=None))
