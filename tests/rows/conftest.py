from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rows.lazy import Computes


@pytest.fixture
def computes() -> Iterator[Computes]:
    dask = pytest.importorskip("dask")
    from rows.lazy import Computes

    counter = Computes()
    with dask.config.set(scheduler=counter):
        yield counter
