"""Where the header of a table is: below a line ``sep=;``, comments and titles, above rows of types, units or flags.

What is left out is counted in a sentence, without a word of it. ``header=True`` and ``header=False`` say that the first line is
the header, or the first row: then only ``sep=;`` and comments are left out. Plain Python: a header is looked at before anything
else is loaded.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fisherleak.errors import InvalidInputError
from fisherleak.tables.read.cell_formats import ALMOST, is_missing
from fisherleak.tables.read.first_line import is_number, reads_as_row

__all__ = ["DELIMITERS", "HeaderPlace", "header_in_rows", "header_in_text", "is_open", "one_row_decides"]

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
SEPARATOR = re.compile(r'\s*"?sep=(.)"?[\s,;|]*', re.IGNORECASE)
"""The line by which Excel is told what stands between fields."""
COMMENT = "#"
ARFF = re.compile(r"\s*@relation\b", re.IGNORECASE)
MOST_TITLES = 20
LOOKED_AT = 200
"""Rows that titles are compared with."""
FEWEST_BELOW = 3
"""Rows below a header that tells titles from it."""
TYPES = {
    *(
        "c",
        "d",
        "n",
        "s",
        "t",
        "continuous",
        "discrete",
        "string",
        "numeric",
        "nominal",
        "ordinal",
        "categorical",
        "category",
    ),
    *(
        "int",
        "integer",
        "int32",
        "int64",
        "float",
        "float32",
        "float64",
        "double",
        "real",
        "number",
        "num",
        "char",
        "varchar",
    ),
    *(
        "text",
        "str",
        "chr",
        "dbl",
        "lgl",
        "fct",
        "factor",
        "logical",
        "bool",
        "boolean",
        "date",
        "datetime",
        "time",
        "object",
    ),
    *("<int>", "<dbl>", "<chr>", "<fct>", "<lgl>", "<date>", "<dttm>"),
}
"""What other tools write below a header for the types of columns."""
FLAGS = {"class", "meta", "ignore", "i", "m", "c", "w", "weight", "skip", "target", "input", "id", "role"}
"""What they write below these."""
IMPORTED = '{"importid"'
"""How a survey tool begins the cells of its last header row."""


@dataclass(frozen=True)
class HeaderPlace:
    """Lines (or rows) above the header, those right below it that are nobody's, and what is said of both.

    ``delimiter`` is the one that a line of the file names, or that only the lines below titles have; ``mark`` is what stands
    before the header itself, as of a comment. ``by_one_row`` is whether all this might be another without one of the rows.
    """

    above: int = 0
    below: int = 0
    notes: tuple[str, ...] = ()
    delimiter: str | None = None
    mark: str = ""
    by_one_row: bool = False


def header_in_rows(rows: Sequence[Sequence[str]], source: str) -> HeaderPlace:
    """Where the header is among rows of cells, as a workbook has them."""
    above = _titles(rows)
    below = _nobodys(rows[above:])
    return HeaderPlace(above, below, _notes(source, above, below, "row"))


def one_row_decides(rows: Sequence[Sequence[str]], start: int, place: Callable[[Sequence[int]], object]) -> bool:
    """Whether without one of the rows from ``start`` on their header might be read in another place.

    ``place`` tells where it is with some of the rows, by their numbers. Of rows that are odd in the same columns those with the
    fewest and with the most missing cells are left out: where a cell is missing, a row decides nothing.
    """
    width = max(map(len, rows), default=0)
    above = [{row[j].strip() for row in rows[:start] if j < len(row)} for j in range(width)]
    times = [Counter(row[j].strip() for row in rows[start:] if j < len(row)) for j in range(width)]
    numbers = [2 * sum(own[cell] for cell in own if is_number(cell)) >= own.total() for own in times]
    alike: dict[tuple[bool, ...], list[tuple[int, int]]] = {}
    for k, row in enumerate(rows[start:], start):
        cells, missing = [cell.strip() for cell in row], sum(map(is_missing, row))
        odd = (
            cell in above[j]
            or (not is_missing(cell) and (is_number(cell) != numbers[j] or (times[j][cell] == 1 and not numbers[j])))
            for j, cell in enumerate(cells)
        )
        alike.setdefault(tuple(odd), []).append((missing, k))
    tried = {k for own in alike.values() for _, k in (min(own), max(own))} | {*range(start, min(start + 2, len(rows)))}
    everything = [*range(len(rows))]
    now = place(everything)
    return any(place([*everything[:k], *everything[k + 1 :]]) != now for k in sorted(tried))


def is_open(rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows may hold titles, or types or units below a header: else no row decides where the header is.

    Without the first row the second one stands below the header.
    """
    return _may_hold(rows) or _may_hold([*rows[:1], *rows[2:]])


