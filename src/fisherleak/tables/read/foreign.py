"""Tables of other programs, read by pandas: Excel, Stata, SPSS, R, Feather and JSON.

A file is recognised by its first bytes; what is needed to read it is named where it is not installed. Labels of values, as
Stata and SPSS have them, are categories where every value has one.
"""

from __future__ import annotations

import bz2
import json
import lzma
import re
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from fisherleak.errors import DataError, FisherleakError, InvalidInputError
from fisherleak.tables.read.workbook import FEW_DECIDE, TYPED_CELLS, chosen_sheet, read_workbook

__all__ = ["RARELY_THERE", "SEVERAL_TYPES", "ForeignTable", "foreign_table"]

SEVERAL_TYPES = "The column '{}' of {} holds values of several types. Make them numbers, or text."

EXCEL, OLD_EXCEL = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
ARROW, FEATHER = b"ARROW1", b"FEA1"
RECORDS = re.compile(rb"(\xef\xbb\xbf)?\s*\[\s*\{")
LISTS = re.compile(rb"(\xef\xbb\xbf)?\s*\[\s*\[")
OBJECT = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"')
STATA = (b"<stata_dta>", *(bytes([version, order, 1, 0]) for version in (0x71, 0x72, 0x73) for order in (1, 2)))
SPSS = (b"$FL2", b"$FL3")
R = (b"RDX2\n", b"RDX3\n", b"RDA2\n", b"RDA3\n", b"X\n\x00\x00\x00\x02", b"X\n\x00\x00\x00\x03")
PACKED: Mapping[bytes, Callable[..., Any]] = {b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
"""How R packs files, beside gzip."""
RARELY_THERE = "rarely there"
"""The attribute of a frame that says how many objects have a column that not all have."""
EXTRAS = {"openpyxl": "excel", "pyreadstat": "spss", "pyreadr": "r"}
"""Extras that bring what reads a file."""


@dataclass(frozen=True)
class ForeignTable:
    """A pandas frame, what was assumed, and the sheets that the file has where several are there and none was named."""

    frame: Any = field(repr=False)
    notes: tuple[str, ...] = ()
    sheets: tuple[str, ...] = ()
    inferred: frozenset[str] = frozenset()
    """What cells of text become where all of a column are alike; other files keep them."""


def foreign_table(
    file: IO[bytes], head: bytes, source: str, header: bool | None = None, sheet: str | None = None
) -> ForeignTable | None:
    """The table of a file, None for one that is none of these; ``header`` and ``sheet`` are those of a workbook."""
    import pandas

    def read(what: str, reader: Callable[..., Any], *given: Any, **options: Any) -> Any:
        file.seek(0)
        try:
            return reader(file, *given, **options)
        except ImportError as error:
            needed = error.name or "openpyxl"
            extra = f"'fisherleak[{EXTRAS[needed]}]'" if needed in EXTRAS else needed
            raise FisherleakError(
                f"{source} is {what}: reading it needs {needed}, which is not installed: pip install {extra}, or save it as "
                "CSV."
            ) from None
        except (FisherleakError, MemoryError):
            raise
        except Exception as error:
            why = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:100]
            raise DataError(f"{source} cannot be read as {what} ({why}): save it as CSV or Parquet.") from None

    if head.startswith(OLD_EXCEL) or (head.startswith(EXCEL) and _is_workbook(file)):
        book = ForeignTable(*read("an Excel workbook", read_workbook, source, header, sheet))
        return replace(book, inferred=TYPED_CELLS)
    if head.startswith(R) or _is_packed_r(file, head):
        return ForeignTable(*read("an R file", _r_frame, source, sheet))
    if sheet is not None:
        raise InvalidInputError(
            f"`sheet` is {sheet!r}, and {source} is neither a workbook nor a file of R: leave it out."
        )
    if head.startswith((ARROW, FEATHER)):
        return ForeignTable(read("a Feather file", pandas.read_feather))
    if head.startswith(STATA):
        return ForeignTable(*read("a Stata file", _stata_frame, source))
    if head.startswith(SPSS):
        return ForeignTable(*read("an SPSS file", _spss_frame, source))
    if RECORDS.match(head):
        return ForeignTable(read("a JSON array of objects", _json_array, source))
    if LISTS.match(head):
        raise InvalidInputError(f"{source} is JSON of lists, whose values have no names: save it as CSV with a header.")
    if OBJECT.match(head):
        return ForeignTable(read("JSON", _json_frame, source))
    return None


