"""Dropping the most exposed rows, or people with all their rows, and what that does to the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fisherleak._support.arrays import host
from fisherleak._support.checks import check_positive
from fisherleak._support.namespaces import Estimator, TableLike, Vector, VectorLike
from fisherleak._support.notebook import panel
from fisherleak._support.numbers import number
from fisherleak.engine.fit.training_data import check_weights
from fisherleak.engine.noise import Noise
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measure import measure_own
from fisherleak.models import as_table
from fisherleak.models.wrapper import fit_weighted
from fisherleak.rows.selection import rows_by_group


@dataclass(frozen=True)
class Trimmed:
    """What dropping the most exposed rows did.

    Attributes
    ----------
    estimator : scikit-learn model
        Fitted on the rows that were kept.
    kept : array of bool of shape (n,)
    before : array of shape (n,)
        Eta of every row, or of its group, in the first model.
    after : array of shape (number kept,)
        Eta of the rows kept, or of their groups, in the model without the others.
    limit : float
    """

    estimator: Any
    kept: NDArray[np.bool_] = field(repr=False)
    before: Vector = field(repr=False)
    after: Vector = field(repr=False)
    limit: float

    def __repr__(self) -> str:
        kept = f"{int(np.sum(self.kept))} of {self.kept.size} rows kept"
        return f"Trimmed({kept}, limit {self.limit:g}, {self.above} above it now)"

    def _repr_html_(self) -> str:
        stayed = self.before[self.kept]
        pairs = [
            ("rows kept", f"{stayed.size:,} of {self.kept.size:,}"),
            ("limit", f"{self.limit:g}"),
            (
                "largest eta of those kept",
                f"{number(float(stayed.max(initial=0.0)), 4)} before, {number(float(self.after.max(initial=0.0)), 4)} after",
            ),
            ("above the limit now", f"{self.above:,}"),
        ]
        return panel("Trimmed", pairs, "The model also reveals that a row was dropped.")

    @property
    def above(self) -> int:
        """Rows kept whose eta is above the limit now."""
        return int(np.sum(self.after > self.limit))

    def summary(self) -> str:
        """In words, what happened to the rows that stayed.

        Examples
        --------
        >>> print(trimmed.summary().partition(":")[0])
        Dropped 297 of 442 rows above 2. Of the 145 that stay, 61 are more exposed than before
        """
        stayed = self.before[self.kept]
        worse = int(np.sum(self.after > stayed))
        return (
            f"Dropped {int(np.sum(~self.kept))} of {self.kept.size} rows above {self.limit:g}. Of the {stayed.size} that stay, "
            f"{worse} are more exposed than before: mean eta {number(float(stayed.mean()), 4)} -> "
            f"{number(float(self.after.mean()), 4)}, largest {number(float(stayed.max()), 4)} -> "
            f"{number(float(self.after.max()), 4)}, {self.above} above the limit now. That a row was dropped is "
            "itself something the model reveals."
        )


def trim(
    estimator: Estimator,
    X: TableLike,
    y: VectorLike,
    max_eta: float,
    noise: Noise | None = None,
    sample_weight: VectorLike = None,
    attributes: Sequence[str | int] | None = None,
    groups: VectorLike = None,
) -> Trimmed:
    """Drop the rows above a limit, fit again, measure again, and say what that did to everyone else.

    Parameters
    ----------
    estimator : scikit-learn model
        Not fitted, or fitted: it is cloned.
    X, y : the table and its labels
    max_eta : float
        Rows with an eta above it are dropped.
    noise : Noise, optional
        Any of ``fl.NOISES``; ``fl.Gaussian(1.0)`` by default.
    sample_weight : array of shape (n,), optional
    attributes : names, optional
        The values that count; everything, with the label, by default. Not with ``groups``.
    groups : array of shape (n,), optional
        The person (or group) of each row: those whose rows, taken jointly (:meth:`Leakage.by_person`), have an eta above the
        limit are dropped with all their rows.

    Returns
    -------
    Trimmed

    Notes
    -----
    Dropping rows raises the leakage about many that stay, since fewer rows determine the model, and some may now be above the
    limit: ``Trimmed.above`` counts them. Trimming protects the rows that it drops only where others may know that they were
    dropped.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> trimmed = fl.trim(Ridge(), X, y, max_eta=2.0, noise=fl.Gaussian(20.0))
    >>> trimmed
    Trimmed(145 of 442 rows kept, limit 2, 37 above it now)
    """
    limit = check_positive(max_eta, "max_eta")
    if not hasattr(estimator, "fit"):
        raise InvalidInputError(
            "estimator must be a scikit-learn model, which is fitted again on the rows that stay; got "
            f"{type(estimator).__name__}."
        )
    table, labels = as_table(X), np.asarray(y)
    weights = check_weights(sample_weight, np.empty((table.n, 1)))
    model = fit_weighted(clone(estimator), X, y, weights)
    if groups is not None and attributes is not None:
        raise InvalidInputError("attributes and groups cannot both be given: a group is limited with all its values.")
    whose = None if groups is None else _places(groups, table.n)
    before = _etas(measure_own(model, X, y, noise, weights, polish=True), attributes, whose)
    kept = before <= limit
    if not kept.any():
        raise InvalidInputError(
            f"max_eta is {limit:g}, below the least eta of any row ({number(float(before.min()), 4)}): none would stay."
        )
    rest, remaining = table.rows(kept).values, None if weights is None else weights[kept]
    model = fit_weighted(clone(estimator), rest, labels[kept], remaining)
    leak = measure_own(model, rest, labels[kept], noise, remaining, polish=True)
    return Trimmed(model, kept, before, _etas(leak, attributes, None if whose is None else whose[kept]), limit)


def _places(groups: VectorLike, n: int) -> NDArray[np.int64]:
    """A number for the group of each row."""
    places = np.empty(n, dtype=np.int64)
    for k, rows in enumerate(rows_by_group(groups, n).values()):
        places[host(rows)] = k
    return places


def _etas(
    leak: Leakage, attributes: Sequence[str | int] | None, whose: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    """Eta of each row, or that of its group."""
    if whose is None:
        return np.asarray(host(leak.per_example(attributes)))
    found = leak.by_person(whose)
    return np.array([found[place] for place in whose.tolist()])
