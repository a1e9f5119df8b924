"""Table 1 of the paper before reweighting, from the real files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fisherleak as fl
from realdata import image_features

TABLE = [
    ("mnist", "squared", 0.0, "0.0405 ± 0.0138"),
    ("mnist", "logistic", 8e-4, "0.0267 ± 0.0124"),
]
"""Of the smaller data set; the whole table is in ``test_numbers``."""


@pytest.mark.parametrize(("name", "loss", "l2", "published"), TABLE)
def test_table_1(data_folder: Path, name: str, loss: str, l2: float, published: str) -> None:
    X, y, _, _ = image_features(name, data_folder)
    labels = 2 * y - 1 if loss == "squared" else y
    eta = np.asarray(fl.measure(fl.minimise(X, labels, loss, l2), X, labels).per_example())
    assert f"{eta.mean():.4f} ± {eta.std(ddof=1):.4f}" == published
