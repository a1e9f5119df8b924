"""Progress on standard error. What draws the bars is loaded with the first of them.

A terminal has a bar. A notebook has one line of text that is written over, only where it takes longer than two seconds: no
widgets are needed, and the line is blank in the end. A stage that takes longer than that has a line with its name: in a pipe
it stays, and elsewhere it is there until a bar follows or the stage ends. A step that takes long says what would be quicker.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
Update = Callable[[int, int], None]
FIRST, AGAIN = 2.0, 0.2
"""Seconds before a line is first written, and between two writings."""
LONG, LOOK = 20.0, 1.0
"""Processor seconds after which a step says what it does, and seconds between two looks."""
_shown: ContextVar[bool] = ContextVar("_shown", default=True)
_worded: ContextVar[Callable[[str], str]] = ContextVar("_worded", default=str)
_doing: ContextVar[str | None] = ContextVar("_doing", default=None)
_stage: ContextVar[_Stage | None] = ContextVar("_stage", default=None)


@contextmanager
def hidden(hide: bool = True, worded: Callable[[str], str] = str) -> Iterator[None]:
    """No bars inside, whatever standard error is; what is said is ``worded`` in the caller's own terms."""
    token, words = _shown.set(not hide), _worded.set(worded)
    try:
        yield
    finally:
        _shown.reset(token)
        _worded.reset(words)


@contextmanager
def doing(description: str) -> Iterator[None]:
    """A stage of this name; passes over lazy rows inside get a bar of that name each."""
    token = _doing.set(description)
    try:
        with stage(description):
            yield
    finally:
        _doing.reset(token)


@contextmanager
def stage(description: str) -> Iterator[None]:
    """One line where what is inside takes longer than two seconds and has no bar; stages inside have none of their own."""
    if not _shown.get() or _stage.get() is not None:
        yield
        return
    own = _Stage(description)
    _stage.set(own)
    try:
        yield
    finally:
        _stage.set(None)
        own.end()


@contextmanager
def told_when_long(description: str, quicker: str, long: float = LONG, look: float = LOOK) -> Iterator[None]:
    """One line on standard error where what is inside takes more than ``long`` seconds of the processor."""
    if not _shown.get():
        yield
        return
    done, start, said = threading.Event(), time.process_time(), _worded.get()(quicker)

    def watch() -> None:
        while not done.wait(look):
            if time.process_time() - start > long:
                sys.stderr.write(f"{description} has taken {long:.0f} s so far. {said}\n")
                sys.stderr.flush()
                return

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def track(items: Iterable[T], total: int, description: str) -> Iterator[T]:
    """The items, with a bar where there can be one; bars inside bars are left out."""
    with _bar(description) as update:
        if update is None:
            yield from items
            return
        _shown.set(False)
        try:
            for done, item in enumerate(items):
                update(done, total)
                yield item
        finally:
            _shown.set(True)


@contextmanager
def watched() -> Iterator[Update | None]:
    """A function ``update(done, total)`` that moves a bar, or None where there is none."""
    description = _doing.get()
    if description is None:
        yield None
        return
    with _bar(description) as update:
        yield update


@contextmanager
def _bar(description: str) -> Iterator[Update | None]:
    if not _shown.get():
        yield None
        return
    if not (sys.stderr.isatty() or _in_notebook()):
        with stage(description):
            yield None
        return
    around = _stage.get()
    if around is not None:
        around.end()  # the bar says it
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as progress:
            bar = progress.add_task(description, total=None)
            yield lambda done, total: progress.update(bar, completed=done, total=total)
    else:
        line = _Line(description)
        try:
            yield line.write
        finally:
            line.clear()


class _Stage:
    """A name that is written after some seconds, unless the stage has ended by then."""

    def __init__(self, description: str) -> None:
        self._text, self._written, self._ended = f"{description}...", False, False
        self._lock = threading.Lock()
        self._stays = not (sys.stderr.isatty() or _in_notebook())
        self._timer = threading.Timer(FIRST, self._write)
        self._timer.daemon = True
        self._timer.start()

    def _write(self) -> None:
        with self._lock:
            if not self._ended:
                sys.stderr.write(self._text + "\n" if self._stays else "\r" + self._text)
                sys.stderr.flush()
                self._written = True

    def end(self) -> None:
        self._timer.cancel()
        with self._lock:
            if self._written and not self._stays and not self._ended:
                sys.stderr.write("\r" + " " * len(self._text) + "\r")
                sys.stderr.flush()
            self._ended = True


class _Line:
    """One line of text that is written over."""

    def __init__(self, description: str) -> None:
        self._description, self._next, self._width = description, time.monotonic() + FIRST, 0

    def write(self, done: int, total: int) -> None:
        if time.monotonic() < self._next:
            return
        text = f"{self._description}: {done} of {total}"
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._next, self._width = time.monotonic() + AGAIN, len(text)

    def clear(self) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()


def _in_notebook() -> bool:
    """Whether a kernel of Jupyter runs this, whose front end shows standard error."""
    if "ipykernel" not in sys.modules:
        return False
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")
