"""How the second derivatives of the package's own losses behave: what certificates rest on."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fisherleak.engine.losses import Loss, check_name
from fisherleak.errors import InvalidInputError

__all__ = ["Curvature", "curvature_of"]


@dataclass(frozen=True)
class Curvature:
    """How the second derivative of a loss behaves in z.

    Parameters
    ----------
    slope : float
        Of its logarithm, at most: 1 for the logistic, Poisson and Gamma losses, zero for the squared.
    peak : float
        Where it is largest.
    by_difference : bool
        Whether all derivatives depend on z - y alone.
    by_label : bool
        Whether it depends on the label as the gradient does: both are affine in it, and their product may be largest between
        its ends.
    """

    slope: float
    peak: float
    by_difference: bool = False
    by_label: bool = False


def curvature_of(loss: Loss) -> Curvature:
    """For the package's own losses; others are refused, as nothing is known of their third derivative."""
    known = {
        "squared": Curvature(0.0, 0.0),
        "logistic": Curvature(1.0, 0.0),
        "poisson": Curvature(1.0, math.inf),
        "gamma": Curvature(1.0, -math.inf, by_label=True),
    }
    check_name(loss)
    if loss.name in known:
        return known[loss.name]
    delta = getattr(loss.a, "delta", None)
    if loss.name == "pseudo_huber" and delta is not None:
        return Curvature(1.5 / delta, 0.0, by_difference=True)  # 3 t / (1 + t^2) / delta is at most this
    raise InvalidInputError(
        f"over='admissible' knows the package's own losses only, and the loss is {loss.name}: how far a row moves the "
        "curvature of others is not known. Use over='max'."
    )
