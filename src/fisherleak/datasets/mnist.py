"""MNIST: 70,000 handwritten digits of 28 x 28 pixels, in IDX files."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak.datasets._files import Dataset, Source, check_contents, image_pipeline, locate, read_bytes
from fisherleak.errors import DataError, InvalidInputError

# Of the decompressed contents: the gzip files of different mirrors differ.
CONTENTS = {
    "train-images-idx3-ubyte.gz": "md5:6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte.gz": "md5:a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte.gz": "md5:2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte.gz": "md5:27ae3e4e09519cfbb04c329615203637",
}
SOURCE = Source(
    folder="mnist",
    urls={file: f"https://ossci-datasets.s3.amazonaws.com/mnist/{file}" for file in CONTENTS},
    checksums=dict.fromkeys(CONTENTS, ""),
)
"""The mirror that torchvision uses."""


def load_mnist(digits: Sequence[int] = (0, 1), data_home: str | os.PathLike[str] | None = None) -> Dataset:
    """Two digits of MNIST, or more.

    Parameters
    ----------
    digits : sequence of int
        The first is class 0, the second class 1, and so on: ``range(10)`` for all.
    data_home : path, optional
        A folder with ``mnist/train-images-idx3-ubyte.gz`` and the others; downloaded if not given and FISHERLEAK_DATA is
        not set.

    Returns
    -------
    Dataset
        Images of shape (n, 28, 28), dtype uint8, and labels from 0.

    Examples
    --------
    >>> data = fl.datasets.load_mnist()  # doctest: +SKIP
    >>> leak = fl.measure(fl.minimise(data.X, data.y, l2=1e-3), data.X, data.y, noise=fl.Gaussian(1.0))  # doctest: +SKIP
    """
    chosen = chosen_classes(digits, "digits")
    paths = locate(SOURCE, list(CONTENTS), data_home)
    parts: list[Any] = []
    for stem in ("train", "t10k"):
        arrays = []
        for kind in ("images-idx3", "labels-idx1"):
            file = f"{stem}-{kind}-ubyte.gz"
            contents = _unzipped(paths[file])
            check_contents(contents, CONTENTS[file], paths[file])
            arrays.append(read_idx(contents, paths[file]))
        images, labels = arrays
        if len(images) != len(labels):
            raise DataError(
                f"{paths[f'{stem}-images-idx3-ubyte.gz']} has {len(images)} images for {len(labels)} labels."
            )
        keep = np.isin(labels, chosen)
        parts += [images[keep], as_codes_of(labels[keep], chosen)]
    X, y, X_test, y_test = parts
    return Dataset("mnist", X, y, X_test, y_test, [str(digit) for digit in chosen], image_pipeline())


def chosen_classes(classes: Sequence[int], name: str) -> tuple[int, ...]:
    """Two different numbers from 0 to 9, or more."""
    values = tuple(classes)
    if len(values) < 2 or len({*values}) < len(values) or not all(value in range(10) for value in values):
        raise InvalidInputError(f"{name} must be two or more different numbers from 0 to 9; got {classes!r}.")
    return tuple(int(value) for value in values)


def as_codes_of(labels: NDArray[Any], chosen: tuple[int, ...]) -> NDArray[np.int64]:
    """The place of each label among those chosen."""
    place = np.zeros(10, dtype=np.int64)
    place[list(chosen)] = np.arange(len(chosen))
    return np.asarray(place[labels])


def _unzipped(path: Path) -> bytes:
    try:
        return gzip.decompress(read_bytes(path))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is no complete gzip file ({error}). Delete it and try again.") from None


def read_idx(contents: bytes, path: Path) -> NDArray[np.uint8]:
    """An array of bytes from the IDX format: a magic number, the sizes, the values."""
    if len(contents) < 4 or contents[:3] != b"\x00\x00\x08" or contents[3] not in (1, 3):
        raise DataError(f"{path} is no IDX file of bytes: it starts with {contents[:4].hex() or 'nothing'}.")
    count = contents[3]
    start = 4 + 4 * count
    if len(contents) < start:
        raise DataError(f"{path} ends within its header.")
    shape = struct.unpack(f">{count}I", contents[4:start])
    expected = int(np.prod(shape))
    if len(contents) - start != expected:
        raise DataError(f"{path} has {len(contents) - start} values where its header says {expected}.")
    return np.frombuffer(contents, np.uint8, offset=start).reshape(shape)
