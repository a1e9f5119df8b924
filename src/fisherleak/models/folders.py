"""Tables that lie in many Parquet files, on a disk or an object store: checked by their footers, read when needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from fisherleak._blocks import table_of_parts
from fisherleak.errors import DataError, FisherleakError, InvalidInputError

__all__ = ["read_parquet_folder"]

PART_BYTES = 2**26
"""Bytes of a partition before it is cut at the next row group: a worker holds several at once."""


@dataclass(frozen=True)
class Part:
    """Some row groups of one file."""

    url: str
    groups: tuple[int, ...]
    first_row: int


def read_parquet_folder(pattern: str | Sequence[str], columns: Sequence[str] | None = None) -> Any:
    """A table in many Parquet files, as a Dask table that :func:`fisherleak.minimise` and ``measure`` take.

    Every file's footer is read and held against the first file's: a file that is damaged, lacks a column, has another one or
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
    """
    try:
        import dask.dataframe  # noqa: F401
        import fsspec  # noqa: F401
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise FisherleakError(f"read_parquet_folder needs {error.name}: pip install 'fisherleak[cluster]'.") from None
    urls = _files(pattern)
    parts: list[Part] = []
    first: Any = None
    for url in urls:
        schema, found = _footer(url)
        first = schema if first is None else first
        _check_schema(urls[0], first, url, schema)
        parts += found
    names = list(first.names) if columns is None else list(columns)
    unknown = [name for name in names if name not in first.names]
    if unknown:
        raise InvalidInputError(f"{urls[0]} has no column '{unknown[0]}'. There are: {', '.join(first.names)}.")
    if not parts:
        raise DataError(f"The files of {pattern} have no rows.")
    empty = first.empty_table().select(names).to_pandas()
    return table_of_parts(partial(_read, names=tuple(names)), parts, empty)


def _files(pattern: str | Sequence[str]) -> list[str]:
    import fsspec

    given = (
        [str(pattern)] if isinstance(pattern, str) or not isinstance(pattern, Sequence) else [str(p) for p in pattern]
    )
    urls: list[str] = []
    for each in given:
        system, path = fsspec.url_to_fs(each)
        if any(sign in path for sign in "*?["):
            found = system.glob(path)
        else:
            found = system.glob(path.rstrip("/") + "/*.parquet") if system.isdir(path) else [path]
        urls += [system.unstrip_protocol(name) if "://" in each else str(name) for name in found]
    if not urls:
        raise DataError(
            f"No Parquet file matches {pattern}. Give a folder, a file or a pattern such as 'folder/*.parquet'."
        )
    return sorted(urls, key=_natural) if isinstance(pattern, str) else urls


def _natural(name: str) -> list[Any]:
    return [(0, int(piece), "") if piece.isdigit() else (1, 0, piece) for piece in re.split(r"(\d+)", name)]


def _footer(url: str) -> tuple[Any, list[Part]]:
    """A file's schema and its parts."""
    with _Opened(url) as file:
        schema = file.schema_arrow
        parts: list[Part] = []
        groups: list[int] = []
        size = start = row = 0
        for k in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(k)
            if groups and size + group.total_byte_size > PART_BYTES:
                parts.append(Part(url, tuple(groups), start))
                groups, size, start = [], 0, row
            groups.append(k)
            size += group.total_byte_size
            row += group.num_rows
        if row > start:
            parts.append(Part(url, tuple(groups), start))
        return schema, parts


class _Opened:
    """A Parquet file, open; what goes wrong inside names the file."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __enter__(self) -> Any:
        import fsspec
        from pyarrow.parquet import ParquetFile

        try:
            self.stream = fsspec.open(self.url, "rb").open()
        except OSError as error:
            raise DataError(f"{self.url} cannot be opened ({error.strerror or error}).") from None
        try:
            return ParquetFile(self.stream)
        except Exception as error:
            self.__exit__(type(error), error, None)
            raise

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        import pyarrow

        self.stream.close()
        if isinstance(error, (pyarrow.ArrowException, OSError, EOFError)) and not isinstance(error, FisherleakError):
            reason = " ".join(str(error).split())[:120]
            raise DataError(f"{self.url} is damaged ({reason}). Write it again, or leave it out.") from None


def _check_schema(first_url: str, first: Any, url: str, schema: Any) -> None:
    """The same columns, of the same kind."""
    lacks = [name for name in first.names if name not in schema.names]
    extra = [name for name in schema.names if name not in first.names]
    if lacks or extra:
        what = f"lacks column '{lacks[0]}'" if lacks else f"has column '{extra[0]}', which others lack"
        raise InvalidInputError(f"{url} {what}: all files must have the columns of {PurePosixPath(first_url).name}.")
    for name in first.names:
        wanted, got = first.field(name).type, schema.field(name).type
        if _kind(wanted) != _kind(got):
            raise InvalidInputError(
                f"{url} has type {got} in column '{name}', which has type {wanted} in {PurePosixPath(first_url).name}."
            )


def _kind(dtype: Any) -> str:
    from pyarrow import types

    if types.is_boolean(dtype) or types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        return "number"
    if types.is_string(dtype) or types.is_large_string(dtype) or types.is_dictionary(dtype):
        return "text"
    return str(dtype)


def _read(part: Part, names: tuple[str, ...], columns: Sequence[str] | None = None) -> Any:
    """One partition as a pandas table; ``columns`` are those that a computation needs."""
    wanted = list(names) if columns is None else list(columns)
    with _Opened(part.url) as file:
        frame = file.read_row_groups(list(part.groups), columns=wanted).to_pandas()[wanted]
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
