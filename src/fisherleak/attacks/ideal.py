"""What the population gives away: the attribute learned from the other columns and the label, without any released model."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from fisherleak._support.arrays import host
from fisherleak.attacks.base import Attacker, Codes, Vector
from fisherleak.attacks.candidates import Candidates
from fisherleak.engine.noise import Noise
from fisherleak.models import Table

__all__ = ["Ideal"]

FOLDS = 5


class Ideal(Attacker):
    """Learns the attribute from the other columns and the label, and guesses each row by a model that never saw it.

    What can be inferred about anyone in the population without the released model. Gradient-boosted trees and logistic
    regression, five folds over all rows; the one that is right more often there is taken. Parameters as for every attacker.

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

    name = "ideal"
    by_answers = True

    def guess(self, theta: Vector, noise: Noise | None = None) -> Codes:
        return np.broadcast_to(self._guesses, (theta.shape[0], self._guesses.shape[0]))

    @cached_property
    def _guesses(self) -> Codes:
        target = self.target
        truth = host(target.codes)
        known = np.flatnonzero(truth >= 0)
        counts = np.bincount(truth[known])
        if counts.max() == known.size or known.size < 2 * FOLDS:
            return np.full(target.m, target.mode)
        features, numeric = _others(target)
        stratified = counts[counts > 0].min() >= FOLDS
        folds = (StratifiedKFold if stratified else KFold)(FOLDS, shuffle=True, random_state=0)
        best, found = -1.0, np.zeros(known.size, dtype=np.int64)
        # many short parallel regions: on a busy machine threads that wait for each other cost far more than they save
        with threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a learner that stops early is a weaker attacker, no error
            for learner in _learners(numeric):
                guesses = cross_val_predict(learner, features[known], truth[known], cv=folds)
                right = float(np.mean(guesses == truth[known]))
                if right > best:
                    best, found = right, np.asarray(guesses)
        everyone = np.full(truth.shape[0], target.mode)
        everyone[known] = found
        return np.asarray(everyone[host(target.rows)])


def _others(target: Candidates) -> tuple[Vector, list[bool]]:
    """All columns but the attacked one, and the label, as numbers; categories by their codes."""
    table = target.table
    places = [j for j in range(len(table.names)) if j != target.position]
    numeric = [table.is_numeric(j) for j in places]
    columns = [_numbers(table, j) for j in places]
    return np.column_stack([*columns, host(target.y)]), [*numeric, True]


def _learners(numeric: list[bool]) -> list[Any]:
    numbers = [j for j, number in enumerate(numeric) if number]
    codes = [j for j, number in enumerate(numeric) if not number]
    encoder = OneHotEncoder(handle_unknown="ignore", min_frequency=5)
    prepare = ColumnTransformer([("numbers", StandardScaler(), numbers), ("codes", encoder, codes)])
    return [
        HistGradientBoostingClassifier(random_state=0, early_stopping=False, max_iter=60),
        make_pipeline(prepare, LogisticRegression(max_iter=200)),
    ]


def _numbers(table: Table, position: int) -> Vector:
    """A column as numbers: categories by their codes, which trees can split."""
    column = table.column(position)
    if table.is_numeric(position):
        return column.astype(np.float64)
    text = np.array([str(value) for value in column.tolist()], dtype=object)
    return np.asarray(OrdinalEncoder().fit_transform(text[:, None])[:, 0])
