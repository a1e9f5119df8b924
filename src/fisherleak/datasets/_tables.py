"""Reading published tables with pandas, in one sentence where they are damaged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fisherleak.errors import DataError, FisherleakError

if TYPE_CHECKING:
    import pandas

__all__ = ["parse_csv"]


def parse_csv(source: Any, path: Path, columns: list[str], **options: Any) -> pandas.DataFrame:
    """A CSV table with these columns, by its header or, with ``names=``, by position."""
    try:
        import pandas
    except ImportError:
        raise FisherleakError("This data set is a table and needs pandas: pip install 'fisherleak[frames]'.") from None
    try:
        table: pandas.DataFrame = pandas.read_csv(source, **options)
    except (ValueError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is no table of the published form ({' '.join(str(error).split())}).") from None
    if list(table.columns) != columns:
        raise DataError(f"{path} has the columns {list(table.columns)[:12]}; published are {columns}.")
    empty = table.columns[table.isna().any()]
    if len(empty) or not len(table):
        where = f"column '{empty[0]}', row {int(table[empty[0]].isna().argmax())}" if len(empty) else "all of it"
        raise DataError(f"{path} is incomplete: {where} is empty.")
    return table
