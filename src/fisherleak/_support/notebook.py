"""How objects show themselves: in a notebook one small table of escaped text, in the colours of the page; else in lines.

No script and no fixed colour, so that light and dark themes, exported pages and printed ones read alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

BOX = "display:inline-block;border:1px solid;border-radius:6px;padding:0.4em 0.8em;color:inherit"
CELL = "text-align:left;padding:0.1em 1em 0.1em 0;background:transparent;color:inherit"


def panel(title: str, pairs: Iterable[tuple[str, object]], note: str = "") -> str:
    """A titled table of names and what they are; a note below it. What has no name goes across the table.

    Examples
    --------
    >>> "&lt;b&gt;" in panel("Leakage", [("column", "<b>")])
    True
    """
    rows = "".join(
        f'<tr style="background:transparent">{_cells(name, escape(str(value)))}</tr>' for name, value in pairs
    )
    below = f'<div style="opacity:0.8">{escape(note)}</div>' if note else ""
    return (
        f'<div style="{BOX}"><strong>{escape(title)}</strong>'
        f'<table style="border-collapse:collapse;border:0;margin:0.2em 0">{rows}</table>{below}</div>'
    )


class Shown:
    """What says of itself a title, names with what they are, and a note: shown in a notebook, and as lines by ``print``."""

    def _shown(self: Any) -> tuple[str, list[tuple[str, object]], str]:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return panel(*self._shown())

    def __str__(self) -> str:
        title, pairs, note = self._shown()
        width = max((len(name) for name, _ in pairs), default=0)
        return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in pairs), *filter(None, [note])])


def _cells(name: str, value: str) -> str:
    """A name beside its value; a value alone where there is no name, since a reader of screens announces empty heads."""
    if not name:
        return f'<td colspan="2" style="{CELL}">{value}</td>'
    return f'<th scope="row" style="{CELL};font-weight:normal;opacity:0.8">{escape(name)}</th><td style="{CELL}">{value}</td>'
