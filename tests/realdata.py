"""The image data of the paper, read from the publishers' files and prepared by its recipe."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def mnist(folder: Path) -> tuple[Vector, Vector]:
    """Training images of the digits 0 and 1, pixels in [0, 1], and their labels."""
    images = gzip.decompress((folder / "mnist" / "train-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((folder / "mnist" / "train-labels-idx1-ubyte.gz").read_bytes())
    X = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 784)
    y = np.frombuffer(labels, np.uint8, offset=8)
    return X[y < 2] / 255.0, y[y < 2].astype(float)


def cifar10(folder: Path) -> tuple[Vector, Vector]:
    """Training images of airplanes (0) and automobiles (1), pixels in [0, 1], and their labels."""
    batches = [folder / "cifar10" / "cifar-10-batches-bin" / f"data_batch_{k}.bin" for k in range(1, 6)]
    records = np.concatenate([np.fromfile(batch, np.uint8).reshape(-1, 3073) for batch in batches])
    return records[:, 1:] / 255.0, records[:, 0].astype(float)


def twenty_dimensions(X: Vector) -> Vector:
    """Divided by the largest norm, then the twenty leading principal components."""
    X = X / np.linalg.norm(X, axis=1).max()
    centred = X - X.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    return np.asarray(centred @ vectors[:, -20:])
