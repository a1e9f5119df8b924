"""Features and the way back to raw values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe")

import pandas

from fisherleak.errors import InvalidInputError
from fisherleak.tables import Choices, RawTable, Room, design_of, from_frame, read_table
from tables.small import kinds, many
from visits import people


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
    # centres and scales are on a public grid: exact ones would give values away
    np.testing.assert_allclose(design.X[:, :2].mean(axis=0), 0, atol=0.5)
    np.testing.assert_allclose(design.X[:, :2].std(axis=0), 1, rtol=2**0.125 - 1)
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
    assert design.n == 60
    assert design.dropped == ()
    assert [(item.column, item.count, item.kind) for item in design.filled] == [("x", 2, "number")]


def test_a_folder_fits_in_memory_by_default(folder: Path) -> None:
    raw = read_table(folder)
    assert isinstance(raw, RawTable)
    assert not design_of(raw, Choices("ill"), room=Room.here()).lazy


def test_only_files_go_to_a_cluster() -> None:
    """Whichever way a table comes, by an audit or by a released model's."""
    with pytest.raises(InvalidInputError, match="save it as Parquet"):
        design_of(from_frame(people(60)), Choices("ill"), room=Room(0, cluster=True))


def states(count: int = 51, rows: int = 1_020) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    state = np.array([f"S{k:03d}" for k in np.minimum(np.arange(rows) % (count + 30), count - 1)], dtype=object)
    return pandas.DataFrame({"state": state, "x": rng.normal(size=rows), "y": rng.normal(size=rows)})


def test_rare_levels_of_many_are_pooled_and_said() -> None:
    frame = states()
    design = design_of(from_frame(frame), Choices("y"), held_out=0.0)
    state = next(feature for feature in design.features if feature.name == "state")
    assert (len(state.levels), state.levels[0]) == (50, "(other)")
    pooled = design.raw(state) == "(other)"
    assert frame["state"][pooled].nunique() == 2
    assert any("2, with" in note and "pooled into '(other)'" in note for note in design.notes)
    kept = design_of(from_frame(frame), Choices("y", categories=("state",)), held_out=0.0)
    assert len(next(feature for feature in kept.features if feature.name == "state").levels) == 51
    spread = pandas.DataFrame(
        {"t": [f"t{k % 400}" for k in range(1_000)], "x": np.arange(1e3) % 7, "y": np.arange(1e3)}
    )
    assert [feature.name for feature in design_of(from_frame(spread), Choices("y")).features] == ["x"]


def test_rows_that_are_lost_are_counted_for_every_column() -> None:
    x, z = np.arange(60.0), np.arange(60.0) ** 2
    x[:10], z[5:12] = np.nan, np.nan
    design = design_of(from_frame(many(x=x, z=z)), Choices("y", missing="drop"), held_out=0.0)
    assert design.dropped == (("'x' is missing", 10), ("'z' is missing", 7))
    assert (design.n, design.rows_read) == (48, 60)


@pytest.mark.parametrize(
    "pair",
    [
        ("duration_months", "dead"),
        ("days", "died"),
        ("survival_days", "censored"),
        ("OS_months", "OS_status"),
        ("lenfol", "fstat"),
        ("time", "status"),
    ],
)
def test_survival_tables_are_known_by_their_names(pair: tuple[str, str]) -> None:
    def hinted(time: str, event: str) -> bool:
        rng = np.random.default_rng(0)
        x, spans, ends = rng.normal(size=60), rng.exponential(size=60), np.arange(60) % 2
        notes = design_of(from_frame(pandas.DataFrame({time: spans, event: ends, "y": x})), Choices("y")).notes
        return any("survival table" in note for note in notes)

    assert hinted(*pair)
    assert not hinted(pair[0], "sex")
    assert not hinted("age", pair[1])


def test_classes_as_numbers_and_survival_tables_are_said() -> None:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {"time": rng.integers(1, 99, 80), "status": rng.integers(0, 2, 80), "age": rng.normal(size=80)}
    )
    notes = design_of(from_frame(frame), Choices("age")).notes
    assert any("survival table" in note and "drop=['time', 'status']" in note for note in notes)
    assert any("drop=['time']" in note for note in design_of(from_frame(frame), Choices("status")).notes)
    coded = design_of(from_frame(frame.assign(kind=rng.integers(1, 4, 80))), Choices("kind"))
    assert (coded.target.kind, coded.target.assumed) == ("softmax", True)
    assert any("the whole numbers 1 to 3, taken as codes of 3 classes" in note for note in coded.notes)
    assert any("use `model='linear'` for amounts" in note for note in coded.notes)
    ranked = design_of(from_frame(frame.assign(kind=10 * rng.integers(1, 4, 80))), Choices("kind"))
    assert ranked.target.kind == "linear"
    assert any("3 different whole numbers. If they stand for classes" in note for note in ranked.notes)


def test_the_smallest_numbers_lead_back_to_numbers() -> None:
    x = np.where(np.arange(40) % 3 == 0, 2.0**-1000, np.linspace(-1.0, 1.0, 40))
    design = design_of(from_frame(pandas.DataFrame({"x": x, "y": np.arange(40.0)})), Choices("y"), held_out=0.0)
    np.testing.assert_allclose(design.raw(design.features[0]), x, rtol=1e-13, atol=1e-15)
