"""Every item of the reproduction, in the order of the page."""

from __future__ import annotations

from importlib import import_module

from fisherleak.reproduce import NAMES
from fisherleak.reproduce.comparison import Item

__all__ = ["ITEMS"]

ITEMS: dict[str, Item] = {name: import_module(f"fisherleak.reproduce.experiments.{name}").ITEM for name in NAMES}
"""By name."""
