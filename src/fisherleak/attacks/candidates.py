"""The attribute under attack: its candidate values, the truth, the prior, and rows as they would be with each value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, as_real, device, host, like, namespace
from fisherleak._support.checks import check_positive, nearest
from fisherleak._support.namespaces import Estimator, TableLike, VectorLike
from fisherleak.attacks.beliefs import as_beliefs
from fisherleak.engine.erm import Fit
from fisherleak.engine.norms import refuse_several
from fisherleak.engine.perturbation import Attribute
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.measure import measure
from fisherleak.models import Table, as_table, final_estimator
from fisherleak.models.estimators import parameters
from fisherleak.models.read import prepare
from fisherleak.rows.selection import check_rows, rows_by_group

__all__ = ["Candidates", "candidates_of"]

MOST_VALUES = 2**28
"""Parameters of all neighbouring models that are held at once: 2 GiB."""
MOST_NUMBERS = 20
"""A numeric column with more different values than this needs a list of candidates."""


@dataclass(frozen=True)
class Candidates:
    """One column of a model's training data, under attack row by row.

    Parameters
    ----------
    name : str
    values : tuple of length k
        Candidate values, as the column has them.
    samples : tuple of length k
        For each, a row that has it, or None.
    codes : integer array of shape (n,)
        For each row the candidate that is its value, or the nearest to it; -1 where there is none. Beside the features.
    prior : array of shape (k,)
        Probability of each candidate to someone who knows the population only; the mean over rows where each has its own.
    beliefs : array of shape (m, k) or None
        The same for each attacked row, where each has its own.
    rows : integer array of shape (m,)
        The attacked rows; beside the features.
    fit : Fit
        The model on its features.
    features : array of shape (n, d)
    y : array of shape (n,)
        Labels as the loss takes them.
    given : array of shape (p,)
        The model's own parameters: ``fit`` is moved to the exact minimum.
    attributes : tuple of Attribute
        For each column of the table, the features it feeds.
    model, table, position
        The model as given, its table and the column's place there.
    """

    name: str
    values: tuple[Any, ...]
    samples: tuple[int | None, ...]
    codes: Array
    prior: NDArray[np.float64]
    rows: Array
    fit: Fit
    features: Array
    y: Array
    given: NDArray[np.float64]
    attributes: tuple[Attribute, ...]
    model: Any
    table: Table
    position: int
    beliefs: NDArray[np.float64] | None = None

    @property
    def k(self) -> int:
        return len(self.values)

    @cached_property
    def truth(self) -> Array:
        """The candidate of each attacked row, (m,)."""
        return namespace(self.codes).take(self.codes, self.rows)

    @property
    def mode(self) -> int:
        """The most probable candidate."""
        return int(np.argmax(self.prior))

    @property
    def by_prior(self) -> NDArray[np.int64]:
        """Candidates, the most probable first: the order in which ties are broken."""
        return np.argsort(-self.prior, kind="stable")

    @property
    def weights(self) -> NDArray[np.float64]:
        """Probability of each candidate, (k, m) where each row has its own and (k, 1) else."""
        return self.prior[:, None] if self.beliefs is None else self.beliefs.T

    @property
    def believed(self) -> NDArray[np.int64]:
        """The most probable candidate of each attacked row, (m,); ties go to the one that is so over all rows."""
        weights = self.weights[self.by_prior]
        return np.broadcast_to(self.by_prior[np.argmax(weights, axis=0)], (self.m,))

    @property
    def baseline(self) -> float:
        """Accuracy of guessing each row's most probable candidate."""
        return float(np.mean(host(self.truth) == self.believed))

    @property
    def m(self) -> int:
        """Rows under attack."""
        return int(self.rows.shape[0])

    def changed(self, candidate: int) -> Array:
        """Features of the attacked rows, each with that candidate value, (m, d)."""
        xp = namespace(self.features)
        value = self.values[candidate]
        if isinstance(self.model, Fit):
            features = xp.astype(xp.take(self.features, self.rows, axis=0), xp.float64, copy=True)
            features[:, self.position] = value
            return features
        own = self._own_features
        if own is None:
            return as_real(self._transformed(candidate, self.rows), xp)
        features = xp.astype(xp.take(self.features, self.rows, axis=0), xp.float64, copy=True)
        shown = host(self._transformed(candidate, self.rows[:1]))[0]
        for j in own:
            features[:, j] = float(shown[j])
        return features

    def _transformed(self, candidate: int, rows: Array) -> Any:
        """Some rows with the candidate value, through the model's preprocessing."""
        # a row that shows the value rides along as the last one, so that the column keeps its type
        xp = namespace(rows)
        sample, count = self.samples[candidate], rows.shape[0]
        table = self.table.take(rows if sample is None else xp.concat([rows, like([sample], rows, xp)]))
        table = table.with_value(self.position, self.values[candidate], None if sample is None else count)
        return prepare(self.model, table).features[:count, ...]

    @property
    def _own_features(self) -> list[int] | None:
        """Features that this column alone feeds; None where it shares one, so that they differ from row to row."""
        fed = [_fed(attribute) for attribute in self.attributes]
        mine = fed.pop(self.position)
        return None if any(mine & others for others in fed) else sorted(mine)

    def chosen(self, codes: Array) -> Array:
        """The values of candidates by their codes."""
        if not isinstance(codes, np.ndarray):
            xp = namespace(codes)
            values = like(np.asarray(self.values), codes, xp)
            return xp.reshape(xp.take(values, xp.reshape(codes, (-1,))), codes.shape)
        if all(isinstance(value, (int, float, np.number)) and not isinstance(value, bool) for value in self.values):
            return np.asarray(self.values)[codes]
        values = np.empty(self.k, dtype=object)
        values[:] = self.values
        return np.asarray(values[codes])


