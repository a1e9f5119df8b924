from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

from fisherleak.cli import main


@pytest.fixture(scope="module", autouse=True)
def _quick(quick_audits: None) -> None:
    """Attacks in passing take little time."""


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """Processes that a test starts take interrupts, also where whoever started the tests has them ignored.

    An ignored signal is inherited; one that is handled is what it is by default in a new process.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    status: int
    out: str
    err: str


@pytest.fixture
def fisherleak(capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Runs a command line in this process.

    Tables in these tests are small: releases limit the rows that are there, unless a test says whose etas it limits.
    """

    def run(*arguments: object) -> Done:
        capfd.readouterr()
        line = [str(argument) for argument in arguments]
        if line[:1] == ["release"] and not {"--over", "--help"} & {word.split("=")[0] for word in line}:
            line += ["--over", "max"]
        status = main(line)
        captured = capfd.readouterr()
        return Done(status, captured.out, captured.err)

    return run


@pytest.fixture
def people(tmp_path: Path, frame: pandas.DataFrame) -> Path:
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path
