"""Bars on terminals, silence elsewhere."""

from __future__ import annotations

import io
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import fisherleak as fl
from fisherleak._support import progress
from fisherleak._support.progress import hidden, told_when_long, track


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


def test_a_line_in_a_notebook_where_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """No widgets: one line that is written over, and blank in the end."""
    shown, clock = io.StringIO(), iter(np.arange(0.0, 1000.0, 0.9))
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(vars(progress)["time"], "monotonic", lambda: float(next(clock)))
    kernel = types.ModuleType("IPython")
    kernel.get_ipython = lambda: types.SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    assert list(track(range(3), 3, "Elsewhere")) == [0, 1, 2]
    assert shown.getvalue() == ""
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    assert [pair for pair in track(range(6), 6, "Outer") for _ in track(range(2), 2, "Inner")] == sorted(
        [*range(6)] * 2
    )
    lines = shown.getvalue().split("\r")
    assert "Outer: 5 of 6" in lines
    assert not any("Inner" in line for line in lines)
    assert lines[-2].strip() == lines[-1] == ""
    shown.truncate(0)
    shown.seek(0)
    monkeypatch.setattr(progress, "FIRST", 1e9)
    assert list(track(range(6), 6, "Short")) == [*range(6)]
    assert shown.getvalue() == ""


def test_long_work_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reweighting, attacks and the frontier; the frontier's reweighting is inside its own bar."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = X[:, 0] + rng.normal(size=40)

    def shown_by(work: Callable[[], object]) -> str:
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        work()
        return terminal.getvalue()

    assert "Reweighting" in shown_by(lambda: fl.IRFIL(Ridge(1.0), n_iter=2).fit(X, y))
    limit: dict[str, Any] = {"over": "max", "penalties": [1.0], "shapes": ["isotropic"]}
    frontier = shown_by(lambda: fl.protect(Ridge(1.0), X, y, **limit))
    assert "Protecting" in frontier
    assert "Reweighting" not in frontier
    attack = fl.attacks.WhiteBox(Ridge(1.0).fit(X, y), X, y, 1, values=[0.0, 1.0])
    assert "Moves for" in shown_by(lambda: attack.moves)


def test_silence_in_a_pipe_and_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, terminal = io.StringIO(), Terminal()
    monkeypatch.setattr(sys, "stderr", pipe)
    assert list(track(range(3), 3, "Quiet")) == [0, 1, 2]
    assert pipe.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", terminal)
    with hidden():
        assert list(track(range(3), 3, "Quiet")) == [0, 1, 2]
    assert terminal.getvalue() == ""


def test_a_long_step_says_what_it_does_and_what_would_be_quick(capsys: pytest.CaptureFixture[str]) -> None:
    said = ""
    words = hidden(False, lambda sentence: sentence.replace("`attacks=False`", "--no-attacks"))
    with words, told_when_long("Attacking", "`attacks=False` leaves it out.", long=0.01, look=0.001):
        for _ in range(20_000):
            said += capsys.readouterr().err
            if said:
                break
            sum(range(2_000))
    assert said == "Attacking has taken 0 s so far. --no-attacks leaves it out.\n"
    with hidden(), told_when_long("Attacking", "", long=0.0, look=0.001):
        sum(range(200_000))
    with told_when_long("Attacking", ""):
        pass
    assert capsys.readouterr().err == ""
