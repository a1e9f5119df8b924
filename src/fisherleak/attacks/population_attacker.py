"""What the population gives away without any released model: the commonest value, and what other columns and the label say."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Vector
from fisherleak.attacks.base import Attacker, Codes, aimed
from fisherleak.attacks.candidates import Candidates
from fisherleak.engine.noise import Noise
from fisherleak.models import Table

FOLDS = 5
MOST_FOLDED = 5_000
"""Rows up to which every row is guessed by a fold; of more, the attacked rows are guessed by those that are not attacked."""
MOST_LEARNED = 12_000
"""Rows that are learned from where there are more, drawn at random."""
MIXED = 0.01
"""Part of the population's frequencies in what a row is believed to have."""
Score = Callable[[Vector, Codes], float]
MOST_SPLIT = 200
"""Columns that trees split: of more, those that differ most between values in the rows that are learned from."""
STOPPED_EARLY = 1_000
"""Rows from which on trees are added only as long as rows set aside are guessed better."""


class Ideal(Attacker):
    """Learns the attribute from the other columns and the label, and guesses each row by a model that never saw it.

    What can be inferred about anyone in the population without the released model; a label is learned from all columns.
    Gradient-boosted trees and logistic regression, five folds over all rows; the one that is correct more often there is taken.
    Of more than 5,000 rows, those that are not attacked are learned from once, at most 12,000 of them, with a fifth set aside
    to choose the learner by, as long as the attacked ones are at most a fifth of all. Of more than 200 columns, trees see the
    200 whose means differ most between values in the rows that they learn from. Parameters as for every attacker.

    Notes
    -----
    No released model enters: ``infer`` and ``accuracy`` give the same for any. Better learners may exist.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> outcome = fl.attacks.Ideal(LinearRegression().fit(X, y), X, y, "sex").against()
    >>> bool(outcome.accuracy > outcome.baseline)
    True
    """

    name = "no model, other columns"
    sees_model = False
    by_answers = True

    @classmethod
    def like(cls, other: Attacker, learned: Learned) -> Ideal:
        """The same column as another attacker's, with what was learned about it already."""
        made = aimed(cls, replace(other.target, beliefs=None))
        vars(made)["learned"] = learned
        return made

    def guess(self, theta: Vector, noise: Noise | None = None) -> Codes:
        return np.broadcast_to(self._guesses, (theta.shape[0], self._guesses.shape[0]))

    @cached_property
    def learned(self) -> Learned:
        """What the learners say."""
        return learned_from(self.target)

    @cached_property
    def _guesses(self) -> Codes:
        return np.asarray(np.argmax(self.learned.best(_part_right), axis=1))


@dataclass(frozen=True)
class Learned:
    """What each learner says of rows that it did not see.

    Attributes
    ----------
    said : tuple of arrays of shape (m, k)
        Of each learner, the probability of each candidate of each attacked row.
    judged : tuple of arrays of shape (t, k)
        Of each learner, the same of the rows that it is judged by.
    truth : integer array of shape (t,)
        The candidates that those rows have.
    """

    said: tuple[Vector, ...] = field(repr=False)
    judged: tuple[Vector, ...] = field(repr=False)
    truth: Codes = field(repr=False)

    def best(self, score: Score) -> Vector:
        """What the learner with the best score says of the attacked rows, (m, k); the first of several."""
        return self.said[int(np.argmax([score(judged, self.truth) for judged in self.judged]))]


def beliefs_of(target: Candidates, learned: Learned) -> Vector:
    """Probability of each candidate of each attacked row, (m, k), by a model of other rows; the better by its log-score.

    A hundredth of the frequencies of the population is mixed in: a learner who never saw a value together with others says
    that it cannot be.
    """
    return np.asarray((1.0 - MIXED) * learned.best(_log_score) + MIXED * target.prior)


def learned_from(target: Candidates) -> Learned:
    """What the other columns and the label say of each attacked row's candidates, by models that never saw the row."""
    truth = host(target.codes)
    known = np.flatnonzero(truth >= 0)
    counts = np.bincount(truth[known], minlength=target.k)
    if counts.max() == known.size or known.size < 2 * FOLDS:
        prior = np.tile(target.prior, (target.m, 1))
        return Learned((prior,), (prior,), host(target.truth))
    features, numeric = _others(target)
    if target.everyone is not None:
        features = _of_everyone(features, numeric, target.everyone)
        known = np.intersect1d(known, [own[0] for own in target.everyone])
    rows = host(target.rows)
    # many short parallel regions: on a busy machine threads that wait for each other cost far more than they save
    with threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a learner that stops early is a weaker attacker, no error
        if truth.shape[0] > MOST_FOLDED and FOLDS * np.unique(rows).size <= truth.shape[0]:
            return _learned_once(features, truth, np.setdiff1d(known, rows), rows, numeric, target.k)
        judged = _learned_in_folds(features[known], truth[known], numeric, target.k)
    said = []
    for each in judged:
        everyone = np.tile(target.prior, (truth.shape[0], 1))
        everyone[known] = each
        said.append(everyone[rows])
    return Learned(tuple(said), judged, truth[known])


def _of_everyone(features: Vector, numeric: list[bool], everyone: Sequence[Codes]) -> Vector:
    """In the first row of each person what all of his rows say, in whatever order: means of numbers, the first of codes."""
    order, sizes = np.concatenate(everyone), np.array([own.size for own in everyone])
    starts = np.cumsum(sizes) - sizes
    means = np.add.reduceat(features[order], starts, axis=0) / sizes[:, None]
    found = features.copy()
    found[order[starts]] = np.where(numeric, means, np.minimum.reduceat(features[order], starts, axis=0))
    return found


