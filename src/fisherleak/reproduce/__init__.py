"""The paper's tables, figures and statements from the library's public calls, side by side with the published numbers.

One file per item; adding one is adding a file and a line to ``ITEMS``.
"""

from fisherleak.reproduce.items import ITEMS
from fisherleak.reproduce.record import Comparison, Item
from fisherleak.reproduce.run import reproduce

__all__ = ["ITEMS", "Comparison", "Item", "reproduce"]
