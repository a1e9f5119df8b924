"""Takes objects apart, and makes the releases that it is to be held against."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline


def leaves(thing: Any, path: str = "", seen: frozenset[int] = frozenset()) -> Iterator[tuple[str, Any]]:
    """Every number, text and truth value that can be reached from an object, with the way to it."""
    if id(thing) in seen:
        return
    within = seen | {id(thing)}
    if thing is None or isinstance(thing, (bool, int, float, complex, str, bytes, type, np.generic, np.dtype)):
        yield path, thing.item() if isinstance(thing, np.generic) else thing
    elif isinstance(thing, np.ndarray):
        yield f"{path}.dtype", thing.dtype.str
        yield f"{path}.shape", thing.shape
        for k, value in enumerate(thing.ravel().tolist()):
            yield from leaves(value, f"{path}[{k}]", within)
        if thing.base is not None:
            yield from leaves(thing.base, f"{path}.base", within)
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield from leaves(key, f"{path}.keys[{key!r}]", within)
            yield from leaves(value, f"{path}[{key!r}]", within)
    elif isinstance(thing, (list, tuple, set, frozenset)):
        for k, value in enumerate(thing):
            yield from leaves(value, f"{path}[{k}]", within)
    elif isinstance(thing, slice):
        yield from leaves((thing.start, thing.stop, thing.step), path, within)
    else:
        yield from inside(thing, path, within)


def inside(thing: Any, path: str, seen: frozenset[int]) -> Iterator[tuple[str, Any]]:
    state = thing.__reduce_ex__(2) if not hasattr(thing, "__dict__") and not callable(thing) else ()
    yield from leaves([part for part in state if not callable(part)], f"{path}.state", seen)
    for name, value in getattr(thing, "__dict__", {}).items():
        if not callable(thing) or hasattr(thing, "get_params"):
            yield from leaves(value, f"{path}.{name}", seen)


def copied_with_noise(model: Any, noise: Any) -> Any:
    """What would leave without care."""
    noisy = copy.deepcopy(model)
    last = noisy[-1] if isinstance(noisy, Pipeline) else noisy
    for one in getattr(last, "estimators_", [last]):
        one.coef_ = one.coef_ + noise.draw(one.coef_.size, 0).reshape(one.coef_.shape)
    return noisy


def numbers(thing: Any) -> Any:
    """Every real number that can be reached."""
    return np.array([value for _, value in leaves(thing) if isinstance(value, float)])
