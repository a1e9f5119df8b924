r"""How many queries an interface may answer before someone is exposed.

Information adds up: asked again and again, a list of queries of largest eta :math:`\eta_1` has one of
:math:`\sqrt k\,\eta_1` after k rounds, and within a round it never falls. So the number of queries at which a limit is
passed is found by a division and a bisection, each step of which measures a part of the list exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fisherleak._support.checks import check_positive
from fisherleak._support.namespaces import TableLike
from fisherleak.engine.mechanisms.interface_answers import OF, Answers, Interface, SampledLabels, added, told_by
from fisherleak.engine.noise import Noise
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage, check_leakage
from fisherleak.rows.summary import digest

MOST = 1e100
"""Root of a number of rounds that is counted."""


def queries_until(
    leakage: Leakage,
    X_query: TableLike,
    noise: Noise | None,
    eta: float = 1.0,
    of: str = "score",
    *,
    attributes: Sequence[str | int] | str | int | None = None,
    label: bool | None = None,
) -> float:
    r"""How many such queries can be answered before someone passes a limit.

    Parameters
    ----------
    leakage : Leakage
        Of one model, from :func:`fisherleak.measure`; its own noise is not used.
    X_query : array or table of shape (m, columns of X)
        The queries, asked in this order and, past the last, again from the first, with new noise each time.
    noise : Noise or None
        On each answer; None with ``of="label"``, where the draw of the label is what hides.
    eta : float
        The limit on the eta of every example.
    of : {"score", "probability", "label"}
        What is answered, as in :class:`fisherleak.Answers` and :class:`fisherleak.SampledLabels`.
    attributes, label : optional
        The values that count, as in :meth:`Leakage.per_example`.

    Returns
    -------
    float
        The largest number of queries after which every example's eta is at or below the limit, a whole number; infinite
        where the answers reveal nothing about anyone, or so little that the number has more than 200 digits. On the
        safe side: etas are enlarged by their error.

    Notes
    -----
    For queries that are fixed beforehand. The order matters: an attacker may ask the worst query first, and only it.

    Examples
    --------
    >>> import numpy as np
    >>> import fisherleak as fl
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 3.0, -1.0])
    >>> leak = fl.measure(fl.minimise(X, y), X, y)
    >>> fl.queries_until(leak, X, fl.Gaussian(1.0), eta=1.0)
    1.0
    """
    check_leakage(leakage, "queries_until")
    limit = check_positive(eta, "eta")
    by = _interface(X_query, noise, of)
    if leakage._noise is None or leakage._queried is None:
        raise InvalidInputError(
            "queries_until takes the leakage of one model on rows, not of a composition or a network."
        )
    if not by.independent:
        raise InvalidInputError(
            "noise must be known to be independent between answers: use Gaussian without `shape`, Laplace or Bounded."
        )
    features = leakage._queried.features(X_query)
    if not features.shape[0]:
        raise InvalidInputError("X_query has no rows: pass the queries that are asked.")
    fit = leakage.fits[0]
    whole = told_by(by, features, fit)

    def within(rounds: int, more: int) -> bool:
        """Whether all are below the limit after some rounds and a few queries more."""
        asked = added(whole.repeated(float(rounds)), told_by(by, features[:more], fit))
        served = leakage._told(by, asked)
        top = digest(served.per_example(attributes, label)).top
        return served._certain(attributes, label, top) <= limit

    return _most(within, features.shape[0], leakage._told(by, whole), limit, attributes, label)


def _interface(X_query: TableLike, noise: Noise | None, of: str) -> Interface:
    if of == "label":
        if noise is not None:
            raise InvalidInputError("noise must be None with of='label': labels are drawn, without noise on them.")
        return SampledLabels(X_query)
    if of not in OF:
        raise InvalidInputError(f"of must be one of {', '.join((*OF, 'label'))}; got {of!r}.")
    if noise is None:
        raise InvalidInputError(f"noise must be given with of={of!r}: an answer without noise reveals without limit.")
    return Answers(X_query, noise, of)


def _most(
    within: Callable[[int, int], bool], size: int, once: Leakage, limit: float, attributes: Any, label: bool | None
) -> float:
    """Rounds by a division, what is left by a bisection; rounding may put the division off by a round."""
    top = digest(once.per_example(attributes, label)).top
    worst = once._certain(attributes, label, top)
    if worst == 0 or limit / worst > MOST:
        return math.inf
    rounds = math.floor((limit / worst) ** 2)
    if rounds and not within(rounds, 0):
        rounds -= 1
    low, high = 0, size
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if within(rounds, middle) else (low, middle)
    return float(rounds * size + low)