def _may_hold(rows: Sequence[Sequence[str]]) -> bool:
    if len(rows) < 2:
        return False
    filled, below = sum(map(bool, map(str.strip, rows[0]))), [row for row in rows[2:] if len(row) == len(rows[1])]
    words = [
        cell
        for j, cell in enumerate(rows[1])
        if _is_word(cell) and 2 * sum(is_number(r[j]) for r in below) >= len(below)
    ]
    types = [cell for cell in rows[1] if cell.strip().lower() in TYPES or cell.strip().lower().startswith(IMPORTED)]
    return 2 * filled <= max(map(len, rows)) or max(len(words), len(types)) > 1


def header_in_text(text: str, source: str, delimiter: str | None, header: bool | None) -> HeaderPlace:
    """The same of the first lines of a text file; ``above`` and ``below`` count lines, blank ones too."""
    lines = text.split("\n")
    place = _place_in(lines, source, delimiter, header)
    if header is not None:
        return place
    return replace(place, by_one_row=_by_one_line(lines, source, delimiter, place))


def _by_one_line(lines: Sequence[str], source: str, delimiter: str | None, place: HeaderPlace) -> bool:
    """Whether one row of a text file decides where its header is."""
    line = lines[_next(lines, place.above)] if _next(lines, place.above) < len(lines) else ""
    mark = delimiter or place.delimiter or max(DELIMITERS, key=line.count)
    found = _records(lines, mark)
    rows, ends = [row for row, _, _ in found], [0, *(end for _, _, end in found)]
    start = next((k for k, (_, first, _) in enumerate(found) if first > place.above + place.below), len(found))
    if not (place.above or place.below or is_open(rows)):
        return False

    def of_some(kept: Sequence[int]) -> tuple[int, int, str | None, str]:
        some = [line for k in kept for line in lines[ends[k] : ends[k + 1]]]
        own = _place_in(some, source, delimiter, None)
        return own.above, own.below, own.delimiter, own.mark

    return one_row_decides(rows, start, of_some)


def _place_in(lines: Sequence[str], source: str, delimiter: str | None, header: bool | None) -> HeaderPlace:
    start, notes = 0, []
    named = None
    at = _next(lines, 0)
    if at < len(lines) and (found := SEPARATOR.fullmatch(lines[at])):
        start, named = at + 1, found[1]
        notes.append(f"The first line of {source} names the delimiter and is left out.")
    at = comments = _next(lines, start)
    while at < len(lines) and lines[at].lstrip().startswith(COMMENT):
        at = _next(lines, at + 1)
    percent = at < len(lines) and lines[at].lstrip().startswith("%")  # comments of ARFF, and of other tools
    if any(ARFF.match(line) for line in (lines if percent else lines[: at + 1])):
        raise InvalidInputError(f"{source} is an ARFF file, which is not read: save it as CSV.")
    known = delimiter or named
    marks = [known] if known else list(DELIMITERS)
    mark = ""
    if at > comments:
        last = max(k for k in range(comments, at) if lines[k].strip())
        if _is_header(lines[last], lines[at:], marks):
            at, mark = last, COMMENT
        count = sum(1 for line in lines[comments:at] if line.strip())
        if count:
            notes.append(
                f"{_counted(count, 'line')} above the header of {source} begin with {COMMENT} and are left out."
            )
        start = at
    if header is not None or mark:
        return HeaderPlace(start, 0, tuple(notes), named, mark)
    return _with_titles(lines, start, marks, HeaderPlace(start, 0, tuple(notes), named), source)


def _with_titles(
    lines: Sequence[str], start: int, marks: Sequence[str], known: HeaderPlace, source: str
) -> HeaderPlace:
    """The place below titles, for the delimiter that gives the most columns, and without rows that are nobody's."""
    found: list[tuple[int, int, int, int, str]] = []
    for mark in marks:
        records = _records(lines[start:], mark)
        rows = [row for row, _, _ in records]
        titles = _titles(rows)
        width = len(rows[titles]) if rows else 0
        below = _nobodys(rows[titles:])
        if width > 1:
            first, last = records[titles][2], records[titles + below][2]
            above = start + records[titles][1] if titles else known.above
            found.append((width, titles, above, last - first, mark))
    if not found:
        return known
    width, titles, above, gone, mark = max(found, key=lambda each: each[0])
    notes = (*known.notes, *_notes(source, titles, 1 if gone else 0, "line"))
    return HeaderPlace(above, gone, notes, mark if titles and known.delimiter is None else known.delimiter)


def _notes(source: str, above: int, below: int, what: str) -> tuple[str, ...]:
    said = []
    if above:
        is_, a = ("is", "a title") if above == 1 else ("are", "titles")
        said.append(
            f"{_counted(above, what)} above the header of {source} {is_} taken as {a} and left out; `header=True` takes the "
            f"first {what} as names."
        )
    if below:
        said.append(
            f"The first {what} below the header of {source} holds types, units or flags and is left out, with what belongs to "
            f"it; `header=True` takes every {what} below the first as a row."
        )
    return tuple(said)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count > 1)}"


