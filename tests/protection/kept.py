"""What a released object must not hold."""

from __future__ import annotations

from typing import Any

import numpy as np


def numbers_in(values: dict[str, Any]) -> set[float]:
    found: set[float] = set()
    for value in values.values():
        if isinstance(value, dict):
            found |= numbers_in(value)
        elif isinstance(value, (float, np.ndarray)) and np.asarray(value).dtype.kind == "f":
            found |= {float(x) for x in np.ravel(value)}
    return found
