"""Records as JSON has them."""

from __future__ import annotations

import math
import platform
import re
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np


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


STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def nested_deeper(text: str, most: int) -> bool:
    """Whether brackets of a JSON text go deeper, before anything is built of them; those in strings do not count."""
    depth = 0
    for bracket in re.finditer(r"[\[\]{}]", STRING.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > most:
            return True
    return False


def versions(packages: Sequence[str] | None = None) -> dict[str, str]:
    """Of what the figures were computed with: of some packages, or of those that are loaded."""
    if packages is None:
        loaded = (name for name in ("pandas", "pyarrow", "dask", "distributed") if name in sys.modules)
        packages = ("fisherleak", "numpy", "scipy", "scikit-learn", *loaded, "python")
    return {name: platform.python_version() if name == "python" else _version(name) for name in packages}


_version = cache(version)  # reads and parses a file each time
