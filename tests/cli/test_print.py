from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from fisherleak.cli.commands.release import _promise

Command = Callable[..., Any]


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """Rows with an identifier, decimal commas and a last row of totals."""
    rng = np.random.default_rng(3)
    n = 80
    age, dose = rng.integers(20, 80, n), rng.normal(5, 2, n).round(2)
    written = [f"{value:.2f}".replace(".", ",") for value in (*dose, dose.sum())]
    table = pandas.DataFrame({"MRN": [*range(501, 501 + n), ""], "dose": written})
    table["city"] = [*rng.choice(["Bonn", "Genua"], n), "Total"]
    table["age"] = [*age, age.sum()]
    path = tmp_path / "visits.csv"
    table.to_csv(path, index=False)
    return path


def test_every_command_says_how_it_read_the_table(fisherleak: Command, visits: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries.csv"
    pandas.DataFrame({"dose": ["4,5"] * 3, "city": ["Bonn", "Genua", "Bonn"]}).to_csv(queries, index=False)
    common = ("--target", "age", "--noise", "0.5")
    commands = {
        "release": ("release", visits, *common, "--out", tmp_path / "m.skops"),
        "attack": ("attack", visits, *common, "--attribute", "city", "--quick"),
        "answers": ("answers", visits, queries, *common),
    }
    for command, line in commands.items():
        done = fisherleak(*line)
        assert done.status == 0, (command, done.err)
        said = " ".join(done.out.partition("How the table was read:")[2].split())
        assert "The last row (81) looks like a total of the others and is left out; --keep-total keeps it." in said
        assert "'dose' is text and is taken as numbers, written with decimal commas" in said, command
        assert "Column 'MRN' is not used: it looks like an identifier" in said, command
    quiet = fisherleak(*commands["release"], "--overwrite", "--quiet")
    assert (quiet.status, quiet.out) == (0, "")


def test_beside_a_document_it_is_said_on_standard_error(fisherleak: Command, visits: Path, tmp_path: Path) -> None:
    line = ("release", visits, "--target", "age", "--noise", "0.5", "--out", tmp_path / "m.skops", "--json")
    done = fisherleak(*line)
    assert json.loads(done.out)["schema"].startswith("fisherleak.card/")
    assert "looks like a total of the others" not in done.out
    assert "looks like a total of the others and is left out; --keep-total keeps it." in done.err
    assert fisherleak(*line, "--overwrite", "--quiet").err == ""


def test_refusals_of_shapes_name_options(fisherleak: Command, visits: Path, tmp_path: Path) -> None:
    line = ("release", visits, "--target", "age", "--l2", "1", "--out", tmp_path / "m.skops")
    uncounted = ("--eta", "1", "--shape", "least-loss", "--over", "max", "--ledger", tmp_path / "l.json")
    for more in (("--eta", "1e-9", "--shape", "hessian", "--over", "any-record"), uncounted):
        done = fisherleak(*line, *more)
        assert done.status == 2
        assert "--shape isotropic" in done.err, done.err
        assert "shape=" not in done.err


def test_of_many_columns_the_most_exposed_are_listed_and_the_others_counted(
    fisherleak: Command, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(rng.normal(size=(40, 103)).round(3), columns=[f"gene{j}" for j in range(103)])
    table["y"] = rng.normal(size=40).round(3)
    table.to_csv(tmp_path / "genes.csv", index=False)
    shown = fisherleak("audit", tmp_path / "genes.csv", "--target", "y", "--no-attacks", "-v").out
    listed = shown[
        shown.index("Least error of an unbiased attacker, in the unit") : shown.index("Share of a value")
    ].splitlines()
    assert sum(line.startswith("gene") for line in listed) == 100
    assert "  and 3 more, less exposed ones (--json and --out have all)" in listed
    document = json.loads(fisherleak("audit", tmp_path / "genes.csv", "--target", "y", "--no-attacks", "--json").out)
    assert len(document["attributes"]) == 103


@pytest.mark.parametrize(
    ("limit", "columns", "said"),
    [
        (
            0.5,
            None,
            "2 units. A unit is about the column's standard deviation or, with declared bounds, their width divided by",
        ),
        (1.0, None, "a numeric value has an error below 1 unit. A unit is"),
        (0.1, ["age"], "a value has an error below 10 units of its column."),
    ],
)
def test_a_promise_says_what_a_unit_is(limit: float, columns: list[str] | None, said: str) -> None:
    """With declared bounds a unit is not a standard deviation: of sex=1:2 it is 0.29, and the standard deviation 0.5."""
    limited = {"limit": limit, "limit_on": "every row, in standard units", "limit_columns": columns}
    promise = _promise({"eta": limited, "noise": {"calibrated": {"over": "admissible"}}})
    assert said in promise
    assert "standard units" not in promise
