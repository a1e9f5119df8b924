"""Tables: kinds, rows, features, and the way back to raw values."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas
import pyarrow as pa

from fisherleak.errors import InvalidInputError
from fisherleak.tables import Choices, RawTable, design_of, example_table, from_frame, read_table
from fisherleak.tables.arrow_columns import as_codes, as_numbers
from fisherleak.tables.column_kinds import decide
from fisherleak.tables.profile import profiles_of


def kinds(table: Any, **choices: Any) -> dict[str, str]:
    raw, said = table if isinstance(table, RawTable) else from_frame(table), Choices("y", **choices)
    return {c.name: c.kind for c in decide(raw, profiles_of(raw, said, False), said)}


def many(**columns: Any) -> pa.Table:
    return pa.table({**columns, "y": np.arange(60.0)})


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.arange(60.0), "number"),
        (np.arange(60), "number"),
        (pa.array([Decimal(i) for i in range(60)], pa.decimal128(5, 2)), "number"),
        (pa.array([True, False] * 30), "category"),
        (["a", "b"] * 30, "category"),
        (pa.array(["a", "b"] * 30).dictionary_encode(), "category"),
        (pa.array(["a", "b"] * 30, pa.large_string()), "category"),
        ([f"name {i}" for i in range(60)], "ignored"),
        (["a"] * 60, "ignored"),
        (pa.array(range(60), pa.date32()), "ignored"),
        (pa.array(range(60), pa.timestamp("s")), "ignored"),
        ([[1]] * 60, "ignored"),
        ([b"x"] * 60, "ignored"),
    ],
)
def test_kinds(values: Any, kind: str) -> None:
    assert kinds(many(x=values))["x"] == kind


def test_numbers_called_id_are_identifiers_only_if_they_differ() -> None:
    assert kinds(many(id=np.arange(60)))["id"] == "ignored"
    assert kinds(many(patient_id=np.arange(1, 61)))["patient_id"] == "ignored"
    assert kinds(many(id=np.arange(60) % 7))["id"] == "number"
    assert kinds(many(id=np.arange(60)), numbers=("id",))["id"] == "number"
    assert kinds(many(year=np.arange(60)))["year"] == "number"


def test_a_group_column_stays_a_feature_unless_dropped() -> None:
    table = many(g=["a", "b"] * 30, x=np.arange(60.0) ** 2)
    assert kinds(table, group="g")["g"] == "category"
    assert kinds(table, group="g", drop=("g",))["g"] == "group"
    design = design_of(from_frame(table), Choices("y", group="g", drop=("g",)), held_out=0.0)
    assert [feature.name for feature in design.features] == ["x"]
    assert [design.group_names[k] for k in design.groups] == ["a", "b"] * 30


def test_features_are_standardised_on_training_rows_and_lead_back_to_raw_values() -> None:
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(
        {
            "big": rng.normal(1.7e12, 1e3, 200).round(3),
            "tiny": rng.normal(0, 1e-20, 200),
            "city": rng.choice(["b", "a", "ü"], 200),
            "code": rng.integers(0, 3, 200),
            "flag": rng.choice([True, False], 200),
            "y": rng.normal(size=200),
        }
    )
    design = design_of(from_frame(table), Choices("y", categories=("code",)), seed=3)
    assert design.X.shape == (150, 2 + 2 + 2 + 1)
    assert design.X_test.shape == (50, 7)
    # centres and scales are rounded: exact ones would give values away
    np.testing.assert_allclose(design.X[:, :2].mean(axis=0), 0, atol=0.5)
    np.testing.assert_allclose(design.X[:, :2].std(axis=0), 1, rtol=0.06)
    rows = design.rows - 1
    for feature in design.features:
        raw, given = design.raw(feature), table[feature.name].to_numpy()[rows]
        if feature.name == "big":
            np.testing.assert_allclose(raw, given, rtol=1e-14)
        elif feature.name == "tiny":
            np.testing.assert_allclose(raw, given, rtol=1e-12, atol=1e-34)
        else:
            assert raw.tolist() == given.tolist()
    np.testing.assert_allclose(design.labels(), table.y.to_numpy()[rows], rtol=1e-12, atol=1e-15)


def test_the_split_is_repeatable_and_keeps_classes() -> None:
    table = many(x=np.arange(60.0) ** 2).set_column(1, "y", [["no", "no", "no", "yes"] * 15])
    one = design_of(from_frame(table), Choices("y"), seed=1)
    two = design_of(from_frame(table), Choices("y"), seed=1)
    other = design_of(from_frame(table), Choices("y"), seed=2)
    np.testing.assert_array_equal(one.rows, two.rows)
    assert not np.array_equal(one.rows, other.rows)
    assert one.y_test.sum() == round(0.25 * 15)
    assert one.target.classes == ("no", "yes")


def test_categories_that_only_held_out_rows_have_are_left_out() -> None:
    rng = np.random.default_rng(0)
    cities = np.array(["a", "b"] * 100, dtype=object)
    split = design_of(from_frame(pandas.DataFrame({"x": rng.normal(size=200), "y": np.arange(200.0)})), Choices("y"))
    held_out = np.setdiff1d(np.arange(200), split.rows - 1)
    cities[held_out[:3]] = "z"
    design = design_of(
        from_frame(pandas.DataFrame({"x": rng.normal(size=200), "c": cities, "y": np.arange(200.0)})), Choices("y")
    )
    assert design.y_test.size == split.y_test.size - 3
    assert any("3 held-out rows" in note for note in design.notes)


def test_text_that_is_no_number_counts_as_missing_where_a_number_was_asked_for() -> None:
    table = many(x=[str(i) for i in range(58)] + ["unknown", None], z=np.arange(60.0) ** 2)
    design = design_of(from_frame(table), Choices("y", numbers=("x",)), held_out=0.0)
    assert design.n == 58
    assert design.dropped == (("'x' is missing", 2),)


def test_missing_values_of_every_sort() -> None:
    np.testing.assert_array_equal(
        np.isnan(as_numbers(pa.chunked_array([[1.0, None, float("nan")], [2.0]]))), [0, 1, 1, 0]
    )
    coded = as_codes(pa.chunked_array([["b", None], ["a", "b"]]))
    assert (coded.codes.tolist(), coded.levels) == ([1, -1, 0, 1], ("a", "b"))
    coded = as_codes(pa.chunked_array([[2.0, float("nan"), 1.0]]))
    assert (coded.codes.tolist(), coded.levels) == ([1, -1, 0], (1.0, 2.0))
    assert as_numbers(pa.chunked_array([[10**30 + i for i in range(3)]], pa.decimal128(38, 0))).tolist() == [1e30] * 3


def test_unnamed_columns_get_a_name(tmp_path: Path) -> None:
    pandas.DataFrame({"x": np.arange(9.0), "y": np.arange(9.0)}).to_csv(tmp_path / "t.csv")
    raw = read_table(tmp_path / "t.csv")
    assert raw.names == ("column 1", "x", "y")
    assert raw.notes == ("Column 1 has no name and is called 'column 1'.",)
    assert kinds(raw)["column 1"] == "ignored"


def test_the_checksum_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,2\n3,4\n")
    assert read_table(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert example_table().sha256 == example_table().sha256
    assert from_frame(pa.table({"x": [1]})).sha256 != from_frame(pa.table({"x": [2]})).sha256


def test_frames_of_every_library() -> None:
    polars = pytest.importorskip("polars")
    table = {"x": [1.0, 2.0], "y": ["a", "b"]}
    for frame in (pandas.DataFrame(table), polars.DataFrame(table), pa.table(table)):
        assert from_frame(frame).names == ("x", "y")
    with pytest.raises(InvalidInputError, match="cannot be read as a table"):
        from_frame(3)


def test_fields_may_hold_delimiters_quotes_and_line_breaks(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"city, state": ['a "b"\nc', "d;e"] * 20, "y": np.arange(40.0)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    raw = read_table(tmp_path / "t.csv")
    assert raw.names == ("city, state", "y")
    assert as_codes(raw.parts[0].read(["city, state"]).column(0)).levels == ('a "b"\nc', "d;e")
