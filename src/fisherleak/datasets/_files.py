"""Finding and downloading the publishers' files.

Also here: what every loader returns.

Also here: the paper's preprocessing of images.

Also here: reading published tables with pandas, in one sentence where they are damaged.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fisherleak.errors import DataError, FisherleakError

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Source:
    """Where files come from.

    Parameters
    ----------
    folder : str
        Their folder below the data home.
    urls : dict
        File -> address. For an archive, all files of it have its address.
    checksums : dict
        File (or, for an archive, its own name) -> "md5:…" or "sha256:…" of what is downloaded; empty where only the
        decompressed contents have a published one.
    archive : bool
        Whether the address is that of a tar archive.
    """

    folder: str
    urls: dict[str, str]
    checksums: dict[str, str]
    archive: bool = False


def locate(source: Source, files: Sequence[str], data_home: str | os.PathLike[str] | None) -> dict[str, Path]:
    """Paths of files: below ``data_home`` if given, else below FISHERLEAK_DATA if set, else in the cache."""
    home = data_home if data_home is not None else os.environ.get("FISHERLEAK_DATA") or None
    if home is not None:
        folder = Path(home) / source.folder
        paths = {file: folder / file for file in files}
        missing = [path for path in paths.values() if not path.is_file()]
        if missing:
            origin = "data_home" if data_home is not None else "FISHERLEAK_DATA"
            raise DataError(f"{missing[0]} is missing. Put it there, or leave {origin} out to download it.")
        return paths
    return {file: _download(source, file) for file in files}


def _download(source: Source, file: str) -> Path:
    import pooch

    url = source.urls[file]
    folder = Path(pooch.os_cache("fisherleak")) / source.folder
    name = url.rpartition("/")[2] if source.archive else file
    processor = pooch.Untar(members=[file], extract_dir=".") if source.archive else None
    try:
        pooch.retrieve(
            url,
            known_hash=source.checksums[name] or None,
            fname=name.rpartition("/")[2],
            path=(folder / name).parent,
            processor=processor,
            downloader=pooch.HTTPDownloader(progressbar=_Bar(name) if sys.stderr.isatty() else False, timeout=30),
        )
    except Exception as error:  # pooch passes on whatever its transport raises
        reason = " ".join(str(error).split())[:160]
        raise DataError(
            f"{name} could not be downloaded from {url} ({type(error).__name__}: {reason}). Get it by other means, put it in "
            f"DIR/{source.folder} and pass data_home=DIR or set FISHERLEAK_DATA=DIR."
        ) from None
    return folder / file


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, or a refusal in one sentence."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def check_contents(contents: bytes, expected: str, path: Path) -> None:
    """Compare contents with a published checksum."""
    kind, _, digest = expected.partition(":")
    found = hashlib.new(kind, contents, usedforsecurity=False).hexdigest()
    if found != digest:
        raise DataError(
            f"{path} is damaged: its contents have {kind} {found}, published is {digest}. Delete it and try again."
        )


class _Bar:
    """A progress bar in the form that pooch drives."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self.total = 0
        self._bar = Progress(console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(f"Downloading {name}")
        self._bar.start()

    def update(self, count: int) -> None:
        self._bar.update(self._task, advance=count, total=self.total or None)

    def reset(self) -> None:
        self._bar.reset(self._task)

    def close(self) -> None:
        self._bar.stop()


@dataclass(frozen=True, repr=False)
class Dataset:
    """A data set with its training and test part.

    Attributes
    ----------
    name : str
    X, X_test : images of shape (n, height, width[, channels]), or pandas tables
    y, y_test : array of shape (n,)
    names : list of str
        Columns of a table, or the classes of images.
    """

    name: str
    X: Any
    y: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]
    names: list[str]
    _preprocessing: Any

    @property
    def preprocessing(self) -> Any:
        """The paper's preprocessing, as a scikit-learn transformer that is not fitted yet."""
        return clone(self._preprocessing)

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {len(self.y)} training and {len(self.y_test)} test examples)"


def unit_ball(images: Any) -> NDArray[np.float64]:
    """Pixels in [0, 1], flattened, divided by the largest norm among the images given."""
    flat = np.asarray(images).reshape(len(images), -1) / 255.0
    return np.asarray(flat / np.linalg.norm(flat, axis=1).max())


def image_pipeline() -> Any:
    """Each part divided by its own largest norm, then the twenty leading principal components of the training part."""
    # Lanczos iterations to rounding: the seed decides signs only
    return make_pipeline(FunctionTransformer(unit_ball), PCA(20, svd_solver="arpack", random_state=0))


def parse_csv(source: Any, path: Path, columns: list[str], **options: Any) -> pandas.DataFrame:
    """A CSV table with these columns, by its header or, with ``names=``, by position."""
    try:
        import pandas
    except ImportError:
        raise FisherleakError("This data set is a table and needs pandas: pip install 'fisherleak[frames]'.") from None
    try:
        table: pandas.DataFrame = pandas.read_csv(source, **options)
    except (ValueError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is no table of the published form ({' '.join(str(error).split())}).") from None
    if list(table.columns) != columns:
        raise DataError(f"{path} has the columns {list(table.columns)[:12]}; published are {columns}.")
    empty = table.columns[table.isna().any()]
    if len(empty) or not len(table):
        where = f"column '{empty[0]}', row {int(table[empty[0]].isna().argmax())}" if len(empty) else "all of it"
        raise DataError(f"{path} is incomplete: {where} is empty.")
    return table
