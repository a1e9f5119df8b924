r"""From a limit on eta to the noise that keeps it.

eta is inversely proportional to the scale of the noise, whatever its kind and shape, so no search is needed for the scale:
:math:`\sigma = \eta(1) / \eta_{target}`, enlarged by the error of eta(1) (rounding, and the model's distance from its
minimum) so that the limit holds. A noise keeps how its scale was found, and a release with a scale that the present rows
decide says so.

Also here: the least scale of a mechanism whose noise the data shape: eta falls with it, but not in proportion, and
not to zero.

:math:`\eta^2(s)` is the largest eigenvalue of :math:`F_1 / s^2 + F_2`: decreasing, with the eta of :math:`F_2` alone, the
price of a shape that the data decide, as its floor. So the scale is found by a bisection, from above: what is given back keeps
the limit. Where an eta is an average over draws, which are solved for at every scale, a line through the last two points, in
logarithms, tells the next scale instead: some four are tried.

Also here: from a limit on how often an attacker is right to the noise that keeps it: a bisection, on the safe side.

How often someone is right falls with the scale of the noise, where there is a closed form; attackers say it themselves, so
that this room need not know them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from fisherleak._support.arrays import Array, host
from fisherleak._support.checks import check_limit, check_positive
from fisherleak._support.namespaces import Seed, Vector, VectorLike
from fisherleak._support.numbers import number
from fisherleak._support.progress import stage
from fisherleak.engine.mechanisms.interface_answers import is_interface
from fisherleak.engine.mechanisms.self_shaped import is_self_shaped
from fisherleak.engine.noise import Gaussian, Noise
from fisherleak.engine.noise.calibration_record import (
    ANY_RECORD,
    Calibration,
    CalibrationCall,
    read_over,
    remembering,
)
from fisherleak.engine.noise.noise import covariance_of
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage, is_leakage
from fisherleak.leakage.measurement import MOST_MOVED, measurement
from fisherleak.protection.calibrate.shapes import OWN, noise_shaped
from fisherleak.protection.certificates.data_dependent_covariance import TermBounds, own_shape_bounds, term_bounds
from fisherleak.protection.certificates.declared_bounds import allowed_records, frame_of_indicators, with_gaps_filled
from fisherleak.protection.certificates.exchange import bounded_release, exchange_in
from fisherleak.rows.selection import rows_by_group
from fisherleak.rows.summary import digest

CLOSE = 1e-9
"""Relative distance from the least scale at which the search ends."""
CLOSE_AVERAGED = 5e-3
"""Relative distance below the target that an averaged eta may have."""
FURTHEST = 1e4
"""Factor by which such a scale is raised at most."""
FURTHER = math.log(8.0)
"""Logarithm of the factor by which one step changes a scale at most."""
FLATTEST = -0.05
"""Slope of log eta over log scale that is taken at least: near its floor an eta hardly falls."""
NOTHING = "eta is zero without any noise: the model does not depend on these values."
WIDEST = 1e100
"""A scale at which the first term is gone."""


def searched(leakage: Leakage, target: float, current: Callable[[Leakage], float]) -> Any:
    """The mechanism with the least scale at which an eta is at or below a target."""
    mechanism = leakage.noise

    def eta(scale: float) -> float:
        return current(leakage.with_noise(mechanism.rescaled(scale)))

    if measurement(leakage).information.averaged is not None:
        return mechanism.rescaled(_by_lines(eta, float(mechanism.scale), target, type(mechanism).__name__))
    floor = eta(WIDEST)
    if floor > target:
        raise InvalidInputError(
            f"eta cannot be below {number(floor, 4)} with {type(mechanism).__name__}, however much noise there is: that is "
            "what its covariance, which depends on the data, reveals by itself. Use fisherleak.Gaussian, or a larger limit."
        )
    found = _least_scale(eta, target, float(mechanism.scale), 1.0 / WIDEST)
    if found < 4.0 / WIDEST:
        raise InvalidInputError(NOTHING)
    return mechanism.rescaled(found)


def _least_scale(falls: Callable[[float], float], target: float, start: float, smallest: float) -> float:
    """The least scale, to ``CLOSE`` and never below it, at which what falls with it is at or below the target."""
    high = start
    while falls(high) > target:
        high *= 4.0
    low = high / 4.0
    while low > smallest and falls(low) <= target:
        low, high = low / 4.0, low
    while high > low * (1.0 + CLOSE):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if falls(middle) > target else (low, middle)
    return high


def _by_lines(eta: Callable[[float], float], start: float, target: float, name: str) -> float:
    """A scale at which an eta is at or hardly below a target, by lines through points of log eta over log scale.

    A scale below which no eta was above the target is taken in halves of what is between, as bisections do.
    """
    low, high, last, tried = -math.inf, math.inf, None, start
    scale, slope, aim = math.log(start), -1.0, math.log(target * (1.0 - 0.5 * CLOSE_AVERAGED))
    while True:
        value = eta(tried)
        if value == 0:
            raise InvalidInputError(NOTHING)
        if target * (1.0 - CLOSE_AVERAGED) <= value <= target or (value <= target and scale - low < CLOSE):
            return tried
        if value > target and scale > math.log(FURTHEST * start):
            raise InvalidInputError(
                f"eta stays above {target:g} with {name} up to a scale of {number(tried)}: use fisherleak.Gaussian, or "
                "a larger limit."
            )
        low, high = (scale, high) if value > target else (low, scale)
        if last is not None and scale != last[0]:
            slope = min((math.log(value) - last[1]) / (scale - last[0]), FLATTEST)
        last = (scale, math.log(value))
        step = max(-FURTHER, min((aim - last[1]) / slope, FURTHER))
        scale = scale + step if low < scale + step < high else 0.5 * (low + high)
        tried = math.exp(scale)


FARTHEST = 1e30
"""Scales, and their inverses, past which no noise is looked for."""


class Attack(Protocol):
    """What is asked of an attacker that noise can be calibrated against."""

    def certain_accuracy(self, noise: Noise) -> Array:
        """How often each attacked row is guessed correctly, (m,), never less and never growing with the noise's scale.

        Refuses what has no closed form.
        """


def least_noise_against(attack: Any, accuracy: Any, over: Any, shape: Any) -> Gaussian:
    """The least noise at which an attack is right no more often than asked.

    Parameters
    ----------
    attack : Attack
    accuracy : float
        Below one.
    over : {"max", "mean"} or int
        The row that is guessed best, the mean, or the best but for a number of rows.
    shape : matrix, "isotropic" or None
    """
    if isinstance(attack, type) or not hasattr(attack, "certain_accuracy"):
        name = f"the class {attack.__name__}" if isinstance(attack, type) else type(attack).__name__
        raise InvalidInputError(f"accuracy is for attacks such as fisherleak.attacks.WhiteBox(…); got {name}.")
    target = check_positive(accuracy, "accuracy")
    if not target < 1:
        raise InvalidInputError(f"accuracy must be below 1, since every noise keeps it below 1; got {accuracy}.")
    if is_leakage(shape) or (isinstance(shape, str) and shape != "isotropic"):
        raise InvalidInputError("shape must be a matrix or 'isotropic' for an attack: pass that of a calibrated noise.")
    unit = Gaussian(1.0, None if isinstance(shape, str) else shape)

    def right(scale: float) -> float:
        return _limited_accuracy(np.asarray(host(attack.certain_accuracy(unit.rescaled(scale)))), over)

    least = right(FARTHEST)
    if target <= least:
        raise InvalidInputError(
            f"accuracy must be more than {number(least)}, which the attacker reaches whatever the noise; got {accuracy}."
        )
    return unit.rescaled(_least_scale(right, target, 1.0, 1.0 / FARTHEST))


def _limited_accuracy(rows: Vector, over: Any) -> float:
    """The accuracy that is limited."""
    if over == "mean":
        return float(rows.mean())
    spared = 0 if over == "max" else over
    if isinstance(spared, bool) or not isinstance(spared, (int, np.integer)) or not 0 <= spared < rows.shape[0]:
        raise InvalidInputError(
            f"over must be 'max', 'mean' or a number of rows from 0 to {rows.shape[0] - 1} that need not keep the limit; "
            f"got {over!r}."
        )
    return float(np.sort(rows)[rows.shape[0] - 1 - int(spared)])


GAP = 0.01
"""Of least-loss noise, where none is asked for."""
OVER = ("max", "mean", "group", "person", "dataset", ANY_RECORD)
JOINT = ("group", "person")
"""Limits that ``groups`` are for."""


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
    person: VectorLike = None,
    rows_per_person: int | None = None,
    random_state: Seed = None,
) -> Noise:
    r"""The least noise, of the same kind as the leakage's or of a given covariance, that keeps eta at or below a limit.

    Parameters
    ----------
    leakage : Leakage, or an attack
        Of one release; its noise gives the kind (and covariance), not the scale: for :class:`fisherleak.Answers` it is the
        noise on each answer that is found, for :class:`fisherleak.Posterior` the temperature. Or
        :class:`fisherleak.attacks.WhiteBox` or :class:`fisherleak.attacks.Membership`, with ``accuracy`` in place of ``eta``.
    eta : float
        The limit, greater than zero.
    over : {"max", "mean", "group", "person", "dataset", "any-record"}, or int for attacks
        What is limited: the largest per-example eta, the mean per-example eta, the largest eta of a group, or of a person with
        several rows (both with ``groups``), or the eta of the whole data set. "any-record" limits any record within the bounds,
        in place of any row, in the model refitted with it; the scale is on a public grid and may be published. For attacks: the
        row that is guessed best, the mean over rows, or all rows but a number of them.
    attributes, label : optional
        The values that count, as in :meth:`Leakage.per_example`. Not for ``over="group"`` or ``"person"``.
    groups : array of shape (n,), optional
        The group of each row, for ``over="group"``, or the person, for ``over="person"``: values that several rows of a person
        have in common then count once (:meth:`Leakage.by_person`).
    bounds : mapping, optional
        For ``over="any-record"``: of each column (low, high), or its categories; of the label (low, high) under "label"; or a
        norm of all features together under "norm". Columns left out take their observed range on the finest of a few public
        grids on which the two values farthest out have the same bound (an outlier makes it coarser, and shows its rough size:
        declare such ranges), and categories with at least five rows. Measured end to end, the scale and centre in which noise
        without a covariance acts on a scaled column follow from its bounds, (high - low) / sqrt(12) and (low + high) / 2, so
        that no row moves them; the noise remembers that, and :func:`fisherleak.release` does the same.
    shape : optional
        Of Gaussian noise; the leakage's own noise if not given. "least-loss" costs the least training loss,
        :math:`\mathrm{tr}(H S) / 2` to second order, among all covariances S that keep the limit; "isotropic" is the same
        on every parameter; "hessian" is S in proportion to the inverse Hessian, as in posterior sampling; with
        ``over="any-record"`` both are of the rows at no parameters (the Gram matrix and the penalty), "least-loss" for all rows
        that could be there, evenly, and what they reveal is counted. Or a matrix of shape (p, p), or a :class:`Leakage` of
        public rows, whose least-loss covariance is used here. A covariance is over the released parameters: coefficients,
        then the intercept; where preprocessing is folded in, those in raw units.
    gap : float
        For least-loss noise, 0.01 if not given: its cost is certified to be at most 1 + gap times the least. What was reached
        is ``.gap`` of the noise; where 200 passes over the rows do not reach it, ``NotConvergedError`` says so.
    accuracy : float
        For attacks, how often the attacker may be right, below 1: in closed form, for normal noise and, of
        attributes, two or three candidates. ``shape`` may be a matrix or "isotropic". An attacker with a prior is taken as
        he expects to be right before he sees the model (``WhiteBox.accuracy(over="prior")``).
    person : array of shape (n,), optional
        Whose row each is: the limit is then on all rows of a person together. For ``over="any-record"`` give
        ``rows_per_person`` too: a person has at most so many rows, whichever records within the bounds these are. A person
        with more is refused.
    rows_per_person : int, optional
        How many rows a person may have. You decide it, not the table: noise grows with it about in proportion.
    random_state : int or Generator, optional
        For ``over="any-record"``, and for tests only: the grid's offset is drawn from the operating system's randomness.

    Returns
    -------
    Noise
        On the safe side: with it, the measured eta is at or below the limit.

    Notes
    -----
    Where scale and covariance depend on the data, what the release reveals has a second term beside eta:
    :func:`fisherleak.counted` computes it for "max". A covariance that comes from public rows, or a matrix that does, has
    none but for its scale.

    A scale that the rows present decide depends on the data, and most on the row that decides it: for "max", "mean", "group",
    "person" and "dataset" publishing it reveals something that is not counted, and :func:`fisherleak.release` warns
    (``UncountedScaleWarning``). The limit then holds for this data set, not for others.

    **What holds for "any-record".** M is the largest eta, at noise of scale 1, of any record within the bounds in place of any
    row, its effect on H, w and folded scales included. The scale is at least M / eta: a certified bound from above is used. It
    is rounded up to a power of :math:`2^{1/4}` times a random public offset, so that small changes of the data change nothing,
    and replacing a whole row by another record within the bounds changes the published value with at most the probability that
    ``noise.calibrated.probability`` says (in coarse steps, over offsets; 1 where no more is known). ``noise.calibrated`` also
    has the bounds, step and offset, for a model card, and as ``confidential`` the bound and what a search found from below:
    numbers of the data, which no record, copy or pickle of the noise holds. Weights, and the frame of noise on folded scales,
    are taken as public. One release, rows in memory, affine preprocessing and the package's own losses; else refused by name.

    With ``shape="hessian"`` the covariance is :math:`s^2 H^{-1}`, H the Hessian of these rows where all parameters are zero
    (that of the squared loss is the same everywhere), so that no label or parameter shapes it, and the limit is on both terms
    of what the release reveals, the mean's and the covariance's (``confidential.second`` is the bound on the latter). With
    ``shape="least-loss"`` it is :math:`s^2 H^{-1} (H \# N) H^{-1}`, # the geometric mean of two matrices and N the second
    moment of what rows within the bounds, evenly, pull at a model: it costs less and reveals more by itself. No row that is
    there decides which rows weigh, so that no ``gap`` is certified, and the least there is may be about half. The
    noise then holds H: keep it internal; its record says the shape by name, and a release is rounded to a grid that
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
        others = (eta, attributes, label, groups, bounds, gap, person, rows_per_person, random_state)
        if any(given is not None for given in others):
            raise InvalidInputError(
                "eta, attributes, label, groups, bounds, gap, person, rows_per_person and random_state belong to a limit on "
                "eta: leave them out with accuracy=."
            )
        return least_noise_against(leakage, accuracy, over, shape)
    leakage, over = _of_a_leakage(leakage), read_over(over, OVER)
    gap, target = _asked_gap(gap, shape, over), check_limit(eta)
    people = measurement(leakage).people
    if over == "max" and people is not None:
        over, groups = "person", people.labels  # the largest eta of an example is that of a person
    elif over == "max" and person is not None and groups is None and rows_per_person is None:
        over, groups, person = "person", person, None  # as of a leakage that was measured with them
    if people is not None and over == ANY_RECORD:
        person = people.labels if person is None else person
        leakage = measurement(leakage).about_rows
    if (groups is not None) != (over in JOINT):
        raise InvalidInputError("groups must be given with over='group' or over='person', and only then.")
    if over != ANY_RECORD and (bounds is not None or random_state is not None):
        raise InvalidInputError("bounds and random_state are for over='any-record' only.")
    if over != ANY_RECORD and (person is not None or rows_per_person is not None):
        raise InvalidInputError(
            f"person and rows_per_person go together with over='any-record'; got over={over!r}. To limit the people present, "
            "use over='person' with groups=."
        )
    own_noise = measurement(leakage).noise
    if is_interface(own_noise) and (shape is not None or over == ANY_RECORD):
        raise InvalidInputError(
            "shape= and over='any-record' are for noise on parameters, and this leakage is of "
            f"{type(own_noise).__name__}: leave them out, or start from a leakage of a release."
        )
    if is_self_shaped(own_noise):
        if shape is not None or over == ANY_RECORD:
            raise InvalidInputError(
                f"shape= and over='any-record' are for noise that does not depend on the data, and "
                f"{type(own_noise).__name__} does: leave them out."
            )
        found = searched(leakage, target, lambda leak: _safe(leak, over, attributes, label, groups))
        return remembering(found, Calibration(over, target))
    if over == ANY_RECORD:
        whose = {"person": person, "rows_per_person": rows_per_person}
        with stage("Finding the noise"):
            found = calibrate_for_any_record(
                leakage, target, attributes, label, bounds, shape, gap, random_state, **whose
            )
        _check_near_minimum(leakage, found)
        return found
    if shape is not None:
        leakage = leakage.with_noise(noise_shaped(leakage, shape, over, attributes, label, groups, gap))
    noise = enough(leakage.noise, _safe(leakage, over, attributes, label, groups), target)
    told = Calibration(over, target)
    if isinstance(shape, str) and shape in OWN:
        members = None if groups is None else measurement(leakage).labels(groups)
        told = Calibration(over, target, shape=shape, asked=CalibrationCall(over, attributes, label, members, gap))
    return _measured_with(leakage, noise, told)


