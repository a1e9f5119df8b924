from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from steady import steady

# the same cases everywhere, and no time limit per case on loaded machines
settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


@pytest.fixture(autouse=True)
def steady_chance(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test must end the same way each time it runs.

    A module that tests the system's randomness itself has a fixture of this name that does nothing.
    """
    with steady(request.node.nodeid):
        yield


@pytest.fixture(autouse=True, scope="session")
def unhurried() -> Iterator[None]:
    """What is printed does not depend on how busy a machine is: no stage takes long."""
    from fisherleak._support import progress

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "FIRST", 1e6)
        yield


@pytest.fixture(scope="module")
def quick_audits() -> Iterator[None]:
    """Where something else is tested: the ideal attacker learns without trees, and few refits are made, but those of the
    worst shares, and few in the search for the worst row within the bounds.
    """
    from fisherleak.attacks import population_attacker
    from fisherleak.engine.beliefs import mean_squares
    from fisherleak.protection.certificates import worst_record

    learners = population_attacker._learners

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(population_attacker, "_learners", lambda *given: learners(*given)[-1:])
        patch.setattr(mean_squares, "WORK", 2**18)
        patch.setattr(worst_record, "MOST", 12)
        yield


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


def _elsewhere(x: Any) -> Any:
    """On array-api-strict's second device, from which nothing reaches NumPy unasked."""
    strict = pytest.importorskip("array_api_strict")
    if not hasattr(strict, "Device"):
        pytest.skip("this array-api-strict has one device only")
    return strict.asarray(np.asarray(x), device=strict.Device("device1"))


def _torch(x: Any) -> Any:
    return pytest.importorskip("torch").asarray(np.array(x))


def _torch_cuda(x: Any) -> Any:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no GPU here")
    return torch.asarray(np.array(x), device="cuda")


def _cupy(x: Any) -> Any:
    return pytest.importorskip("cupy").asarray(np.asarray(x))


def _dask(x: Any) -> Any:
    """Rows in blocks that do not divide them, and columns split too."""
    array = pytest.importorskip("dask.array")
    values = np.asarray(x)
    return array.from_array(values, chunks=(17, 3)[: values.ndim])


MEMORY: dict[str, Callable[[Any], Any]] = {
    "numpy": _numpy,
    "read-only": _read_only,
    "strict": _strict,
    "strict-device": _elsewhere,
    "torch": _torch,
    "torch-cuda": _torch_cuda,
    "cupy": _cupy,
}


STRICTEST = {name: MEMORY[name] for name in MEMORY if name not in ("numpy", "strict")}
"""Without those of which another does all that they do, and refuses more."""


def _ready(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    convert: Callable[[Any], Any] = request.param
    convert(np.zeros(1))  # skip early where the library is not installed
    return convert


@pytest.fixture(params=list(STRICTEST.values()), ids=list(STRICTEST))
def to_backend(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Turns a NumPy array into one of each array library."""
    return _ready(request)


@pytest.fixture(params=[*STRICTEST.values(), _dask], ids=[*STRICTEST, "dask"])
def to_rows(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """The same, and lazy rows."""
    return _ready(request)


@pytest.fixture(scope="session")
def frame() -> Any:
    """People with numbers, categories, a class, a number and a count to predict."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    n = 120
    table = pandas.DataFrame(
        {
            "person": [f"p{i:03d}" for i in range(n)],
            "age": rng.normal(50, 12, n).round(),
            "weight": rng.normal(70, 9, n).round(1),
            "city": rng.choice(["Bonn", "Genua", "<b>Łódź</b>"], n),
            "vip": rng.choice([True, False], n),
        }
    )
    table["income"] = (1000 * table.age + 5000 * table.vip + rng.normal(0, 9000, n)).round()
    table["sick"] = np.where(table.age + rng.normal(0, 12, n) > 55, "yes", "no")
    table["visits"] = rng.poisson(np.exp(table.age / 50))
    return table


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Visits in eleven Parquet files."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    from visits import people, write

    return write(people(), tmp_path_factory.mktemp("scale") / "visits")


AUDITED = {
    *("cli", "auditing", "report", "attacks_on_us", "training", "releasing", "tables", "protection"),
    "test_docs",
}
PRICED = {"golden", "test_release_prices"}
"""Where audits compare all limits of releases, as they do for users."""


@pytest.fixture(scope="module", autouse=True)
def one_price(request: pytest.FixtureRequest) -> Iterator[None]:
    """Elsewhere audits price one limit only, as those of large tables do: all of them take seconds.

    Of modules, so that it is in place before the fixtures of one make audits.
    """
    places = {*request.path.parts, request.path.stem}
    with pytest.MonkeyPatch.context() as patch:
        if places & AUDITED and not places & PRICED:
            from fisherleak.auditing.exposure import release_prices

            patch.setattr(release_prices, "MOST_WORK", 0)
        yield
