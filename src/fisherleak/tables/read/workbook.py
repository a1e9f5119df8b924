"""Sheets of Excel workbooks as pandas frames: which sheet, where its header is, and what its cells hold.

A column whose cells are numbers and texts is text, as in a CSV file: whether it holds numbers all the same is decided there.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import IO, Any

from fisherleak._support.checks import nearest
from fisherleak.errors import InvalidInputError
from fisherleak.tables.read.cell_formats import cells_to_codes, is_missing, plain_values
from fisherleak.tables.read.csvfile import MISSING
from fisherleak.tables.read.first_line import is_number, reads_as_row, row_evidence
from fisherleak.tables.read.header_place import HeaderPlace, header_in_rows, is_open, one_row_decides

__all__ = ["BY_ONE_ROW", "FEW_DECIDE", "TYPED_CELLS", "chosen_sheet", "read_workbook"]

PLAIN = {"str", "number", "bool"}
"""Kinds of cells that may be one."""
TYPED_CELLS = frozenset({"number", "truth", "bits"})
"""What cells of text become where all of a column are such."""
FEW_DECIDE = "few decide"
"""The attribute of a frame that says how few cells decide what columns are read as, and what they would be."""
BY_ONE_ROW = "by one row"
"""The attribute of a frame that says whether one row decides where the header is."""
LOOKED_AT = 2000
"""Rows of a workbook that its first row is compared with."""
Cells = list[list[Any]]


def read_workbook(
    file: IO[bytes], source: str, header: bool | None, sheet: str | None
) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """The frame of a sheet, what was assumed, and the names of all sheets where there are several and none was named."""
    import pandas

    book = pandas.ExcelFile(file)
    sheets = tuple(str(name) for name in book.sheet_names)
    name = chosen_sheet(sheets, sheet, source, "sheets")
    rows = _rows_of(book, name)
    filled = [k for k, row in enumerate(rows) if any(_text(cell) for cell in row)]
    of = f"The sheet '{name}' of {source}" if len(sheets) > 1 else source
    try:
        frame, notes = _framed([rows[k] for k in filled], of, header, lambda k: _merged_in(file, name, filled[k]))
    except InvalidInputError as error:
        if sheet is not None or len(sheets) == 1:
            raise
        raise InvalidInputError(f"{error} `sheet` names another sheet: {_listed(sheets[1:])}.") from None
    if sheet is not None or len(sheets) == 1:
        return frame, notes, ()
    first = f"Of the {len(sheets)} sheets of {source} the first, '{name}', is read. `sheet` names another: "
    return frame, (f"{first}{_listed(sheets[1:])}.", *notes), sheets


def chosen_sheet(names: Sequence[str], given: str | None, source: str, what: str) -> str:
    """The sheet that was named, or counted from 1; the first where none was."""
    if given is None:
        return names[0]
    if given in names:
        return given
    if given.isdecimal() and 1 <= int(given) <= len(names):
        return names[int(given) - 1]
    raise InvalidInputError(
        f"`sheet` is {given!r}, and {source} has the {what} {_listed(names)}. {nearest(given, names)}"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name[:80]}'" for name in names[:20]) + " …" * (len(names) > 20)


def _merged_in(file: IO[bytes], sheet: str, row: int) -> set[int]:
    """The columns of a row, counted from 0, over which cells are merged; none in files that say nothing of it."""
    from zipfile import BadZipFile

    import openpyxl
    from openpyxl.utils.exceptions import InvalidFileException

    file.seek(0)
    try:
        ranges = openpyxl.load_workbook(file)[sheet].merged_cells.ranges
    except (BadZipFile, InvalidFileException, KeyError):  # of another format
        return set()
    return {
        j - 1
        for each in ranges
        if each.min_row == each.max_row == row + 1 and each.max_col > each.min_col
        for j in range(each.min_col, each.max_col + 1)
    }


def _framed(
    cells: Cells, source: str, header: bool | None, merged_in: Callable[[int], set[int]]
) -> tuple[Any, tuple[str, ...]]:
    import pandas

    width = len(cells[0]) if cells else 0
    used = [j for j in range(width) if any(_text(row[j]) for row in cells)]
    cells = [[row[j] for j in used] for row in cells]
    if len(used) < 2 or len(cells) < 2:
        raise InvalidInputError(f"{source} holds no table: a table needs a header, rows, a target and another column.")
    texts = [[_text(cell) for cell in row] for row in cells[:LOOKED_AT]]
    cut = len(cells) > LOOKED_AT
    names, place = _names(texts, source, header, lambda k: [j in merged_in(k) for j in used], cut)
    names, unnamed = _called_by_place(names, used)
    below = cells[place.above + 1 + place.below :] if header is not False else cells
    twice = next((name for k, name in enumerate(names) if name and name in names[:k] and not is_number(name)), None)
    if twice is not None:
        raise InvalidInputError(f"{source} has the column '{twice[:80]}' more than once: rename one of them.")
    if not below:
        raise InvalidInputError(f"{source} has a header and no rows: there is nothing to learn from.")
    columns = {j: _typed([row[j] for row in below]) for j in range(len(used))}
    few = {name: series.attrs.get(FEW_DECIDE) for name, series in zip(names, columns.values(), strict=True)}
    frame = pandas.DataFrame(columns).set_axis(names, axis=1)
    frame.attrs = {
        FEW_DECIDE: {name: each for name, each in few.items() if each is not None},
        BY_ONE_ROW: place.by_one_row,
    }
    return frame, (*place.notes, *(unnamed if header is not False else ()))


def _rows_of(book: Any, name: str) -> Cells:
    """All cells of a sheet, rows of one length; those of the old format as pandas has them.

    Others are taken as they are stored: earlier versions of pandas make a truth of every 0 and 1 beside one truth.
    """
    import pandas

    if book.engine != "openpyxl":
        old = pandas.read_excel(book, sheet_name=name, header=None, dtype=object, na_filter=False)
        return old.to_numpy(dtype=object).tolist()
    sheet = book.book[name]
    if book.book.read_only:
        sheet.reset_dimensions()  # what a file says of them may be wrong
    rows = [[_stored(cell) for cell in row] for row in sheet.rows]
    width = max(map(len, rows), default=0)
    return [[*row, *[""] * (width - len(row))] for row in rows]


def _stored(cell: Any) -> Any:
    """What a cell holds: whole numbers as such, nothing as an empty text, an error as NaN."""
    if cell.value is None:
        return ""
    if cell.data_type == "e":
        return math.nan
    if isinstance(cell.value, float) and cell.value.is_integer():
        return int(cell.value)
    return cell.value


def _called_by_place(names: Sequence[str], used: Sequence[int]) -> tuple[list[str], list[str]]:
    """Names, of columns that have none by their place in the sheet: no cell of another column changes them; and sentences."""
    found, said = [], []
    for name, j in zip(names, used, strict=True):
        own = name or f"column {j + 1}"
        while not name and own in names:
            own += "'"
        found.append(own)
        said += [] if name else [f"Column {j + 1} has no name and is called '{own}'."]
    return found, said


def _names(
    texts: list[list[str]], source: str, header: bool | None, merged_in: Callable[[int], list[bool]], cut: bool
) -> tuple[list[str], HeaderPlace]:
    """The names of columns and where they stand; refused, without a word of it, where the first row is somebody's."""
    if header is False:
        return [""] * len(texts[0]), HeaderPlace()
    if header is True:
        return texts[0], HeaderPlace()
    known = cache(merged_in)
    names, place = _found_names(texts, source, known, cut)
    start = place.above + 1 + place.below
    if place.by_one_row or (start == 1 and all(texts[0]) and not is_open(texts)):
        return names, place

    def of_some(kept: Sequence[int]) -> object:
        try:
            own, other = _found_names([texts[k] for k in kept], source, known, cut)
        except InvalidInputError:
            return None
        return own, other.above, other.below

    return names, replace(place, by_one_row=one_row_decides(texts, start, of_some))


