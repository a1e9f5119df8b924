"""What is asked of ``protect``: arguments checked, and the rows split by a rule that no value of a row decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils import get_tags
from sklearn.utils.multiclass import type_of_target

from fisherleak._support.checks import check_positive
from fisherleak._support.namespaces import Estimator, Seed, TableLike, VectorLike
from fisherleak.engine.calibrated import ADMISSIBLE
from fisherleak.errors import InvalidInputError
from fisherleak.models import as_table
from fisherleak.models.levels import check_common_classes
from fisherleak.models.rebuilt import FEW
from fisherleak.models.wrapper import one_target
from fisherleak.protection.contenders import WEIGHTINGS, Task
from fisherleak.protection.release import check_public
from fisherleak.protection.shapes import SHAPES

__all__ = ["asked_task", "split_of"]

Rows = NDArray[np.int64]
SHAPES_OVER = dict.fromkeys((ADMISSIBLE, "max"), ("isotropic", "hessian", "least-loss"))
"""Shapes that are tried, by whom a limit is on."""
FEWEST_ROWS = 20
"""Below this none are held out."""


def asked_task(
    estimator: Estimator,
    X: TableLike,
    y: VectorLike,
    eta: float,
    over: str,
    groups: VectorLike,
    penalties: Sequence[float],
    weightings: Sequence[str],
    shapes: Sequence[str] | None,
    bounds: Mapping[str, Any] | None,
    public: str,
    random_state: Seed,
) -> Task:
    limit = check_positive(eta, "eta")
    check_public(public)
    if over not in SHAPES_OVER:
        raise InvalidInputError(f"over must be one of {', '.join(SHAPES_OVER)}; got {over!r}.")
    if over == ADMISSIBLE and groups is not None:
        raise InvalidInputError("groups go with over='max': no bound is known for a group that could be there.")
    if over != ADMISSIBLE and bounds is not None:
        raise InvalidInputError(f"bounds are for over='admissible' only; got over={over!r}.")
    known = SHAPES_OVER[over] if shapes is None else tuple(shapes)
    for name, given, allowed in (("shapes", known, SHAPES), ("weightings", tuple(weightings), tuple(WEIGHTINGS))):
        wrong = [item for item in given if item not in allowed]
        if wrong or not given:
            raise InvalidInputError(
                f"{name} must be some of {', '.join(allowed)}; got {wrong[0] if wrong else 'none'!r}."
            )
    if as_table(X).lazy:
        raise InvalidInputError("protect fits scikit-learn models, which need rows in memory; X is Dask's.")
    if not (hasattr(X, "iloc") or hasattr(X, "__getitem__")):
        X = np.asarray(X)
    factors = tuple(check_positive(penalty, "penalties") for penalty in penalties)
    if not factors:
        raise InvalidInputError("penalties must be factors of the estimator's own penalty; got none.")
    y = one_target(estimator, y)
    _check_fittable(estimator, X, y)
    if public == "nothing" and is_classifier(estimator) and type_of_target(y) in ("binary", "multiclass"):
        check_common_classes(estimator, y, FEW)
    return Task(estimator, X, y, limit, over, groups, factors, tuple(weightings), known, bounds, public, random_state)


def _check_fittable(estimator: Estimator, X: Any, y: Any) -> None:
    """Refuse what no estimator of this kind can be fitted on, before anything is."""
    labels = np.asarray(y)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        count = int(np.sum(~np.isfinite(labels)))
        raise InvalidInputError(
            f"Input y contains NaN or infinity: {count} of {len(labels)} labels. Drop these rows, or fill in what is missing."
        )
    if is_classifier(estimator) and len(labels) and len(kinds := np.unique(labels)) == 1:
        raise InvalidInputError(
            f"y has one class only ({kinds.tolist()[0]!r} in all {len(labels)} rows), and a classifier needs rows of two "
            "classes."
        )
    # steps of a pipeline may fill columns each in its own way
    wrong = 0 if hasattr(estimator, "steps") or get_tags(estimator).input_tags.allow_nan else _rows_with_gaps(X)
    if wrong:
        raise InvalidInputError(
            f"Input X contains NaN or infinity in {wrong} of {len(labels)} rows, and {type(estimator).__name__} takes numbers "
            "only: drop these rows, or fill them with a SimpleImputer in a Pipeline."
        )


def _rows_with_gaps(X: Any) -> int:
    """Rows of an array of numbers that hold one that is not finite, or of a frame that lack a value."""
    if hasattr(X, "isna"):
        return int(np.asarray(X.isna()).reshape(len(X), -1).any(axis=1).sum())
    if not (isinstance(X, np.ndarray) and X.dtype.kind == "f" and len(X)):
        return 0
    return int(np.sum(~np.isfinite(X.reshape(len(X), -1)).all(axis=1)))


def split_of(task: Task, held_out: float) -> tuple[Rows, Rows]:
    """Rows to train on and to look at; the same where there are too few. No value of a row decides where it goes."""
    if not 0 <= held_out <= 0.9:
        raise InvalidInputError(f"held_out must be between 0 and 0.9; got {held_out!r}.")
    n = len(task.y)
    if n < FEWEST_ROWS or held_out == 0:
        return np.arange(n), np.arange(n)
    order = task.rng().permutation(n)
    held = np.floor((np.arange(n) + 1) * held_out) > np.floor(np.arange(n) * held_out)
    return np.sort(order[~held]), np.sort(order[held])
