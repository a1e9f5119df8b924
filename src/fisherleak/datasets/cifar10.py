"""CIFAR-10: 60,000 colour images of 32 x 32 pixels, in the published binary version."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fisherleak.datasets._files import Dataset, Source, image_pipeline, locate, read_bytes
from fisherleak.datasets.mnist import as_codes_of, chosen_classes
from fisherleak.errors import DataError

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
RECORD = 1 + 3 * 32 * 32
TRAIN = [f"cifar-10-batches-bin/data_batch_{k}.bin" for k in range(1, 6)]
TEST = ["cifar-10-batches-bin/test_batch.bin"]
ARCHIVE = "cifar-10-binary.tar.gz"
SOURCE = Source(
    folder="cifar10",
    urls=dict.fromkeys(TRAIN + TEST, f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"),
    checksums={ARCHIVE: "md5:c32a1d4ab5d03f1284b67883e8d87530"},
    archive=True,
)


def load_cifar10(classes: Sequence[int] = (0, 1), data_home: str | os.PathLike[str] | None = None) -> Dataset:
    """Two classes of CIFAR-10, or more.

    Parameters
    ----------
    classes : sequence of int
        The first is class 0, the second class 1, and so on; airplanes and automobiles by default, ``range(10)`` for all.
    data_home : path, optional
        A folder with ``cifar10/cifar-10-batches-bin/data_batch_1.bin`` and the others; downloaded if not given and
        FISHERLEAK_DATA is not set.

    Returns
    -------
    Dataset
        Images of shape (n, 32, 32, 3), dtype uint8, and labels from 0.

    Examples
    --------
    >>> data = fl.datasets.load_cifar10()  # doctest: +SKIP
    >>> leak = fl.measure(fl.minimise(data.X, data.y, l2=1e-3), data.X, data.y, noise=fl.Gaussian(1.0))  # doctest: +SKIP
    """
    chosen = chosen_classes(classes, "classes")
    paths = locate(SOURCE, TRAIN + TEST, data_home)
    parts: list[NDArray[np.generic]] = []
    for files in (TRAIN, TEST):
        batches = [read_records(read_bytes(paths[file]), paths[file]) for file in files]
        images = np.concatenate([batch[0] for batch in batches])
        labels = np.concatenate([batch[1] for batch in batches])
        absent = [label for label in chosen if not (labels == label).any()]
        if absent:
            name = CLASSES[absent[0]]
            raise DataError(f"The files in {paths[files[0]].parent} have no images of class {absent[0]} ({name}).")
        keep = np.isin(labels, chosen)
        parts += [images[keep], as_codes_of(labels[keep], chosen)]
    X, y, X_test, y_test = parts
    return Dataset("cifar10", X, y, X_test, y_test, [CLASSES[k] for k in chosen], image_pipeline())


def read_records(contents: bytes, path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (n, 32, 32, 3) and labels from records of a label byte and three planes of 1,024 bytes."""
    if not contents or len(contents) % RECORD:
        raise DataError(f"{path} has {len(contents)} bytes, which is no whole number of records of {RECORD} bytes.")
    records = np.frombuffer(contents, np.uint8).reshape(-1, RECORD)
    labels = records[:, 0]
    if labels.max() > 9:
        raise DataError(f"{path} has the label {labels.max()} in record {int(labels.argmax())}; labels are 0 to 9.")
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels
