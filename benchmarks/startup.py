"""What the first second costs, as ratios against ``import numpy`` and ``import sklearn.linear_model`` in the same run.

Medians over fresh processes, in rounds, so that whatever else the machine does falls on all alike.
``python benchmarks/startup.py [--rounds 9]``
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet

NUMPY, LEARN = "import numpy", "import sklearn.linear_model"
COMMAND = "import sys; from fisherleak.cli import main; sys.exit(main())"
ANSWER = 0.4 / 0.15
"""At most 0.4 s where ``import numpy`` takes 0.15 s."""


@dataclass(frozen=True)
class Case:
    """Code or a command line, its environment, and the goal: at most so many times the base."""

    title: str
    code: str
    arguments: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    base: str = NUMPY
    goal: float | None = ANSWER

    def seconds(self) -> float:
        start = time.perf_counter()
        done = subprocess.run(  # noqa: S603 - our own code
            [sys.executable, "-c", self.code, *self.arguments],
            env={**os.environ, **self.variables},
            capture_output=True,
            check=False,
        )
        took = time.perf_counter() - start
        if done.returncode or done.stderr:
            raise SystemExit(f"{self.title} failed: {done.stderr.decode()}")
        return took


def completion(title: str, *words: str, goal: float | None = ANSWER) -> Case:
    variables = {
        "COMP_WORDS": "\n".join(("fisherleak", *words)),
        "COMP_CWORD": str(len(words)),
        "_FISHERLEAK_COMPLETE": "complete_bash",
    }
    return Case(title, COMMAND, variables=variables, goal=goal)


def cases(folder: Path) -> list[Case]:
    header = ",".join(f"column {j}" for j in range(200))
    (folder / "t.csv").write_text(header + "\n" + ("1," * 199 + "1\n") * 10_000)
    pyarrow.parquet.write_table(pyarrow.table({"column 1": [1.0]}), folder / "t.parquet")
    return [
        Case(NUMPY, NUMPY, goal=None),
        Case(LEARN, LEARN, base=LEARN, goal=None),
        Case("import fisherleak", "import fisherleak", base=LEARN, goal=1.15),
        Case("fisherleak --version", COMMAND, ("--version",)),
        Case("fisherleak --help", COMMAND, ("--help",)),
        Case("fisherleak audit --help", COMMAND, ("audit", "--help")),
        completion("completion of an option", "audit", "t.csv", "--ta"),
        completion("completion of a choice", "audit", "t.csv", "--model", "lo"),
        completion("completion of a column", "audit", str(folder / "t.csv"), "--target", "col"),
        # Arrow reads the footer, and loads NumPy
        completion("the same of Parquet", "audit", str(folder / "t.parquet"), "--target", "col", goal=None),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        every = cases(Path(folder))
        times: dict[str, list[float]] = {case.title: [] for case in every}
        for round_ in range(rounds + 1):
            for case in every:
                took = case.seconds()
                if round_:  # the first warms the disk's cache
                    times[case.title].append(took)
    median = {title: statistics.median(took) for title, took in times.items()}
    print(f"{'':<28}{'seconds':>9}{'/ numpy':>9}{'/ sklearn':>11}   goal")
    for case in every:
        took = median[case.title]
        goal = ""
        if case.goal is not None:
            kept = "kept" if took <= case.goal * median[case.base] else "MISSED"
            goal = f"at most {case.goal:.2f} x {case.base.removeprefix('import ')}: {kept}"
        print(f"{case.title:<28}{took:>9.3f}{took / median[NUMPY]:>9.2f}{took / median[LEARN]:>11.2f}   {goal}")


if __name__ == "__main__":
    main()
