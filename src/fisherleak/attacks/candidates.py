"""The attribute or label under attack: its candidates, the truth, the prior, and rows as they would be with each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, as_real, device, host, like, namespace
from fisherleak._support.checks import check_positive, nearest
from fisherleak._support.namespaces import Estimator, TableLike, VectorLike
from fisherleak.attacks.candidate_values import as_beliefs, values_of_column, values_of_label
from fisherleak.engine.fit.minimise import Fit, is_fit
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.norms import one_release
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.measure import measure
from fisherleak.leakage.measurement import measurement
from fisherleak.models import Table, as_table, final_estimator
from fisherleak.models.preprocessed import prepare
from fisherleak.models.several import all_parameters
from fisherleak.rows.selection import check_rows, rows_by_group

LABEL = "label"
"""The label under attack, where no column is called that."""
MOST_VALUES = 2**28
"""Parameters of all neighbouring models that are held at once: 2 GiB."""


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
    y : array of shape (n,) or (n, K)
        Labels as the loss takes them: codes of classes, or K numbers.
    given : array of shape (p,)
        The model's own parameters: ``fit`` is moved to the exact minimum.
    attributes : tuple of Attribute
        For each column of the table, the features it feeds.
    model, table, position
        The model as given, its table and the column's place there; -1 where the label is under attack.
    encoded : tuple of length k, or None
        Where the label is: each candidate as the loss takes it.
    output : int or None
        Of several numbers, the one under attack.
    members : tuple of integer arrays, or None
        Where people are attacked: all rows of each, which have one value and take another together. ``rows`` are then the
        first of each.
    everyone : tuple of integer arrays, or None
        Then also the rows of each person, attacked or not.
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
    encoded: tuple[float, ...] | None = None
    output: int | None = None
    beliefs: NDArray[np.float64] | None = None
    members: tuple[NDArray[np.int64], ...] | None = None
    everyone: tuple[NDArray[np.int64], ...] | None = None

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
        if self.beliefs is None:
            xp = namespace(self.truth)
            return float(xp.mean(xp.astype(self.truth == self.mode, xp.float64)))
        return float(np.mean(host(self.truth) == self.believed))

    @property
    def m(self) -> int:
        """Rows under attack."""
        return int(self.rows.shape[0])

    def changed(self, candidate: int, rows: Array | None = None) -> Array:
        """Features of the attacked rows, or of some others, each with that candidate value, (m, d)."""
        xp = namespace(self.features)
        rows = self.rows if rows is None else rows
        if self.encoded is not None:
            return xp.astype(xp.take(self.features, rows, axis=0), xp.float64, copy=True)
        value = self.values[candidate]
        if is_fit(self.model):
            features = xp.astype(xp.take(self.features, rows, axis=0), xp.float64, copy=True)
            features[:, self.position] = value
            return features
        own = self._own_features
        if own is None:
            return as_real(self._transformed(candidate, rows), xp)
        features = xp.astype(xp.take(self.features, rows, axis=0), xp.float64, copy=True)
        for j in own:
            features[:, j] = float(self._shown[candidate][j])
        return features

    @cached_property
    def _shown(self) -> list[NDArray[np.float64]]:
        """A row's features with each candidate, of which those that the column feeds are the same in every row: k of (d,)."""
        return [
            host(self._transformed(k, self.rows[:1]))[0] if sample is None else host(self.features[sample, :])
            for k, sample in enumerate(self.samples)
        ]

    def labels(self, candidate: int, rows: Array | None = None) -> Array:
        """Labels of the attacked rows, or of some others, as the loss takes them, (m, …).

        Each with that candidate where the label is attacked.
        """
        xp = namespace(self.y)
        labels = xp.astype(xp.take(self.y, self.rows if rows is None else rows, axis=0), xp.float64, copy=True)
        if self.encoded is not None:
            labels[(slice(None), self.output) if labels.ndim == 2 else slice(None)] = self.encoded[candidate]
        return labels

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

    def of_people(self, members: Sequence[NDArray[np.int64]], everyone: Sequence[NDArray[np.int64]]) -> Candidates:
        """The same with people attacked, all rows of each together; ``everyone`` has the rows of all, for their prior."""
        own = host(self.codes)[np.array([rows[0] for rows in everyone])]
        counts = np.bincount(own[own >= 0], minlength=self.k)
        rows = like(np.array([rows[0] for rows in members]), self.rows, namespace(self.rows))
        prior = counts / counts.sum()
        return replace(self, members=tuple(members), everyone=tuple(everyone), rows=rows, prior=prior)

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
    attribute: str | int | tuple[str, int],
    values: Any,
    sample_weight: VectorLike,
    prior: Any,
    rows: Any,
    known: Jacobian | None = None,
) -> Candidates:
    """Check what an attacker was given, and read the model, unless what ``jacobian_at_minimum`` reads is ``known``."""
    table = as_table(X)
    if table.lazy:
        raise InvalidInputError(
            "Attacks need rows in memory; X is a Dask array. Attack a sample that fits: X.compute()."
        )
    # neighbours are exact minimisers, so the model they are compared with must be one too
    part = jacobian_at_minimum(model, X, y, sample_weight) if known is None else known
    xp = namespace(part.X)
    attacked = xp.arange(table.n, device=device(part.X)) if rows is None else check_rows(rows, table.n, part.X)
    encoded, output = None, _output(attribute, table, part.y)
    if output is None:
        position = _position(attribute, table)
        name, in_place = table.names[position], not isinstance(part.X, np.ndarray)
        chosen, samples, codes = values_of_column(table, position, values, in_place)
        _check_covered(name, lambda row: table.column(position).tolist()[row], codes, attacked)
    else:
        position, name = -1, LABEL
        chosen, encoded, codes = values_of_label(model, part.fit, y, part.y, output, values)
        samples = (None,) * len(chosen)
        _check_covered(name, lambda row: part.y[row, ...], codes, attacked)
    _check_room(name, len(chosen), attacked.shape[0], part.fit.theta.shape[0])
    beliefs = as_beliefs(prior, table.n, len(chosen))
    return Candidates(
        name=name,
        values=chosen,
        samples=samples,
        codes=codes,
        prior=_prior(prior, chosen, codes) if beliefs is None else beliefs.mean(axis=0),
        beliefs=None if beliefs is None else beliefs[host(attacked)],
        rows=attacked,
        fit=part.fit,
        features=part.X,
        y=part.y,
        given=given_parameters(model),
        attributes=part.attributes,
        model=model,
        table=table,
        position=position,
        encoded=encoded,
        output=output if part.y.ndim == 2 else None,
    )