def _json_array(file: IO[bytes], source: str) -> Any:
    return _stored(json.load(file), source)


def _json_frame(file: IO[bytes], source: str) -> Any:
    """JSON with an object on every line, or one object: of columns, of names and rows, or around a list of objects."""
    with_line = file.readline()
    more = any(map(bytes.strip, file))  # what stands below a whole object is another one, whatever the first holds
    file.seek(0)
    try:
        first = json.loads(with_line)
        lines = more or not _has_columns(first)
    except ValueError:
        lines = False
    if lines:
        return _stored([json.loads(line) for line in file if line.strip()], source)
    whole = json.load(file)
    if (records := _only_records(whole)) is not None:
        return _stored(records, source)
    if isinstance(whole.get("data"), list) and isinstance(whole.get("columns"), list):
        return _stored(whole["data"], source, whole["columns"])
    if isinstance(whole.get("data"), list) and "schema" in whole:
        return _stored(whole["data"], source)
    if not _has_columns(whole):
        raise ValueError("it has neither one object on each line nor columns of equal length")
    columns = {name: [*cells.values()] if isinstance(cells, dict) else cells for name, cells in whole.items()}
    return _stored(columns, source)


def _stored(found: Any, source: str, names: list[Any] | None = None) -> Any:
    """A frame with the values that JSON has: a number is a number, a text a text, null is missing.

    Objects have their columns in an order of names, for each object has an order of its own. A column that some of them lack is
    one that few may have.
    """
    import pandas

    if names is None and isinstance(found, list) and not all(isinstance(row, dict) for row in found):
        raise ValueError("it has neither one object on each line nor columns of equal length")
    rarely = {}
    if names is None and isinstance(found, list):
        times = Counter(name for row in found for name in row)
        names, rarely = sorted(times), {name: count for name, count in times.items() if count < len(found)}
    frame = pandas.DataFrame(found, columns=names, dtype=object)
    columns = {j: _cells(frame.iloc[:, j], source) for j in range(frame.shape[1])}
    made = pandas.DataFrame(columns, index=frame.index).set_axis(frame.columns, axis=1)
    made.attrs = {RARELY_THERE: rarely}
    return made


def _cells(column: Any, source: str) -> Any:
    """A column of JSON: whole numbers beside others are others."""
    import pandas

    cells = [None if cell is None or cell != cell else cell for cell in column]
    kinds = {type(cell) for cell in cells if cell is not None}
    if bool in kinds and len(kinds) > 1:  # Arrow takes some for numbers
        raise InvalidInputError(SEVERAL_TYPES.format(str(column.name)[:80], source))
    if kinds == {int, float}:
        cells = [cell if cell is None else float(cell) for cell in cells]
    return pandas.Series(cells, column.index, dtype=object)


def _only_records(found: Any) -> list[dict[str, Any]] | None:
    """The objects of a list that stands alone under a name, as answers of web services have them."""
    values = [*found.values()] if isinstance(found, dict) else []
    listed = len(values) == 1 and isinstance(values[0], list) and values[0]
    return values[0] if listed and all(isinstance(each, dict) for each in values[0]) else None


