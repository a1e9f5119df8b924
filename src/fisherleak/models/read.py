"""A fitted model and the table it was fitted on, read into what ``leakage`` needs.

Also here: whether a fitted model is at the minimum of its objective on the data given, or can have stopped on its way there.

Mathematics: 1.6, ``docs/mathematics/fits.md``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn import linear_model

from fisherleak._support.arrays import Array, as_real, device, host, is_lazy, like, namespace
from fisherleak._support.namespaces import Estimator, VectorLike
from fisherleak.engine.fit.minimise import Fit, check_determined, distance, fit_at, is_fit, moved_to_minimum
from fisherleak.engine.fit.newton import SMALL_STEP
from fisherleak.engine.fit.risk import Risk, largest_of
from fisherleak.engine.fit.training_data import (
    TrainingData,
    check_training_data,
    check_weights,
    shaped_data,
    training_data,
)
from fisherleak.engine.information import Information
from fisherleak.engine.jacobian import jacobian_of
from fisherleak.engine.jacobian.folding import Folding
from fisherleak.engine.jacobian.perturbation import Attribute, as_attributes
from fisherleak.engine.magnitudes import MOST, check_directions, check_penalty
from fisherleak.engine.mechanisms.interface_answers import Disclosed
from fisherleak.engine.noise import Noise
from fisherleak.engine.norms import information_of
from fisherleak.errors import InvalidInputError, NotAtMinimumError, UnsupportedModelError
from fisherleak.models.estimators import recipe_of
from fisherleak.models.frames import Table
from fisherleak.models.preprocessed import Prepared, checked_model, prepare
from fisherleak.models.several import all_parameters, is_each_class, outputs_of
from fisherleak.models.steps.imputers import Mask, absent_features, with_fills
from fisherleak.models.steps.scalers import Scale, complete, folding_of, in_raw_units, neutral, refuse_learned_fills
from fisherleak.rows import map_rows, sum_rows
from fisherleak.rows.selection import lazy_labels, same_rows

SAME_DATA = 1e-6
"""Distance from the minimum above which the data are not those of an exact fit."""


@dataclass(frozen=True)
class Reading:
    """A model as a fit on its features, with the raw columns as attributes.

    ``fit`` is what is measured, ``other`` what it is to be compared with where the two differ: the fit at the model's own
    parameters if ``fit`` is at the minimum, else the one at the minimum.
    """

    fit: Fit
    data: TrainingData
    attributes: tuple[Attribute, ...]
    other: Fit | None = None
    polished: bool = False
    other_side: tuple[Attribute, ...] | None = None
    folding: Folding | None = None
    absent: dict[str, Mask] = field(default_factory=dict)
    scales: tuple[Scale, ...] = ()
    """What scalers that are folded in learned, one for each feature."""

    def information(self, noise: Noise | Disclosed) -> Information:
        """What the fit tells about its rows when it is released with a noise, or known by answers."""
        return information_of(jacobian_of(self.fit, self.data.X, self.data.y, noise, self.attributes, self.folding))


def read(
    model: Estimator,
    table: Table,
    y: VectorLike,
    sample_weight: VectorLike,
    polish: bool | None,
    public: str = "preprocessing",
    own_data: bool = False,
) -> Reading:
    """The fit, the training data and the attributes of a Fit or of a fitted scikit-learn model.

    ``polish`` moves the fit to its minimum; None does so for iterative solvers. With nothing ``public``, scalers and imputers
    are folded in. ``own_data`` says that the model is known to have been fitted on these data: polishing may then bridge any
    distance.
    """
    if is_fit(model):
        return _read_fit(model, table, y, sample_weight)
    if public == "nothing":
        return _read_folded(model, table, y, sample_weight, polish, own_data)
    return _read_estimator(model, table, y, sample_weight, polish, own_data)


def _read_fit(fit: Fit, table: Table, y: VectorLike, sample_weight: VectorLike) -> Reading:
    """Rows that were checked when they were fitted: they have to be the same."""
    names = table.names if table.is_frame else None
    data = shaped_data(table.values, y, None, fit.loss, names, fit.classes, coded=False)
    if fit.loss.several and not fit.loss.classes and data.y.shape[1] != fit.outputs:
        raise InvalidInputError(
            f"The model was fitted on {fit.outputs} outputs in y; got {data.y.shape[1]}. Pass the training data."
        )
    X = data.X
    if data.xp is not namespace(fit.coef) or device(X) != device(fit.coef):
        raise InvalidInputError(
            f"The model was fitted on {type(fit.coef).__name__} arrays ({device(fit.coef)}); got {type(X).__name__} "
            f"({device(X)}). Pass arrays of one library, on one device."
        )
    if X.shape[0] != fit.n or X.shape[1] != fit.coef.shape[-1]:
        raise InvalidInputError(
            f"The model was fitted on {fit.n} rows and {fit.coef.shape[-1]} columns; got {X.shape[0]} rows and "
            f"{X.shape[1]} columns. Pass the training data."
        )
    weights = check_weights(sample_weight, X)
    if weights is not None and not _same_weights(weights, fit.sample_weight):
        raise InvalidInputError("sample_weight differs from the weights the model was fitted with. Pass the same.")
    data = replace(data, weights=fit.sample_weight)
    # minimise has looked at every column: where all values are of sizes that it takes, only the labels are looked at again
    seen = data if is_lazy(X) or not _largest(X) <= MOST else replace(data, X=X[:, :1])
    check_training_data(seen, fit.loss, fit.intercept is not None)
    away = distance(fit, X, data.y)
    if not away <= SAME_DATA:
        raise InvalidInputError(
            f"The model is not at a minimum on this X and y (relative distance {away:.1e}). Pass the rows, in the same "
            "order, that it was fitted on."
        )
    return Reading(fit, data, as_attributes(None, X.shape, table.names))


def _largest(X: Array) -> float:
    """The size of the largest value; NaN where one is not a number."""
    xp = namespace(X)

    def block(X: Array) -> tuple[Array]:
        x = as_real(X, xp)
        return (xp.maximum(xp.max(x), -xp.min(x)),)

    return float(sum_rows(block, X, join=largest_of)[0])


def _same_weights(weights: Array, own: Array | None) -> bool:
    return same_rows(weights, map_rows(namespace(weights).ones_like, weights) if own is None else own)


def _read_estimator(
    model: Estimator, table: Table, y: VectorLike, sample_weight: VectorLike, polish: bool | None, own_data: bool
) -> Reading:
    """A model of scikit-learn as it is: all that its preprocessing learned is public."""
    prepared = prepare(model, table)
    risk, theta = risk_of(prepared, y, sample_weight)
    check_determined(risk)
    given = fit_at(risk, theta, False)
    found = Reading(given, risk, prepared.attributes, other_side=prepared.other_side, absent=prepared.absent)
    # where there may be no minimum at all, that is the better reason to give for being far from it
    exact = moved_to_minimum(risk, given) if risk.l2 == 0 and risk.separable else None
    if not (polish and own_data):
        check_at_minimum(prepared.estimator, risk, given, as_given=polish is False)
    if not polish and solves_directly(prepared.estimator):
        return found
    exact = moved_to_minimum(risk, given) if exact is None else exact
    fit, other = (given, exact) if polish is False else (exact, given)
    return replace(found, fit=fit, other=other if _apart(risk, given, exact) else None, polished=fit is exact)


def _read_folded(
    model: Estimator, table: Table, y: VectorLike, sample_weight: VectorLike, polish: bool | None, own_data: bool
) -> Reading:
    """The same with scalers and imputers folded in: a fit in raw units, whose scales and filled values are counted."""
    plain, scales = neutral(checked_model(model))
    if table.lazy and scales is not None:
        raise UnsupportedModelError(
            "public='nothing' needs rows in memory, and X is a Dask array: pass X.compute(), or use public='preprocessing'."
        )
    # refuses what is not at its minimum, in its own terms
    own = _read_estimator(model, table, y, sample_weight, polish, own_data)
    if scales is None:
        return own
    prepared = prepare(plain, table)
    risk, theta = risk_of(prepared, y, sample_weight)
    known = complete(scales, risk.X.shape[1])
    if own.fit.loss.several:
        refuse_learned_fills(known)
    risk, theta = in_raw_units(risk, theta, known)
    fit = fit_at(risk, theta, own.polished)
    gone = absent_features(prepared.attributes, prepared.absent, risk.X.shape)
    folding = folding_of(risk, fit, known, gone)
    side = prepared.other_side
    return Reading(
        fit,
        risk,
        with_fills(prepared.attributes, folding.filling, risk.size),
        other=None if own.other is None else fit_at(risk, theta, not own.polished),
        polished=own.polished,
        other_side=None if side is None else with_fills(side, folding.filling, risk.size),
        folding=folding,
        absent=prepared.absent,
        scales=tuple(known),
    )


def _apart(risk: Risk, given: Fit, exact: Fit) -> bool:
    """Whether any prediction differs between two fits, by more than a part that no eta can tell."""
    moved, largest = risk.largest_moves(given.centred_theta - exact.centred_theta, exact.centred_theta)
    return moved > SMALL_STEP * max(largest, 1.0)


def risk_of(prepared: Prepared, y: VectorLike, sample_weight: VectorLike) -> tuple[Risk, Array]:
    """The objective that the last step minimises, and its parameters."""
    features = prepared.features
    labels = _labels(y, features)
    if labels.ndim == 0 or labels.shape[0] != features.shape[0]:
        count = "none" if labels.ndim == 0 else labels.shape[0]
        raise InvalidInputError(f"y must have one value for each of the {features.shape[0]} rows of X; got {count}.")
    weights = None if sample_weight is None else check_weights(sample_weight, features)
    recipe = recipe_of(prepared.estimator, labels, weights)
    names = _feature_names(prepared.attributes, features.shape[1])
    data = training_data(features, recipe.y, recipe.weights, recipe.loss, names, recipe.intercept, recipe.classes)
    own = (recipe.loss, recipe.l2, recipe.intercept, recipe.intercept_l2)
    risk = Risk.on(data, *own, per_row=recipe.per_row)
    check_penalty(recipe.l2)
    check_directions(prepared.attributes)
    outputs = outputs_of(prepared.estimator)
    if risk.outputs == 1 < outputs:
        raise UnsupportedModelError(
            f"{type(prepared.estimator).__name__} with {outputs} outputs is not supported here: fit one model per output."
        )
    return risk, like(all_parameters(prepared.estimator), risk.X, risk.xp)


def _labels(y: VectorLike, features: Array) -> Any:
    """Labels, numbers or text, beside the features."""
    if is_lazy(features):
        return lazy_labels(y, features)
    if isinstance(features, np.ndarray):
        return host(y) if hasattr(y, "detach") else np.asarray(y)
    return y if type(y) is type(features) else namespace(features).asarray(np.asarray(y), device=device(features))


def _feature_names(attributes: tuple[Attribute, ...], count: int) -> tuple[str, ...]:
    """Features by the raw columns that feed them, for error messages."""
    sources: list[list[str]] = [[] for _ in range(count)]
    for attribute in attributes:
        if attribute.directions is None or np.any(attribute.directions):
            for j in attribute.columns:
                sources[j].append(attribute.name)
    alone = [source[0] if len(source) == 1 else "" for source in sources]
    counts = Counter(alone)
    names = []
    for j, name in enumerate(alone):
        only = name and counts[name] == 1
        names.append(name if only else f"feature {j} ({', '.join(sources[j][:3])})")
    return tuple(names)


# Whether a model is at its minimum

LOOSE = 1e-3
"""Distance from the minimum past which a solver that did not keep its promise is not excused by rounding."""
REFUSED = 1e-2
"""Distance past which a model that was fitted by an iterative solver has to prove that the data are its own."""
DIRECT = 1e-6
"""Distance past which a model that was fitted by a direct solver in double precision is refused."""
SLACK = 1.05
"""Factor on a promised gradient for the rounding of another sum."""
TELLING = 3.0
"""A promise proves something if the gradient of another sample would be this many times larger."""


def solves_directly(estimator: Estimator) -> bool:
    """Whether the model's solver is exact to rounding, so that any distance from the minimum is a mistake in the data."""
    estimator = _of_one_class(estimator)
    if isinstance(estimator, linear_model.LinearRegression):
        # sparse features are solved by LSQR, which finds no rank
        return hasattr(estimator, "rank_")
    if isinstance(estimator, (linear_model.RidgeCV, linear_model.RidgeClassifierCV)):
        return True
    return isinstance(estimator, (linear_model.Ridge, linear_model.RidgeClassifier)) and _solver(estimator) in (
        "auto",
        "cholesky",
        "svd",
    )


