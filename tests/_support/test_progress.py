"""Bars on terminals, silence elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from fisherleak._support.progress import hidden, track


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal_even_inside_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    pairs = [(a, b) for a in track(range(3), 3, "Outer") for b in track(range(2), 2, "Inner")]
    assert len(pairs) == 6
    assert "Outer" in sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert "Inner" not in sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert list(track(range(2), 2, "Next")) == [0, 1]
    assert "Next" in sys.stderr.getvalue()  # type: ignore[attr-defined]


def test_silence_in_a_pipe_and_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert list(track(range(3), 3, "Quiet")) == [0, 1, 2]
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]
    monkeypatch.setattr(sys, "stderr", Terminal())
    with hidden():
        assert list(track(range(3), 3, "Quiet")) == [0, 1, 2]
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]
