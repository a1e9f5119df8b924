"""Cases of which some are in every run and the others in the long one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["often"]


def often(cases: Iterable[Any], one_in: int = 1000) -> list[Any]:
    """One in so many cases from the first on, or the first alone, for every run; the others are marked as long."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=() if k % one_in == 0 else pytest.mark.long)
        for k, case in enumerate(cases)
    ]