def _of_one_class(estimator: Estimator) -> Estimator:
    return estimator.estimators_[0] if is_each_class(estimator) else estimator


def _solver(estimator: Estimator) -> str:
    """The solver that a model was fitted by: where the features are sparse, Ridge takes an iterative one by itself."""
    if isinstance(estimator, linear_model.LinearRegression):
        return "lsqr"
    return str(getattr(estimator, "solver_", estimator.solver))


def promised_gradient(estimator: Estimator) -> float | None:
    """Largest component of the mean gradient at which the model's solver stops; None for solvers that stop otherwise."""
    estimator = _of_one_class(estimator)
    iterative = (
        linear_model.LogisticRegression,
        linear_model.LogisticRegressionCV,
        linear_model.PoissonRegressor,
        linear_model.GammaRegressor,
        linear_model.TweedieRegressor,
    )
    if isinstance(estimator, iterative) and estimator.solver in ("lbfgs", "newton-cg", "newton-cholesky"):
        return float(estimator.tol)
    return None


def check_at_minimum(estimator: Estimator, risk: Risk, fit: Fit, as_given: bool) -> None:
    """Refuse a model that cannot have been fitted on these data, or that stopped too far from its minimum to tell.

    ``as_given`` says that the parameters are measured as they are: then no promise excuses a distance.
    """
    if solves_directly(estimator):
        limit = DIRECT if host(estimator.coef_).dtype == np.float64 else LOOSE
        if not fit.distance <= limit:
            raise NotAtMinimumError(_away(estimator, fit.distance))
        return
    promise = promised_gradient(estimator)
    if promise is None:
        if not fit.distance <= REFUSED:
            raise NotAtMinimumError(_away(estimator, fit.distance))
        return
    found = _mean_gradient(risk, fit)
    kept = found <= SLACK * promise
    broken = not kept and fit.distance > LOOSE and not _stopped_short(estimator)
    excused = kept and not as_given and _is_telling(risk, fit, promise)
    if broken or not (fit.distance <= REFUSED or excused):
        raise NotAtMinimumError(_away(estimator, fit.distance, None if kept else found))


