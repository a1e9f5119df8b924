"""Bars on terminals, names of long stages elsewhere."""

from __future__ import annotations

import io
import sys
import time
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import fisherleak as fl
from fisherleak._support import progress
from fisherleak._support.progress import doing, hidden, stage, told_when_long, track


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
    monkeypatch.setattr(progress, "FIRST", 2.0)
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


def lasting(stream: io.StringIO) -> None:
    """Until something is written, at most some seconds."""
    for _ in range(1000):
        if stream.getvalue():
            return
        time.sleep(0.01)


def test_a_long_stage_has_one_line_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is inside: steps, stages of their own and what would have bars."""
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    monkeypatch.setattr(progress, "FIRST", 0.01)
    with stage("Attacking"), stage("Measuring"):
        for _ in track(range(2), 2, "Refitting"):
            lasting(pipe)
    assert pipe.getvalue() == "Attacking...\n"
    for name, work in (("Protecting", track(range(2), 2, "Protecting")), ("Measuring", None)):
        pipe.truncate(0)
        pipe.seek(0)
        if work is None:
            with doing(name):
                lasting(pipe)
        else:
            for _ in work:
                lasting(pipe)
        assert pipe.getvalue() == f"{name}...\n"
    pipe.truncate(0)
    pipe.seek(0)
    with hidden(), stage("Attacking"):
        time.sleep(0.05)
    assert pipe.getvalue() == ""


def test_a_long_stage_has_a_line_on_a_terminal_until_it_ends_or_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "FIRST", 0.01)
    with stage("Attacking"):
        lasting(terminal)
        assert terminal.getvalue() == "\rAttacking..."
        for _ in track(range(2), 2, "Refitting"):
            pass
        assert terminal.getvalue().startswith("\rAttacking...\r" + " " * len("Attacking...") + "\r")
        assert "Refitting" in terminal.getvalue()
        shown = terminal.getvalue()
    assert terminal.getvalue() == shown


LONG_WORK: dict[str, Callable[[Any, Any], object]] = {
    "Protecting": lambda X, y: fl.protect(Ridge(1.0), X, y, over="max", penalties=[1.0], shapes=["isotropic"]),
    "Measuring": lambda X, y: fl.measure(Ridge(1.0).fit(X, y), X, y),
    "Measuring rows": lambda X, y: fl.audit(Ridge(1.0).fit(X, y), X, y, 1.0, attacks=False),
    "Finding the noise": lambda X, y: fl.PrivateRelease(Ridge(1.0), bounds={"norm": 9.0, "label": (-9, 9)}).fit(X, y),
}


class AtOnce:
    """A timer for which every stage is long."""

    daemon = True

    def __init__(self, seconds: float, then: Callable[[], None]) -> None:
        self.start, self.cancel = then, lambda: None


@pytest.mark.parametrize("name", LONG_WORK)
def test_work_that_may_take_long_is_a_stage(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X, pipe = rng.normal(size=(300, 2)), io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    monkeypatch.setattr(vars(progress)["threading"], "Timer", AtOnce)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LONG_WORK[name](X, X[:, 0] + rng.normal(size=300))
    assert f"{name}...\n" in pipe.getvalue()


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
