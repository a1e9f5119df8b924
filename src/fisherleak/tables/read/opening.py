"""Files of rows and columns, as Arrow columns: CSV in any usual form, Parquet, others that pandas reads, or standard input.

A file is recognised by its first bytes, not by its name. Every refusal is one sentence that names the file and the remedy.
"""

from __future__ import annotations

import glob
import gzip
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import weakref
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from fisherleak._support.atomic import NO_TABLE
from fisherleak._support.namespaces import TableLike
from fisherleak._support.progress import track
from fisherleak.errors import DataError, FisherleakError, InvalidInputError
from fisherleak.tables.read.arrow_columns import without_halves
from fisherleak.tables.read.csvfile import CsvForm, csv_to_parquet, read_csv
from fisherleak.tables.read.first_line import is_number
from fisherleak.tables.read.foreign import RARELY_THERE, SEVERAL_TYPES, foreign_table
from fisherleak.tables.read.header import GZIP, PARQUET
from fisherleak.tables.read.parquet import CHUNK, parquet_files, parquet_parts
from fisherleak.tables.read.parts import FilePart, Part, RawTable, table_parts
from fisherleak.tables.read.workbook import BY_ONE_ROW, FEW_DECIDE

__all__ = ["arrow", "example_table", "from_frame", "read_table"]

MIXED = re.compile(r"Conversion failed for column (.*?) with type")
FOREIGN = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"%PDF": "a PDF document",
    b"\x89HDF": "an HDF5 file",
    b"\x80\x04\x95": "a pickle",
    b"\x80\x05\x95": "a pickle",
    b"BZh": "a bzip2 archive",
    b"\x28\xb5\x2f\xfd": "a zstandard archive",
    b"\xfd7zXZ": "an xz archive",
    b"SQLite": "a database",
}
TYPED_TEXT = frozenset({"number", "truth", "bits", "date", "time", "hexadecimal"})
"""What the columns of a text file may be where all of their cells are such."""
WHOLE_BITS = 63
"""Of the largest whole numbers that Arrow has."""


def arrow() -> Any:
    """Give back pyarrow, which reads the files."""
    try:
        import pandas  # noqa: F401 - models are fitted on its frames
        import pyarrow
    except ImportError as error:
        raise FisherleakError(
            f"Reading tables needs {error.name or 'pyarrow'}, which is not installed: pip install 'fisherleak[frames]'."
        ) from None
    return pyarrow