def _next(lines: Sequence[str], start: int) -> int:
    """The next line that is not blank."""
    return next((k for k in range(start, len(lines)) if lines[k].strip("\ufeff \t\r")), len(lines))


def _records(lines: Sequence[str], mark: str) -> list[tuple[list[str], int, int]]:
    """Rows of fields that are not blank, each with the numbers of its first line and of the line after it."""
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=mark)
    found, before = [], 0
    try:
        for row in reader:
            if any(map(str.strip, row)):
                found.append((row, before, reader.line_num))
            before = reader.line_num
            if len(found) > LOOKED_AT:
                break
    except csv.Error:  # what is wrong is said where the rows are read
        return []
    return found


def _is_header(comment: str, lines: Sequence[str], marks: Sequence[str]) -> bool:
    """Whether a comment names the columns: as many names as there are fields below, and the line below it reads like a row."""
    for mark in marks:
        rows = [row for row, _, _ in _records(lines, mark)]
        names = next(csv.reader([comment.lstrip().removeprefix(COMMENT)], delimiter=mark), [])
        if rows and 1 < len(names) == len(rows[0]):
            return reads_as_row(names, rows) < 0 < reads_as_row(rows[0], rows[1:])
    return False


def _titles(rows: Sequence[Sequence[str]]) -> int:
    """How many of the first rows are titles: at most half of their fields are filled, and below them is a header.

    A first row of as many fields as the others might be the header itself: then words must stand above numbers below it.
    """
    widths = Counter(len(row) for row in rows[1:])
    if len(rows) < 1 + FEWEST_BELOW:
        return 0
    width, times = widths.most_common(1)[0]
    some = max(1, width // 2)
    count = next((k for k, row in enumerate(rows) if sum(map(bool, map(str.strip, row))) > some), len(rows))
    if width < 2 or not 0 < count <= MOST_TITLES or 5 * times < 4 * (len(rows) - count):
        return 0
    names, below = rows[count : count + 1], [row for row in rows[count + 1 :] if len(row) == width]
    if not names or len(names[0]) != width or len(below) < 2:
        return 0
    if width == 2 or any(len(row) >= width for row in rows[:count]):
        return count if _words_above_numbers(names[0], below) else 0
    return count if reads_as_row(names[0], below) <= 0 else 0


def _words_above_numbers(names: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    numeric = _numeric(below)
    return bool(numeric) and reads_as_row(names, below) < 0 and all(_is_word(names[j]) for j in numeric)


def _is_word(cell: str) -> bool:
    return any(c.isalpha() for c in cell) and not is_number(cell) and not is_missing(cell)


def _numeric(rows: Sequence[Sequence[str]]) -> list[int]:
    """The columns that hold numbers, at least nine of ten cells that are there."""
    found = []
    for j, column in enumerate(zip(*rows, strict=True)):
        there = [cell for cell in column if not is_missing(cell)]
        if len(there) >= 2 and sum(map(is_number, there)) >= ALMOST * len(there):
            found.append(j)
    return found


def _nobodys(rows: Sequence[Sequence[str]]) -> int:
    """How many rows right below a header are no rows of the table: types and flags, units, names that a tool gave."""
    if len(rows) < 2 + FEWEST_BELOW:
        return 0
    width = len(rows[0])
    first, second, rest = rows[1], rows[2], [row for row in rows[2:] if len(row) == width]
    for count, row in ((1, first), (2, second)):
        filled = [cell.strip() for cell in row if cell.strip()]
        if filled and 2 * sum(cell.lower().startswith(IMPORTED) for cell in filled) >= len(filled):
            return count
    if len(first) != width or len(rest) < FEWEST_BELOW:
        return 0
    if _are_types(first, rest):
        return 2 if all(not cell.strip() or cell.strip().lower() in FLAGS for cell in second) else 1
    numeric = _numeric(rest)
    seen = [{row[j].strip() for row in rest} for j in numeric]
    units = [_is_word(first[j]) and first[j].strip() not in own for j, own in zip(numeric, seen, strict=True)]
    return int(len(units) > 1 and all(units))


def _are_types(row: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether at least two cells, and half of those that are filled, name types, and occur nowhere below.

    Letters may be somebody's values: then all that are filled must name types, and one of them stand above numbers.
    """
    filled = [j for j, cell in enumerate(row) if cell.strip()]
    named = [j for j in filled if row[j].strip().lower() in TYPES]
    again = any(other[j].strip() == row[j].strip() for j in named for other in below)
    if any(len(row[j].strip()) == 1 for j in named):
        again |= len(named) < len(filled) or not set(named) & set(_numeric(below))
    return len(named) > 1 and 2 * len(named) >= len(filled) and not again
