"""Every item of the reproduction, in the order of the page."""

from __future__ import annotations

from fisherleak.reproduce import (
    end_to_end,
    figure1,
    figure2,
    figure3,
    figure4,
    figure5,
    figure6,
    figure7,
    jointly,
    overlap,
    pixels,
    table1,
)
from fisherleak.reproduce.record import Item

__all__ = ["ITEMS"]

_MODULES = (
    *(table1, figure1, figure2, figure3, overlap, figure4, figure5, figure6, figure7),
    *(pixels, jointly, end_to_end),
)
ITEMS: dict[str, Item] = {module.ITEM.name: module.ITEM for module in _MODULES}
"""By name."""
