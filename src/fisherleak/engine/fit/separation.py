r"""Losses of classes without a finite minimiser: a direction that helps some rows and harms none.

Without a penalty the risk has no minimiser exactly if there is a direction d with :math:`(2y_i - 1)\, x_i \cdot d \ge 0` for
every row that counts, and not zero for all: then the loss falls for ever along d (with more classes, the same of the row's own
class against each other one). The rows with a positive product are a whole class, or a group whose labels are all equal (one
level of a category). Newton's steps turn into such a direction as the parameters run away along it, so every step is held
against the rows.
"""

from __future__ import annotations

import numpy as np

from fisherleak._support.arrays import Array, host
from fisherleak.engine.fit.factored_hessian import Factor
from fisherleak.engine.fit.risk import Point, Risk
from fisherleak.errors import SeparableClassesError

__all__ = ["growing", "refuse_separated_group", "refuse_separated_rows"]

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


def refuse_separated_group(risk: Risk, step: Array, factor: Factor) -> None:
    """Refuse a step along which the loss falls for ever."""
    if not risk.separable or risk.l2 > 0:
        return
    helped, harmed = risk.reach(step)
    if harmed < 0:
        raise _separable(risk)
    if helped > 0 and harmed <= OPPOSED * helped:
        raise SeparableClassesError(
            f"The {risk.loss.name} fit did not converge: along {growing(risk, step, factor)} it can improve for some rows "
            "for ever and worsens for none, so the minimiser may lie at infinity (a group whose labels are all equal). Add an "
            "l2 penalty, or merge or drop the group."
        )


def growing(risk: Risk, step: Array, factor: Factor) -> str:
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
