"""Interrupts inside an import end the process with one sentence; elsewhere they are exceptions."""

from __future__ import annotations

import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from fisherleak.cli import _interrupts

SWALLOWS = """
import os, signal, sys, weakref
from fisherleak.cli._interrupts import heeding_interrupts

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "lost":
            # an exception of this callback is lost, as in callbacks of import locks
            weakref.finalize(type("Thing", (), {})(), os.kill, os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
with heeding_interrupts():
    try:
        import lost
    except ImportError:
        pass
    print("went on")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.usefixtures("heeded_interrupts")
def test_an_interrupt_that_an_import_would_lose_ends_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", SWALLOWS], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr, done.stdout) == (2, "fisherleak: interrupted; nothing was written.\n", "")


def frames(*names: str) -> Any:
    found = None
    for name in names:
        found = types.SimpleNamespace(f_code=types.SimpleNamespace(co_filename=name), f_back=found)
    return found


def test_files_that_are_being_written_are_cleared_away(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(vars(_interrupts)["os"], "_exit", ended.append)
    monkeypatch.setattr(vars(_interrupts)["os"], "write", lambda *_: 0)
    writing = str(Path("fisherleak") / "_support" / "atomic.py")
    for stack in (("main.py",), (writing, "<frozen importlib._bootstrap>"), ()):
        with pytest.raises(KeyboardInterrupt):
            _interrupts.interrupt(signal.SIGINT, frames(*stack))
    assert not ended
    with pytest.raises(KeyboardInterrupt):  # the exit above does not end this process
        _interrupts.interrupt(signal.SIGINT, frames("main.py", "<frozen importlib._bootstrap>", "numpy.py"))
    assert ended == [2]


def test_handlers_of_others_stay() -> None:
    before = signal.getsignal(signal.SIGINT)
    own: Any = lambda *_: None  # noqa: E731
    signal.signal(signal.SIGINT, own)
    try:
        with _interrupts.heeding_interrupts():
            assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)
