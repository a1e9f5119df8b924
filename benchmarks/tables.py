"""What the installed ``fisherleak audit`` takes on real tables, beyond the imports that every such program has.

Tables of scikit-learn, and some of those inside the packages of the extra ``corpus`` where these are installed, each with its
last column as the target and everything else by default. Processor seconds and those of the clock, less what
``import sklearn.linear_model, pandas`` takes in the same round; the goal is for the median of the processor's, which a busy
machine leaves alone. Both find compiled modules, as installed packages do, in a folder of their own.
``python benchmarks/tables.py [--tables 12] [--before CHECKOUT]``

``--before`` names another checkout of this repository, as ``git worktree add`` makes one: each table is audited by both, its
figures come first, and what either refuses is counted by kind.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaged_tables import packaged
from sklearn import datasets

from fisherleak.errors import FisherleakError
from fisherleak.tables import read_table

IMPORTS = [sys.executable, "-c", "import sklearn.linear_model, pandas"]
COMMAND = "import sys; from fisherleak.cli import main; sys.exit(main())"
"""What is installed as ``fisherleak``: older checkouts have no ``python -m fisherleak``."""
GOAL, MOST = 2.5, 30.0
"""Seconds beyond the imports: in the median, and for any table of fewer than 20,000 rows."""


@dataclass(frozen=True)
class Took:
    """Seconds of the processor and of the clock, and the exit status."""

    processor: float
    clock: float
    status: int
    said: str = ""

    @classmethod
    def of(cls, command: list[str], compiled: str, source: Path | None = None) -> Took:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = compiled
        if source is not None:
            environment["PYTHONPATH"] = str(source.resolve() / "src")
        before, start = os.times(), time.perf_counter()
        done = subprocess.run(command, capture_output=True, check=False, env=environment)  # noqa: S603 - our own command
        after, clock = os.times(), time.perf_counter() - start
        if done.returncode not in (0, 2):
            raise SystemExit(f"{' '.join(command)} failed: {done.stderr.decode()}")
        own = sum(getattr(after, kind) - getattr(before, kind) for kind in ("children_user", "children_system"))
        return cls(own, clock, done.returncode, done.stderr.decode(errors="replace").strip())

    def beyond(self, base: Took) -> Took:
        return Took(self.processor - base.processor, self.clock - base.clock, self.status, self.said)

    def __str__(self) -> str:
        return f"{self.processor:>10.2f}{self.clock:>9.2f}" if self.status == 0 else f"{'refused':>10}{'':>9}"


def of_scikit_learn(folder: Path) -> Iterator[Path]:
    """Tables of all kinds of target."""
    for name in ("iris", "wine", "breast_cancer", "diabetes"):
        path = folder / f"sklearn-{name}.csv"
        getattr(datasets, f"load_{name}")(as_frame=True).frame.to_csv(path, index=False)
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


def summary(found: list[Took]) -> tuple[str, bool]:
    """Medians, the longest, and whether the goal is kept."""
    beyond = [took for took in found if took.status == 0]
    processor, clock = (statistics.median(getattr(took, kind) for took in beyond) for kind in ("processor", "clock"))
    longest = max(took.processor for took in beyond)
    return f"{processor:>10.2f}{clock:>9.2f}{longest:>10.2f}", processor <= GOAL and longest <= MOST


def refusals(found: list[Took]) -> list[str]:
    """What was refused, by kind: without names, values and numbers."""
    kinds = Counter(re.sub(r"[^ ]*\.csv|'[^']*'|\d+", "…", took.said)[:100] for took in found if took.status)
    return [f"{count:>4}  {kind}" for kind, count in kinds.most_common()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=12)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="another checkout, audited beside this one")
    asked = parser.parse_args()
    here = Path(__file__).resolve().parents[1]
    sources = {"this": here} if asked.before is None else {"before": asked.before, "this": here}
    beyond: dict[str, list[Took]] = {name: [] for name in sources}
    heads = "".join(f"{'processor':>10}{'clock':>9}" for _ in sources)
    print(f"{'':<44}{heads}   seconds beyond `{IMPORTS[-1]}`: {', '.join(sources)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compiled, out = str(folder / "compiled"), ["--out", str(folder / "out"), "--overwrite"]
        paths = chosen(folder, asked.tables)
        audit = [sys.executable, "-c", COMMAND, "audit"]
        commands = [[*audit, str(path), "--target", last_column(path), *out] for path in paths]
        for source in sources.values():  # fills the disk's cache, and compiles modules
            for command in (IMPORTS, *commands[:1]):
                Took.of(command, compiled, source)
        for path, command in zip(paths, commands, strict=True):
            base = Took.of(IMPORTS, compiled)
            took = {name: Took.of(command, compiled, source).beyond(base) for name, source in sources.items()}
            print(f"{path.name[:42]:<44}{''.join(map(str, took.values()))}", flush=True)
            for name, each in took.items():
                beyond[name].append(each)
    for name, found in beyond.items():
        figures, kept = summary(found)
        print(f"{name + ': median of processor, clock; longest':<44}{figures}   {'kept' if kept else 'MISSED'}")
        print("\n".join([f"{name}: {sum(took.status != 0 for took in found)} refused", *refusals(found)]))
    print(f"goal: at most {GOAL:g} s in the median and {MOST:g} s for any")


if __name__ == "__main__":
    main()
