"""Losses by labels in another unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fisherleak._support.arrays import Array
from fisherleak.engine.losses import Loss

__all__ = ["with_label_unit"]


@dataclass(frozen=True)
class _Times:
    """A derivative times a number."""

    function: Callable[[Array, Array], Array]
    factor: float

    def __call__(self, z: Array, y: Array) -> Array:
        return self.factor * self.function(z, y)


def with_label_unit(loss: Loss, factor: float) -> Loss:
    """The loss whose derivative by the label is by a label that its own follows ``factor`` times."""
    return replace(loss, c=_Times(loss.c, factor))