def members_of(table: Table, groups: Any, rows: Any = None) -> dict[Any, NDArray[np.int64]]:
    """The rows of each person, by a column of the table or whose each row is."""
    if rows is not None:
        raise InvalidInputError("rows and groups cannot both be given: leave rows out.")
    labels = table.labels(groups) if isinstance(groups, str) else groups
    return {person: np.asarray(host(own)) for person, own in rows_by_group(labels, table.n).items()}


def people_of(target: Candidates, groups: Any) -> Candidates:
    """The same with people attacked; a column in which rows of one person differ is refused."""
    if not isinstance(target.features, np.ndarray):
        raise InvalidInputError("groups needs rows that NumPy holds: pass X and y as NumPy arrays or a pandas table.")
    members = members_of(target.table, groups)
    codes = host(target.codes)
    column = codes if target.position < 0 else target.table.column(target.position)
    for person, rows in members.items():
        own = np.asarray(column)[rows]
        if np.any(own != own[0]):
            raise InvalidInputError(
                f"groups needs a column with one value in all rows of a person; '{target.name}' has several for {person!r}. "
                "Attack another column, or rows one by one, without groups=."
            )
    sets = list(members.values())
    return target.of_people(sets, sets)


def jacobian_at_minimum(model: Estimator, X: TableLike, y: VectorLike, sample_weight: VectorLike) -> Jacobian:
    """What an attack has to know of a model, moved to its minimum, of one output or of several."""
    information = measurement(measure(model, X, y, sample_weight=sample_weight, polish=True)).information
    return one_release(information)


def given_parameters(model: Estimator) -> NDArray[np.float64]:
    """All released parameters of a model, as they are: (p,)."""
    return np.asarray(host(model.theta) if is_fit(model) else all_parameters(final_estimator(model)))


def _output(attribute: Any, table: Table, y: Array) -> int | None:
    """Which number of the label is attacked, 0 where there is one; None where an attribute is."""
    several = y.ndim == 2
    if isinstance(attribute, str) and attribute == LABEL and LABEL not in table.names:
        if not several:
            return 0
        raise InvalidInputError(
            f"y has {y.shape[1]} outputs: name the one under attack, attribute=('{LABEL}', 0) to ('{LABEL}', {y.shape[1] - 1})."
        )
    if not isinstance(attribute, tuple):
        return None
    count = int(y.shape[1]) if several else 1
    if len(attribute) != 2 or attribute[0] != LABEL or attribute[1] not in range(count):
        raise InvalidInputError(
            f"attribute must be a column, '{LABEL}', or ('{LABEL}', number) with a number from 0 to {count - 1}; got "
            f"{attribute!r}."
        )
    return int(attribute[1])


def _check_covered(name: str, value: Callable[[int], Any], codes: Array, attacked: Array) -> None:
    """Refuse rows to attack whose value is no candidate."""
    xp = namespace(codes)
    truth = xp.take(codes, attacked)
    if bool(xp.any(truth < 0)):
        row = int(attacked[int(xp.argmax(xp.astype(truth < 0, xp.int64)))])
        raise InvalidInputError(
            f"values must cover every attacked row: row {row} has {value(row)!r} in column '{name}'. Add the value, or leave "
            "the row out with rows=."
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
