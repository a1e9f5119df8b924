"""What exact answers of a release hold: every direction that queries look along, however little they differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest

import fisherleak as fl
from cases import Vector
from fisherleak.auditing.query_log import answers_of_release, query_features
from fisherleak.tables import read_table
from fisherleak.training.trained_model import Settings, Trained, train


@pytest.fixture
def trained(tmp_path: Path) -> Trained:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"age": rng.normal(50, 10, 60).round(3), "weight": rng.normal(80, 12, 60).round(3)})
    frame["dose"] = (frame.age + frame.weight + rng.normal(0, 5, 60)).round(3)
    frame.to_csv(tmp_path / "people.csv", index=False)
    return train(read_table(tmp_path / "people.csv"), Settings("dose", held_out=0.0))


def etas(trained: Trained, folder: Path, ages: list[float]) -> Vector:
    path = folder / "queries.csv"
    pandas.DataFrame({"age": ages, "weight": 80.0}).to_csv(path, index=False)
    return np.asarray(answers_of_release(trained, read_table(path), fl.Gaussian(10.0)).leak.per_example())


@pytest.mark.parametrize("apart", [1.0, 1e-6, 1e-11])
def test_queries_that_hardly_differ_tell_as_much_as_those_far_apart(
    trained: Trained, tmp_path: Path, apart: float
) -> None:
    """The difference of two exact answers, divided by that of the queries, is a coefficient."""
    far = etas(trained, tmp_path, [50.0, 90.0])
    near = etas(trained, tmp_path, [50.0, 50.0 + apart])
    np.testing.assert_allclose(near, far, rtol=1e-3)  # 1e-11 is few of the last bits of 50
    assert np.max(etas(trained, tmp_path, [50.0])) < 0.9 * np.max(far)


def test_queries_are_answered_as_a_released_model_answers_them(tmp_path: Path) -> None:
    """Codes as text or as floats are the integers, and a city that the model does not name counts as the first."""
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame({"code": rng.choice([2, 3, 10], 90), "city": rng.choice(["Bonn", "Kiel"], 90)})
    frame["dose"] = (frame.code + (frame.city == "Kiel") + rng.normal(0, 1, 90)).round(3)
    frame.to_csv(tmp_path / "people.csv", index=False)
    settings = Settings("dose", held_out=0.0, categories=("code",), rare=5)
    own = train(read_table(tmp_path / "people.csv"), settings)
    asked = pandas.DataFrame({"code": [3, 10, 2], "city": ["Bonn", "Kiel", "Bonn"]})
    path = tmp_path / "queries.parquet"
    found = []
    for codes in (asked.code, asked.code.astype(float), asked.code.astype(str)):
        for new in ("Bonn", "Wien"):
            asked.assign(code=codes, city=[new, "Kiel", "Bonn"]).to_parquet(path)
            found.append(query_features(own.design, read_table(path), released=True))
    assert found[0][:, own.design.features[0].columns].tolist() == [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    for features in found[1:]:
        np.testing.assert_array_equal(features, found[0])
    with pytest.raises(
        fl.InvalidInputError, match=r"Column 'city' of queries\.parquet has a category that the table lacks"
    ):
        query_features(own.design, read_table(path))
