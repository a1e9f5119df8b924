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
    ("cifar10", "squared", 0.0, "0.2485 ± 0.0801"),
    ("cifar10", "logistic", 8e-5, "0.3160 ± 0.1513"),
]


@pytest.mark.parametrize(("name", "loss", "l2", "published"), TABLE)
def test_table_1(data_folder: Path, name: str, loss: str, l2: float, published: str) -> None:
    X, y, _, _ = image_features(name, data_folder)
    labels = 2 * y - 1 if loss == "squared" else y
    eta = np.asarray(fl.measure(fl.minimise(X, labels, loss, l2), X, labels).per_example())
    assert f"{eta.mean():.4f} ± {eta.std(ddof=1):.4f}" == published