def read_table(
    path: str | os.PathLike[str],
    delimiter: str | None = None,
    encoding: str | None = None,
    memory: int | None = None,
    *,
    header: bool | None = None,
    columns: Sequence[str] | None = None,
    texts: Collection[str] = (),
    sheet: str | None = None,
) -> RawTable:
    """Open a CSV or Parquet file, in gzip or not; ``-`` is standard input.

    Workbooks of Excel, files of Stata, SPSS, R, Feather and JSON are read by way of pandas, as far as it has what it needs.
    Parquet files are read in parts, when they are needed. So is a folder of them, a pattern such as ``folder/*.parquet``, or
    an address that fsspec knows.

    Parameters
    ----------
    path : path or "-"
    delimiter : str, optional
        One character; found from the first line by default.
    encoding : str, optional
        Of CSV files; UTF-8 by default.
    memory : int, optional
        Larger CSV files are turned into a temporary Parquet file, which is read in parts.
    header : bool, optional
        Whether the first line of a CSV file names the columns. Without a word, a first line that reads like a row is refused:
        its values would be published as names.
    columns : sequence of str, optional
        Names of the columns of a CSV file without a header, or, with ``header=True``, in place of it.
    texts : collection of str
        Columns of a CSV file that stay text, whatever they hold.
    sheet : str, optional
        The sheet of a workbook, by its name or counted from 1, or the data frame of a file of R; the first by default.
    """
    arrow()
    form = CsvForm(delimiter, encoding, header, None if columns is None else tuple(columns), frozenset(texts))
    if _is_folder(str(path)):
        if sheet is not None:
            raise InvalidInputError(
                f"`sheet` is {sheet!r}, and {path} holds Parquet files, which have none: leave it out."
            )
        return _folder(str(path))
    source = "standard input" if str(path) == "-" else Path(path).name
    file = _opened(path)
    try:
        digest = _digest(file, source)
        if _head(file) == b"":
            raise InvalidInputError(f"{source} is empty: a table needs a header and rows.")
        if _head(file).startswith(GZIP):
            file = _unpacked(file, source)
        head = _head(file)
        known = foreign_table(file, head, source, form.header, sheet)
        if known is not None:
            read = from_frame(known.frame, source)
            notes = (*known.notes, *read.notes)
            attrs = known.frame.attrs
            own: dict[str, Any] = {"inferred": known.inferred, "few_decide": attrs.get(FEW_DECIDE, {})}
            own |= {"header_by_one_row": attrs.get(BY_ONE_ROW, False), "rarely_there": attrs.get(RARELY_THERE, {})}
            return replace(read, sha256=digest, notes=notes, sheets=known.sheets, **own)
        for magic, what in FOREIGN.items():
            if head.startswith(magic):
                raise InvalidInputError(f"{source} is {what}, not a table that can be read: save it as CSV or Parquet.")
        if head.startswith(PARQUET):
            return _parquet(file, Path(path), source, digest)
        if memory is not None and os.fstat(file.fileno()).st_size > memory:
            return _large_csv(file, source, digest, form)
        table, how = read_csv(file, source, form)
        names, more = _named(table.column_names, source)
        few = {
            new: (how.near_codes[old], "text")
            for old, new in zip(table.column_names, names, strict=True)
            if old in how.near_codes
        }
        if table.num_rows == 0:
            raise InvalidInputError(f"{source} has a header and no rows: there is nothing to learn from.")
        held = _held(table.rename_columns(list(names)), source, digest, (*how.notes, *more))
        return replace(held, inferred=TYPED_TEXT, few_decide=few, header_by_one_row=how.by_one_row)
    finally:
        file.close()


