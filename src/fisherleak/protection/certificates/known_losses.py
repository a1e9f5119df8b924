"""What certificates rest on: losses whose second derivative is known to behave."""

from __future__ import annotations

from fisherleak.engine.losses import Loss, check_name
from fisherleak.engine.losses.loss import Traits
from fisherleak.errors import InvalidInputError

__all__ = ["known_traits"]


def known_traits(loss: Loss) -> Traits:
    """What is proved of a loss; one of which nothing is known is refused."""
    check_name(loss)
    if loss.traits is None:
        raise InvalidInputError(
            f"over='admissible' knows the package's own losses only, and the loss is {loss.name}: how far a row moves the "
            "curvature of others is not known. Use over='max'."
        )
    return loss.traits
