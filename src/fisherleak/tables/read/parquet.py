"""Parquet files in parts: found by a pattern, checked by their footers, read some row groups at a time.

Paths are local, or addresses that fsspec knows (``s3://…``). Every refusal names the file.
"""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Self

from fisherleak.errors import DataError, FisherleakError, InvalidInputError

__all__ = ["ParquetPart", "checksum", "opened", "parquet_files", "parquet_parts"]

PART_BYTES = 2**26
"""Bytes of a part before it is cut at the next row group: a worker holds several at once."""
CHUNK = 2**22
"""Bytes that are read or copied at a time."""


@dataclass(frozen=True)
class ParquetPart:
    """Some row groups of one file, or ``rows`` rows of them from ``offset`` on.

    ``sizes`` are the groups' rows; ``first_row`` counts in the file, ``start`` in all files. ``kinds`` are the types of columns
    that other files have with another one.
    """

    url: str
    groups: tuple[int, ...]
    sizes: tuple[int, ...]
    first_row: int
    start: int
    rows: int
    offset: int = 0
    kinds: tuple[tuple[str, Any], ...] = ()

    def read(self, names: Sequence[str]) -> Any:
        """These columns as an Arrow table."""
        with opened(self.url) as file:
            table = file.read_row_groups(list(self.groups), columns=list(names)).select(list(names))
        from fisherleak.tables.read.arrow_columns import without_halves  # names of columns are completed without NumPy

        table = without_halves(table)
        for name, kind in self.kinds:
            if name in names:
                table = table.set_column(list(names).index(name), name, table.column(name).cast(kind, safe=False))
        return table if self.rows == sum(self.sizes) else table.slice(self.offset, self.rows)

    def finer(self, most: int) -> Iterator[Self]:
        """The same rows in parts of at most ``most``: of fewer row groups, or, where one is larger, of slices of it."""
        before = -self.offset  # rows of the part that are above the group
        for group, size in zip(self.groups, self.sizes, strict=True):
            low, high = max(0, -before), min(size, self.rows - before)
            count = -(-(high - low) // most)
            for k in range(count):
                offset, end = (low + j * (high - low) // count for j in (k, k + 1))
                yield replace(
                    self,
                    groups=(group,),
                    sizes=(size,),
                    first_row=self.first_row + before + offset,
                    start=self.start + before + offset,
                    rows=end - offset,
                    offset=offset,
                )
            before += size

    def shorter(self, count: int) -> Self:
        """Without its last rows."""
        return replace(self, rows=self.rows - count)


def parquet_files(pattern: str | Sequence[str]) -> list[str]:
    """The files of a folder, a pattern, or a list of these; in the order of their names, numbers counted as numbers."""
    alone = isinstance(pattern, str) or not isinstance(pattern, Sequence)
    urls = [url for each in ([pattern] if alone else pattern) for url in _matching(str(each))]
    if not urls:
        raise DataError(
            f"No Parquet file matches '{pattern}': give a file, a folder with files *.parquet in it (folders inside are not "
            "read), or a pattern such as 'folder/*/*.parquet'."
        )
    return sorted(urls, key=_natural) if alone else urls


def _matching(pattern: str) -> list[str]:
    if "://" not in pattern:
        path = Path(pattern).absolute()  # workers of a cluster may stand elsewhere
        if path.is_dir():
            return [str(file) for file in path.glob("*.parquet")]
        return [str(path)] if path.exists() or not glob.has_magic(pattern) else glob.glob(str(path))  # noqa: PTH207
    fsspec = _fsspec()
    try:
        system, path = fsspec.url_to_fs(pattern)
        if glob.has_magic(path):
            found = system.glob(path)
        else:
            found = system.glob(path.rstrip("/") + "/*.parquet") if system.isdir(path) else [path]
    except (ImportError, OSError, ValueError) as error:
        raise DataError(f"{pattern} cannot be opened ({_short(error)}).") from None
    return [system.unstrip_protocol(name) for name in found]


def _natural(name: str) -> list[Any]:
    return [(0, int(piece), "") if piece.isdecimal() else (1, 0, piece) for piece in re.split(r"(\d+)", name)]


def _fsspec() -> Any:
    try:
        import fsspec
    except ImportError:
        raise FisherleakError("Reading from addresses needs fsspec: pip install 'fisherleak[cluster]'.") from None
    return fsspec


def parquet_parts(urls: Sequence[str]) -> tuple[Any, list[ParquetPart]]:
    """The schema that all files have, and their parts. Only footers are read."""
    schemas: list[Any] = []
    parts: list[list[ParquetPart]] = []
    start = 0
    for url in urls:
        schema, found = _footer(url, start)
        schemas.append(schema)
        _check_schema(urls[0], schemas[0], url, schema)
        parts.append(found)
        start += sum(part.rows for part in found)
    common = _common(schemas)
    for k, schema in enumerate(schemas):
        other = tuple((f.name, f.type) for f in common if len(urls) > 1 and schema.field(f.name).type != f.type)
        parts[k] = [replace(part, kinds=other) for part in parts[k]] if other else parts[k]
    return common, [part for found in parts for part in found]


def _common(schemas: Sequence[Any]) -> Any:
    """The first schema, with types that hold the values of all files."""
    import pyarrow as pa

    first = schemas[0]
    if len(schemas) == 1 or len(set(first.names)) < len(first.names):
        return first
    fields = []
    for name in first.names:
        kinds = {str(schema.field(name).type): schema.field(name).type for schema in schemas}
        kinds.pop("null", None)
        fields.append(pa.field(name, _joined(list(kinds.values()))))
    return pa.schema(fields)


def _joined(kinds: list[Any]) -> Any:
    import pyarrow as pa

    if len(kinds) < 2:
        return kinds[0] if kinds else pa.null()
    if _kind(kinds[0]) == "text":
        return pa.string()
    whole = all(pa.types.is_integer(kind) and kind != pa.uint64() for kind in kinds)
    return pa.int64() if whole else pa.float64() if _kind(kinds[0]) == "number" else kinds[0]


def _footer(url: str, start: int) -> tuple[Any, list[ParquetPart]]:
    """A file's schema and its parts."""
    with opened(url) as file:
        parts: list[ParquetPart] = []
        groups: list[int] = []
        sizes: list[int] = []
        bytes_so_far = first = 0
        count = file.metadata.num_row_groups
        for k in range(count):
            group = file.metadata.row_group(k)
            groups.append(k)
            sizes.append(group.num_rows)
            bytes_so_far += group.total_byte_size
            after = file.metadata.row_group(k + 1).total_byte_size if k + 1 < count else 0
            if k + 1 == count or bytes_so_far + after > PART_BYTES:
                if sum(sizes):
                    parts.append(ParquetPart(url, tuple(groups), tuple(sizes), first, start + first, sum(sizes)))
                first += sum(sizes)
                groups, sizes, bytes_so_far = [], [], 0
        from fisherleak.tables.read.arrow_columns import schema_without_halves

        return schema_without_halves(file.schema_arrow), parts


@contextmanager
def opened(url: str) -> Iterator[Any]:
    """A Parquet file, open; what goes wrong inside names the file."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    stream = _stream(url)
    try:
        if stream.read(4) != b"PAR1":
            raise DataError(f"{url} is no Parquet file: give one that is, or leave it out.")
        stream.seek(0)
        yield ParquetFile(stream)
    except FisherleakError:
        raise
    except (pyarrow.ArrowException, OSError, EOFError) as error:
        raise DataError(f"{url} is a damaged Parquet file ({_short(error)}): get it again, or leave it out.") from None
    finally:
        stream.close()


def _stream(url: str) -> Any:
    import pyarrow

    try:
        return _fsspec().open(url, "rb").open() if "://" in url else pyarrow.OSFile(url, "rb")
    except FisherleakError:
        raise
    except (OSError, pyarrow.ArrowException) as error:
        reason = getattr(error, "strerror", None) or _short(error)
        if isinstance(error, FileNotFoundError):
            reason = "there is no such file"
        raise DataError(
            f"{url} cannot be opened ({reason}): check the name, and that all workers of a cluster see it."
        ) from None


def checksum(url: str) -> str:
    """SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    stream = _stream(url)
    try:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    finally:
        stream.close()
    return digest.hexdigest()


def _check_schema(first_url: str, first: Any, url: str, schema: Any) -> None:
    """The same columns, of the same kind."""
    lacks = [name for name in first.names if name not in schema.names]
    extra = [name for name in schema.names if name not in first.names]
    if lacks or extra:
        what = f"lacks column '{lacks[0]}'" if lacks else f"has column '{extra[0]}', which others lack"
        raise InvalidInputError(
            f"{url} {what}: all files must have the columns of {PurePosixPath(first_url).name}. Write it again, or leave "
            "it out."
        )
    for name in dict.fromkeys(first.names):
        if schema.get_field_index(name) < 0 or first.get_field_index(name) < 0:
            continue  # a name that occurs twice is refused where columns are asked for
        wanted, got = first.field(name).type, schema.field(name).type
        if _kind(wanted) != _kind(got) and "null" not in (_kind(wanted), _kind(got)):
            raise InvalidInputError(
                f"{url} has type {got} in column '{name}', which has type {wanted} in {PurePosixPath(first_url).name}: write "
                "it again with the same type, or leave the file out."
            )


def _kind(dtype: Any) -> str:
    from pyarrow import types

    if types.is_boolean(dtype) or types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        return "number"
    if types.is_string(dtype) or types.is_large_string(dtype) or types.is_dictionary(dtype):
        return "text"
    return str(dtype)


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
