"""Tables that lie in many Parquet files, on a disk or an object store: checked by their footers, read when needed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from fisherleak.errors import DataError, FisherleakError, InvalidInputError
from fisherleak.rows import table_of_parts
from fisherleak.tables.read.parquet import ParquetPart, parquet_files, parquet_parts

__all__ = ["read_parquet_folder"]


def read_parquet_folder(pattern: str | Sequence[str], columns: Sequence[str] | None = None) -> Any:
    """A table in many Parquet files, as a Dask table that :func:`fisherleak.minimise` and ``measure`` take.

    Every file's footer is read and compared with the first file's: a file that is damaged, lacks a column, has another one or
    another type is refused by name before any data are read. Missing and infinite numbers are refused when they are read,
    by file, column and row.

    Parameters
    ----------
    pattern : str or list of str
        A folder, a file, a pattern such as ``"visits/*.parquet"`` or a list of files; local paths or addresses that
        fsspec knows (``s3://…``). Files are taken in the order of their names, numbers in them counted as numbers.
    columns : list of str, optional
        The columns to read. All by default.

    Returns
    -------
    dask.dataframe.DataFrame
        Partitions of whole row groups, never of more than one file; nothing is read yet.

    Raises
    ------
    DataError
        Where there is no file, or a file is damaged.
    InvalidInputError
        Where the files' columns differ.

    Examples
    --------
    >>> table = fl.read_parquet_folder("visits/*.parquet", columns=["age", "dose", "sick"])  # doctest: +SKIP
    """
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise FisherleakError("read_parquet_folder needs pyarrow: pip install 'fisherleak[cluster]'.") from None
    urls = parquet_files(pattern)
    first, parts = parquet_parts(urls)
    names = list(first.names) if columns is None else list(columns)
    unknown = [name for name in names if name not in first.names]
    if unknown:
        raise InvalidInputError(f"{urls[0]} has no column '{unknown[0]}'. There are: {', '.join(first.names)}.")
    if not parts:
        raise DataError(f"The files of {pattern} have no rows.")
    empty = first.empty_table().select(names).to_pandas()
    return table_of_parts(partial(_read, names=tuple(names)), parts, empty)


def _read(part: ParquetPart, names: tuple[str, ...], columns: Sequence[str] | None = None) -> Any:
    """One partition as a pandas table; ``columns`` are those that a computation needs."""
    wanted = list(names) if columns is None else list(columns)
    frame = part.read(wanted).to_pandas()
    for name in wanted:
        column = frame[name]
        if getattr(column.dtype, "kind", "O") not in "fiub" or column.dtype.kind in "iub":
            continue
        wrong = ~np.isfinite(column.to_numpy())
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidInputError(
                f"{part.url} has {column.iloc[row]} in row {part.first_row + row}, column '{name}': numbers must be finite. "
                "Drop or fill such rows first."
            )
    return frame
