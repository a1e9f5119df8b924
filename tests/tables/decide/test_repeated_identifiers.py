"""Identifiers of people that repeat are recognised, whatever the rows' order; ordinary columns of real tables are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pandas
import sklearn.datasets

from fisherleak.tables import Choices, design_of, example_table, from_frame, read_table
from fisherleak.tables.decide.profile import SKETCHED
from fisherleak.tables.decide.repeated_identifiers import RepeatedIdentifier, repeated_identifier


def visits(name: str, values: Any, rows: int = 300) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({name: values, "age": rng.integers(20, 90, rows)})
    frame["y"] = rng.normal(size=rows)
    return frame


def found_in(frame: pandas.DataFrame, **given: Any) -> RepeatedIdentifier | None:
    choices = Choices("y", **given)
    return design_of(from_frame(frame), choices).repeated


WHO = np.random.default_rng(1).integers(0, 100, 300)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("patient_id", WHO),
        ("PatientID", np.sort(WHO)),
        ("patient id", [f"P{k:04d}" for k in WHO]),
        ("MRN", 10_000_000 + WHO),
        ("subject", WHO),
        ("id", [f"{k:05d}" for k in WHO]),
        ("customer_no", WHO.astype(float)),
    ],
)
def test_names_of_people_that_repeat(name: str, values: Any) -> None:
    found = found_in(visits(name, values))
    assert found is not None
    assert (found.column, found.values, found.exact, found.rows) == (name, np.unique(WHO).size, True, 300)
    design = design_of(from_frame(visits(name, values)), Choices("y"))
    assert design.notes[0] == found.note


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("patient_id", np.arange(300)),  # each row is one
        ("patient_id", np.r_[np.arange(299), 0]),  # and a slip
        ("patient_id", WHO % 20),  # codes of something, perhaps
        ("hospital_id", WHO),  # not of people
        ("school_id", WHO),
        ("hhid", WHO),
        ("diagnosis", [f"D{k}" for k in WHO]),
        ("zip", 10_000 + WHO),
        ("age_group", WHO),
        ("children", WHO),
        ("paid", WHO),
        ("lipid", WHO),
        ("subject", ["ABCDEFGHIJ"[k % 10] * (1 + k // 10) for k in WHO]),  # of lessons
        ("patient_id", np.random.default_rng(0).normal(size=300)),  # no identifier
        ("case", WHO),
        ("year", 1900 + WHO),
        ("employees", WHO),
    ],
)
def test_others_are_not(name: str, values: Any) -> None:
    assert found_in(visits(name, values)) is None


def test_what_was_said_is_not_said_again() -> None:
    frame = visits("patient_id", WHO)
    assert found_in(frame, person="patient_id") is None
    assert found_in(frame, categories=("patient_id",)) is None
    other = frame.assign(person=np.arange(300) // 2)
    assert found_in(other, person="person") is None
    both = found_in(other)
    assert both is not None
    assert both.column == "person"  # the one with most values


def test_sentences_and_what_to_do() -> None:
    frame = visits("patient_id", WHO)
    fact = f"patient_id repeats ({np.unique(WHO).size} values in 300 rows): rows are visits."
    plain, dropped = found_in(frame), found_in(frame, drop=("patient_id",))
    assert plain is not None
    assert dropped is not None
    assert plain.note == f"{fact} Add `person='patient_id'`."
    assert dropped.note == f"{fact} Add `person='patient_id'` in place of `drop=['patient_id']`."
    lacking = found_in(visits("id", pandas.array([None, None, *WHO[2:]], dtype="Int64")))
    assert lacking is not None
    assert "several rows belong to one. 2 of them lack it: give each a value of its own there, and add" in lacking.note


def test_more_values_than_are_followed_are_estimated() -> None:
    who = np.random.default_rng(0).integers(0, 3 * SKETCHED, 40_000)
    found = found_in(visits("patient_id", who, 40_000))
    assert found is not None
    assert not found.exact
    assert found.values == pytest.approx(np.unique(who).size, rel=0.1)
    assert "(about 12,000 values in 40,000 rows)" in found.note


def test_a_table_in_parts_says_the_same(tmp_path: Path) -> None:
    frame = visits("patient_id", WHO)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=37)
    raw = read_table(tmp_path / "t.parquet")
    raw = replace(raw, parts=tuple(raw.parts[0].finer(37)))
    assert len(raw.parts) > 1
    assert repeated_identifier(raw, {}, Choices("y"), lazily=False) == found_in(frame)


def test_no_alarm_on_tables_that_come_with_scikit_learn() -> None:
    tables = [sklearn.datasets.load_breast_cancer(as_frame=True).frame, sklearn.datasets.load_wine(as_frame=True).frame]
    for frame in tables:
        assert repeated_identifier(from_frame(frame), {}, Choices("target"), lazily=False) is None
    assert repeated_identifier(example_table(), {}, Choices("progression"), lazily=False) is None


def test_no_alarm_on_adult_and_iwpc(data_folder: Path) -> None:
    iwpc = read_table(data_folder / "iwpc" / "iwpc-scaled.csv")
    assert repeated_identifier(iwpc, {}, Choices(iwpc.names[-1]), lazily=False) is None
    names = (
        *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
        *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
    )
    adult = read_table(data_folder / "adult" / "adult.data", columns=names)
    assert repeated_identifier(adult, {}, Choices("income"), lazily=False) is None
