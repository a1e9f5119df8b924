"""Hints: numbers that may be none are said, and nothing is decided."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas

from fisherleak.tables import Choices, Design, design_of, from_frame

ROWS = 60


def read(**columns: Any) -> Design:
    return design_of(from_frame(pandas.DataFrame(columns)), Choices("y"), model="linear")


def noise(seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=ROWS)


def ages(value: float, rows: int) -> Any:
    """Between 20 and 59, but for some cells."""
    return np.where(np.arange(ROWS) < rows, value, 20 + np.arange(ROWS) % 40)


def said(name: str, values: Any) -> list[str]:
    """Notes on one column beside others."""
    return [note for note in read(**{name: values}, z=noise(1), y=noise()).notes if f"'{name}'" in note]


@pytest.mark.parametrize("value", [-99, -999, -9999, 99, 999, 9999])
def test_a_number_far_from_all_others_may_stand_for_a_missing_one(value: int) -> None:
    notes = said("age", ages(value, 5))
    assert len(notes) == 1
    assert f"has 5 cells of {value}, far from all others" in notes[0]
    assert f"`na=['{value}']`" in notes[0]


def test_stand_ins_below_few_answers_are_found() -> None:
    assert any(
        "has 4 cells of -9, far" in note
        for note in said("answer", np.where(np.arange(ROWS) < 4, -9, np.arange(ROWS) % 5))
    )


def test_following_that_hint_ends_it() -> None:
    frame = pandas.DataFrame({"age": ages(999, 5), "z": noise(1), "y": noise()})
    found = design_of(from_frame(frame), Choices("y", na=("999",)), model="linear")
    assert [(item.column, item.count) for item in found.filled] == [("age", 5)]
    assert not any("far from all others" in note for note in found.notes)


@pytest.mark.parametrize(
    "values",
    [
        ages(999, 2),  # too few to be said
        ages(1000, 5),
        ages(-9, 5),  # nearer than the ages from each other
        np.arange(ROWS) * 20.0 + (np.arange(ROWS) == 50) * -1,  # 999 among others
        np.where(np.arange(ROWS) < 5, 99, 40 + np.arange(ROWS)),  # 99 is the next after 98
        np.where(np.arange(ROWS) < 5, 999.0, 7.0),  # two values: nothing is far
    ],
)
def test_numbers_among_others_are_no_stand_ins(values: Any) -> None:
    assert said("age", values) == []


def test_99_is_a_year_and_999_is_none() -> None:
    short = np.where(np.arange(ROWS) < 20, 92, 95)
    assert said("year", np.where(np.arange(ROWS) % 4 == 0, 99, short)) == []
    assert len(said("year", np.where(np.arange(ROWS) % 4 == 0, 999, short))) == 1


def test_stand_ins_in_the_target_and_in_several_columns_are_said_each() -> None:
    found = read(a=ages(-99, 4), b=ages(999, 4), y=np.where(np.arange(ROWS) < 3, -999, noise()))
    notes = [note for note in found.notes if "far from all others" in note]
    assert [note.split(" has ")[0] for note in notes] == ["'a'", "'b'", "'y'"]


@pytest.mark.parametrize("name", ["zip", "ZIP code", "home_zip", "zipcode", "PLZ", "postcode", "postal.code"])
def test_postal_codes_are_said_to_be_used_as_numbers(name: str) -> None:
    codes = 501 + 1600 * (np.arange(ROWS) // 2)
    notes = said(name, codes)
    assert len(notes) == 1
    assert f"`categories={[name]!r}`" in notes[0]
    assert said(name, codes / 7) == []
    assert said(name, np.arange(ROWS) % 30) == []


@pytest.mark.parametrize("name", ["income", "price", "zipper", "post"])
def test_other_names_are_no_postal_codes(name: str) -> None:
    assert said(name, 501 + 1600 * (np.arange(ROWS) // 2)) == []


def test_a_few_people_by_number_are_used_and_said() -> None:
    assert any("`person='subject'`" in note for note in said("subject", np.arange(ROWS) % 12))
    assert said("subject", np.arange(ROWS) % 7) == []
    assert said("visits", np.arange(ROWS) % 12) == []


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("order", ["as they are", "shuffled"])
def test_numbers_of_rows_under_any_name_are_said(start: int, order: str) -> None:
    run = start + np.arange(ROWS)
    notes = said("visits", np.random.default_rng(0).permutation(run) if order == "shuffled" else run)
    assert len(notes) == 1
    assert "if it only numbers the rows, `drop=['visits']`" in notes[0]
    slip = np.where(run == 30, 29, run)
    assert said("visits", np.random.default_rng(0).permutation(slip)) == []


def test_numbers_of_blocks_of_rows_offer_a_person() -> None:
    (note,) = said("unit", 1 + np.arange(ROWS) // 3)
    assert "counts blocks of rows" in note
    assert "`person='unit'`" in note
    assert said("unit", 1 + 2 * (np.arange(ROWS) // 3)) == []
    assert said("unit", 1 + np.arange(ROWS) // 20) == []


def test_numbers_that_name_blocks_of_rows_offer_a_person() -> None:
    """In no order and with no names of identifiers: not where a table is sorted by them, or where they come again."""
    values = 1000 + 37 * np.repeat(np.random.default_rng(0).permutation(ROWS // 3), 3)
    (note,) = said("unit", values)
    assert "has another value in every block of rows" in note
    assert "`person='unit'`" in note
    assert said("unit", np.sort(values)) == []
    assert said("unit", np.roll(values, 1)) == []
    assert said("unit", values + 0.5) == []


def test_a_vague_name_that_is_used_is_said() -> None:
    values = np.random.default_rng(0).permutation(np.repeat(np.arange(30), 2)) * 3
    (note,) = said("no", values)
    assert "is called an identifier and is used as a number" in note


@pytest.mark.parametrize(
    "name",
    [
        *("race", "celltype", "cell_type", "District", "marital", "bloodType", "Kanton", "provincia"),
        *("diagnosis", "treatment", "arm", "ward_no", "regionCode", "zone", "group", "langue", "diagnóstico", "raça"),
    ],
)
def test_codes_of_kinds_are_said_to_be_used_as_numbers(name: str) -> None:
    (note,) = said(name, 1 + np.arange(ROWS) % 4)
    assert f"`categories={[name]!r}`" in note
    assert said(name, np.arange(ROWS) % 4 + 0.5) == []
    assert said(name, np.arange(ROWS) * 7 % 59) == []


@pytest.mark.parametrize(
    "name", ["children", "grade", "stage", "prototypes", "embrace", "visits", "age_group", "alarm", "code"]
)
def test_numbers_with_an_order_are_not(name: str) -> None:
    assert said(name, 1 + np.arange(ROWS) % 4) == []


def test_codes_are_said_once_with_one_option_for_all() -> None:
    notes = read(race=np.arange(ROWS) % 4, celltype=np.arange(ROWS) % 3, z=noise(1), y=noise()).notes
    assert sum("`categories=['race', 'celltype']`" in note for note in notes) == 1


@pytest.mark.parametrize("model", ["auto", "logistic"])
def test_a_class_of_one_row_is_said(model: str) -> None:
    frame = pandas.DataFrame({"z": noise(1), "y": np.where(np.arange(ROWS) == 7, "yes", "no")})
    notes = design_of(from_frame(frame), Choices("y"), model=model, held_out=0.0).notes
    assert any("One class of the target 'y' has one row only" in note for note in notes)
    even = frame.assign(y=np.where(np.arange(ROWS) % 2, "yes", "no"))
    assert not any("one row only" in note for note in design_of(from_frame(even), Choices("y"), model=model).notes)