def calibrate_for_any_record(
    leakage: Leakage,
    eta: float,
    attributes: Any = None,
    label: bool | None = None,
    bounds: Mapping[str, Any] | None = None,
    shape: Any = None,
    gap: float = GAP,
    random_state: Seed = None,
    *,
    person: VectorLike = None,
    rows_per_person: int | None = None,
    searched: bool = True,
) -> Noise:
    """What :func:`calibrate` does with ``over="any-record"``, for arguments that were checked.

    Without ``searched`` the noise is the same; no worst record is looked for where a row that is there shows already that the
    bound is useful, so that ``confidential.lower`` is that row's.
    """
    leakage = with_gaps_filled(leakage, bounds)
    count = _rows_at_once(leakage, person, rows_per_person)
    found = bounds_for_any_record(leakage, eta, shape, bounds, attributes, label, count, gap, searched)
    noise, told = found.noise(eta, random_state)
    if found.shape is not None:
        return remembering(noise, dataclasses.replace(told, folded=measurement(leakage).information.folded))
    assert found.exchange.leakage is not None
    return _measured_with(found.exchange.leakage, noise, told)


def bounds_for_any_record(
    leakage: Leakage,
    eta: float,
    shape: Any,
    bounds: Mapping[str, Any] | None,
    attributes: Any,
    label: bool | None = None,
    count: int = 1,
    gap: float = GAP,
    searched: bool = True,
) -> TermBounds:
    """Bounds on what noise of a shape leaves of any record within the bounds, at scale 1: what the least scale follows from."""
    asked = (bounds, attributes, label, count)
    if isinstance(shape, str) and shape in OWN:
        return own_shape_bounds(leakage, shape, eta, searched, *asked)
    if shape is not None:
        leakage = leakage.with_noise(noise_shaped(leakage, shape, ANY_RECORD, attributes, label, None, gap))
    return term_bounds(exchange_in(_in_declared_frame(leakage, bounds), *asked), searched)


