"""Rows of sums and means at a table's end, with and without a label."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

from fisherleak.tables import Choices, Design, design_of, from_frame, read_table

RNG = np.random.default_rng(0)
PEOPLE = pandas.DataFrame(
    {
        "sex": ["f", "m"] * 30,
        "bill": RNG.normal(40, 5, 60).round(1),
        "kids": [0, 1, 2] * 20,
        "y": RNG.normal(100, 9, 60),
    }
)


def ended(*rows: tuple[str | None, pandas.Series]) -> pandas.DataFrame:
    ends = [pandas.DataFrame({"sex": [label], **{name: [value] for name, value in row.items()}}) for label, row in rows]
    return pandas.concat([PEOPLE, *ends])


NUMBERS = PEOPLE[["bill", "kids", "y"]]


def design(frame: pandas.DataFrame, **choices: bool) -> Design:
    return design_of(from_frame(frame), Choices("y", **choices), held_out=0.0)  # type: ignore[arg-type]


def test_sums_without_a_label_are_nobody() -> None:
    frame = ended((None, NUMBERS.sum()))
    found = design(frame)
    assert found.n == 60
    assert any("last row (61) looks like a total" in note for note in found.notes)
    assert design(frame, keep_total=True).n == 61
    assert design(frame.drop(columns="sex")).n == 60


def test_total_and_mean_are_both_left_out(tmp_path: Path) -> None:
    frame = ended(("Grand total", NUMBERS.sum()), ("Mean", NUMBERS.mean()))
    found = design(frame)
    assert found.n == 60
    assert any("last 2 rows (61 to 62) look like totals" in note for note in found.notes)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=20, index=False)
    assert design_of(read_table(tmp_path / "t.parquet"), Choices("y"), held_out=0.0).n == 60


@pytest.mark.parametrize("label", ["Summe", "Gesamt", "Somme", "Suma", "Totale", "Soma", "Moyenne:"])
def test_labels_in_other_languages_count(label: str) -> None:
    one = ended((label, NUMBERS.mean() if label == "Moyenne:" else NUMBERS.sum()))
    assert design(one).n == 60


def test_a_last_person_stays() -> None:
    large = pandas.Series({"bill": 900.0, "kids": 9, "y": 9000.0})
    assert design(ended((None, large))).n == 61
    assert design(ended((None, NUMBERS.mean()))).n == 61
    assert design(ended(("f", NUMBERS.sum()))).n == 61
