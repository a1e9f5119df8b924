"""How the terminal is filled: pairs, sentences, tables and bars of text, in its width; whole lines in a pipe."""

from __future__ import annotations

import io
import shutil
import sys
import textwrap
from collections.abc import Sequence

from fisherleak._support.numbers import number, plus_minus
from fisherleak.cli._common import emit, printable

SCREEN = 24
"""Lines of 80 columns."""


def paragraph(text: str, start: str = "") -> None:
    """A paragraph in the terminal's width, blank lines before and after it as they are."""
    before, after = (len(text) - len(text.lstrip("\n")), len(text) - len(text.rstrip("\n")))
    emit("\n" * before + wrapped(start, text.strip("\n")) + "\n" * after)


def inverse(value: float) -> str:
    return plus_minus(1 / value if value > 0 else None)


def pair_lines(items: Sequence[tuple[str, str]]) -> list[str]:
    """Names and what is said of them, as the lines that they take."""
    width = max(len(name) for name, _ in items)
    return [line for name, text in items for line in lines(f"  {name:<{width}}  ", text)]


def sentences(title: str, sentences: Sequence[str]) -> None:
    if title:
        emit(title)
    for sentence in sentences:
        emit(wrapped("  - ", printable(sentence)))


def lines(start: str, text: str) -> list[str]:
    """A text as the lines that it takes; none where there is none."""
    return wrapped(start, printable(text)).split("\n") if text else []


def that_fit(blocks: Sequence[list[str]], room: int) -> list[list[str]]:
    """The first blocks of lines that fit, and that others were left out; in a pipe lines are whole, and more of them fit."""
    fitting: list[list[str]] = []
    for k, block in enumerate(blocks):
        room -= len(block)
        if room < (k < len(blocks) - 1):  # a line to say so, but behind the last
            return [*fitting, [f"  … {number(len(blocks) - k)} more"]]
        fitting.append(block)
    return fitting


def screen(first: Sequence[str], blocks: Sequence[list[str]], last: Sequence[str] = ()) -> None:
    """A screen at most: lines that are always shown, and between them the blocks that fit."""
    fitting = that_fit(blocks, SCREEN - len(first) - len(last))
    emit("\n".join([*first, *(line for block in fitting for line in block), *last]))


def wrapped(start: str, text: str) -> str:
    """A line that a terminal breaks between words, below its own beginning; whole in a pipe."""
    if not sys.stdout.isatty():
        return start + text
    width = max(shutil.get_terminal_size().columns, len(start) + 20)
    return textwrap.fill(
        text,
        width,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    emit("\n".join([title, *table_lines(head, rows)]))


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as the lines that it takes."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 1))
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    terminal = sys.stdout.isatty()
    buffer = io.StringIO()
    console = Console(file=buffer, force_terminal=terminal, width=None if terminal else 160, legacy_windows=False)
    console.print(table)
    return buffer.getvalue().rstrip("\n").split("\n")


def histogram(values: Sequence[float], bins: int = 12, width: int = 48) -> list[str]:
    """Bars of text, one for each part of the range, as lines."""
    top = max(values) or 1.0
    counts = [0] * bins
    for value in values:
        counts[min(int(bins * value / top), bins - 1)] += 1
    found = []
    for k, count in enumerate(counts):
        bar = "#" * (max(1, round(width * count / max(counts))) if count else 0)
        found.append(f"  {number(top * k / bins):>9} to {number(top * (k + 1) / bins):<9} {bar} {count}")
    return found