def _check_near_minimum(leakage: Leakage, noise: Noise) -> None:
    """Refuse a model whose solver stopped so far from the minimum that the noise does not hide it: the limit holds there."""
    moved = measurement(leakage.with_noise(noise)).moved
    if not moved <= MOST_MOVED:
        raise InvalidInputError(
            f"The limit holds at the model's minimum, and the model is {number(moved)} noise deviations away ({MOST_MOVED:g} "
            "at most): fit with a smaller tol, 1e-10 say, and more iterations. PrivateRelease and protect go to the minimum "
            "themselves."
        )


def _measured_with(leakage: Leakage, noise: Noise, told: Calibration) -> Noise:
    """The noise, with the frame that it was measured in."""
    known = measurement(leakage)
    return remembering(noise, dataclasses.replace(told, folded=known.information.folded, frame=known.frame or None))


def _rows_at_once(leakage: Leakage, person: VectorLike, most: int | None) -> int:
    """How many rows a limit is on together: those that a person may have, or one."""
    if person is None and most is None:
        return 1
    if person is None or most is None:
        raise InvalidInputError(
            "person and rows_per_person go together: whose row each is, and how many rows a person may have."
        )
    return check_rows_per_person(measurement(leakage).labels(person), leakage.n, most)


def check_rows_per_person(person: VectorLike, n: int, most: Any) -> int:
    """Refuse a number of rows that a person may have if it is none, or if someone of ``person``, (n,), has more."""
    if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or not most >= 1:
        raise InvalidInputError(f"rows_per_person must be a whole number, 1 or more; got {most!r}.")
    sizes = [len(rows) for rows in rows_by_group(person, n).values()]
    above = sum(size > most for size in sizes)
    if above:
        have = "person has" if above == 1 else "people have"
        raise InvalidInputError(
            f"`rows_per_person` is {most}, and {above:,} {have} more rows, {max(sizes):,} at most: raise "
            "`rows_per_person` to that, or leave rows of theirs out."
        )
    return int(most)


