"""CSV files: delimiter, encoding and header found or refused, then read by Arrow."""

from __future__ import annotations

import codecs
import csv as plain_csv
import io
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from fisherleak._support.namespaces import Json
from fisherleak.errors import DataError, InvalidInputError
from fisherleak.tables.read.cell_formats import are_codes, cells_to_codes, may_be_plain, plain_values
from fisherleak.tables.read.first_line import TRAILING, Evidence, codes_below, few_of_codes, fitting_names, row_evidence
from fisherleak.tables.read.header_place import DELIMITERS, HeaderPlace, header_in_text

__all__ = [
    "BLANKS",
    "MISSING",
    "CsvForm",
    "csv_to_parquet",
    "delimiter_of",
    "encoding_of",
    "fields_of",
    "first_line",
    "from_header",
    "read_csv",
]

BLANKS = " "
"""The delimiter of files whose fields are separated by one or more blanks."""
BETWEEN_BLANKS = "Fields are taken to be separated by blanks."
FIELD = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
BLOCK = 2**24
"""Bytes read at a time: one row must fit."""
HEAD = 2**19
"""Bytes in which the first line is compared with the rows below it."""
MISSING = [
    *("", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None", "<NA>"),
    *("-1.#IND", "1.#QNAN", "-1.#QNAN", "1.#IND"),
]
"""Fields that count as missing: those of pandas."""
CELLS: Json = {
    "null_values": MISSING,
    "strings_can_be_null": True,
    "true_values": ["true", "True", "TRUE"],
    "false_values": ["false", "False", "FALSE"],
}
"""How Arrow reads cells: 0 and 1 are numbers, also where one is TRUE."""
GLANCE = 500
"""Cells that tell whether the others are looked at."""
Named = Callable[[list[str], str], tuple[tuple[str, ...], tuple[str, ...]]]
CONVERSION = re.compile(r"In CSV column #(\d+): .*?conversion error to [^:]*:(?: invalid value '(.*)')?", re.DOTALL)
RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")


@dataclass(frozen=True)
class CsvForm:
    """How a CSV file is written, as far as that was said.

    ``header`` is whether its first line names the columns; ``columns`` are names that take the place of those, or are those of
    a file without a header. ``texts`` are columns that stay text, whatever they hold: 007 is not 7 there.
    """

    delimiter: str | None = None
    encoding: str | None = None
    header: bool | None = None
    columns: tuple[str, ...] | None = None
    texts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CsvReading:
    """What was assumed of a CSV file, in sentences, and what few of its cells or rows decide.

    ``near_codes`` is how few cells make numbers of which columns, and not codes; ``by_one_row`` whether one row, or a few,
    decide where the header is, whether there is one, or to which fields its names belong.
    """

    notes: tuple[str, ...]
    near_codes: Mapping[str, int]
    by_one_row: bool


@dataclass(frozen=True)
class _Assumed:
    """How Arrow is to read a file, what was assumed, and what few of its first rows decide.

    ``settled_late`` are columns that may be codes: whether they are is for all of their cells to say.
    """

    options: Json
    notes: tuple[str, ...]
    by_few: bool
    near_codes: Mapping[str, int]
    settled_late: frozenset[str]


def read_csv(file: IO[bytes], source: str, form: CsvForm) -> tuple[Any, CsvReading]:
    """An Arrow table, and how it was read."""
    from pyarrow import csv

    with from_header(file, source, form) as (file, form, place):
        how = _assumed(file, source, form, whole=True)
        with _refusals(source, how.options, place), _with_commas(file, how.options) as lines:
            table = csv.read_csv(lines, **how.options)
            _check_text(table.schema, source, how.options)
    table = table.drop_columns([TRAILING]) if TRAILING in table.column_names else table
    table, near_codes = _settled(table, form.texts, how.settled_late)
    return table, CsvReading((*place.notes, *how.notes), near_codes, place.by_one_row or how.by_few)


def _settled(table: Any, texts: Collection[str], late: Collection[str]) -> tuple[Any, dict[str, int]]:
    """A table whose columns are not text for the sake of a few cells, ``texts`` but; which would be, as codes, without some."""
    import pyarrow as pa
    import pyarrow.compute as pc

    near_codes = {}
    for j, name in enumerate(table.column_names):
        column = table.column(j)
        if name.strip() in texts or not pa.types.is_string(column.type):
            continue
        # of a column that is no text all cells are such: with one that is not, no others are looked at
        some = (
            column.slice(0, GLANCE).drop_null().unique().to_pylist() or column.drop_null().slice(0, GLANCE).to_pylist()
        )
        if name not in late and not all(map(may_be_plain, some)):
            continue
        counts = {each["values"]: each["counts"] for each in pc.value_counts(column.drop_null()).to_pylist()}
        values = plain_values(counts)
        if counts and values is not None:
            encoded = column.combine_chunks().dictionary_encode()
            plain = pa.array([values[text] for text in encoded.dictionary.to_pylist()])
            column = pa.chunked_array([plain.take(encoded.indices)])
        elif name in late and not are_codes(counts):
            column = _as_inferred(column)
        if not pa.types.is_string(column.type):
            table = table.set_column(j, name, column)
            if (cells := cells_to_codes(counts)) is not None:
                near_codes[name] = cells
    return table, near_codes


def _as_inferred(column: Any) -> Any:
    """A column of text with the type that Arrow would have given it: that of all of its different texts."""
    import pyarrow as pa
    from pyarrow import csv

    encoded = column.combine_chunks().dictionary_encode()
    lines = "".join('"' + text.replace('"', '""') + '"\n' for text in encoded.dictionary.to_pylist())
    if not lines:
        return pa.chunked_array([pa.nulls(len(column))])
    read = csv.ReadOptions(column_names=["x"], use_threads=False)
    parse = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
    found = csv.read_csv(
        io.BytesIO(lines.encode()),
        read_options=read,
        parse_options=parse,
        convert_options=csv.ConvertOptions(**CELLS),
    )
    return pa.chunked_array([found.column(0).combine_chunks().take(encoded.indices)])


def csv_to_parquet(file: IO[bytes], source: str, form: CsvForm, path: Path, named: Named) -> CsvReading:
    """The same as a Parquet file, for what does not fit in memory: a few megabytes are held at a time.

    ``named`` gives names to all columns, and sentences about them. The types of columns are those of the first rows; where a
    later row does not fit, or shows codes, the file is read again with a wider one.
    """
    import pyarrow

    with from_header(file, source, form) as (file, form, place):
        how = _assumed(file, source, form, whole=False)
        with _refusals(source, how.options, place), _with_commas(file, how.options) as lines:
            more, kinds = _with_types(lines, source, how.options, path, named)
            late = [name for name, kind in kinds.items() if name in how.settled_late and pyarrow.types.is_integer(kind)]
            cells = _digits_of_all(lines, how.options, late) if late else {}
            codes = [name for name in late if are_codes(cells[name])]
            if codes:
                how.options["convert_options"].column_types = {
                    **how.options["convert_options"].column_types,
                    **dict.fromkeys(codes, pyarrow.string()),
                }
                more, _ = _with_types(lines, source, how.options, path, named)
            near = {**how.near_codes, **{name: cells_to_codes(cells[name]) for name in late}}
            numbers = {name for name, kind in kinds.items() if not pyarrow.types.is_string(kind)} - {*codes}
            known = {name: count for name, count in near.items() if count is not None and name in numbers}
            return CsvReading((*place.notes, *how.notes, *more), known, place.by_one_row or how.by_few)


def _digits_of_all(lines: IO[bytes], options: Json, names: Sequence[str]) -> dict[str, Counter[str]]:
    """How many digits the cells of columns have, and whether they begin with a zero: texts that stand for all such."""
    import pyarrow
    import pyarrow.compute as pc
    from pyarrow import csv

    convert = csv.ConvertOptions(**CELLS, column_types=dict.fromkeys(names, pyarrow.string()), include_columns=names)
    found = {name: Counter[str]() for name in names}
    lines.seek(0)
    with csv.open_csv(lines, **{**options, "convert_options": convert}) as reader:
        for batch in reader:
            for name in names:
                for each in pc.value_counts(batch.column(name).drop_null()).to_pylist():
                    text = each["values"].strip()
                    digits = text.isascii() and text.isdigit()
                    found[name][("0" if text[0] == "0" else "1") * len(text) if digits else "x"] += each["counts"]
    return found


def _with_types(
    lines: IO[bytes], source: str, options: Json, path: Path, named: Named
) -> tuple[tuple[str, ...], Mapping[str, Any]]:
    """Write the rows with types that all of them have, and give back sentences about names, and these types."""
    import pyarrow

    kinds: dict[str, Any] = {}  # of all columns, once the first rows were seen
    wider: dict[str, Any] = dict(options["convert_options"].column_types)
    while True:
        lines.seek(0)
        try:
            return _written(lines, source, options, kinds, wider, path, named), kinds
        except pyarrow.ArrowInvalid as error:
            found = CONVERSION.search(str(error))
            if found is None or int(found[1]) >= len(kinds):
                raise
            name = list(kinds)[int(found[1])]
            if name == TRAILING:
                raise
            if pyarrow.types.is_string(kinds[name]):
                raise InvalidInputError(_badly_encoded(source, options["read_options"].encoding, name)) from None
            wider[name] = kinds[name] = _wider(kinds[name], found[2] or "")


def _wider(kind: Any, field: str) -> Any:
    """The first type after ``kind``, in the order in which Arrow tries them, that a field has."""
    import pyarrow as pa
    from pyarrow import csv

    order = [pa.null(), pa.int64(), pa.bool_(), pa.date32(), pa.time32("s"), pa.timestamp("s"), pa.timestamp("ns")]
    order += [pa.float64(), pa.string()]
    line = io.BytesIO(('"' + field.replace('"', '""') + '"\n').encode("utf-8", "replace"))
    options = {"read_options": csv.ReadOptions(column_names=["x"])}
    for wider in order[order.index(kind) + 1 : -1] if kind in order else ():
        line.seek(0)
        with suppress(pa.ArrowInvalid):
            csv.read_csv(line, convert_options=csv.ConvertOptions(column_types={"x": wider}), **options)
            return wider
    return pa.string()


def _written(
    file: IO[bytes],
    source: str,
    options: Json,
    kinds: Json,
    wider: Json,
    path: Path,
    named: Named,
) -> tuple[str, ...]:
    import pyarrow
    from pyarrow import csv
    from pyarrow.parquet import ParquetWriter

    convert = csv.ConvertOptions(**CELLS, column_types=wider)
    with csv.open_csv(file, **{**options, "convert_options": convert}) as reader:
        _check_text(reader.schema, source, options)
        own = [name for name in reader.schema.names if name != TRAILING]
        names, notes = named(own, source)
        kinds.update(zip(reader.schema.names, reader.schema.types, strict=True))
        schema = pyarrow.schema(list(zip(names, reader.schema.types[: len(own)], strict=True)))
        with ParquetWriter(path, schema) as writer:
            for batch in reader:
                writer.write_batch(pyarrow.RecordBatch.from_arrays(batch.columns[: len(own)], schema=schema))
        return notes


def _assumed(file: IO[bytes], source: str, form: CsvForm, whole: bool) -> _Assumed:
    """How the file is to be read.

    Where the whole table is read, whatever may be codes is text until all of its cells are known.
    """
    import pyarrow
    from pyarrow import csv

    encoding = encoding_of(file, source, form.encoding)
    line = first_line(file, source, encoding)
    chosen, note = delimiter_of(line, source, form.delimiter)
    rows, cut = _first_rows(file, encoding, chosen)
    if chosen == "\t" and form.delimiter is None and _are_between_blanks(rows[1:], len(fields_of(line))):
        chosen, note = BLANKS, (BETWEEN_BLANKS,)
        rows, cut = _first_rows(file, encoding, chosen)
    names, skipped, more, by_few = _names(rows, source, form, fields_of(line) if chosen == "\t" else [], cut)
    coded = codes_below(rows[1:], MISSING, cut)
    named = [*enumerate(names or rows[0])]
    late = {j for j, cells in coded.items() if whole or few_of_codes(cells)}
    codes = {j for j, cells in coded.items() if whole or (are_codes(cells) and j not in late)}
    texts = {name: pyarrow.string() for j, name in named if name.strip() in form.texts or j in codes}
    near = {name: cells for j, name in named if j in coded and (cells := cells_to_codes(coded[j])) is not None}
    if names and names[-1] == TRAILING:
        texts[TRAILING] = pyarrow.null()
    read = {} if names is None else {"column_names": names, "skip_rows": skipped and skipped + _blank_lines(file)}
    options = {
        # one thread, so that rows have numbers
        "read_options": csv.ReadOptions(block_size=BLOCK, encoding=encoding, use_threads=False, **read),
        "parse_options": csv.ParseOptions(delimiter=chosen, newlines_in_values='"' in line or _quoted(file)),
        "convert_options": csv.ConvertOptions(**CELLS, column_types=texts),
    }
    near = {name: near[name] for j, name in named if name in near and j not in codes}
    return _Assumed(options, (*note, *more), by_few, near, frozenset(name for j, name in named if j in late))


@contextmanager
def _with_commas(file: IO[bytes], options: Json) -> Iterator[IO[bytes]]:
    """The same file; where fields are separated by blanks, a copy with commas in their place."""
    if options["parse_options"].delimiter != BLANKS:
        yield file
        return
    encoding = options["read_options"].encoding
    with tempfile.TemporaryFile() as copy:
        text = io.TextIOWrapper(copy, encoding="utf-8", newline="", write_through=True)
        writer = plain_csv.writer(text)
        lines = io.TextIOWrapper(file, encoding=encoding)
        for line in lines:
            if line.strip("\ufeff \t\r\n"):
                writer.writerow(fields_of(line))
        lines.detach()
        text.detach()
        copy.seek(0)
        options["parse_options"].delimiter = ","
        options["read_options"].encoding = "utf-8"
        options["read_options"].skip_rows = min(options["read_options"].skip_rows, 1)  # blank lines are gone
        yield copy


def fields_of(line: str) -> list[str]:
    """The fields of a line between blanks; a quoted one may hold blanks."""
    found = FIELD.finditer(line.strip("\ufeff"))
    return [bare if bare is not None else quoted.replace('""', '"') for quoted, bare in (m.groups() for m in found)]


def _are_between_blanks(below: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the rows below a header with tabs have none, and between blanks as many fields as it has names."""
    return bool(below) and all(len(row) == 1 and len(fields_of(row[0])) == width for row in below)


def _names(
    rows: Sequence[Sequence[str]], source: str, form: CsvForm, between_blanks: Sequence[str], cut: bool
) -> tuple[list[str] | None, int, tuple[str, ...], bool]:
    """Names in place of those in the first line, how many lines they replace, what was assumed, and whether few rows decide it.

    No names keep that line.
    """
    if not rows:
        raise InvalidInputError(f"{source} has a header and no rows: there is nothing to learn from.")
    fitting = fitting_names(rows, source, form.header, form.columns, between_blanks)
    first, trailing, note, by_few = fitting.names, fitting.trailing, fitting.note, fitting.by_few
    if form.columns is not None and len(form.columns) != len(first):
        raise InvalidInputError(
            f"`columns` gives {len(form.columns)} names, and {source} has {len(first)} columns: name each of them."
        )
    evidence = Evidence(0, frozenset({0}))
    if form.header is None:
        evidence = row_evidence(first, [row[: len(first)] for row in rows[1:]], cut)
    if form.columns is not None:
        if evidence.now < 0:
            raise InvalidInputError(
                f"The first line of {source} looks like a header, and `columns` gives names too. With `header=True` the "
                "names of `columns` replace that line; with `header=False` that line is a row."
            )
        return [*form.columns, *trailing], int(form.header is True), (), by_few or min(evidence.left) < 0
    if form.header is False:
        note = f"{source} was read without a header, so that its columns are called by their place."
        return [f"column {j + 1}" for j in range(len(first))], 0, (note,), False
    if evidence.now > 0:  # without a word of that line: it is somebody's row
        raise InvalidInputError(
            f"{source} seems to have no header: its first line reads like a row. Name the columns with `columns`, or read it "
            "with `header=False`; `header=True` takes that line as names all the same."
        )
    by_few |= max(evidence.left) > 0
    return ([*first, *trailing], 1, (note,), by_few) if note else (None, 0, (), by_few)


@contextmanager
def from_header(file: IO[bytes], source: str, form: CsvForm) -> Iterator[tuple[IO[bytes], CsvForm, HeaderPlace]]:
    """The same file from its header on, its form as far as it is known, and which lines are gone.

    Where lines are left out it is a copy in UTF-8.
    """
    encoding = encoding_of(file, source, form.encoding)
    given = None if form.delimiter is None else _one_character(form.delimiter)
    header = False if form.header is None and form.columns is not None else form.header
    head = file.read(HEAD)
    file.seek(0)
    text = head.decode(encoding, errors="replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    place = header_in_text(text, source, given, header)
    form = replace(form, delimiter=form.delimiter or place.delimiter)
    gone = place.above + place.below
    if not gone and not place.mark:
        yield file, form, place
        return
    with tempfile.TemporaryFile() as copy:
        try:
            _copy_from(place, file, encoding, copy)
        except UnicodeError:
            raise InvalidInputError(_badly_encoded(source, encoding, None)) from None
        yield copy, replace(form, encoding="utf-8"), place


def _copy_from(place: HeaderPlace, file: IO[bytes], encoding: str, copy: IO[bytes]) -> None:
    lines = io.TextIOWrapper(file, encoding=encoding, newline="")
    for k, line in enumerate(lines):
        if k == place.above:
            copy.write(line.removeprefix("\ufeff").lstrip().removeprefix(place.mark).encode())
        elif k > place.above + place.below:
            copy.write(line.encode())
    lines.detach()
    copy.seek(0)


def _first_rows(file: IO[bytes], encoding: str, delimiter: str) -> tuple[list[list[str]], bool]:
    """The fields of the first lines that are not blank, and whether there are others."""
    head = file.read(HEAD)
    whole = len(head) < HEAD
    file.seek(0)
    text = head.decode(encoding, errors="replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if delimiter == BLANKS:
        rows = [fields_of(line) for line in text.split("\n") if line.strip()]
        return (rows if whole or len(rows) < 3 else rows[:-1]), not whole
    try:
        rows = [row for row in plain_csv.reader(io.StringIO(text), delimiter=delimiter) if any(map(str.strip, row))]
    except plain_csv.Error:  # Arrow says what is wrong
        rows = [next(plain_csv.reader([text.lstrip().split("\n", 1)[0][:1000]], delimiter=delimiter))]
    return (rows if whole or len(rows) < 3 else rows[:-1]), not whole  # the last may be cut


def _blank_lines(file: IO[bytes]) -> int:
    """Blank lines before the first that is not."""
    head = file.read(HEAD)
    file.seek(0)
    lines = head.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return next((k for k, line in enumerate(lines) if line.strip(b"\xef\xbb\xbf \t")), 0)


@contextmanager
def _refusals(source: str, options: Json, place: HeaderPlace) -> Iterator[None]:
    """Turns complaints about a file into one sentence; lines beside its header are not counted by Arrow."""
    import pyarrow

    encoding = options["read_options"].encoding
    try:
        yield
    except UnicodeError:
        raise InvalidInputError(_badly_encoded(source, encoding, None)) from None
    except pyarrow.ArrowInvalid as error:
        above = place.above + place.below
        raise _refusal(error, source, options["parse_options"].delimiter, encoding, above) from None
    except MemoryError:
        raise
    except pyarrow.ArrowException as error:
        raise DataError(f"{source} cannot be read as CSV: {str(error).splitlines()[0][:120]}.") from None


def _check_text(schema: Any, source: str, options: Json) -> None:
    binary = [name for name, kind in zip(schema.names, schema.types, strict=True) if _is_bytes(kind)]
    if binary:
        raise InvalidInputError(_badly_encoded(source, options["read_options"].encoding, binary[0]))


def _is_bytes(kind: Any) -> bool:
    import pyarrow.types

    return bool(pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind))


def _quoted(file: IO[bytes]) -> bool:
    """Whether there are quotes early on, so that rows may span lines."""
    head = file.read(BLOCK)
    file.seek(0)
    return b'"' in head


def encoding_of(file: IO[bytes], source: str, given: str | None) -> str:
    """The encoding that was given, if Python knows it, or UTF-8; what is no such text is refused."""
    if given is not None:
        try:
            # refuses encodings that are not of text, and those that take no damage: idna
            known = "x".encode(given).decode(given, errors="replace") == "x"
        except (LookupError, ValueError):
            known = False
        if not known:
            raise InvalidInputError(
                f"encoding must be one of text that Python knows, such as utf-8 or latin-1; got {given!r}."
            )
        return given
    head = file.read(4096)
    file.seek(0)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InvalidInputError(f"{source} is encoded in UTF-16: read it with `encoding='utf-16'`.")
    if b"\x00" in head:
        raise InvalidInputError(
            f"{source} holds binary data, which is neither CSV nor Parquet: save it as one of these."
        )
    return "utf-8"


def first_line(file: IO[bytes], source: str, encoding: str) -> str:
    """The first line that is not blank: the header."""
    head = file.read(BLOCK)
    file.seek(0)
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeError:
        # the damage may lie in the rows: whether it matters is for the reader to say
        text = head.replace(b"\r", b"\n").split(b"\n", 1)[0].decode(encoding, errors="replace")
    lines = (line for line in text.replace("\r", "\n").split("\n") if line.strip("\ufeff \t"))
    first = next(lines, "")
    if not first:
        raise InvalidInputError(f"{source} holds blank lines only: a table needs a header and rows.")
    return first.removeprefix("\ufeff")


def delimiter_of(line: str, source: str, given: str | None) -> tuple[str, tuple[str, ...]]:
    """The delimiter, and a sentence where it was not given and is not a comma."""
    counts = {mark: line.count(mark) for mark in DELIMITERS}
    best = max(counts, key=lambda mark: counts[mark])
    if given is not None:
        given = _one_character(given)
        if given not in line and counts[best] > 0:
            raise InvalidInputError(
                f"{source} has no {given!r} in its header, which has {counts[best]} of {best!r}: use `delimiter={best!r}`."
            )
        return given, ()
    if counts[best] == 0 and len(fields_of(line)) > 1:
        return BLANKS, (BETWEEN_BLANKS,)
    if counts[best] == 0:
        raise InvalidInputError(
            f"{source} has one column only, or an unusual delimiter: a table needs a target and another column, "
            "and `delimiter` names the delimiter."
        )
    return best, () if best == "," else (f"Fields are taken to be separated by {DELIMITERS[best]}s.",)


def _one_character(given: str) -> str:
    mark = {"\\t": "\t", "tab": "\t"}.get(given, given)
    if len(mark) != 1 or mark in '\r\n"' or not mark.isascii():
        raise InvalidInputError(f"delimiter must be one character, such as ';' or tab; got {given!r}.")
    return mark


def _refusal(error: Exception, source: str, delimiter: str, encoding: str, above: int) -> InvalidInputError:
    text = str(error)
    if "conversion error to null" in text:
        return InvalidInputError(
            f"{source} has rows with one field more than its header has names; that field is empty in the first rows only. "
            "Name the columns with `columns` and `header=True`, or mend these rows."
        )
    ragged = RAGGED.search(text)
    if ragged:
        line, expected, actual = ragged.groups()
        where = "a row" if line is None else f"line {int(line) + above}"
        return InvalidInputError(
            f"{source} has {actual} field{'s' * (actual != '1')} in {where} where its header has {expected}: mend that row, "
            f"or name the delimiter with `delimiter` (taken: {delimiter!r})."
        )
    if "UTF8" in text or "utf-8" in text:
        return InvalidInputError(_badly_encoded(source, encoding, None))
    if "straddl" in text or ("block" in text and "size" in text):
        return InvalidInputError(
            f"{source} has a row of more than {BLOCK // 2**20} MiB, which no table has: is a quote left open, or is "
            "the delimiter another one?"
        )
    return InvalidInputError(f"{source} cannot be read as CSV: {text.splitlines()[0][:120]}.")


def _badly_encoded(source: str, encoding: str, column: str | None) -> str:
    where = "" if column is None else f" in column '{column[:80]}'"
    return f"{source} is not encoded in {encoding}{where}: name its encoding, such as `encoding='latin-1'`."
