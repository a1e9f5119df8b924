"""Which attributes a question is about: by name or number, all of them where none is named."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fisherleak._support.checks import check_flag, nearest
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.errors import InvalidInputError

__all__ = ["chosen_attributes"]


def chosen_attributes(
    everything: tuple[Attribute, ...], attributes: Sequence[str | int] | str | int | None, label: bool | None
) -> tuple[tuple[Attribute, ...], bool]:
    """The attributes asked for, in that order, and whether the label counts: by default only where none is named."""
    label = None if label is None else check_flag(label, "label")
    if attributes is None:
        return everything, True if label is None else label
    items = list(attributes) if isinstance(attributes, (list, tuple, set, np.ndarray)) else [attributes]
    names = [attribute.name for attribute in everything]
    positions = []
    for item in items:
        if isinstance(item, str):
            if item not in names:
                raise InvalidInputError(f"There is no attribute '{item}'. {nearest(item, names)}")
            positions.append(names.index(item))
        elif isinstance(item, (int, np.integer)) and not isinstance(item, bool) and -len(names) <= item < len(names):
            positions.append(int(item) % len(names))
        else:
            raise InvalidInputError(f"attributes must be names or numbers from 0 to {len(names) - 1}; got {item!r}.")
    if not positions and not label:
        raise InvalidInputError("attributes is empty and the label does not count: name at least one attribute.")
    if len(set(positions)) != len(positions):
        raise InvalidInputError(f"attributes must not repeat; got {items}.")
    return tuple(everything[j] for j in positions), bool(label)
