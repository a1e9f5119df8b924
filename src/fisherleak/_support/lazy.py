"""Names of a folder that are loaded from their modules when they are first used (PEP 562).

A folder that gathers heavy modules can so be opened for the light ones in it at no cost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazily(folder: str, homes: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a folder.

    Parameters
    ----------
    folder : str
        The full name of the folder's package.
    homes : mapping
        From modules to the names that live there, which ``__all__`` lists. No name may be that of a module of the folder: the
        import of that module would take its place.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module '{folder}' has no attribute '{name}'")
        value = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[folder], name, value)
        return value

    return load, lambda: list(sys.modules[folder].__all__)
