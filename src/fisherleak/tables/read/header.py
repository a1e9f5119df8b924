"""The names of a table's columns and nothing else: the first line of a CSV file, the footer of a Parquet file.

Loads neither NumPy nor, for CSV, Arrow: whoever types a command waits for it. Files are recognised as ``opening`` does.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
from pathlib import Path

from fisherleak.errors import DataError
from fisherleak.tables.read.csvfile import (
    BLANKS,
    CsvForm,
    delimiter_of,
    encoding_of,
    fields_of,
    first_line,
    from_header,
)
from fisherleak.tables.read.parquet import parquet_files

__all__ = ["GZIP", "PARQUET", "header_of"]

GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
"""What such files begin with."""
UNREADABLE = "\ufffd"
"""Stands for bytes that are not of the encoding."""
HEAD = 2**20
"""Bytes that the names are looked for in."""


def header_of(path: str, delimiter: str | None = None, encoding: str | None = None) -> tuple[str, ...]:
    """Names of the columns, as far as they have names that can be typed.

    Parameters
    ----------
    path : str
        A file here, a folder or a pattern of Parquet files. Addresses, pipes and Parquet files in gzip are refused: they would
        take long.
    delimiter, encoding : str, optional
        Of CSV files, as for ``read_table``.
    """
    if "://" in path:
        raise DataError(f"'{path}' is an address: columns are looked up in local files only.")
    place = Path(path)
    if place.is_dir() or (glob.has_magic(path) and not place.exists()):
        place = Path(parquet_files(path)[0])
    if not place.is_file():
        raise DataError(f"'{place}' is not a file.")
    head = _head(place)
    names = _parquet(place) if head.startswith(PARQUET) else _csv(head, place.name, delimiter, encoding)
    return tuple(name for name in names if name.strip() and name.isprintable() and UNREADABLE not in name)


def _head(place: Path) -> bytes:
    with place.open("rb") as file:
        head = file.read(HEAD)
    if not head.startswith(GZIP):
        return head
    with gzip.open(place) as packed:
        head = packed.read(HEAD)
    if head.startswith(PARQUET):
        raise DataError(f"'{place}' is a Parquet file in gzip: its columns are known only once all of it is unpacked.")
    return head


def _parquet(place: Path) -> list[str]:
    import pyarrow.parquet

    return list(pyarrow.parquet.read_schema(place).names)


def _csv(head: bytes, source: str, delimiter: str | None, encoding: str | None) -> list[str]:
    with from_header(io.BytesIO(head), source, CsvForm(delimiter, encoding)) as (file, form, _):
        line = first_line(file, source, encoding_of(file, source, form.encoding))
        mark, _ = delimiter_of(line, source, form.delimiter)
    return fields_of(line) if mark == BLANKS else next(csv.reader([line], delimiter=mark))
