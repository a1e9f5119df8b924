"""What is asked of ``protect``: arguments checked, and the rows split by a rule that no value of a row decides."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils import get_tags
from sklearn.utils.multiclass import type_of_target

from fisherleak._support.checks import check_limit, check_part, check_positive
from fisherleak._support.namespaces import Estimator, Seed, TableLike, VectorLike
from fisherleak.engine.noise.calibrated import ADMISSIBLE
from fisherleak.errors import InvalidInputError
from fisherleak.models import Table, as_table
from fisherleak.models.rebuilt import FEW
from fisherleak.models.steps.levels import check_common_classes
from fisherleak.models.wrapper import one_target
from fisherleak.protection.calibrate.shapes import SHAPES
from fisherleak.protection.frontier.frontier_candidates import WEIGHTINGS, Task
from fisherleak.protection.release.release import check_public

__all__ = ["asked_task", "listed_weightings", "split_of"]

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
    limit = check_limit(eta)
    _check_estimator(estimator)
    check_public(public)
    if over not in SHAPES_OVER:
        raise InvalidInputError(f"over must be one of {', '.join(SHAPES_OVER)}; got {over!r}.")
    if over == ADMISSIBLE and groups is not None:
        raise InvalidInputError("groups go with over='max': no bound is known for a group that could be there.")
    if over != ADMISSIBLE and bounds is not None:
        raise InvalidInputError(f"bounds are for over='admissible' only; got over={over!r}.")
    known = SHAPES_OVER[over] if shapes is None else _listed(shapes, "shapes", SHAPES)
    weighted = listed_weightings(weightings)
    factors = _factors(penalties)
    if as_table(X).lazy:
        raise InvalidInputError("protect fits scikit-learn models, which need rows in memory; X is Dask's.")
    if not (hasattr(X, "iloc") or hasattr(X, "__getitem__")):
        X = np.asarray(X)
    y = one_target(estimator, y)
    _check_fittable(estimator, X, y)
    if public == "nothing" and is_classifier(estimator) and type_of_target(y) in ("binary", "multiclass"):
        check_common_classes(estimator, y, FEW)
    return Task(estimator, X, y, limit, over, groups, factors, weighted, known, bounds, public, random_state)


def _check_estimator(estimator: Any) -> None:
    """A model with its options, not a class or a name of one."""
    if isinstance(estimator, type) or not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
        got = f"the class {estimator.__name__}" if isinstance(estimator, type) else repr(estimator)
        raise InvalidInputError(f"estimator must be a scikit-learn model, Ridge(1.0) say; got {got}.")


def listed_weightings(weightings: Any) -> tuple[str, ...]:
    """What users may pass as ``weightings=``."""
    return _listed(weightings, "weightings", tuple(WEIGHTINGS))


def _listed(given: Any, name: str, allowed: Sequence[str]) -> tuple[str, ...]:
    """Some of a few names, as users list them."""
    rule = f"{name} must be a list of some of {', '.join(allowed)}"
    if isinstance(given, str) or not isinstance(given, Iterable):
        remedy = f" Write {name}=['{given}']." if given in allowed else ""
        raise InvalidInputError(f"{rule}; got {given!r}.{remedy}")
    items = list(given)
    for item in items:
        if not (isinstance(item, str) and item in allowed):
            shown = repr(item) if isinstance(item, str | int | float | None) else type(item).__name__
            raise InvalidInputError(f"{rule}; got {shown} in it.")
    if not items:
        raise InvalidInputError(f"{rule}; got an empty one.")
    return tuple(items)


def _factors(penalties: Any) -> tuple[float, ...]:
    rule = "penalties must be a list of factors of the estimator's own penalty"
    if isinstance(penalties, str) or not isinstance(penalties, Iterable):
        raise InvalidInputError(f"{rule}, [1, 10] say; got {penalties!r}.")
    factors = tuple(check_positive(penalty, "penalties") for penalty in penalties)
    if not factors:
        raise InvalidInputError(f"{rule}, [1, 10] say; got an empty one.")
    return factors


def _check_rows(estimator: Any, X: Any, y: Any) -> None:
    """As many rows as labels, some of each, and numbers where nothing encodes text."""
    table, labels = as_table(X), len(np.asarray(y))
    if table.n != labels:
        raise InvalidInputError(
            f"y must have one label for each row of X; got inconsistent numbers of samples: {table.n} rows and {labels} labels."
        )
    if not labels:
        raise InvalidInputError("X has no rows: found array with 0 sample(s), and a minimum of 1 is required.")
    if hasattr(estimator, "steps") or hasattr(estimator, "estimator"):
        return
    text = next((name for j, name in enumerate(table.names) if _is_text(table, j)), None)
    if text is not None:
        raise InvalidInputError(
            f"Column '{text}' cannot be read as numbers, and {type(estimator).__name__} takes numbers only: encode it with a "
            "OneHotEncoder in a Pipeline, or leave it out."
        )


def _is_text(table: Table, position: int) -> bool:
    """Whether a column holds text that is no number."""
    return not table.holds_numbers(position) and any(
        isinstance(value, str) for value in table.column(position).tolist()
    )


def _check_fittable(estimator: Estimator, X: Any, y: Any) -> None:
    """Refuse what no estimator of this kind can be fitted on, before anything is."""
    _check_rows(estimator, X, y)
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
    share = check_part(held_out, "held_out", 0.9)
    n = len(task.y)
    if share == 0:
        return np.arange(n), np.arange(n)
    if n < FEWEST_ROWS:
        warnings.warn(
            f"None of {n} rows are held out, for {FEWEST_ROWS} are the fewest that are split: losses and scores are those of "
            "the rows that models are fitted on. Use held_out=0 to have it so.",
            UserWarning,
            stacklevel=3,
        )
        return np.arange(n), np.arange(n)
    held = np.floor((np.arange(n) + 1) * share) > np.floor(np.arange(n) * share)
    if not held.any():
        raise InvalidInputError(
            f"held_out must be 0, or at least {1 / n:.2g} so that one of {n} rows is held out; got {held_out!r}."
        )
    order = task.rng().permutation(n)
    return np.sort(order[~held]), np.sort(order[held])
