"""How the terminal is filled: pairs, sentences, tables and bars of text, in its width; whole lines in a pipe."""

from __future__ import annotations

import io
import shutil
import sys
import textwrap
from collections.abc import Sequence

from fisherleak._support.numbers import number, plus_minus
from fisherleak.cli._common import emit, printable

__all__ = ["digits", "histogram", "inverse", "pairs", "paragraph", "sentences", "table", "wrapped"]


def paragraph(text: str, start: str = "") -> None:
    """A paragraph in the terminal's width, blank lines before and after it as they are."""
    before, after = (len(text) - len(text.lstrip("\n")), len(text) - len(text.rstrip("\n")))
    emit("\n" * before + wrapped(start, text.strip("\n")) + "\n" * after)


def digits(value: float | None) -> str:
    """A number as the report writes it, a sentence's dash where there is none."""
    return number(value)


def inverse(value: float) -> str:
    return plus_minus(1 / value if value > 0 else None)


def pairs(items: Sequence[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in items)
    for name, text in items:
        emit(wrapped(f"  {name:<{width}}  ", printable(text)))


def sentences(title: str, sentences: Sequence[str]) -> None:
    if title:
        emit(title)
    for sentence in sentences:
        emit(wrapped("  - ", printable(sentence)))


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
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    emit(title)
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 1))
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    terminal = sys.stdout.isatty()
    buffer = io.StringIO()
    console = Console(file=buffer, force_terminal=terminal, width=None if terminal else 160, legacy_windows=False)
    console.print(table)
    emit(buffer.getvalue().rstrip("\n"))


def histogram(values: Sequence[float], bins: int = 12, width: int = 48) -> None:
    """Bars of text, one for each part of the range."""
    top = max(values) or 1.0
    counts = [0] * bins
    for value in values:
        counts[min(int(bins * value / top), bins - 1)] += 1
    for k, count in enumerate(counts):
        bar = "#" * (max(1, round(width * count / max(counts))) if count else 0)
        emit(f"  {digits(top * k / bins):>9} to {digits(top * (k + 1) / bins):<9} {bar} {count}")
