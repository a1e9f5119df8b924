"""Losses by labels in another unit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fisherleak._support.arrays import Array
from fisherleak.engine.loss_traits import Derivative
from fisherleak.engine.losses import Loss

__all__ = ["with_label_unit"]


@dataclass(frozen=True)
class _Times:
    """A derivative times a number."""

    function: Derivative
    factor: float

    def __call__(self, z: Array, y: Array) -> Array:
        return self.factor * self.function(z, y)


def with_label_unit(loss: Loss, factor: float) -> Loss:
    """The loss whose derivative by the label is by a label that its own follows ``factor`` times."""
    c, traits = _Times(loss.c, factor), loss.traits
    if traits is not None:
        by_label = _Times(traits.slope_by_label, factor)
        traits = replace(traits, of=(loss.value, loss.r, loss.a, c), slope_by_label=by_label)
    return replace(loss, c=c, traits=traits)
