"""Columns whose preprocessing has a kink: in every row, the side that leaks more counts.

At a kink a feature has two derivatives, and an attacker may move the value to either side; eta is the larger of the two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.mechanisms.served import Disclosed
from fisherleak.engine.noise import Noise
from fisherleak.engine.norms import information_about
from fisherleak.models import Reading

__all__ = ["larger_side"]


def larger_side(reading: Reading, noise: Noise | Disclosed) -> tuple[Attribute, ...]:
    """The attributes of a reading, each with the derivative of the side on which its eta is larger, row by row."""
    if reading.other_side is None:
        return reading.attributes
    sides = (reading.attributes, reading.other_side)
    right, left = (_cells(reading, noise, side) for side in sides)
    pairs = zip(*sides, strict=True)
    return tuple(_joined(a, b, left[:, j] > right[:, j]) if a.local or b.local else a for j, (a, b) in enumerate(pairs))


def _cells(reading: Reading, noise: Noise | Disclosed, side: tuple[Attribute, ...]) -> NDArray[np.float64]:
    information = information_about(reading.fit, reading.features, reading.y, noise, side, reading.folding)
    return np.asarray(host(information.cell_norms(side)))


def _joined(first: Attribute, second: Attribute, use_second: NDArray[np.bool_]) -> Attribute:
    if first.columns == second.columns and np.array_equal(_local(first, first.columns), _local(second, first.columns)):
        return first
    columns = tuple(dict.fromkeys(first.columns + second.columns))
    directions = np.where(use_second[:, None, None], _local(second, columns), _local(first, columns))
    return Attribute(first.name, columns, directions)


def _local(attribute: Attribute, columns: tuple[int, ...]) -> NDArray[np.float64]:
    """Directions for some columns, zero where the attribute does not feed them."""
    given = np.eye(attribute.size) if attribute.directions is None else attribute.directions
    spread = np.zeros((*given.shape[:-2], len(columns), given.shape[-1]))
    spread[..., [columns.index(j) for j in attribute.columns], :] = given
    return spread
