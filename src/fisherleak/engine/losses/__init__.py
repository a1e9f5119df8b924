"""Losses of one output and of several, by name; adding one is adding its record to a list. May import rows.

Every property test runs on the lists, so that a new entry is tested at once.
"""

from __future__ import annotations

from fisherleak.engine.losses.loss import Labels, Loss
from fisherleak.engine.losses.multi_output import CLASS_TARGETS, ONE_AGAINST_REST, SEVERAL_NUMBERS, SOFTMAX
from fisherleak.engine.losses.one_output import GAMMA, LOGISTIC, POISSON, SQUARED, pseudo_huber
from fisherleak.errors import InvalidInputError

__all__ = ["LOSSES", "OF_SEVERAL", "Labels", "Loss", "check_name", "get_loss", "pseudo_huber"]

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
