"""Trainings that an accountant follows: pilot runs for a noise multiplier, an Opacus engine, a file between processes."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.atomic import check_file_place, written_whole
from fisherleak._support.checks import check_positive
from fisherleak.errors import DataError, FisherleakError, InvalidInputError

if TYPE_CHECKING:
    from fisherleak.nn.sgd_accountant import SGDAccountant


OVER = ("max", "mean")


def noise_for(
    run: Callable[[float], SGDAccountant],
    eta: float,
    over: str = "max",
    *,
    start: float = 1.0,
    tolerance: float = 0.05,
    rounds: int = 12,
) -> float:
    """The noise multiplier that keeps the largest or the mean eta of a sample under a limit.

    Parameters
    ----------
    run : callable
        noise multiplier -> the accountant of a training with it: all of it, or a shorter pilot whose eta is then that of the
        pilot. Start it from the same seeds each time.
    eta : float
        The limit.
    over : {"max", "mean"}
        Of ``per_example`` of the accountant.
    start : float
        The first multiplier that is tried.
    tolerance : float
        How far, relative, the eta of the answer may lie below the limit.
    rounds : int
        Runs at most.

    Returns
    -------
    float
        A multiplier that was run, and whose eta was at or below the limit.

    Notes
    -----
    The answer holds for the path of its pilot; another seed walks another path. It depends on the data, and publishing it
    reveals something too.

    Examples
    --------
    >>> multiplier = fl.nn.noise_for(lambda noise: trained_with(noise).accountant, eta=0.1)  # doctest: +SKIP
    """
    limit, near = check_positive(eta, "eta"), check_positive(tolerance, "tolerance")
    if over not in OVER:
        raise InvalidInputError(f"over must be one of {', '.join(OVER)}; got {over!r}.")
    low, high, noise = 0.0, np.inf, check_positive(start, "start")
    for _ in range(rounds):
        etas = host(run(noise).per_example())
        found = float(etas.max() if over == "max" else etas.mean())
        if (1.0 - near) * limit <= found <= limit:
            return noise
        low, high = (noise, high) if found > limit else (low, noise)
        if found == 0.0:
            raise InvalidInputError("eta is zero in the pilot run: it does not depend on the watched inputs.")
        # eta falls at least about as 1 / noise; aim a little below the limit, inside what is known
        guess = noise * found / (limit * (1.0 - 0.5 * near))
        noise = guess if low < guess < high else 0.5 * (low + high)
        if high < np.inf and high - low <= 1e-6 * high:
            break
    if high < np.inf:
        return high
    raise FisherleakError(f"No noise multiplier up to {low:g} kept eta below {limit:g} in {rounds} runs: raise start.")


# Steps of an Opacus engine, counted beside its epsilon: what it does otherwise than is counted is refused.


class Counting(Protocol):
    """What is told of every step."""

    max_grad_norm: float
    sampling: str

    def step(self, noise_multiplier: float | None = None, sample_rate: float | None = None) -> Any:
        """Add one step with its noise and rate."""


def count_steps(accountant: Counting, engine: Any) -> None:
    """Have an engine that makes nothing private yet tell an accountant of its steps."""
    books: Any = getattr(engine, "accountant", None)
    if not hasattr(books, "get_optimizer_hook_fn") or not hasattr(engine, "make_private"):
        raise InvalidInputError(
            f"attach takes an Opacus PrivacyEngine, before make_private; got {type(engine).__name__}."
        )
    original = books.get_optimizer_hook_fn

    def hook_of(sample_rate: float) -> Callable[[Any], None]:
        theirs = original(sample_rate)

        def hook(optimizer: Any) -> None:
            if optimizer.max_grad_norm != accountant.max_grad_norm:
                raise InvalidInputError(
                    f"max_grad_norm is {accountant.max_grad_norm} here and {optimizer.max_grad_norm} in the engine; "
                    "pass the same number to both."
                )
            accountant.step(optimizer.noise_multiplier, sample_rate * getattr(optimizer, "accumulated_iterations", 1))
            theirs(optimizer)

        return hook

    books.get_optimizer_hook_fn = hook_of
    _hold_to(accountant, engine)


def _hold_to(accountant: Counting, engine: Any) -> None:
    """Refuse an engine that clips or samples in another way than is counted."""
    make_private = engine.make_private

    def checked(*args: Any, **options: Any) -> Any:
        clipping = options.get("clipping", "flat")
        if clipping != "flat":
            raise InvalidInputError(
                f"clipping is {clipping!r} in the engine, and the accountant counts one clip of all parameters together: "
                "leave it at 'flat'."
            )
        if accountant.sampling == "poisson" and not options.get("poisson_sampling", True):
            raise InvalidInputError(
                "poisson_sampling is False in the engine, and the accountant counts Poisson sampling: make it with "
                "sampling='fixed', or leave poisson_sampling at True."
            )
        return make_private(*args, **options)

    engine.make_private = checked


# Arrays and a JSON record in one file, without pickle: what was added up survives the process.

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
