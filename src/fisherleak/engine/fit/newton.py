r"""Newton's method on the regularised empirical risk, until rounding stops it.

Of many rows a few tell where to start: the minimum over every 17th of them, which costs a 17th, spares steps over all.

Also here: losses of classes without a finite minimiser: a direction that helps some rows and harms none.

Without a penalty the risk has no minimiser exactly if there is a direction d with :math:`(2y_i - 1)\, x_i \cdot d \ge 0` for
every row that counts, and not zero for all: then the loss falls for ever along d (with more classes, the same of the row's own
class against each other one). The rows with a positive product are a whole class, or a group whose labels are all equal (one
level of a category). Newton's steps turn into such a direction as the parameters run away along it, so every step is compared
with the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fisherleak._support.arrays import Array, host, is_lazy, namespace
from fisherleak.engine.fit.factored_hessian import Factor, Triangle, Wide
from fisherleak.errors import FisherleakError, NotConvergedError, SeparableClassesError, SingularHessianError

if TYPE_CHECKING:
    from fisherleak.engine.fit.risk import Point, Risk

Stepping = Factor | Triangle | Wide
Found = TypeVar("Found", Factor, Stepping)
OPPOSED = 1e-8
"""A direction counts as harming no row if the most harmed one loses no more than this part of what the most helped gains."""
MOST_NAMED = 3


def refuse_separated_rows(risk: Risk, at: Point) -> None:
    """Refuse parameters that classify every row correctly."""
    if risk.separable and risk.l2 == 0 and at.misclassified == 0:
        raise _separable(risk)


def _separable(risk: Risk) -> SeparableClassesError:
    return SeparableClassesError(
        f"The {risk.loss.name} loss has no finite minimiser: the classes are linearly separable. Add an l2 penalty."
    )


def refuse_separated_group(risk: Risk, step: Array, factor: Stepping) -> None:
    """Refuse a step along which the loss falls for ever."""
    if not risk.separable or risk.l2 > 0:
        return
    helped, harmed = risk.reach(step)
    if harmed < 0:
        raise _separable(risk)
    if helped > 0 and harmed <= OPPOSED * helped:
        raise SeparableClassesError(
            f"The {risk.loss.name} fit did not converge: along {growing(risk, step, factor)} the loss of some rows falls "
            "for ever and that of no row rises, so the minimiser may lie at infinity (a group whose labels are all equal). Add "
            "an l2 penalty, or merge or drop the group."
        )


def growing(risk: Risk, step: Array, factor: Stepping) -> str:
    """The columns that a step moves most, each counted in its own unit, for a message."""
    d = risk.X.shape[1]
    # several outputs have a row of parameters each
    sizes = np.max(np.abs(host(step / factor.scale)).reshape(-1, d + int(risk.intercept))[:, :d], axis=0)
    names = risk.names or tuple(f"x{j}" for j in range(sizes.shape[0]))
    moved = [j for j in np.argsort(-sizes, kind="stable").tolist() if sizes[j] > 0.1 * sizes.max()]
    if not moved:
        return "the intercept"
    listed = ", ".join(f"'{names[j]}'" for j in moved[:MOST_NAMED])
    more = f" and {len(moved) - MOST_NAMED} more" if len(moved) > MOST_NAMED else ""
    return f"{'column' if len(moved) == 1 else 'columns'} {listed}{more}"


GOAL = 1e-10
"""Relative gradient that is promised."""
SMALL_STEP = 1e-6
"""A fit is at a minimum only if the Newton step also moves the linear predictors by no more than this part."""
MOST_STEPS = 200
"""Newton steps after which a minimum is given up."""
ARMIJO = 1e-4
"""Part of the decrease that the slope promises with which a shortened step is content."""
STARTING = 1e-2
"""Penalty of a start where the Hessian is singular, as a part of its diagonal."""
ROUNDED = 1e-15
"""Distance from the minimum at which only rounding is left, so that no further step is tried."""
ROUGH = 0.03
"""Distance at which the minimum over a few rows is near enough: it is further than that from the minimum over all."""
EVERY = 17
"""Of many rows, each of this number is one of the few: odd, so that tables in which rows take turns lend both kinds."""
MANY_ROWS = 100_000
FEW_PER_PARAMETER = 20
"""The few must be at least this many times as many as parameters, or they tell little of where the minimum is."""


def started(risk: Risk) -> tuple[Array, Point, Stepping]:
    """Where Newton's method starts.

    At the minimum over a few of many rows, where they have one; else at zero. Where one label is so large that no other
    row counts there, a start with a penalty leads to one where they do.
    """
    few = _minimum_of_few(risk)
    start = risk.start() if few is None else few
    at = risk.at(start, curvature=True, whole=risk.loss.quadratic)
    try:
        return start, at, risk.stepping(at)
    except SingularHessianError:
        at = at if at.hessian is not None else risk.at(start, curvature=True)
        assert at.hessian is not None
        xp = namespace(start)
        diagonal = xp.linalg.diagonal(at.hessian)[: risk.X.shape[1]]
        if risk.loss.quadratic or not bool(xp.all(diagonal > 0)):
            raise
    n = risk.X.shape[0]
    softer = replace(risk, l2=risk.l2 + STARTING / n, scales=xp.sqrt(diagonal))
    there = softer.at(start, curvature=True)
    start, *_ = newton(softer, start, there, softer.factor(there))
    at = risk.at(start, curvature=True)
    return start, at, risk.factor(at)


def _minimum_of_few(risk: Risk) -> Array | None:
    """Centred parameters near the minimum over every 17th row; None where rows are not many, or those few have no minimum."""
    n = int(risk.X.shape[0])
    if n < max(MANY_ROWS, EVERY * FEW_PER_PARAMETER * risk.size) or risk.loss.quadratic or is_lazy(risk.X):
        return None
    X, y, weights = (None if a is None else a[::EVERY, ...] for a in (risk.X, risk.y, risk.weights))
    few = replace(risk, X=X, y=y, weights=weights, known_centre=risk.centre)
    try:
        return newton(few, *started(few), near=ROUGH)[0]
    except FisherleakError:
        return None


def newton(
    risk: Risk, theta: Array, at: Point, factor: Stepping, near: float = ROUNDED
) -> tuple[Array, Point, Factor, int]:
    """Newton's method from a point and its factor until rounding stops it; then the point must be a minimum.

    With ``near`` above rounding it ends at a point that is so near the minimum.
    """
    known: Stepping = factor
    count = 0
    while count < MOST_STEPS:
        step = -known.solve(at.gradient)
        refuse_separated_group(risk, step, known)
        if at.distance(known) <= near and (near > ROUNDED or _is_minimum(risk, theta, at, step)):
            break
        moved, there = _descend(risk, theta, at, step)
        if there is None:
            if not _is_minimum(risk, theta, at, step):
                raise _not_converged(risk, at, step, known)
            break
        refuse_separated_rows(risk, there)
        fixed = there.hessian is None and there.wide is None
        then = known if fixed else _refactorise(risk, there, step, known, risk.stepping)
        still = not there.distance(then) < 0.25 * at.distance(known)
        if still and _is_minimum(risk, theta, at, step):
            break
        theta, at, known, count = moved, there, then, count + 1
    else:
        raise _not_converged(risk, at, step, known)
    # the whole Hessian of many columns is factored once, at the end
    return theta, at, known.whole_factor or _refactorise(risk, at, step, known, risk.factor), count


def _is_minimum(risk: Risk, theta: Array, at: Point, step: Array) -> bool:
    """A small gradient, and a Newton step that moves no prediction: at infinity gradients vanish, steps do not."""
    if not at.relative <= GOAL:
        return False
    by_step, largest = risk.largest_moves(step, theta)
    return by_step <= SMALL_STEP * max(largest, 1.0)


def _descend(risk: Risk, theta: Array, at: Point, step: Array) -> tuple[Array, Point | None]:
    """The full Newton step, shortened until the risk falls (rounding is forgiven); None where it never does."""
    xp = namespace(theta)
    curvature = not risk.loss.quadratic
    slope = float(xp.sum(at.gradient * step))
    slack = 1e-13 * abs(at.value) + 1e-15 * at.rounding
    length = 1.0
    moved = theta + step
    there = risk.at(moved, curvature, whole=False)
    if there.value <= at.value + ARMIJO * slope + slack:
        return moved, there
    while length > 1e-12:
        length *= 0.5
        if risk.value(theta + length * step) <= at.value + ARMIJO * length * slope + slack:
            moved = theta + length * step
            return moved, risk.at(moved, curvature, whole=False)
    return theta, None


def _refactorise(risk: Risk, at: Point, step: Array, last: Stepping, factored: Callable[[Point], Found]) -> Found:
    """The Hessian was regular at the start: if it is not here, the parameters run away."""
    try:
        return factored(at)
    except SingularHessianError:
        raise _not_converged(risk, at, step, last) from None


def _not_converged(risk: Risk, at: Point, step: Array, factor: Stepping) -> NotConvergedError:
    if at.relative <= GOAL:
        what = f"the gradient vanishes but the parameters of {growing(risk, step, factor)} keep growing"
    else:
        what = f"relative gradient {at.relative:.1e}, wanted {GOAL:.0e}; last moved: {growing(risk, step, factor)}"
    causes = "the minimiser may lie at infinity (a group whose labels are all equal or all zero), or labels are extreme"
    remedy = "Add an l2 penalty" if risk.l2 == 0 else "Use a larger l2 penalty"
    return NotConvergedError(f"The {risk.loss.name} fit did not converge ({what}): {causes}. {remedy}, or rescale.")