def candidates_of(
    model: Estimator,
    X: TableLike,
    y: VectorLike,
    attribute: str | int,
    values: Any,
    sample_weight: VectorLike,
    prior: Any,
    rows: Any,
) -> Candidates:
    """Check what an attacker was given, and read the model."""
    table = as_table(X)
    if table.lazy:
        raise InvalidInputError(
            "Attacks need rows in memory; X is a Dask array. Attack a sample that fits: X.compute()."
        )
    # neighbours are exact minimisers, so the model they are compared with must be one too
    information = measure(model, X, y, sample_weight=sample_weight, polish=True)._information
    refuse_several(information, "attacks on attributes")
    part = information.jacobians[0]
    xp = namespace(part.X)
    position = _position(attribute, table)
    attacked = xp.arange(table.n, device=device(part.X)) if rows is None else check_rows(rows, table.n, part.X)
    chosen, samples, codes = _among(table, position, values, in_place=not isinstance(part.X, np.ndarray))
    _check_covered(table, position, codes, attacked)
    _check_room(table.names[position], len(chosen), attacked.shape[0], part.fit.theta.shape[0])
    beliefs = as_beliefs(prior, table.n, len(chosen))
    return Candidates(
        name=table.names[position],
        values=chosen,
        samples=samples,
        codes=codes,
        prior=_prior(prior, chosen, codes) if beliefs is None else beliefs.mean(axis=0),
        beliefs=None if beliefs is None else beliefs[host(attacked)],
        rows=attacked,
        fit=part.fit,
        features=part.X,
        y=part.y,
        given=host(model.theta) if isinstance(model, Fit) else np.asarray(host(parameters(final_estimator(model)))),
        attributes=part.attributes,
        model=model,
        table=table,
        position=position,
    )


def _check_covered(table: Table, position: int, codes: Array, attacked: Array) -> None:
    """Refuse rows to attack whose value is no candidate."""
    xp = namespace(codes)
    truth = xp.take(codes, attacked)
    if bool(xp.any(truth < 0)):
        row = int(attacked[int(xp.argmax(xp.astype(truth < 0, xp.int64)))])
        raise InvalidInputError(
            f"values must cover every attacked row: row {row} has {table.column(position).tolist()[row]!r} in column "
            f"'{table.names[position]}'. Add the value, or leave the row out with rows=."
        )


def _check_room(name: str, candidates: int, rows: int, size: int) -> None:
    """Refuse what would not fit in ordinary memory."""
    total = candidates * rows * size
    if total > MOST_VALUES:
        raise InvalidInputError(
            f"{candidates} candidates for column '{name}' in {rows} rows would need {8 * total / 2**30:.0f} GiB: pass fewer "
            "candidates with values=, or attack fewer rows with rows=."
        )


def _fed(attribute: Attribute) -> set[int]:
    """Features that a column feeds."""
    if attribute.directions is not None and not np.any(attribute.directions):
        return set()
    return set(attribute.columns)


def _position(attribute: Any, table: Table) -> int:
    if isinstance(attribute, str):
        if attribute not in table.names:
            raise InvalidInputError(f"There is no column '{attribute}'. {nearest(attribute, table.names)}")
        return table.names.index(attribute)
    count = len(table.names)
    if isinstance(attribute, bool) or not isinstance(attribute, (int, np.integer)) or not -count <= attribute < count:
        raise InvalidInputError(f"attribute must be a name or a number from 0 to {count - 1}; got {attribute!r}.")
    return int(attribute) % count


def _among(
    table: Table, position: int, values: Any, in_place: bool
) -> tuple[tuple[Any, ...], tuple[int | None, ...], Array]:
    """Candidate values, a row that shows each, and the candidate of every row (-1 where there is none)."""
    if in_place:
        return _among_in_place(table.values[:, position], table.names[position], values)
    name = table.names[position]
    column = table.column(position)
    numeric = table.is_numeric(position) and column.dtype.kind != "b"
    known = _known(column, table.n, name, numeric)
    if values is None:
        if numeric and len(known) > MOST_NUMBERS:
            raise InvalidInputError(
                f"Column '{name}' is numeric with {len(known)} different values: pass the candidates that the attacker "
                f"considers, such as values=[{min(known):g}, {max(known):g}]."
            )
        chosen = list(known)
        if len(chosen) == 1:
            raise InvalidInputError(
                f"Column '{name}' has one value only ({str(chosen[0])[:40]}): there is nothing to infer. Choose another column."
            )
    else:
        chosen = _listed(values, name)
    _check_candidates(chosen, name)
    samples = tuple(int(known[value][0]) if value in known else None for value in chosen)
    if numeric:
        return tuple(chosen), samples, _nearest_numbers(column.astype(np.float64), chosen, name)
    for value in chosen:
        if value not in known:
            raise InvalidInputError(
                f"values has {value!r}, which column '{name}' never has. {nearest(str(value), [str(v) for v in known])}"
            )
    codes = np.full(table.n, -1)
    for code, value in enumerate(chosen):
        codes[known[value]] = code
    return tuple(chosen), samples, codes