def _found_names(
    texts: list[list[str]], source: str, merged_in: Callable[[int], list[bool]], cut: bool
) -> tuple[list[str], HeaderPlace]:
    """Names where the rows tell where they stand."""
    merged = _merged_names(texts, source, merged_in)
    if merged is not None:
        rows, names = merged
        note = f"The header of {source} has two rows, merged cells above others: its names are those of both."
        return names, HeaderPlace(rows - 1, 0, (note,))
    place = header_in_rows(texts, source)
    names, below = texts[place.above], texts[place.above + 1 + place.below :]
    evidence = row_evidence(names, below, cut)
    if evidence.now > 0:
        raise InvalidInputError(
            f"{source} seems to have no header: its first row reads like a person's. Put names above it, or read it with "
            "`header=False`; `header=True` takes that row as names all the same."
        )
    return names, replace(place, by_one_row=max(evidence.left) > 0)


def _merged_names(
    texts: list[list[str]], source: str, merged_in: Callable[[int], list[bool]]
) -> tuple[int, list[str]] | None:
    """Names of two rows, of which cells in the first are merged over several in the second, and where the rows below begin.

    The second row may be somebody's who lacks all numbers: it has names only below cells that the sheet says are merged, and
    none that is a value further below. Else it is a row where it reads like one, and refused where nothing tells.
    """
    above = next((k for k, row in enumerate(texts) if sum(map(bool, row)) > 1), 0)
    if len(texts) < above + 4:
        return None
    first, second, below = texts[above], texts[above + 1], texts[above + 2 :]
    numeric = [j for j, column in enumerate(zip(*below, strict=True)) if _holds_numbers(column)]
    merged = [j for j in range(1, len(first)) if not first[j] and second[j] and second[j - 1] and any(first[:j])]
    words = all(not cell or (any(c.isalpha() for c in cell) and not is_missing(cell)) for cell in (*first, *second))
    named = all(a or b for a, b in zip(first, second, strict=True))
    if not (merged and words and named and any(second[j] for j in numeric)):
        return None
    over = merged_in(above)
    again = any(cell and cell in {row[j] for row in below} for j, cell in enumerate(second))
    if again or not all(here for here, cell in zip(over, second, strict=True) if cell):
        if reads_as_row(second, below) > 0:
            return None
        raise InvalidInputError(
            f"{source} has a first row with names missing, and nothing shows whether the row below it is a person's: write one "
            "row of names, or merge each cell of the first row over all that it names. `header=True` takes the first row as "
            "names and the second as a row."
        )
    names, group = [], ""
    for a, b in zip(first, second, strict=True):
        group = a or (group if b else "")
        names.append(f"{group} {b}".strip())
    return above + 2, names


