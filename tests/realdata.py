"""The image data of the paper by its recipe, prepared once for all tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import fisherleak as fl


@cache
def image_features(name: str, folder: Path) -> tuple[Any, Any, Any, Any]:
    """Twenty principal components and labels, for training and test."""
    loaders = {"mnist": fl.datasets.load_mnist, "cifar10": fl.datasets.load_cifar10}
    data = loaders[name](data_home=folder)
    prepare = data.preprocessing.fit(data.X)
    return prepare.transform(data.X), data.y, prepare.transform(data.X_test), data.y_test
