"""The paper's items beside the published numbers: may import the library's public names; nobody but ``cli`` imports it.

Items lie by what they are about; adding one is adding it to the ``ITEMS`` of its module and to ``NAMES``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fisherleak._support.lazy import lazily

if TYPE_CHECKING:
    from fisherleak.reproduce.reproduction import ITEMS as ITEMS
    from fisherleak.reproduce.reproduction import reproduce as reproduce
    from fisherleak.reproduce.workspace import Comparison as Comparison
    from fisherleak.reproduce.workspace import Item as Item

__all__ = ["ITEMS", "NAMES", "Comparison", "Item", "reproduce"]

NAMES = (
    *("table1", "figure1", "figure2", "figure3", "overlap", "figure4", "figure5", "figure6", "figure7"),
    *("pixels", "all_digits", "jointly", "end_to_end"),
)
"""Of the items, in the order of the page."""

# names are shown by the command line before anything is computed
__getattr__, __dir__ = lazily(
    __name__,
    {
        "fisherleak.reproduce.workspace": ("Comparison", "Item"),
        "fisherleak.reproduce.reproduction": ("ITEMS", "reproduce"),
    },
)
