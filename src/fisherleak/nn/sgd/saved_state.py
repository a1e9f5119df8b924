"""Arrays and a JSON record in one file, without pickle: what was added up survives the process."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.atomic import check_file_place, written_whole
from fisherleak.errors import DataError

__all__ = ["fingerprint", "read_state", "write_state"]

RECORD = "record"


def write_state(path: Any, arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any], overwrite: bool) -> None:
    """Write a .npz file, whole or not at all."""
    place = Path(path)
    check_file_place(place, overwrite)
    text = np.frombuffer(json.dumps(record).encode("utf-8"), dtype=np.uint8)
    with written_whole(place.parent, [place.name]) as folder, (folder / place.name).open("wb") as file:
        every: dict[str, Any] = {**arrays, RECORD: text}
        np.savez(file, **every)


def read_state(path: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays and the record of such a file."""
    try:
        with np.load(Path(path), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        record = json.loads(arrays.pop(RECORD).tobytes().decode("utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise DataError(
            f"'{path}' cannot be read as a saved accountant ({error}): pass a file that save() wrote."
        ) from None
    return arrays, record


def fingerprint(*arrays: NDArray[Any]) -> str:
    """The same for the same values, in the same order and type."""
    digest = hashlib.sha256()
    for values in arrays:
        digest.update(f"{values.dtype} {values.shape}".encode())
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
