"""Interrupts that end a command with one sentence, wherever they arrive.

An exception that is raised inside an import can be lost there (Python ignores it in a callback, or an extension module turns it
into an error of its own), so that the command goes on with half a module. Nothing has been begun while modules are loaded, but
for files that are being written: there an interrupt is an exception, so that what is half-written is cleared away.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

INTERRUPTED = "interrupted; nothing was written."
IMPORTING = "<frozen importlib"
WRITING = tuple(f"_support{os.sep}{name}.py" for name in ("atomic", "locked"))
STATUS = 2


def interrupt(signum: int, frame: FrameType | None) -> None:
    """What a signal to stop does: it ends the process at once inside an import, and is an exception elsewhere."""
    if _is_importing(frame):
        with contextlib.suppress(OSError):
            os.write(2, f"fisherleak: {INTERRUPTED}\n".encode())
        os._exit(STATUS)
    raise KeyboardInterrupt


@contextlib.contextmanager
def heeding_interrupts() -> Iterator[None]:
    """Interrupts are taken so while a command runs, unless someone else takes them."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_importing(frame: FrameType | None) -> bool:
    found = False
    while frame is not None:
        name = frame.f_code.co_filename
        if name.endswith(WRITING):
            return False
        found = found or name.startswith(IMPORTING)
        frame = frame.f_back
    return found
