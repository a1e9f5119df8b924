from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

from fisherleak.cli import main


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    status: int
    out: str
    err: str


@pytest.fixture
def fisherleak(capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Runs a command line in this process."""

    def run(*arguments: object) -> Done:
        capfd.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Done(status, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def frame() -> pandas.DataFrame:
    """People with numbers, categories, a class, a number and a count to predict."""
    rng = np.random.default_rng(0)
    n = 120
    table = pandas.DataFrame(
        {
            "person": [f"p{i:03d}" for i in range(n)],
            "age": rng.normal(50, 12, n).round(),
            "weight": rng.normal(70, 9, n).round(1),
            "city": rng.choice(["Bonn", "Genua", "<b>Łódź</b>"], n),
            "vip": rng.choice([True, False], n),
        }
    )
    table["income"] = (1000 * table.age + 5000 * table.vip + rng.normal(0, 9000, n)).round()
    table["sick"] = np.where(table.age + rng.normal(0, 12, n) > 55, "yes", "no")
    table["visits"] = rng.poisson(np.exp(table.age / 50))
    return table


@pytest.fixture
def people(tmp_path: Path, frame: pandas.DataFrame) -> Path:
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path
