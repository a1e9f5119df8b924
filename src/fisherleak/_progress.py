"""Progress on a terminal, silence in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import track as rich_track

__all__ = ["track"]

T = TypeVar("T")


def track(items: Iterable[T], total: int, description: str) -> Iterator[T]:
    """The items, with a bar on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        yield from items
        return
    yield from rich_track(items, description, total=total, console=Console(stderr=True), transient=True)
