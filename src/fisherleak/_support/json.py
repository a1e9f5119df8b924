"""Records as JSON has them."""

from __future__ import annotations

import math
import platform
import sys
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


def versions() -> dict[str, str]:
    """Of what the figures were computed with."""
    packages = ("fisherleak", "numpy", "scipy", "scikit-learn")
    loaded = tuple(name for name in ("pandas", "pyarrow", "dask", "distributed") if name in sys.modules)
    return {**{name: _version(name) for name in (*packages, *loaded)}, "python": platform.python_version()}


_version = cache(version)  # reads and parses a file each time
