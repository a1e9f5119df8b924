r"""A fitted model as noise acts on it, and the rows that it is scored on.

Where preprocessing is public, noise acts on the model's own parameters: predictors are :math:`z = X w + b` on its features.
Where it is counted, noise without a shape acts on :math:`f = F (w, b, t)`, with F the frame of the release in raw units.
Predictors are :math:`z = M F^{-1} f`, with M the raw features, a one, and a one for each cell that an imputer fills.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Estimator
from fisherleak.attacks.candidate_values import classifies
from fisherleak.engine.fit.minimise import Fit, is_fit
from fisherleak.engine.fit.training_data import codes_of
from fisherleak.engine.jacobian.folding import Folding
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.noise import covariance_of
from fisherleak.engine.norms import one_release
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import as_table, checked_model, final_estimator
from fisherleak.models.frames import Table, same_values
from fisherleak.models.preprocessed import prepare
from fisherleak.models.several import known_classes
from fisherleak.models.steps.imputers import absent_features
from fisherleak.models.steps.scalers import neutral
from fisherleak.protection.release.release import FittedModel
from fisherleak.rows.selection import some_rows
from fisherleak.training.model_kinds import leading_metric, measures_of
from fisherleak.training.utility import MOST_ROWS, Scored

__all__ = ["ScoredRows", "scored_model"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class ScoredRows:
    """Rows that a model is scored on, and whether it was not fitted on them.

    Attributes
    ----------
    seen : int
        How many of the rows that were given as held out are training rows, as far as their values show it.
    """

    X: Any = field(repr=False)
    y: Any = field(repr=False)
    held_out: bool
    seen: int = 0

    @classmethod
    def of(cls, X: Any, y: Any, X_test: Any, y_test: Any, seed: int) -> ScoredRows:
        """Those that were given, else training rows, some of many."""
        if (X_test is None) != (y_test is None):
            lacking = "y_test" if y_test is None else "X_test"
            raise InvalidInputError(f"X_test and y_test go together: {lacking} is missing.")
        table = as_table(X)
        if X_test is None:
            rows = some_rows(table.n, MOST_ROWS, seed)
            return cls(table.take(rows).values, _own_labels(y)[rows], False)
        other = as_table(X_test)
        if other.n == 0 or other.n != len(y_test):
            raise InvalidInputError(
                f"y_test must have one value for each row of X_test, at least one; got {len(y_test)} for {other.n} rows."
            )
        if other.lazy or table.lazy:
            same = other.n == table.n and other.names == table.names and same_values(table, other)
            return cls(X_test, y_test, not same)
        seen = _seen(table, y, other, y_test)
        return cls(X_test, y_test, 2 * seen < other.n, seen)


def _seen(table: Table, y: Any, other: Table, y_test: Any) -> int:
    """Rows of ``other`` with the values and the label of a training row that no second one shares: in whatever order, such a
    row is hardly a new one. Rows that many have in common show nothing.
    """
    if other.names != table.names:
        return 0
    trained, given = (_row_hashes(each, labels) for each, labels in ((table, y), (other, y_test)))
    values, counts = np.unique(trained, return_counts=True)
    return int(np.isin(given, values[counts == 1]).sum())


def _row_hashes(table: Table, labels: Any) -> NDArray[np.uint64]:
    """One number for the values of each row and its label; numbers are compared with the digits of a float32."""
    import pandas

    columns = [*(table.column(j) for j in range(len(table.names))), _own_labels(labels)]
    flat = [part for column in columns for part in (column.T if np.ndim(column) == 2 else [column])]
    plain = [part.astype(np.float32) if np.asarray(part).dtype.kind in "iufb" else part.astype(str) for part in flat]
    frame = pandas.DataFrame(dict(enumerate(plain)))
    return np.asarray(pandas.util.hash_pandas_object(frame, index=False), dtype=np.uint64)


def _own_labels(y: Any) -> NDArray[Any]:
    return np.asarray(host(y) if hasattr(y, "detach") else y)


def scored_model(model: Estimator, leak: Leakage, rows: ScoredRows, metric: str | None = None) -> Scored | None:
    """For utility with the noise of a leakage; None where no measure is known for the model's loss and labels.

    ``metric`` is the measure that leads, by default that of ``leading_metric``.
    """
    fit, noise = leak.fits[0], leak.noise
    classes = _classes(model, fit)
    measures = measures_of(fit.loss, 0 if classes is None else len(classes))
    if measures is None:
        return None
    X, beside = _rows_of_parameters(model, leak, rows.X)
    y = _labels(rows.y, classes)
    _check_labels(y, fit, classes is not None)
    if measures.metrics[0].name == "r2" and np.min(np.ptp(y, axis=0)) == 0:
        if rows.held_out:
            raise InvalidInputError(
                "y_test has one value in all rows, and R² compares with their variance: pass more rows."
            )
        return None
    trained = _labels(_training_labels(leak), None)
    constant: Any = trained.mean(axis=0)
    rarest = None
    if classes is not None:
        shares = np.bincount(_codes(trained, len(classes)), minlength=len(classes)) / leak.n
        constant, rarest = shares if len(classes) > 2 else float(shares[1]), float(shares.min()) * len(classes)
    lead = leading_metric(measures.metrics, rarest, metric)
    theta = np.asarray(host(fit.theta)) if is_fit(model) else _own_parameters(model, leak, noise)
    own = (fit.outputs, noise, measures.metrics, lead, measures.constant(constant))
    return Scored(X, y, theta, *own, rows.held_out, beside=beside)


def _own_parameters(model: Estimator, leak: Leakage, noise: Noise) -> Vector:
    """The model's own, where this noise acts in a release."""
    public = "preprocessing" if _folding(leak) is None else "nothing"
    return FittedModel(checked_model(model), public).acted_on(noise)[0]


