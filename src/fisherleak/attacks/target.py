"""The attribute under attack: its candidate values, the truth, the prior, and rows as they would be with each value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._array import Array, as_real, device, host, like, namespace
from fisherleak._check import check_positive, nearest
from fisherleak._rows import check_rows, rows_by_group
from fisherleak.erm import Fit
from fisherleak.errors import InvalidInputError
from fisherleak.leakage import measure
from fisherleak.models import Table, as_table
from fisherleak.models.reading import prepare
from fisherleak.perturbation import Attribute

__all__ = ["Target", "target_of"]

MOST_NUMBERS = 20
"""A numeric column with more different values than this needs a list of candidates."""


@dataclass(frozen=True)
class Target:
    """One column of a model's training data, under attack row by row.

    Parameters
    ----------
    name : str
    values : tuple of length k
        Candidate values, as the column has them.
    samples : tuple of length k
        For each, a row that has it, or None.
    truth : integer array of shape (m,)
        For each attacked row the candidate that is its value, or the nearest to it; beside the features.
    prior : array of shape (k,)
        Probability of each candidate to someone who knows the population only.
    rows : integer array of shape (m,)
        The attacked rows; beside the features.
    fit : Fit
        The model on its features.
    features : array of shape (n, d)
    y : array of shape (n,)
        Labels as the loss takes them.
    attributes : tuple of Attribute
        For each column of the table, the features it feeds.
    model, table, position
        The model as given, its table and the column's place there.
    """

    name: str
    values: tuple[Any, ...]
    samples: tuple[int | None, ...]
    truth: Array
    prior: NDArray[np.float64]
    rows: Array
    fit: Fit
    features: Array
    y: Array
    attributes: tuple[Attribute, ...]
    model: Any
    table: Table
    position: int

    @property
    def k(self) -> int:
        return len(self.values)

    @property
    def mode(self) -> int:
        """The most probable candidate."""
        return int(np.argmax(self.prior))

    @property
    def by_prior(self) -> NDArray[np.int64]:
        """Candidates, the most probable first: the order in which ties are broken."""
        return np.argsort(-self.prior, kind="stable")

    @property
    def baseline(self) -> float:
        """Accuracy of always guessing the most probable candidate."""
        xp = namespace(self.truth)
        return float(xp.mean(xp.astype(self.truth == self.mode, xp.float64)))

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


def target_of(
    model: Any, X: Any, y: Any, attribute: str | int, values: Any, sample_weight: Any, prior: Any, rows: Any
) -> Target:
    """Check what an attacker was given, and read the model."""
    table = as_table(X)
    if table.lazy:
        raise InvalidInputError(
            "Attacks need rows in memory; X is a Dask array. Attack a sample that fits: X.compute()."
        )
    # neighbours are exact minimisers, so the model they are compared with must be one too
    part = measure(model, X, y, sample_weight=sample_weight, polish=True)._parts[0]
    xp = namespace(part.X)
    position = _position(attribute, table)
    name = table.names[position]
    attacked = xp.arange(table.n, device=device(part.X)) if rows is None else check_rows(rows, table.n, part.X)
    if isinstance(part.X, np.ndarray):
        candidates, samples, codes = _candidates(table, position, values)
    else:
        candidates, samples, codes = _candidates_in_place(table.values[:, position], name, values)
    truth = xp.take(codes, attacked)
    if bool(xp.any(truth < 0)):
        row = int(attacked[int(xp.argmax(xp.astype(truth < 0, xp.int64)))])
        raise InvalidInputError(
            f"values must cover every attacked row: row {row} has {table.column(position).tolist()[row]!r} in column '{name}'. "
            "Add the value, or leave the row out with rows=."
        )
    return Target(
        name=name,
        values=candidates,
        samples=samples,
        truth=truth,
        prior=_prior(prior, candidates, codes),
        rows=attacked,
        fit=part.fit,
        features=part.X,
        y=part.y,
        attributes=part.attributes,
        model=model,
        table=table,
        position=position,
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


def _candidates(
    table: Table, position: int, values: Any
) -> tuple[tuple[Any, ...], tuple[int | None, ...], NDArray[np.int64]]:
    """Candidate values, a row that shows each, and the candidate of every row (-1 where there is none)."""
    name = table.names[position]
    column = table.column(position)
    numeric = table.is_numeric(position) and column.dtype.kind != "b"
    known = rows_by_group(column, table.n)
    if values is None:
        if numeric and len(known) > MOST_NUMBERS:
            raise InvalidInputError(
                f"Column '{name}' is numeric with {len(known)} different values: pass the candidates that the attacker "
                f"considers, such as values=[{min(known):g}, {max(known):g}]."
            )
        chosen = list(known)
    else:
        chosen = values.tolist() if hasattr(values, "tolist") else list(values)
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


def _candidates_in_place(
    column: Array, name: str, values: Any
) -> tuple[tuple[Any, ...], tuple[int | None, ...], Array]:
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
        chosen = host(values).tolist() if hasattr(values, "shape") else list(values)
    _check_candidates(chosen, name)
    matches = [column == value for value in chosen]
    samples = tuple(int(xp.argmax(xp.astype(match, xp.int64))) if bool(xp.any(match)) else None for match in matches)
    return tuple(chosen), samples, _nearest_numbers(xp.astype(column, xp.float64, copy=True), chosen, name)


def _check_candidates(chosen: list[Any], name: str) -> None:
    if len(chosen) < 2 or len(set(chosen)) != len(chosen):
        raise InvalidInputError(
            f"values must be at least two different candidates for column '{name}'; got {chosen[:5]!r}."
        )


def _nearest_numbers(column: Array, chosen: list[Any], name: str) -> Array:
    for value in chosen:
        if isinstance(value, (bool, str)) or not isinstance(value, (int, float, np.number)) or not np.isfinite(value):
            raise InvalidInputError(f"values for the numeric column '{name}' must be finite numbers; got {value!r}.")
    xp = namespace(column)
    numbers = np.asarray(chosen, dtype=np.float64)
    order = np.argsort(numbers)
    middles = (numbers[order][1:] + numbers[order][:-1]) / 2
    places = xp.searchsorted(like(middles, column, xp), column)
    return xp.take(like(order, column, xp), places)


def _prior(prior: Any, candidates: tuple[Any, ...], codes: Array) -> NDArray[np.float64]:
    """Frequencies in the training data if not given; they sum to one."""
    if prior is None:
        xp = namespace(codes)
        counts = host(xp.stack([xp.sum(xp.astype(codes == k, xp.int64)) for k in range(len(candidates))]))
        return np.asarray(counts / counts.sum())
    if isinstance(prior, Mapping):
        absent = [value for value in candidates if value not in prior]
        if absent:
            raise InvalidInputError(f"prior must have a probability for every candidate; {absent[0]!r} has none.")
        prior = [prior[value] for value in candidates]
    numbers = [check_positive(value, "prior", zero=True) for value in np.asarray(prior, dtype=np.float64).ravel()]
    if len(numbers) != len(candidates) or not sum(numbers) > 0:
        raise InvalidInputError(
            f"prior must have one probability for each of the {len(candidates)} candidates, not all zero; got {numbers}."
        )
    return np.asarray(numbers) / sum(numbers)
