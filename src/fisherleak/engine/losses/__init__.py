"""Losses of one output and of several, by name; adding one is adding its record to a list. May import rows.

Every property test runs on the lists, so that a new entry is tested at once.
"""

from __future__ import annotations

import numpy as np

from fisherleak._support.arrays import Array, host, is_lazy, like, namespace
from fisherleak.engine.losses.loss import Labels, Loss
from fisherleak.engine.losses.multi_output import CLASS_TARGETS, ONE_AGAINST_REST, SAME, SEVERAL_NUMBERS, SOFTMAX, TRIED
from fisherleak.engine.losses.one_output import GAMMA, LOGISTIC, POISSON, SQUARED, pseudo_huber
from fisherleak.errors import InvalidInputError, UnsupportedModelError

__all__ = ["LOSSES", "OF_SEVERAL", "Labels", "Loss", "check_name", "check_quadratic", "get_loss", "pseudo_huber"]

LOSSES: dict[str, Loss] = {loss.name: loss for loss in (SQUARED, LOGISTIC, POISSON, GAMMA, pseudo_huber())}
"""Every loss of one output by name."""
OF_SEVERAL: dict[str, Loss] = {loss.name: loss for loss in (SOFTMAX, SEVERAL_NUMBERS)}
"""Those of several outputs that are asked for by name."""
_OWN = (*LOSSES.values(), *OF_SEVERAL.values(), CLASS_TARGETS, ONE_AGAINST_REST)


def get_loss(loss: str | Loss, columns: bool = False) -> Loss:
    """The record of that name, or the record itself, unless it has the name of another one.

    With ``columns``, labels have several: the squared loss is that of all of them.
    """
    known = {**OF_SEVERAL, **LOSSES}
    if isinstance(loss, Loss):
        check_name(loss)
        found = loss
    elif isinstance(loss, str) and loss in known:
        found = known[loss]
    else:
        names = ", ".join(dict.fromkeys((*LOSSES, *OF_SEVERAL)))
        raise InvalidInputError(f"loss must be one of {names} or a fisherleak.Loss record; got {loss!r}.")
    return SEVERAL_NUMBERS if columns and found.unit_curvature and not found.several else found


def check_name(loss: Loss) -> None:
    """Refuse a record that has the name of one of the package's own and other functions: cards and ledgers know it by name."""
    delta = getattr(loss.a, "delta", None)
    own = (pseudo_huber(delta),) if loss.name == pseudo_huber.__name__ and delta is not None else _OWN
    known = [(one.value, one.r, one.a) for one in own if one.name == loss.name]
    if known and (loss.value, loss.r, loss.a) not in known:
        raise InvalidInputError(
            f"The loss has the name {loss.name!r}, which is that of a loss of the package with other derivatives: give it a "
            "name of its own."
        )


def check_quadratic(loss: Loss, outputs: int, beside: Array) -> None:
    """Refuse a record that says ``quadratic`` and whose ``a`` or ``c`` depends on predictors or labels.

    One Newton step is all that such a fit and its changes take, so that every figure would be wrong. The functions are called
    with arrays like ``beside``.
    """
    if not loss.quadratic or loss in _OWN:
        return
    rng, beside = np.random.default_rng(0), np.ones(1) if is_lazy(beside) else beside
    xp, shape = namespace(beside), (outputs,) if loss.several else ()
    known = TRIED[host(loss.labels.accepts(like(TRIED, beside, xp))).astype(bool)]
    known = np.arange(outputs, dtype=np.float64) if loss.classes else known if known.size else TRIED
    Z = np.concatenate([size * rng.standard_normal((len(TRIED), *shape)) for size in (0.1, 1.0, 10.0)])
    y = rng.choice(known, size=Z.shape[:1] if loss.classes else Z.shape)
    for name, derivative in (("a", loss.a), ("c", loss.c)):
        found = np.atleast_1d(host(derivative(like(Z, beside, xp), like(y, beside, xp))))
        if not np.all(np.abs(found - found[:1]) <= SAME * np.abs(found).max()):
            raise UnsupportedModelError(
                f"quadratic=True of the loss {loss.name!r} needs a and c that are the same for all predictors and labels, and "
                f"its {name} is not: leave quadratic out."
            )
