"""Small tables and the kinds of their columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pyarrow as pa

from fisherleak.tables import Choices, RawTable, from_frame
from fisherleak.tables.decide.column_kinds import decide
from fisherleak.tables.decide.profile import profiles_of


def kinds(table: Any, **choices: Any) -> dict[str, str]:
    raw, said = table if isinstance(table, RawTable) else from_frame(table), Choices("y", **choices)
    return {c.name: c.kind for c in decide(raw, profiles_of(raw, said, False), said)}


def many(**columns: Any) -> pa.Table:
    return pa.table({**columns, "y": np.arange(60.0)})