def _mean_gradient(risk: Risk, fit: Fit) -> float:
    """Largest component of the mean gradient by the parameters that the solver knows: those for rows as they are."""
    xp = namespace(risk.X)
    gradient = risk.as_released(risk.at(fit.centred_theta, curvature=False).gradient)
    return float(xp.max(xp.abs(gradient))) / _total_weight(risk)


def _total_weight(risk: Risk) -> float:
    if risk.weights is None:
        return float(risk.X.shape[0])
    (total,) = sum_rows(lambda weights: (namespace(weights).sum(weights),), risk.weights)
    return float(total)


def _is_telling(risk: Risk, fit: Fit, promise: float) -> bool:
    """Whether other rows of the same kind would break the promise: their gradient is as large as chance makes it."""
    residuals = risk.residuals(fit.centred_theta)

    def block(X: Array, y: Array, weights: Array | None) -> tuple[Any]:
        return ((as_real(X, namespace(X)) ** 2).T @ residuals(X, y, weights) ** 2,)

    (squares,) = sum_rows(block, risk.X, risk.y, risk.weights)
    by_chance = float(namespace(squares).max(squares)) ** 0.5
    return bool(by_chance >= TELLING * promise * _total_weight(risk))


def _stopped_short(estimator: Estimator) -> bool:
    """Whether the solver ran out of iterations, or (after a search of its own) does not say how many the last fit took."""
    steps, most = getattr(estimator, "n_iter_", None), getattr(estimator, "max_iter", None)
    return steps is None or most is None or np.size(steps) != 1 or bool(np.max(steps) >= most)


