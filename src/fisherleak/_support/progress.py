"""Progress on a terminal, silence in a pipe. What draws the bars is loaded with the first of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

__all__ = ["doing", "hidden", "track", "watched"]

T = TypeVar("T")
Update = Callable[[int, int], None]
_shown: ContextVar[bool] = ContextVar("_shown", default=True)
_doing: ContextVar[str | None] = ContextVar("_doing", default=None)


@contextmanager
def hidden(hide: bool = True) -> Iterator[None]:
    """No bars inside, whatever standard error is."""
    token = _shown.set(not hide)
    try:
        yield
    finally:
        _shown.reset(token)


@contextmanager
def doing(description: str) -> Iterator[None]:
    """What passes over lazy rows inside are for: each gets a bar of that name."""
    token = _doing.set(description)
    try:
        yield
    finally:
        _doing.reset(token)


def track(items: Iterable[T], total: int, description: str) -> Iterator[T]:
    """The items, with a bar on standard error where that is a terminal; bars inside bars are left out."""
    if not _wanted():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track as drawn

    _shown.set(False)
    try:
        yield from drawn(items, description, total=total, console=Console(stderr=True), transient=True)
    finally:
        _shown.set(True)


@contextmanager
def watched() -> Iterator[Update | None]:
    """A function ``update(done, total)`` that moves a bar, or None where there is none."""
    description = _doing.get()
    if description is None or not _wanted():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(description, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)


def _wanted() -> bool:
    return _shown.get() and sys.stderr.isatty()
