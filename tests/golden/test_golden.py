"""Public numbers are those that were written down: see ``entries`` for what they are and ``record`` for how they change."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import fisherleak as fl
from cases import make
from fisherleak._support.arrays import host
from golden.entries import ENTRIES, TOLERANCE
from golden.record import FILE, differences, kept

NUMBERS: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


def test_every_entry_is_written_down_and_nothing_else() -> None:
    assert list(NUMBERS) == list(ENTRIES)


@pytest.mark.parametrize("name", ENTRIES)
def test_numbers_are_those_written_down(name: str) -> None:
    tolerance = TOLERANCE.get(name.partition(" / ")[0], 1e-9)
    assert not differences(kept(ENTRIES[name]()), NUMBERS[name], tolerance)


LIBRARIES: dict[str, Callable[[Any, Any], Any]] = {
    "array_api_strict": lambda library, array: library.asarray(array),
    "torch": lambda library, array: library.asarray(array),
    "dask.array": lambda library, array: library.from_array(array, chunks=(10, *array.shape[1:])),
}


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "gamma"])
@pytest.mark.parametrize("name", LIBRARIES)
def test_other_array_libraries_give_the_same_numbers(name: str, loss: str) -> None:
    library = pytest.importorskip(name)
    case = make(loss, 3, 24, 3, intercept=True)
    X, y = (LIBRARIES[name](library, array) for array in (case.X, case.y))
    leak = fl.measure(fl.minimise(X, y, loss, case.l2, intercept=True), X, y, fl.Gaussian(0.5))
    cells = {"rows": leak.per_example(), "cells": leak.per_cell(), "attributes": leak.per_attribute()}
    expected = NUMBERS[f"one output / {loss}, intercept, l2 0.01"]
    found = {each: kept(host(value.compute() if hasattr(value, "compute") else value)) for each, value in cells.items()}
    assert not differences(found, {each: expected[each] for each in found}, 1e-9)


def test_a_difference_is_noticed() -> None:
    array = [1.0, 2.0, 3.0]
    assert not differences(kept(array), kept(array), 1e-9)
    assert differences(kept([1.0, 2.0, 3.0 + 1e-7]), kept(array), 1e-9)
    assert differences(kept([2.0, 1.0, 3.0]), kept(array), 1e-9)
    assert differences(kept([1.0, 2.0, float("nan")]), kept(array), 1e-9)
