"""The paper's tables, figures and statements from the library's public calls, side by side with the published numbers.

One file per item; adding one is adding a file and a line to ``NAMES``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fisherleak._support.lazy import lazily

if TYPE_CHECKING:
    from fisherleak.reproduce.items import ITEMS as ITEMS
    from fisherleak.reproduce.record import Comparison as Comparison
    from fisherleak.reproduce.record import Item as Item
    from fisherleak.reproduce.run import reproduce as reproduce

__all__ = ["ITEMS", "NAMES", "Comparison", "Item", "reproduce"]

NAMES = (
    *("table1", "figure1", "figure2", "figure3", "overlap", "figure4", "figure5", "figure6", "figure7"),
    *("pixels", "jointly", "end_to_end"),
)
"""Of the items and of their modules, in the order of the page."""

# names are shown by the command line before anything is computed
__getattr__, __dir__ = lazily(
    __name__,
    {
        "fisherleak.reproduce.items": ("ITEMS",),
        "fisherleak.reproduce.record": ("Comparison", "Item"),
        "fisherleak.reproduce.run": ("reproduce",),
    },
)
