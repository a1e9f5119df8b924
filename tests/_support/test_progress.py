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
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    pairs = [(a, b) for a in track(range(3), 3, "Outer") for b in track(range(2), 2, "Inner")]
    assert len(pairs) == 6
    assert "Outer" in terminal.getvalue()
    assert "Inner" not in terminal.getvalue()
    assert list(track(range(2), 2, "Next")) == [0, 1]
    assert "Next" in terminal.getvalue()


def test_silence_in_a_pipe_and_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, terminal = io.StringIO(), Terminal()
    monkeypatch.setattr(sys, "stderr", pipe)
    assert list(track(range(3), 3, "Quiet")) == [0, 1, 2]
    assert pipe.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", terminal)
    with hidden():
        assert list(track(range(3), 3, "Quiet")) == [0, 1, 2]
    assert terminal.getvalue() == ""
