"""What the population gives away: the attribute learned from the other columns and the label, without any released model."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.preprocessing import OrdinalEncoder

from fisherleak._array import host
from fisherleak.attacks.attacker import Attacker, Codes, Vector
from fisherleak.models import Table

__all__ = ["Ideal"]

FOLDS = 5


class Ideal(Attacker):
    """Learns the attribute from the other columns and the label, and guesses each row by a model that never saw it.

    An upper mark for attackers without access to the released model or the training data: what they can infer about anyone
    in the population. Gradient-boosted trees, five folds. Parameters as for every attacker.

    Notes
    -----
    No released model enters: ``infer`` and ``accuracy`` give the same for any.

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

    def _codes(self, theta: Vector) -> Codes:
        return np.broadcast_to(self._guesses, (theta.shape[0], self._guesses.shape[0]))

    @cached_property
    def _guesses(self) -> Codes:
        target = self.target
        truth = host(target.truth)
        others = [_numbers(target.table, j) for j in range(len(target.table.names)) if j != target.position]
        known = np.column_stack([*others, host(target.y)])[host(target.rows)]
        counts = np.bincount(truth)
        if counts.max() == target.m or target.m < 2 * FOLDS:
            return np.full(target.m, target.mode)
        stratified = counts[counts > 0].min() >= FOLDS
        folds = (StratifiedKFold if stratified else KFold)(FOLDS, shuffle=True, random_state=0)
        learner = HistGradientBoostingClassifier(random_state=0, early_stopping=False, max_iter=60)
        return np.asarray(cross_val_predict(learner, known, truth, cv=folds))


def _numbers(table: Table, position: int) -> Vector:
    """A column as numbers: categories by their codes, which trees can split."""
    column = table.column(position)
    if table.is_numeric(position):
        return column.astype(np.float64)
    text = np.array([str(value) for value in column.tolist()], dtype=object)
    return np.asarray(OrdinalEncoder().fit_transform(text[:, None])[:, 0])