class _TemporaryFolder:
    """A folder that goes when nobody needs it any more."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="fisherleak-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _large_csv(file: IO[bytes], source: str, digest: str, form: CsvForm) -> RawTable:
    """A CSV file as a Parquet file that lives as long as its parts."""
    folder = _TemporaryFolder()
    path = folder.path / "table.parquet"
    how = csv_to_parquet(file, source, form, path, _named)
    schema, found = parquet_parts([str(path)])
    rows = sum(part.rows for part in found)
    if not rows:
        raise InvalidInputError(f"{source} has a header and no rows: there is nothing to learn from.")
    parts: tuple[Part, ...] = tuple(FilePart(**vars(part), keep=folder) for part in found)
    return RawTable(
        source,
        digest,
        tuple(schema.names),
        tuple(schema.types),
        rows,
        how.notes,
        parts,
        here=True,
        inferred=TYPED_TEXT,
        few_decide={name: (cells, "text") for name, cells in how.near_codes.items()},
        header_by_one_row=how.by_one_row,
    )


def from_frame(frame: TableLike, source: str = "a table") -> RawTable:
    """A pandas or polars frame, or an Arrow table."""
    pa = arrow()
    if hasattr(frame, "to_arrow"):
        frame = frame.to_arrow()
    try:
        table = frame if isinstance(frame, pa.Table) else _as_arrow(frame)
    except (TypeError, ValueError, AttributeError, OverflowError, pa.ArrowException) as error:
        found = MIXED.search(str(error))
        if found:  # the complaint holds a cell
            raise InvalidInputError(SEVERAL_TYPES.format(found[1][:80], source)) from None
        raise InvalidInputError(f"{source} cannot be read: {_first_line(error)}.") from None
    names, notes = _named([str(name) for name in table.column_names], source)
    if table.num_rows == 0:
        raise InvalidInputError(f"{source} has no rows: there is nothing to learn from.")
    digest = hashlib.sha256()
    with pa.ipc.new_stream(pa.PythonFile(_Hashing(digest), mode="w"), table.schema) as stream:
        stream.write_table(table)
    return _held(table.rename_columns(list(names)), source, digest.hexdigest(), notes)


def _as_arrow(frame: Any) -> Any:
    """A pandas frame as an Arrow table; whole numbers beyond 64 bits, and all in their columns, are floats."""
    pa = arrow()
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except OverflowError:
        pass

    def as_float(column: Any) -> Any:
        large = any(type(cell) is int and cell.bit_length() > WHOLE_BITS for cell in column)
        return column.map(lambda cell: float(cell) if type(cell) is int else cell) if large else column

    return pa.Table.from_pandas(frame.apply(as_float), preserve_index=False)


def _held(table: TableLike, source: str, digest: str, notes: tuple[str, ...]) -> RawTable:
    """A table in memory."""
    table = without_halves(table)
    kinds = tuple(table.schema.types)
    return RawTable(
        source, digest, tuple(table.column_names), kinds, table.num_rows, notes, table_parts(table), here=True
    )


def _is_folder(path: str) -> bool:
    """Whether a path names Parquet files that are read where they are: several, or at an address."""
    if path == "-":
        return False
    try:
        return "://" in path or Path(path).is_dir() or (glob.has_magic(path) and not Path(path).exists())
    except (OSError, ValueError):  # no name that a file could have
        return False


def _folder(path: str) -> RawTable:
    """The Parquet files of a folder, a pattern or an address."""
    urls = parquet_files(path)
    schema, found = parquet_parts(urls)
    source = path.rstrip("/").rpartition("/")[2] if "://" in path else Path(path).name or path
    names, notes = _named(list(schema.names), source)
    if names != tuple(schema.names):
        raise InvalidInputError(f"{urls[0]} has a column without a name: name it, for columns are read by name.")
    if not found:
        raise InvalidInputError(f"The files of {path} have no rows: there is nothing to learn from.")
    parts: tuple[Part, ...] = tuple(FilePart(**vars(part), several=len(urls) > 1) for part in found)
    count = (
        f"{len(urls)} files are read as one table, in the order of their names, and rows are counted over all of them."
    )
    if len(urls) > 1:  # each file has an order of its own, and a file may have one row
        names, notes = tuple(sorted(names)), (*notes, count)
    rows, kinds = sum(part.rows for part in parts), tuple(schema.field(name).type for name in names)
    return RawTable(source, "", names, kinds, rows, notes, parts, tuple(urls))


def example_table() -> RawTable:
    """The diabetes data that scikit-learn carries, with the columns' real names: 442 patients."""
    arrow()
    from sklearn.datasets import load_diabetes

    data = load_diabetes(as_frame=True, scaled=False)
    names = {"s1": "cholesterol", "s2": "ldl", "s3": "hdl", "s4": "ratio", "s5": "triglycerides", "s6": "glucose"}
    frame = data.data.rename(columns=names)
    frame["sex"] = frame["sex"].map({1.0: "1", 2.0: "2"}).astype(object)
    frame["progression"] = data.target
    return from_frame(frame, "diabetes (of scikit-learn)")


class _Hashing:
    """A file that keeps only the checksum of what is written to it."""

    closed = False

    def __init__(self, digest: Any) -> None:
        self._digest = digest

    def write(self, data: Any) -> int:
        self._digest.update(data)
        return len(data)

    def flush(self) -> None:
        return None

    def close(self) -> None:
        return None


def _opened(path: str | os.PathLike[str]) -> IO[bytes]:
    """A file that can be read more than once; standard input and pipes are copied to a temporary one."""
    if str(path) == "-":
        if sys.stdin is None:
            raise DataError("Standard input is closed: name a file, or send a table to it.")
        return _copied(sys.stdin.buffer)
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - it is given back open
    except FileNotFoundError:
        raise DataError(NO_TABLE.format(path)) from None
    except ValueError as error:
        raise InvalidInputError(f"{str(path)!r} is no file name: {error}.") from None
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror}.") from None
    mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISREG(mode):
        return file
    with file:
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise DataError(f"'{path}' is a device, which may have no end: name a file, or use - for standard input.")
        return _copied(file)


