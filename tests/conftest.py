from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# the same cases everywhere, and no time limit per case on loaded machines
settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The four real data sets; tests that need them skip without."""
    folder = os.environ.get("FISHERLEAK_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("FISHERLEAK_DATA does not point to the real data sets")
    return Path(folder)


def _numpy(x: Any) -> Any:
    return np.asarray(x)


def _read_only(x: Any) -> Any:
    copy = np.array(x)
    copy.flags.writeable = False
    return copy


def _strict(x: Any) -> Any:
    return pytest.importorskip("array_api_strict").asarray(np.asarray(x))


def _torch(x: Any) -> Any:
    return pytest.importorskip("torch").asarray(np.array(x))


@pytest.fixture(params=[_numpy, _read_only, _strict, _torch], ids=["numpy", "read-only", "strict", "torch"])
def to_backend(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Turns a NumPy array into one of each array library."""
    convert: Callable[[Any], Any] = request.param
    convert(np.zeros(1))  # skip early where the library is not installed
    return convert