def _has_columns(found: Any) -> bool:
    """Whether an object holds columns: lists of one length, objects with one set of keys, or names and rows."""
    if not isinstance(found, dict) or not found:
        return False
    if "data" in found and ("columns" in found or "schema" in found):
        return True
    values = list(found.values())
    if all(isinstance(value, list) for value in values):
        return len({len(value) for value in values}) == 1
    return all(isinstance(value, dict) for value in values) and len({tuple(value) for value in values}) == 1


def _on_disk(file: IO[bytes], reader: Callable[..., Any], **options: Any) -> Any:
    """What a reader makes of a copy of the file under a path, for readers that take nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        with path.open("wb") as copy:
            shutil.copyfileobj(file, copy)
        return reader(str(path), **options)


def _r_frame(file: IO[bytes], source: str, sheet: str | None) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    import pyreadr

    found = _on_disk(file, pyreadr.read_r)
    frames = {str(name or "data"): frame for name, frame in found.items() if frame is not None and frame.shape[1] > 0}
    if not frames:
        raise InvalidInputError(f"{source} holds no data frame: save one with saveRDS.")
    names = tuple(frames)
    name = chosen_sheet(names, sheet, source, "data frames")
    if sheet is not None or len(names) == 1:
        return frames[name], (), ()
    others = ", ".join(f"'{other}'" for other in names[1:])
    note = f"Of the {len(names)} data frames of {source} the first, '{name}', is read. `sheet` names another: {others}."
    return frames[name], (note,), names


def _spss_frame(file: IO[bytes], source: str) -> tuple[Any, tuple[str, ...]]:
    import pyreadstat

    frame, meta = _on_disk(file, pyreadstat.read_sav)
    return _labelled(frame, meta.variable_value_labels, source)


def _stata_frame(file: IO[bytes], source: str) -> tuple[Any, tuple[str, ...]]:
    from pandas.io.stata import StataReader

    opened: Any = StataReader(file, convert_categoricals=False)
    with opened as reader:
        frame, sets = reader.read(), reader.value_labels()
        own = zip(frame.columns, reader._lbllist, strict=True)  # pandas tells which set is whose nowhere else
        return _labelled(frame, {name: sets[each] for name, each in own if each in sets}, source)


def _labelled(frame: Any, labels: Mapping[str, Mapping[Any, Any]], source: str) -> tuple[Any, tuple[str, ...]]:
    """The frame with labels in place of values, by column, where each value that occurs has one.

    How labels are written follows from all that the file has, whether a row has them or not.
    """
    columns, partly, few = {}, [], {}
    for name, own in labels.items():
        without = int((frame[name].notna() & ~frame[name].isin([*own])).sum())
        if without:
            partly.append(name)
            few[name] = (without, "text")
            continue
        alone = len({*own.values()}) == len(own)
        texts = {value: str(label) if alone else f"{label} ({_plain(value)})" for value, label in own.items()}
        columns[name] = frame[name].map(texts).astype(object)
    made = frame.assign(**columns)
    made.attrs = {FEW_DECIDE: few}
    return made, _label_notes(source, [*columns], partly)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _label_notes(source: str, named: list[str], partly: list[str]) -> tuple[str, ...]:
    """What became of labels of values."""

    def listed(names: list[str]) -> str:
        return ", ".join(f"'{name}'" for name in names[:20]) + " …" * (len(names) > 20)

    said = []
    if named:
        said.append(
            f"Labels of values in {source} are taken as categories: {listed(named)}. Without labels they are numbers."
        )
    if partly:
        said.append(
            f"In {source} some values have labels and others have none. These columns hold the values: {listed(partly)}."
            " `na` takes codes of missing ones as missing."
        )
    return tuple(said)


def _is_packed_r(file: IO[bytes], head: bytes) -> bool:
    """Whether a bzip2 or xz archive is a file of R."""
    for magic, opened in PACKED.items():
        if head.startswith(magic):
            try:
                with opened(file) as packed:
                    return bool(packed.read(8).startswith(R))
            except (OSError, EOFError, lzma.LZMAError):
                return False
            finally:
                file.seek(0)
    return False


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
