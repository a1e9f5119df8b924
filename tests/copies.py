"""Copies that should be as good as the original."""

from __future__ import annotations

import copy
import pickle
from typing import Any


def copies(thing: Any) -> list[Any]:
    """Through a pickle, and a deep copy."""
    return [pickle.loads(pickle.dumps(thing)), copy.deepcopy(thing)]  # noqa: S301 - our own bytes