def _away(estimator: Estimator, distance: float, gradient: float | None = None) -> str:
    name = type(estimator).__name__
    own = _of_one_class(estimator)
    slope = "" if gradient is None else f"; mean gradient {gradient:.1e}, where it stops below tol={own.tol:g}"
    text = f"{name} is not at the minimum of its objective on this X, y and sample_weight (distance {distance:.1e}{slope}). "
    steps, most = getattr(estimator, "n_iter_", None), getattr(estimator, "max_iter", None)
    if steps is not None and most is not None and np.max(steps) >= most:
        return text + f"It stopped at max_iter={most}: allow more iterations, or scale the columns."
    text += "Pass the rows, labels and weights it was fitted with"
    if not solves_directly(estimator):
        # LinearRegression has no tol of its own before scikit-learn 1.7
        stopped = f"the solver '{_solver(own)}' stopped at tol={getattr(own, 'tol', 1e-6):g}"
        return f"{text}; if they are, {stopped}: fit with a smaller tol, 1e-10 say."
    if getattr(estimator, "cv", None) is not None:
        return text + (
            "; if they are and the features are sparse, its solver is 'sparse_cg' with tol=0.0001: fit on dense ones, with "
            "OneHotEncoder(sparse_output=False)."
        )
    return f"{text}."
