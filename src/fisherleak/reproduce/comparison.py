"""What an item of the reproduction is: settings, numbers, a picture, and the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fisherleak.reproduce.workspace import Workspace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Comparison", "Item", "Numbers"]

Numbers = dict[str, Any]
"""Plain JSON types."""


@dataclass(frozen=True)
class Comparison:
    """One line of the page: what, ours, the paper's own number or statement, and a note.

    Notes say what the paper's recipe is expected to give where the paper shows a picture only.
    """

    what: str
    ours: str
    paper: str = ""
    note: str = ""


@dataclass(frozen=True)
class Item:
    """A table, a figure or a statement of the paper, or something beyond it.

    Parameters
    ----------
    name : str
        As on the command line; also the name of its files.
    title : str
    settings : dict
        Everything that decides the numbers, apart from the data.
    compute : callable
        Workspace -> numbers.
    compare : callable
        Numbers -> comparisons.
    draw : callable, optional
        (numbers, workspace) -> matplotlib figure.
    remark : str
        A paragraph under the title.
    beyond : bool
        Whether the paper has no such item.
    """

    name: str
    title: str
    settings: dict[str, Any]
    compute: Callable[[Workspace], Numbers]
    compare: Callable[[Numbers], list[Comparison]]
    draw: Callable[[Numbers, Workspace], Figure] | None = None
    remark: str = ""
    beyond: bool = field(default=False)
