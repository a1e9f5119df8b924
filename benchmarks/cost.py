"""What the installed ``fisherleak audit`` takes on three wide tables, against fitting the model of each alone, in the same run.

Tables are made with a fixed seed, in the shape of ones that are slow: few rows of many categories and classes, a target of many
classes, and far more columns than rows. Processor seconds, peak memory, and their ratios to reading the table and fitting.
``python benchmarks/cost.py [--only houses soybean genes] [--keep FOLDER]``
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

AUDIT = "import sys; from fisherleak.cli import main; sys.exit(main())"
FIT = """
import sys
from fisherleak.tables import Room, read_table
from fisherleak.training.trained_model import Settings, train
train(read_table(sys.argv[1]), Settings(target=sys.argv[2]), Room.here())
"""
MISSING = 0.05
"""Part of the cells that are missing, in columns that have any."""


@dataclass(frozen=True)
class Table:
    """How a table is made, its target, and the goals for its audit: processor seconds, and peak memory in MiB."""

    make: Callable[[np.random.Generator], pd.DataFrame]
    target: str
    seconds: float
    memory: float


@dataclass(frozen=True)
class Took:
    """Processor seconds and peak memory in MiB of a process."""

    seconds: float
    memory: float

    @classmethod
    def of(cls, command: list[str]) -> Took:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with subprocess.Popen(  # noqa: S603 - our own command
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as started:
            _, status, used = os.wait4(started.pid, 0)
            started.returncode = os.waitstatus_to_exitcode(status)
        if started.returncode:
            raise SystemExit(f"{' '.join(command[3:])} failed")
        return cls(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def houses(random: np.random.Generator) -> pd.DataFrame:
    """1,459 houses: 35 numbers, 45 categories of 3 to 25 values, and one of five zones."""
    n = 1459
    hidden = random.normal(size=(n, 6))
    columns: dict[str, NDArray[np.generic]] = {}
    for j in range(35):
        values = hidden @ random.normal(size=6) + random.normal(size=n) * 2
        columns[f"number {j}"] = np.round(np.exp(values / 6) * 100) if j % 2 else np.round(values * 10)
    for j in range(45):
        columns[f"category {j}"] = _category(
            hidden, random, int(random.integers(3, 7) if j % 3 else random.integers(7, 26))
        )
    frame = pd.DataFrame(columns)
    for name in frame.columns[::4]:
        frame.loc[random.random(n) < MISSING, name] = None
    frame["zone"] = _category(hidden, random, 5)
    return frame


def soybean(random: np.random.Generator) -> pd.DataFrame:
    """683 plants: 35 categories of 2 to 7 values, one of 19 diseases; what one was not examined for is missing."""
    n, classes = 683, 19
    sizes = np.array([92, 91, 91, 88, 44, 44, *[20] * 9, 16, 15, 14, 8])[:classes]
    disease = random.permutation(np.repeat(np.arange(classes), sizes))[:n]
    columns: dict[str, NDArray[np.object_]] = {}
    for j in range(35):
        levels = int(random.integers(2, 5) if j % 4 else random.integers(4, 8))
        usual = random.dirichlet(np.full(levels, 0.4), size=classes)
        codes = np.array([random.choice(levels, p=usual[each]) for each in disease])
        columns[f"sign {j}"] = np.array([f"s{code}" for code in codes], dtype=object)
    frame = pd.DataFrame(columns)
    for start in range(0, 35, 5):
        unseen = np.isin(disease, random.choice(classes, 3, replace=False)) & (random.random(n) < 0.5)
        frame.iloc[np.flatnonzero(unseen), start : start + 5] = None
    frame["disease"] = [f"disease {code}" for code in disease]
    return frame


def genes(random: np.random.Generator) -> pd.DataFrame:
    """72 people, 3,571 gene expressions, two kinds of leukaemia."""
    n, p = 72, 3571
    kind = np.arange(n) % 3 == 0
    expressed = random.normal(size=(n, p)) + np.outer(kind, random.normal(size=p) * (random.random(p) < 0.1))
    frame = pd.DataFrame(np.round(expressed, 4), columns=[f"gene {j}" for j in range(p)])
    frame["kind"] = np.where(kind, "AML", "ALL")
    return frame


def _category(hidden: NDArray[np.float64], random: np.random.Generator, levels: int) -> NDArray[np.object_]:
    """Categories of unequal size that follow what is hidden."""
    scores = hidden @ random.normal(size=(hidden.shape[1], levels)) * 0.7 + 1.5 * random.gumbel(
        size=(hidden.shape[0], levels)
    )
    return np.array([f"v{code}" for code in np.argmax(scores - 0.15 * np.arange(levels), axis=1)], dtype=object)


TABLES = {
    "houses": Table(houses, "zone", 40.0, 1100.0),
    "soybean": Table(soybean, "disease", 12.0, 1100.0),
    "genes": Table(genes, "kind", 10.0, 1100.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write the tables there, and leave them")
    asked = parser.parse_args()
    print(f"{'table':<10}{'fit s':>8}{'MiB':>8}{'audit s':>9}{'MiB':>8}{'ratio':>8}{'MiB':>6}   goal")
    with tempfile.TemporaryDirectory() as name:
        folder = asked.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        for name in asked.only:
            table, path = TABLES[name], folder / f"{name}.csv"
            table.make(np.random.default_rng(0)).to_csv(path, index=False)
            out = ["--out", str(folder / "out"), "--overwrite"]
            fit = Took.of([sys.executable, "-c", FIT, str(path), table.target])
            audit = Took.of([sys.executable, "-c", AUDIT, "audit", str(path), "--target", table.target, *out])
            kept = audit.seconds <= table.seconds and audit.memory <= table.memory
            ratios = f"{audit.seconds / fit.seconds:>8.1f}{audit.memory / fit.memory:>6.1f}"
            goal = f"at most {table.seconds:g} s, {table.memory:g} MiB: {'kept' if kept else 'MISSED'}"
            found = f"{fit.seconds:>8.1f}{fit.memory:>8.0f}{audit.seconds:>9.1f}{audit.memory:>8.0f}"
            print(f"{name:<10}{found}{ratios}   {goal}", flush=True)


if __name__ == "__main__":
    main()