def _among_in_place(column: Array, name: str, values: Any) -> tuple[tuple[Any, ...], tuple[int | None, ...], Array]:
    """The same for a column of numbers that is not NumPy's: it stays where it is."""
    xp = namespace(column)
    found = xp.unique_values(column)
    if values is None:
        if found.shape[0] > MOST_NUMBERS:
            raise InvalidInputError(
                f"Column '{name}' is numeric with {found.shape[0]} different values: pass the candidates that the attacker "
                f"considers, such as values=[{float(xp.min(found)):g}, {float(xp.max(found)):g}]."
            )
        chosen = np.sort(host(found)).tolist()
    else:
        chosen = _listed(host(values) if hasattr(values, "shape") else values, name)
    _check_candidates(chosen, name)
    matches = [column == value for value in chosen]
    samples = tuple(int(xp.argmax(xp.astype(match, xp.int64))) if bool(xp.any(match)) else None for match in matches)
    return tuple(chosen), samples, _nearest_numbers(xp.astype(column, xp.float64, copy=True), chosen, name)


def _check_candidates(chosen: list[Any], name: str) -> None:
    if len(chosen) < 2 or len(set(chosen)) != len(chosen):
        raise InvalidInputError(
            f"values must be at least two different candidates for column '{name}'; got {str(chosen[:5])[:80]}."
        )


def _known(column: NDArray[Any], n: int, name: str, numeric: bool) -> dict[Any, NDArray[np.int64]]:
    """Rows of each value; a number that is missing is no value."""
    try:
        known = rows_by_group(column, n)
    except (InvalidInputError, TypeError):
        raise InvalidInputError(
            f"Column '{name}' holds neither numbers nor text: its values cannot be listed."
        ) from None
    return {value: rows for value, rows in known.items() if value is not None or not numeric}


def _listed(values: Any, name: str) -> list[Any]:
    found = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(found, (str, bytes)) or not isinstance(found, Iterable):
        raise InvalidInputError(f"values must be a list of candidates for column '{name}'; got {found!r}.")
    chosen = list(found)
    for value in chosen:
        if isinstance(value, (list, dict, set, np.ndarray)):
            raise InvalidInputError(f"values must be single candidates for column '{name}'; got {str(value)[:40]}.")
    # missing values are known as None, however they are written
    return [None if value is None or value != value else value for value in chosen]


def _nearest_numbers(column: Array, chosen: list[Any], name: str) -> Array:
    numbers = []
    for value in chosen:
        try:
            number = float(value) if not isinstance(value, (bool, str)) else float("nan")
        except (TypeError, ValueError, OverflowError):
            number = float("nan")
        if not np.isfinite(number):
            raise InvalidInputError(
                f"values for the numeric column '{name}' must be finite numbers; got {str(value)[:40]}."
            )
        numbers.append(number)
    xp = namespace(column)
    order = np.argsort(numbers)
    ordered = np.asarray(numbers)[order]
    middles = ordered[:-1] + np.diff(ordered) / 2
    missing = xp.isnan(column)
    places = xp.searchsorted(like(middles, column, xp), xp.where(missing, 0.0, column))
    return xp.where(missing, -1, xp.take(like(order, column, xp), places))


def _prior(prior: Any, candidates: tuple[Any, ...], codes: Array) -> NDArray[np.float64]:
    """Frequencies in the training data if not given; they sum to one."""
    if prior is None:
        xp = namespace(codes)
        counts = host(xp.stack([xp.sum(xp.astype(codes == k, xp.int64)) for k in range(len(candidates))]))
        return np.asarray(counts / counts.sum())
    if hasattr(prior, "items"):  # a mapping, or a pandas series by its index
        by_value = dict(prior.items())
        absent = [value for value in candidates if value not in by_value]
        if absent:
            raise InvalidInputError(f"prior must have a probability for every candidate; {absent[0]!r} has none.")
        prior = [by_value[value] for value in candidates]
    try:
        given = np.asarray(prior, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise InvalidInputError(f"prior must hold probabilities; got {str(prior)[:60]}.") from None
    numbers = [check_positive(value, "prior", zero=True) for value in given]
    if len(numbers) != len(candidates) or not max(numbers, default=0.0) > 0:
        raise InvalidInputError(
            f"prior must have one probability for each of the {len(candidates)} candidates, not all zero; got {numbers}."
        )
    shares = np.asarray(numbers) / max(numbers)
    return np.asarray(shares / shares.sum())
