"""From a limit on eta to the noise multiplier of noisy SGD that keeps it, by pilot runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fisherleak._support.arrays import host
from fisherleak._support.checks import check_positive
from fisherleak.errors import FisherleakError, InvalidInputError
from fisherleak.nn.sgd.accountant import SGDAccountant

__all__ = ["noise_for"]

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
