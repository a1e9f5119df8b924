"""Progress on a terminal, silence in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from rich.console import Console
from rich.progress import track as rich_track

__all__ = ["hidden", "track"]

T = TypeVar("T")
_shown: ContextVar[bool] = ContextVar("_shown", default=True)


@contextmanager
def hidden(hide: bool = True) -> Iterator[None]:
    """No bars inside, whatever standard error is."""
    token = _shown.set(not hide)
    try:
        yield
    finally:
        _shown.reset(token)


def track(items: Iterable[T], total: int, description: str) -> Iterator[T]:
    """The items, with a bar on standard error where that is a terminal; bars inside bars are left out."""
    if not (_shown.get() and sys.stderr.isatty()):
        yield from items
        return
    _shown.set(False)
    try:
        yield from rich_track(items, description, total=total, console=Console(stderr=True), transient=True)
    finally:
        _shown.set(True)