def _copied(file: IO[bytes]) -> IO[bytes]:
    """A temporary file with the same contents, as long as they leave half of the free space."""
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - it is given back open
    most, size = shutil.disk_usage(tempfile.gettempdir()).free // 2, 0
    try:
        while chunk := file.read(CHUNK):
            size += copy.write(chunk)
            if size > most or (size == len(chunk) == CHUNK and not any(chunk)):
                why = "begins with zeros only" if size <= most else "is too long"
                raise DataError(
                    f"The input (a pipe, or a file once unpacked) {why}. It must be a table, and take at most half of the "
                    f"free space for temporary files ({most / 2**30:.0f} GB)."
                )
        copy.seek(0)
    except BaseException:
        copy.close()
        raise
    return copy


def _digest(file: IO[bytes], source: str) -> str:
    digest = hashlib.sha256()
    total = os.fstat(file.fileno()).st_size // CHUNK + 1
    try:
        for chunk in track(_chunks(file), total, "Reading"):
            digest.update(chunk)
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror}.") from None
    file.seek(0)
    return digest.hexdigest()


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _head(file: IO[bytes], count: int = 64) -> bytes:
    head = file.read(count)
    file.seek(0)
    return head


def _unpacked(file: IO[bytes], source: str) -> IO[bytes]:
    """The contents of a gzip file, in a temporary file."""
    try:
        with file, gzip.open(file) as packed:
            return _copied(packed)  # type: ignore[arg-type]
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{source} is a damaged gzip file: get it again.") from None


def _parquet(file: IO[bytes], path: Path, source: str, digest: str) -> RawTable:
    import pyarrow.parquet

    with _arrow_refusals(source, "Parquet file"):
        opened = pyarrow.parquet.ParquetFile(file)
        own = list(opened.schema_arrow.names)
        rows = int(opened.metadata.num_rows)
    names, notes = _named(own, source)
    if rows == 0:
        raise InvalidInputError(f"{source} has columns and no rows: there is nothing to learn from.")
    if names == tuple(own) and path.is_file() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
        with _arrow_refusals(source, "Parquet file"):
            schema, found = parquet_parts([str(path.absolute())])
        parts: tuple[Part, ...] = tuple(FilePart(**vars(part)) for part in found)
        return RawTable(source, digest, names, tuple(schema.types), rows, notes, parts)
    with _arrow_refusals(source, "Parquet file"):  # unpacked, or with columns that cannot be asked for by name
        return _held(opened.read().rename_columns(list(names)), source, digest, notes)


@contextmanager
def _arrow_refusals(source: str, what: str) -> Iterator[None]:
    """Turns Arrow's complaints about a file into one sentence."""
    try:
        yield
    except (FisherleakError, MemoryError):
        raise
    except Exception as error:
        raise DataError(f"{source} is a damaged {what} ({_first_line(error)}): get it again.") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].strip().rstrip(".")[:120]


def _named(own: list[str], source: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Column names, each once; one without a name is called after its place."""
    if not own:
        raise InvalidInputError(f"{source} has no columns.")
    seen: set[str] = set()
    for name in own:
        if name.strip() and name in seen and is_number(name):  # somebody's values: not a word of them
            raise InvalidInputError(
                f"{source} seems to have no header: its first line holds the same number more than once. Name the columns with "
                "`columns`, or read it with `header=False`."
            )
        if name.strip() and name in seen:
            raise InvalidInputError(f"{source} has the column '{name[:80]}' more than once: rename one of them.")
        seen.add(name)
    names, notes = [], []
    for j, name in enumerate(own):
        if name.strip():
            names.append(name)
            continue
        given = f"column {j + 1}"
        while given in seen:
            given += "'"
        seen.add(given)
        names.append(given)
        notes.append(f"Column {j + 1} has no name and is called '{given}'.")
    return tuple(names), tuple(notes)
