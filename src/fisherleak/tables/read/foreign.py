"""Tables of other programs, read by pandas: Excel, Stata, Feather, and JSON with an object on every line or in an array.

A file is recognised by its first bytes; what is needed to read it is named where it is not installed.
"""

from __future__ import annotations

import re
import zipfile
from typing import IO, Any

from fisherleak.errors import DataError, FisherleakError, InvalidInputError
from fisherleak.tables.read.first_line import reads_as_row

__all__ = ["foreign_table"]

LOOKED_AT = 2000
"""Rows of a workbook that its first row is held against."""
EXCEL, OLD_EXCEL = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
ARROW, FEATHER = b"ARROW1", b"FEA1"
RECORDS = re.compile(rb"(\xef\xbb\xbf)?\s*\[\s*\{")
STATA = (b"<stata_dta>", *(bytes([version, order, 1, 0]) for version in (0x71, 0x72, 0x73) for order in (1, 2)))


def foreign_table(
    file: IO[bytes], head: bytes, source: str, header: bool | None = None
) -> tuple[Any, tuple[str, ...]] | None:
    """A pandas frame and what was assumed, None for a file that is none of these; ``header`` is that of a workbook."""
    import pandas

    def read(what: str, reader: Any, **options: Any) -> Any:
        file.seek(0)
        try:
            return reader(file, **options)
        except ImportError as error:
            needed = error.name or "openpyxl"
            raise FisherleakError(
                f"{source} is {what}: reading it needs {needed}, which is not installed: pip install {needed}, or save it as "
                "CSV."
            ) from None
        except (FisherleakError, MemoryError):
            raise
        except Exception as error:
            why = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:100]
            raise DataError(f"{source} cannot be read as {what} ({why}): save it as CSV or Parquet.") from None

    if head.startswith(OLD_EXCEL) or (head.startswith(EXCEL) and _is_workbook(file)):
        sheets = read("an Excel workbook", pandas.ExcelFile)
        note = f"Of the {len(sheets.sheet_names)} sheets of {source} the first is read."
        frame = read("an Excel workbook", pandas.read_excel, header=None if header is False else 0)
        return _titled(frame, source, header), (note,) if len(sheets.sheet_names) > 1 else ()
    if head.startswith((ARROW, FEATHER)):
        return read("a Feather file", pandas.read_feather), ()
    if head.startswith(STATA):
        return read("a Stata file", pandas.read_stata), ()
    if head.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b'{"'):
        return read("JSON lines", pandas.read_json, lines=True), ()
    if RECORDS.match(head):
        return read("a JSON array of objects", pandas.read_json, orient="records"), ()
    return None


def _titled(frame: Any, source: str, header: bool | None) -> Any:
    """The frame of a workbook whose first row names the columns; refused, without a word of it, where it is somebody's."""
    if header is False:
        return frame.set_axis([f"column {j + 1}" for j in range(frame.shape[1])], axis=1)
    names = ["" if str(name).startswith("Unnamed: ") else str(name) for name in frame.columns]
    if header is None and reads_as_row(names, frame.head(LOOKED_AT).astype(str).to_numpy().tolist()) > 0:
        raise InvalidInputError(
            f"{source} seems to have no header: its first row reads like somebody's. Put names above it, or read it with "
            "`header=False`; `header=True` takes that row as names all the same."
        )
    return frame


def _is_workbook(file: IO[bytes]) -> bool:
    """Whether a zip archive is a workbook."""
    file.seek(0)
    try:
        with zipfile.ZipFile(file) as archive:
            return any(name.startswith("xl/") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False
    finally:
        file.seek(0)
