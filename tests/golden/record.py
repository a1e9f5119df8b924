"""Numbers written down, and numbers held against them.

An array is kept as its shape, how many of its values are no numbers or infinite, and four sums over the others, in which each
value has its own weight: two arrays that differ in one value by more than the tolerance differ here.

    python tests/golden/record.py --regenerate "bounds / all" ...     # after a change of numbers that the changelog names
    python tests/golden/record.py --missing                           # entries that are new
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["FILE", "differences", "kept"]

FILE = Path(__file__).with_name("numbers.json")


def kept(value: Any) -> Any:
    """A value as it is written down."""
    if value.__class__.__module__.startswith("numpy") and not isinstance(value, np.ndarray):
        value = value.item()
    if isinstance(value, Mapping):
        return {str(name): kept(each) for name, each in value.items()}
    if isinstance(value, (str, bool)) or value is None:
        return value
    if isinstance(value, list) and not _numbers(value):
        return [kept(each) for each in value]
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == 0 and np.isfinite(array):
        return float(array)
    flat = array.ravel()
    finite = np.isfinite(flat)
    places = np.arange(1.0, flat.size + 1.0)[finite]
    own = flat[finite]
    sums = [own.sum(), own @ np.cos(places), own @ np.sin(2.0 * places), np.sqrt(own @ own)]
    others = [int(np.isnan(flat).sum()), int(np.isposinf(flat).sum()), int(np.isneginf(flat).sum())]
    return {"shape": list(array.shape), "not finite": others, "sums": [float(each) for each in sums]}


def _numbers(value: list[Any]) -> bool:
    """Whether a list, with lists inside, has numbers alone."""
    return (
        bool(value)
        and all(
            _numbers(each) if isinstance(each, list) else isinstance(each, (int, float)) and not isinstance(each, bool)
            for each in value
        )
        and len({len(each) if isinstance(each, list) else -1 for each in value}) == 1
    )


def differences(found: Any, expected: Any, tolerance: float, place: str = "") -> list[str]:
    """Where two written values are not the same, in words."""
    if isinstance(expected, dict) and "sums" in expected:
        if not isinstance(found, dict) or (found["shape"], found["not finite"]) != (
            expected["shape"],
            expected["not finite"],
        ):
            return [f"{place}: {found} in place of {expected}"]
        off = np.abs(np.subtract(found["sums"], expected["sums"])).max()
        return (
            []
            if off <= tolerance * (expected["sums"][-1] or 1.0)
            else [f"{place}: {found['sums']}, not {expected['sums']}"]
        )
    if isinstance(expected, dict):
        if not isinstance(found, dict) or found.keys() != expected.keys():
            return [f"{place}: has other names"]
        return [
            line
            for name in expected
            for line in differences(found[name], expected[name], tolerance, f"{place} / {name}")
        ]
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            return [f"{place}: {found}, not {expected}"]
        pairs = enumerate(zip(found, expected, strict=True))
        return [line for k, (own, other) in pairs for line in differences(own, other, tolerance, f"{place} / {k}")]
    if isinstance(expected, float):
        same = isinstance(found, float) and abs(found - expected) <= tolerance * abs(expected)
    else:
        same = found == expected
    return [] if same else [f"{place}: {found}, not {expected}"]


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from golden.entries import ENTRIES

    parser = argparse.ArgumentParser(description="Write golden numbers down.")
    parser.add_argument("--regenerate", nargs="+", default=[], metavar="ENTRY", help="entries by name")
    parser.add_argument("--missing", action="store_true", help="entries that have no numbers yet")
    given = parser.parse_args()
    numbers = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    names = [*given.regenerate, *((name for name in ENTRIES if name not in numbers) if given.missing else ())]
    for name in names:
        numbers[name] = kept(ENTRIES[name]())
    known = {name: numbers[name] for name in ENTRIES if name in numbers}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in known.items())
    FILE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    print(f"{len(names)} entries written.")


if __name__ == "__main__":
    main()
