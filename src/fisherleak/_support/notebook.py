"""How objects show themselves in a notebook: one small table of escaped text, in the colours of the page that it stands on.

No script and no fixed colour, so that light and dark themes, exported pages and printed ones read alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

__all__ = ["panel"]

BOX = "display:inline-block;border:1px solid;border-radius:6px;padding:0.4em 0.8em;color:inherit"
CELL = "text-align:left;padding:0.1em 1em 0.1em 0;background:transparent;color:inherit"


def panel(title: str, pairs: Iterable[tuple[str, object]], note: str = "") -> str:
    """A titled table of names and what they are; a note below it.

    Examples
    --------
    >>> "&lt;b&gt;" in panel("Leakage", [("column", "<b>")])
    True
    """
    rows = "".join(
        f'<tr style="background:transparent"><th scope="row" style="{CELL};font-weight:normal;opacity:0.8">{escape(name)}</th>'
        f'<td style="{CELL}">{escape(str(value))}</td></tr>'
        for name, value in pairs
    )
    below = f'<div style="opacity:0.8">{escape(note)}</div>' if note else ""
    return (
        f'<div style="{BOX}"><strong>{escape(title)}</strong>'
        f'<table style="border-collapse:collapse;border:0;margin:0.2em 0">{rows}</table>{below}</div>'
    )