def _in_declared_frame(leakage: Leakage, bounds: Any) -> Leakage:
    """Folded scalers with the scales and centres that declared bounds give: noise without a shape acts there."""
    known = measurement(leakage)
    if covariance_of(known.noise) is not None or not bounds or not known.frames:
        return leakage
    allowed_records(bounded_release(leakage), known.table, bounds)  # refuses bounds that are none
    return known.within({**frame_of_indicators(leakage), **bounds})


def _of_a_leakage(given: Any) -> Leakage:
    """What eta is limited of; an attack is told what it takes."""
    if is_leakage(given):
        return given
    name = given.__name__ if isinstance(given, type) else type(given).__name__
    if hasattr(given, "certain_accuracy"):
        raise InvalidInputError(
            f"An attack is limited by accuracy, how often it may be correct, in place of eta; got {name} without it. Write "
            "calibrate(attack, accuracy=0.9), say, or pass a leakage from fisherleak.measure."
        )
    raise InvalidInputError(
        f"calibrate takes a leakage from fisherleak.measure, or an attack such as fisherleak.attacks.WhiteBox with "
        f"accuracy=; got {name}."
    )


def _asked_gap(gap: Any, shape: Any, over: Any) -> float:
    if gap is None:
        return GAP
    searched_for = isinstance(shape, str) and shape == "least-loss" and over != ANY_RECORD
    if not (is_leakage(shape) or searched_for):
        raise InvalidInputError(
            f"gap={gap!r} needs shape='least-loss' for the rows present (not over='any-record'), or a shape from public rows. "
            "Leave it out."
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
    if over in JOINT:
        if attributes is not None or label is not None:
            raise InvalidInputError(f"attributes and label cannot be limited by {over}; leave them out.")
        current = max((leakage.by_group if over == "group" else leakage.by_person)(groups).values())
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
