"""Cells become features as the card says: the same values whatever their types, and counts of those that the card lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pandas

from fisherleak.errors import InvalidInputError
from fisherleak.releasing.files.released_files import SavedModel, load_model, save_model
from fisherleak.releasing.predictions import predict_rows, text_columns
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import Settings
from steady import steady


def table(rows: int = 200) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "dose": rng.normal(10, 3, rows).round(1),
            "grade": rng.choice([1, 2, 3], rows),
            "ward": rng.choice(["01", "02", "ICU"], rows),
            "born": rng.choice(["2001-05-17", "2002-06-18"], rows),
            "vip": rng.choice([True, False], rows),
        }
    )
    frame["sick"] = np.where(frame.dose + frame.grade + rng.normal(0, 3, rows) > 12, "yes", "no")
    return frame


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> SavedModel:
    path = tmp_path_factory.mktemp("saved") / "m.skops"
    settings = Settings(target="sick", categories=("grade", "born"), held_out=0.0, bounds=(("dose", (0.0, 30.0)),))
    with steady("predictions"):
        save_model(from_frame(table()), settings, path, noise=0.01)
    return load_model(path)


def told(saved: SavedModel, frame: pandas.DataFrame, **given: Any) -> tuple[Any, str]:
    found = predict_rows(saved, from_frame(frame, "new"), **given)
    return found, " ".join(found.notes)


def test_categories_of_text_are_read_as_text(saved: SavedModel) -> None:
    assert text_columns(saved) == {"ward"}


def test_types_do_not_matter(saved: SavedModel) -> None:
    frame = table(30)
    plain, _ = told(saved, frame)
    others = [
        frame.astype({"grade": float}),
        frame.astype({"grade": str, "dose": str, "vip": str}),
        frame.astype({"vip": int, "ward": "category"}),
        frame.assign(grade=[f"{value}.0" for value in frame.grade], born=pandas.to_datetime(frame.born).dt.date),
    ]
    for other in others:
        found, said = told(saved, other)
        assert np.array_equal(found.probabilities, plain.probabilities)
        assert "does not know" not in said


def test_what_the_card_lacks_is_counted_and_is_the_first_category(saved: SavedModel) -> None:
    frame = table(30).astype(object)
    first, _ = told(saved, frame.assign(grade=1, ward="01"))
    frame["ward"] = ["attic", None, "  ", *["01"] * 27]
    frame["grade"] = ["x", "4", "01", *["1"] * 27]  # where categories are numbers 01 is 1
    found, said = told(saved, frame)
    assert np.array_equal(found.probabilities, first.probabilities)
    assert "Categories that the model does not know count as the first on the model card:" in said
    assert "'grade' (2 rows, as '1')" in said
    assert "'ward' (1 row, as '01')" in said
    assert "Missing categories count as the first on the model card: 'ward' (2 rows, as '01')." in said
    assert "attic" not in said


def test_numbers_beyond_the_bounds_are_counted_and_taken_as_they_are(saved: SavedModel) -> None:
    frame = table(30)
    frame.loc[0, "dose"], frame.loc[1, "dose"] = 31.0, -0.5
    found, said = told(saved, frame)
    assert "Numbers outside the declared bounds were taken as they are: 'dose' (2 rows)." in said
    before, _ = told(saved, table(30))
    assert found.probabilities[0, 1] != before.probabilities[0, 1]
    assert np.array_equal(found.probabilities[2:], before.probabilities[2:])


def test_cells_that_are_no_numbers_count_as_missing(saved: SavedModel) -> None:
    frame = table(30).astype({"dose": str})
    frame.loc[3, "dose"], frame.loc[4, "dose"], frame.loc[5, "dose"] = "high", "<5", "unknown"
    _, said = told(saved, frame)
    assert "Cells that are no numbers count as missing: 'dose' (2 rows)." in said
    assert "count as the public centre of their column, on the model card: 'dose' (3 rows)." in said
    assert "high" not in said


@pytest.mark.long
def test_the_id_of_the_card_is_taken_where_it_is_there(saved: SavedModel, tmp_path: Path) -> None:
    assert told(saved, table(30))[0].header == ["prediction", "probability_no", "probability_yes"]
    frame = table(30).assign(key=[f"k{k}" for k in range(30)])
    found, _ = told(saved, frame, id="key")
    assert found.header[0] == "key"
    assert [line[0] for line in found.lines()] == frame["key"].tolist()
    with pytest.raises(InvalidInputError, match=r"`id` names the column 'keys'.*Did you mean 'key'"):
        told(saved, frame, id="keys")
    save_model(
        from_frame(table().assign(key=[f"k{k}" for k in range(200)])),
        Settings(target="sick", id="key", held_out=0.0),
        tmp_path / "named.skops",
        noise=0.1,
    )
    named = load_model(tmp_path / "named.skops")
    assert told(named, frame)[0].header[0] == "key"
    assert told(named, table(30))[0].header[0] == "prediction"