def _holds_numbers(cells: Sequence[str]) -> bool:
    there = [cell for cell in cells if cell]
    return len(there) > 1 and all(map(is_number, there))


def _text(cell: Any) -> str:
    """A cell as text; nothing for an empty one."""
    if cell is None or cell != cell or (isinstance(cell, str) and cell.strip() in MISSING):
        return ""
    return cell.isoformat(sep=" ") if isinstance(cell, datetime.datetime) else str(cell).strip()


def _typed(cells: list[Any]) -> Any:
    """A column with the one type that its cells have, as text where they have several."""
    import pandas

    there, near = [cell if _text(cell) else None for cell in cells], None
    kinds = Counter(_kind(cell) for cell in there if cell is not None)
    if "str" in kinds or len(kinds) > 1:
        texts = [None if cell is None else _text(cell) for cell in there]
        counts = Counter(text for text in texts if text is not None)
        plain = plain_values(counts) if kinds.keys() <= PLAIN else None
        if plain is None:
            series = pandas.Series(texts if len(kinds) > 1 else there, dtype=object)
            others = [(kinds.total() - kinds[kind], kind) for kind in kinds.keys() - {"str", "number"}]
            series.attrs = {FEW_DECIDE: min(others, default=None)}
            return series
        there = [None if text is None else plain[text] for text in texts]  # a number that is stored as text is one
        kinds = Counter(_kind(cell) for cell in there if cell is not None)
        near = cells_to_codes(counts)
    if kinds.keys() == {"number"}:
        whole = all(isinstance(cell, int) for cell in there)
        series = pandas.Series(there) if whole else pandas.Series(there, dtype="float64")
        series.attrs = {FEW_DECIDE: None if near is None else (near, "text")}
        return series
    return pandas.Series(there, dtype=None if kinds.keys() == {"date"} else object)


def _kind(cell: Any) -> str:
    if isinstance(cell, bool):
        return "bool"
    if isinstance(cell, (int, float)):
        return "number"
    return "date" if isinstance(cell, datetime.datetime) else type(cell).__name__
