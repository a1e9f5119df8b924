"""CSV files: delimiter and encoding found or refused, then read by Arrow."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from fisherleak._support.namespaces import Json
from fisherleak.errors import DataError, InvalidInputError

__all__ = ["csv_to_parquet", "delimiter_of", "encoding_of", "first_line", "read_csv"]

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
BLOCK = 2**24
"""Bytes read at a time: one row must fit."""
MISSING = [
    *("", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None", "<NA>"),
    *("-1.#IND", "1.#QNAN", "-1.#QNAN", "1.#IND"),
]
"""Fields that count as missing: those of pandas."""
Named = Callable[[list[str], str], tuple[tuple[str, ...], tuple[str, ...]]]
CONVERSION = re.compile(r"In CSV column #(\d+): .*?conversion error to [^:]*:(?: invalid value '(.*)')?", re.DOTALL)
RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")


def read_csv(file: IO[bytes], source: str, delimiter: str | None, encoding: str | None) -> tuple[Any, tuple[str, ...]]:
    """An Arrow table and what was assumed, in sentences."""
    from pyarrow import csv

    options, note = _options(file, source, delimiter, encoding)
    with _refusals(source, options):
        table = csv.read_csv(file, **options)
        _check_text(table.schema, source, options)
    return table, note


def csv_to_parquet(
    file: IO[bytes], source: str, delimiter: str | None, encoding: str | None, path: Path, named: Named
) -> tuple[str, ...]:
    """The same as a Parquet file, for what does not fit in memory: a few megabytes are held at a time.

    ``named`` gives names to all columns, and sentences about them. The types of columns are those of the first rows; where a
    later row does not fit, the file is read again with a wider one.
    """
    import pyarrow

    options, note = _options(file, source, delimiter, encoding)
    kinds: dict[str, Any] = {}  # of all columns, once the first rows were seen
    wider: dict[str, Any] = {}
    with _refusals(source, options):
        while True:
            file.seek(0)
            try:
                return (*note, *_written(file, source, options, kinds, wider, path, named))
            except pyarrow.ArrowInvalid as error:
                found = CONVERSION.search(str(error))
                if found is None or int(found[1]) >= len(kinds):
                    raise
                name = list(kinds)[int(found[1])]
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

    convert = csv.ConvertOptions(null_values=MISSING, strings_can_be_null=True, column_types=wider)
    with csv.open_csv(file, **{**options, "convert_options": convert}) as reader:
        _check_text(reader.schema, source, options)
        names, notes = named(reader.schema.names, source)
        kinds.update(zip(reader.schema.names, reader.schema.types, strict=True))
        schema = pyarrow.schema(list(zip(names, reader.schema.types, strict=True)))
        with ParquetWriter(path, schema) as writer:
            for batch in reader:
                writer.write_batch(pyarrow.RecordBatch.from_arrays(batch.columns, schema=schema))
        return notes


def _options(file: IO[bytes], source: str, delimiter: str | None, encoding: str | None) -> tuple[Json, tuple[str, ...]]:
    """How Arrow is to read the file, and what was assumed."""
    from pyarrow import csv

    encoding = encoding_of(file, source, encoding)
    line = first_line(file, source, encoding)
    chosen, note = delimiter_of(line, source, delimiter)
    options = {
        # one thread, so that rows have numbers
        "read_options": csv.ReadOptions(block_size=BLOCK, encoding=encoding, use_threads=False),
        "parse_options": csv.ParseOptions(delimiter=chosen, newlines_in_values='"' in line or _quoted(file)),
        "convert_options": csv.ConvertOptions(null_values=MISSING, strings_can_be_null=True),
    }
    return options, note


@contextmanager
def _refusals(source: str, options: Json) -> Iterator[None]:
    """Turns complaints about a file into one sentence."""
    import pyarrow

    encoding = options["read_options"].encoding
    try:
        yield
    except UnicodeError:
        raise InvalidInputError(_badly_encoded(source, encoding, None)) from None
    except pyarrow.ArrowInvalid as error:
        raise _refusal(error, source, options["parse_options"].delimiter, encoding) from None
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
            known = "x".encode(given) is not None  # refuses encodings that are not of text
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
        given = {"\\t": "\t", "tab": "\t"}.get(given, given)
        if len(given) != 1 or given in '\r\n"' or not given.isascii():
            raise InvalidInputError(f"delimiter must be one character, such as ';' or tab; got {given!r}.")
        if given not in line and counts[best] > 0:
            raise InvalidInputError(
                f"{source} has no {given!r} in its header, which has {counts[best]} of {best!r}: use `delimiter={best!r}`."
            )
        return given, ()
    if counts[best] == 0:
        raise InvalidInputError(
            f"{source} has one column only, or an unusual delimiter: a table needs a target and another column, "
            "and `delimiter` names the delimiter."
        )
    return best, () if best == "," else (f"Fields are taken to be separated by {DELIMITERS[best]}s.",)


def _refusal(error: Exception, source: str, delimiter: str, encoding: str) -> InvalidInputError:
    text = str(error)
    ragged = RAGGED.search(text)
    if ragged:
        line, expected, actual = ragged.groups()
        where = "a row" if line is None else f"line {line}"
        return InvalidInputError(
            f"{source} has {actual} field{'s' * (actual != '1')} in {where} where its header has {expected}: mend that row, "
            f"or name the delimiter with `delimiter` (taken: {delimiter!r})."
        )
    if "UTF8" in text or "utf-8" in text:
        return InvalidInputError(_badly_encoded(source, encoding, None))
    if "straddl" in text or ("block" in text and "size" in text):
        return InvalidInputError(
            f"{source} has a row of more than {BLOCK // 2**20} MiB, which no table has: is a quote left open, or the "
            "delimiter another?"
        )
    return InvalidInputError(f"{source} cannot be read as CSV: {text.splitlines()[0][:120]}.")


def _badly_encoded(source: str, encoding: str, column: str | None) -> str:
    where = "" if column is None else f" in column '{column[:80]}'"
    return f"{source} is not encoded in {encoding}{where}: name its encoding, such as `encoding='latin-1'`."