def _folding(leak: Leakage) -> Folding | None:
    return one_release(measurement(leak).information).folding


def _rows_of_parameters(model: Estimator, leak: Leakage, X: Any) -> tuple[Vector, Vector | None]:
    """Rows as the parameters multiply them, (m, d), and what those behind the intercept multiply, (m, q)."""
    queried, folding = measurement(leak).queried, _folding(leak)
    assert queried is not None
    if folding is None:
        return queried.features(X, "X_test"), None
    prepared = prepare(neutral(checked_model(model))[0], as_table(X))
    M = np.asarray(host(prepared.features), dtype=np.float64)
    d, filling = M.shape[1], folding.filling
    if not np.isfinite(M).all():
        raise InvalidInputError("X_test must be finite behind the preprocessing. Drop or fill rows that are not.")
    fills = np.zeros((M.shape[0], 0))
    if filling is not None:
        gone = absent_features(prepared.attributes, prepared.absent, M.shape)
        columns = list(filling.columns)
        fills = gone[:, columns].astype(np.float64)
        # w c = w m + t: the fill is counted from the public centre
        M[:, columns] -= fills * host(filling.offsets)
    if covariance_of(leak.noise) is None:
        one = [np.ones((M.shape[0], 1))] * (leak.fits[0].intercept is not None)
        F = np.asarray(host(folding.frame), dtype=np.float64)
        # z = M F^-1 f
        M = np.asarray(np.linalg.solve(F.T, np.hstack([M, *one, fills]).T).T[:, :d], dtype=np.float64)
    return M, fills if fills.shape[1] else None


def _classes(model: Estimator, fit: Fit) -> NDArray[Any] | None:
    """The classes that are predicted; None for numbers."""
    if not classifies(model, fit):
        return None
    if is_fit(model):
        return np.array([0.0, 1.0]) if fit.classes is None else np.asarray(fit.classes)
    return known_classes(final_estimator(checked_model(model)))


def _labels(y: Any, classes: NDArray[Any] | None) -> Vector:
    """Numbers, or codes of classes."""
    given = host(y) if hasattr(y, "detach") else np.asarray(y)
    if classes is not None:
        own = given.reshape(-1)
        return np.asarray(codes_of(own, classes, own))
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("y_test must hold numbers, as y does. Turn texts into numbers first.") from None
    return numbers[:, 0] if numbers.ndim == 2 and numbers.shape[1] == 1 else numbers


def _check_labels(y: Vector, fit: Fit, classes: bool) -> None:
    """Refuse numbers that the loss does not take, and missing ones."""
    accepted = np.isfinite(y)
    if not classes and y.ndim == 1:
        accepted &= np.asarray(fit.loss.labels.accepts(y), dtype=bool)
    if not accepted.all():
        row = int(np.argmin(accepted.reshape(len(y), -1).all(axis=1)))
        raise InvalidInputError(f"y_test must be {fit.loss.labels.rule}; row {row} is not.")


def _training_labels(leak: Leakage) -> Any:
    """As the loss takes them."""
    return host(measurement(leak).information.rows[1])


def _codes(labels: Vector, count: int) -> NDArray[np.int64]:
    """Codes of classes as losses have them: 0 to K - 1, or -1 and 1."""
    return (labels > 0.5).astype(np.int64) if count == 2 else labels.astype(np.int64)
