"""Arrow columns as NumPy arrays: numbers with NaN where missing, categories as codes with -1 where missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Coded",
    "as_codes",
    "as_numbers",
    "as_text",
    "is_nested",
    "level_counts",
    "missing_in",
    "places",
    "schema_without_halves",
    "without_halves",
]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Coded:
    """A category: the place of each row's value in ``levels``, -1 where it is missing."""

    codes: NDArray[np.int32]
    levels: tuple[Any, ...]


def as_numbers(values: Any) -> Vector:
    """Float64 with NaN for what is missing; text that is no number counts as missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if pa.types.is_dictionary(kind):
        values = values.cast(kind.value_type)
        kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        import pandas

        parsed = pandas.to_numeric(values.to_pandas().astype(object), errors="coerce")
        return np.asarray(parsed, dtype=np.float64)
    if pa.types.is_boolean(kind):
        values = values.cast(pa.uint8())
    numbers = pc.cast(values, pa.float64(), safe=False)
    return np.asarray(numbers.to_numpy() if numbers.num_chunks else np.empty(0), dtype=np.float64)


def schema_without_halves(schema: Any) -> Any:
    """A schema with numbers of 16 bits as numbers of 32: Arrow computes nothing with the former."""
    import pyarrow as pa

    for k, kind in enumerate(schema.types):
        if pa.types.is_float16(kind):
            schema = schema.set(k, schema.field(k).with_type(pa.float32()))
    return schema


def without_halves(table: Any) -> Any:
    """The same of a table."""
    for k, field in enumerate(schema_without_halves(table.schema)):
        if table.schema.field(k).type != field.type:
            table = table.set_column(k, field, table.column(k).cast(field.type))
    return table


def is_nested(values: Any) -> bool:
    """Whether cells are lists or records."""
    import pyarrow as pa

    return bool(pa.types.is_nested(values.type))


def as_codes(values: Any) -> Coded:
    """Codes and sorted levels; the levels keep their type, so that text is text and true is true."""
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = _levels(values).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    levels = encoded.dictionary.to_pylist()
    order = sorted(range(len(levels)), key=lambda k: levels[k])
    rank = np.empty(len(levels) + 1, dtype=np.int32)
    rank[order] = np.arange(len(levels))
    rank[-1] = -1
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    return Coded(rank[codes], tuple(levels[k] for k in order))


def level_counts(values: Any, most: int) -> dict[Any, int] | None:
    """How often each value occurs, or None where there are more than ``most``."""
    import pyarrow.compute as pc

    for some in (values.slice(0, 2 * most), values):
        found = pc.value_counts(_levels(some).drop_null())
        if len(found) > most:
            return None
    return dict(zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True))


def places(values: Any, levels: tuple[Any, ...]) -> NDArray[np.int32]:
    """The place of every row's value among given levels, -1 for others and for what is missing."""
    coded = as_codes(values)
    known = {level: k for k, level in enumerate(levels)}
    place = np.array([known.get(level, -1) for level in coded.levels] + [-1], dtype=np.int32)
    return place[coded.codes]


def missing_in(values: Any) -> NDArray[np.bool_]:
    """Where a category has no value."""
    import pyarrow.compute as pc

    return np.asarray(pc.is_null(_levels(values)).to_numpy(), dtype=bool)


def _levels(values: Any) -> Any:
    """A column with the values that its levels have: null for NaN, text for dates and decimals."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    if pa.types.is_temporal(values.type) or pa.types.is_decimal(values.type):
        values = pc.cast(values, pa.string())
    return values


def as_text(values: Any) -> NDArray[Any]:
    """Every value as text, for identifiers."""
    return np.array([str(value) for value in values.to_pylist()], dtype=object)