def _part_right(said: Vector, truth: Codes) -> float:
    return float(np.mean(np.argmax(said, axis=1) == truth))


def _log_score(said: Vector, truth: Codes) -> float:
    return float(np.mean(np.log(np.maximum(said[np.arange(truth.size), truth], MIXED))))


def _learned_in_folds(features: Vector, truth: Codes, numeric: list[bool], k: int) -> tuple[Vector, ...]:
    """Every row by a model that did not see its fold, (n, k) of each learner."""
    counts = np.bincount(truth)
    stratified = counts[counts > 0].min() >= FOLDS
    folds = (StratifiedKFold if stratified else KFold)(FOLDS, shuffle=True, random_state=0)
    found = []
    for learner in _learners(numeric, truth):
        said = np.empty((truth.size, k))
        for train, test in folds.split(features, truth):
            said[test] = _said(learner, features[train], truth[train], features[test], k)
        found.append(said)
    return tuple(found)


def _learned_once(
    features: Vector, truth: Codes, learned: Codes, attacked: Codes, numeric: list[bool], k: int
) -> Learned:
    """The attacked rows from others; learners are judged by a fifth of those."""
    rows = np.random.default_rng(0).permutation(learned)[:MOST_LEARNED]
    aside, rows = np.split(rows, [rows.size // FOLDS])
    both = features[np.concatenate([aside, attacked])]
    said = [_said(learner, features[rows], truth[rows], both, k) for learner in _learners(numeric, truth[rows])]
    return Learned(tuple(s[aside.size :] for s in said), tuple(s[: aside.size] for s in said), truth[aside])


def _said(learner: Any, features: Vector, truth: Codes, others: Vector, k: int) -> Vector:
    """Probabilities that a learner gives the candidates of other rows; where its own all have one value, it knows no other."""
    found = np.zeros((others.shape[0], k))
    if np.all(truth == truth[0]):
        found[:, truth[0]] = 1.0
        return found
    fitted = clone(learner).fit(features, truth)
    found[:, np.asarray(fitted.classes_, dtype=np.int64)] = fitted.predict_proba(others)
    return found


def _others(target: Candidates) -> tuple[Vector, list[bool]]:
    """All columns and labels but the attacked one, as numbers; categories by their codes."""
    table = target.table
    places = [j for j in range(len(table.names)) if j != target.position]
    numeric = [table.is_numeric(j) for j in places]
    columns = [_numbers(table, j) for j in places]
    if target.encoded is None:
        labels = host(target.y)
    else:
        # the other numbers of a label are known where one of them is attacked
        labels = np.delete(np.reshape(host(target.y), (table.n, -1)), target.output or 0, axis=1)
    labels = np.reshape(labels, (table.n, -1))
    missing = [np.isnan(column) for column in columns]
    gaps = [each for each in missing if each.any()]  # not every learner takes missing values: filled, and said where
    filled = [_filled(column, each) if each.any() else column for column, each in zip(columns, missing, strict=True)]
    return np.column_stack([*filled, *gaps, labels]), [*numeric, *[True] * (len(gaps) + labels.shape[1])]


def _filled(column: Vector, missing: Any) -> Vector:
    """Missing values as the mean of those that are there."""
    return np.where(missing, column[~missing].mean() if not missing.all() else 0.0, column)


def _learners(numeric: list[bool], truth: Codes) -> list[Any]:
    numbers = [j for j, number in enumerate(numeric) if number]
    codes = [j for j, number in enumerate(numeric) if not number]
    encoder = OneHotEncoder(handle_unknown="ignore", min_frequency=5)
    prepare = ColumnTransformer([("numbers", StandardScaler(), numbers), ("codes", encoder, codes)])
    counts = np.bincount(truth)
    early = truth.size >= STOPPED_EARLY and counts[counts > 0].min() >= 2 * FOLDS
    # few small trees with long steps guess as well as many large ones, in a third of the time
    trees = {"max_iter": 25, "learning_rate": 0.2, "max_leaf_nodes": 12, "max_bins": 64, "random_state": 0}
    trees |= {"early_stopping": bool(early), "n_iter_no_change": 3}
    boosted = HistGradientBoostingClassifier(**trees)
    return [
        # cutting a column into bins costs more than the trees of few rows
        boosted if len(numeric) <= MOST_SPLIT else make_pipeline(SelectKBest(k=MOST_SPLIT), boosted),
        make_pipeline(prepare, LogisticRegression(max_iter=200)),
    ]


def _numbers(table: Table, position: int) -> Vector:
    """A column as numbers: categories by their codes, which trees can split."""
    column = table.column(position)
    if table.is_numeric(position):
        return column.astype(np.float64)
    text = np.array([str(value) for value in column.tolist()], dtype=object)
    return np.asarray(OrdinalEncoder().fit_transform(text[:, None])[:, 0])


class Prior(Attacker):
    """Always guesses the most probable value; looks at no model. Parameters as for every attacker.

    Examples
    --------
    >>> import numpy as np
    >>> import fisherleak as fl
    >>> X, y = np.array([[0.0, 1.0], [1.0, 2.0], [1.0, -1.0]]), np.array([1.0, 3.0, -1.0])
    >>> fl.attacks.Prior(fl.minimise(X, y), X, y, attribute=0).infer()
    array([1., 1., 1.])
    """

    name = "prior"
    of_people = True
    sees_model = False
    by_answers = True

    def guess(self, theta: Vector, noise: Noise | None = None) -> Codes:
        return np.broadcast_to(self.target.believed, (theta.shape[0], self.target.m))
