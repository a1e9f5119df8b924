"""What exact answers of a release hold: every direction that queries look along, however little they differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest

import fisherleak as fl
from cases import Vector
from fisherleak.audit.model import Settings, Trained, train
from fisherleak.audit.query_log import answers_of_release
from fisherleak.tables import read_table


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
