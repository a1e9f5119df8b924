"""The image data of the paper, read from the publishers' files and prepared by its recipe."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def mnist(folder: Path, part: str = "train") -> tuple[Vector, Vector]:
    """Images of the digits 0 and 1, pixels in [0, 1], and their labels."""
    stem = "train" if part == "train" else "t10k"
    images = gzip.decompress((folder / "mnist" / f"{stem}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((folder / "mnist" / f"{stem}-labels-idx1-ubyte.gz").read_bytes())
    X = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 784)
    y = np.frombuffer(labels, np.uint8, offset=8)
    return X[y < 2] / 255.0, y[y < 2].astype(float)


def cifar10(folder: Path, part: str = "train") -> tuple[Vector, Vector]:
    """Images of airplanes (0) and automobiles (1), pixels in [0, 1], and their labels."""
    names = [f"data_batch_{k}.bin" for k in range(1, 6)] if part == "train" else ["test_batch.bin"]
    batches = [folder / "cifar10" / "cifar-10-batches-bin" / name for name in names]
    records = np.concatenate([np.fromfile(batch, np.uint8).reshape(-1, 3073) for batch in batches])
    return records[:, 1:] / 255.0, records[:, 0].astype(float)


def twenty_dimensions(train: Vector, other: Vector | None = None) -> Vector:
    """Each part divided by its own largest norm, then the twenty leading principal components of the training part."""
    train = train / np.linalg.norm(train, axis=1).max()
    mean = train.mean(axis=0)
    centred = train - mean
    _, vectors = np.linalg.eigh(centred.T @ centred)
    if other is not None:
        centred = other / np.linalg.norm(other, axis=1).max() - mean
    return np.asarray(centred @ vectors[:, -20:])
