"""Records as JSON has them."""

from __future__ import annotations

import math
import platform
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np

__all__ = ["plain", "versions"]


def plain(value: Any) -> Any:
    """JSON types only: NumPy's become Python's, what is not finite becomes None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value if value is None else str(value)


@cache
def versions() -> dict[str, str]:
    """Of what the figures were computed with."""
    packages = ("fisherleak", "numpy", "scipy", "scikit-learn")
    return {**{name: version(name) for name in packages}, "python": platform.python_version()}
