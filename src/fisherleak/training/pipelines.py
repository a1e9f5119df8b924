r"""A trained model as a pipeline of scikit-learn: the one that attackers know, and the one that is released.

The same model has parameters in three spaces. In the *frame*, where noise acts, they are coefficients times public scales s
and the level at public centres m, all in the target's unit. Raw ones are :math:`w_k = f_k / s_k` and
:math:`b = f_0 - \sum_k m_k w_k`: those leave. With exact means and standard deviations in place of m and s they are those
behind a ``StandardScaler``, as scikit-learn fits it.

What is released is built, not copied: its steps are fitted on rows that are made up from column names and levels, and then get
the noisy parameters, so that nothing else of the table is in it.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fisherleak._support.arrays import by_entries, inverse_of
from fisherleak._support.level_types import as_number, numeric_levels, plain_level, typed_levels
from fisherleak._support.namespaces import Json, Vector
from fisherleak.engine.noise import Noise, noise_from_record
from fisherleak.models.estimators import set_parameters
from fisherleak.models.several import all_parameters
from fisherleak.models.wrapper import fit_weighted
from fisherleak.protection.release.procedure import NoiseFrame
from fisherleak.tables import Design, Feature
from fisherleak.training.model_kinds import Kind
from fisherleak.training.trained_model import Trained, estimator_for, spreads_in, trained_on

PREDICTS = {"coef_", "intercept_", "classes_", "n_features_in_", "feature_names_in_", "_base_loss"}
"""What a linear model needs to predict, beside its settings; ``_base_loss`` is the link of a Poisson or Gamma model."""
LEAST_AWAY = 1e-300
"""How far what is not the same is from the grid at least, as a part of its step."""


def own_parameters(trained: Trained) -> Vector:
    """Parameters in the frame, in the units of the target, (p + 1,): what noise is added to.

    For several classes all coefficients, class by class, then the intercepts: (K p + K,).
    """
    target = trained.design.target
    theta = target.scale * np.asarray(trained.fit.theta)
    theta[-1] += target.centre  # zero for classes
    return theta


def framed(design: Design, model: Pipeline) -> Vector:
    """The parameters of a released pipeline, which are in raw units, brought back to the frame."""
    return frame_of_features(design.features).framed(all_parameters(model[-1]))


def frame_of_features(features: Sequence[Feature]) -> NoiseFrame:
    """Public scales and centres of the features; those of indicators are 1 and 0."""
    width = sum(len(feature.columns) for feature in features)
    scales, centres = np.ones(width), np.zeros(width)
    for feature in features:
        if feature.kind == "number":
            scales[feature.columns[0]], centres[feature.columns[0]] = feature.scale, feature.centre
    return NoiseFrame(scales, centres)


# The pipeline that leaves


@dataclass(frozen=True)
class PublicModel:
    """All of a released model but its parameters: what its model card says too, so that either gives the same file."""

    kind: Kind
    l2: float
    features: tuple[Feature, ...]
    classes: tuple[Any, ...]
    fills: bool
    """Whether gaps are filled, wherever they are."""
    first_named: bool = False
    """Whether encoders name the first level too and drop it, as those of version 0.1.0 do."""

    @classmethod
    def of(cls, trained: Trained) -> Self:
        design = trained.design
        estimator_for(trained)  # refuses a kind without one
        classes = tuple(plain_level(name) for name in design.target.classes)
        return cls(trained.kind, trained.l2, design.features, classes, design.fills)

    @property
    def parameters(self) -> int:
        """How many it has."""
        outputs = len(self.classes) if self.kind.several else 1
        return outputs * (1 + sum(len(feature.columns) for feature in self.features))


def parameters_as_released(model: PublicModel, theta: Vector) -> Vector:
    """Parameters in the frame as they leave, in raw units."""
    return frame_of_features(model.features).raw(theta)


def off_the_grid(model: PublicModel, raw: Vector, grid: Vector) -> Vector:
    """How far parameters in raw units are from those that a point of the grid has, (p,), as a part of its step.

    Zero where they are that point's own, bit for bit; a division by a scale and back rounds, so that its neighbours count too.
    """
    frame = frame_of_features(model.features)
    coef, below = frame.by_output(raw)
    moved = [(row * frame.centres).tolist() for row in coef]
    theta = np.append(coef * frame.scales, [math.fsum([b, *row]) for b, row in zip(below, moved, strict=True)])
    away = np.full(raw.size, np.inf)
    for shift in (0.0, -1.0, 1.0):
        point = (np.rint(theta / grid) + shift) * grid + 0.0  # no negative zero
        rows, levels = frame.by_output(point)
        back = [math.fsum([level, *(-m for m in row)]) for level, row in zip(levels, moved, strict=True)]
        same = np.append(rows / frame.scales, back).view(np.int64) == np.ascontiguousarray(raw).view(np.int64)
        away = np.minimum(away, np.where(same, 0.0, np.maximum(np.abs(theta - point) / grid, LEAST_AWAY)))
    return away


def pipeline_with(public: PublicModel, raw: Vector) -> Pipeline:
    """A pipeline that has seen none of the rows, with these parameters in raw units."""
    estimator = public.kind.estimator
    assert estimator is not None
    # rows that are made up: the numbers zero and one, and some levels
    labels = np.array(public.classes) if public.classes else np.array([1.0, 2.0])
    last = estimator(1, public.l2)  # its penalty is said per row: how many rows there are is kept internal
    model = Pipeline([("columns", _passing(public)), ("model", last)])
    own = last.get_params(deep=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its parameters are replaced
        if own.get("solver") == "newton-cholesky":
            last.set_params(solver="lbfgs", max_iter=1)  # which needs no Hessian
        _fit_classes(model, _made_up(public, labels.size), labels, public.classes, None)
    if public.fills:
        _with_centres(public.features, model[0])
    last.set_params(**own)
    for name in vars(last).keys() - own.keys() - PREDICTS:
        delattr(last, name)
    set_parameters(last, raw)
    return model


def _fit_classes(
    model: Pipeline, frame: Any, labels: NDArray[Any], classes: Sequence[Any], weights: Vector | None
) -> None:
    """Fit a pipeline; numbers that are classes and not whole, which scikit-learn takes for none, by their places."""
    if not classes or labels.dtype.kind != "f":
        fit_weighted(model, frame, labels, weights)
        return
    known = np.array(classes)
    fit_weighted(model, frame, np.searchsorted(known, labels), weights)
    model[-1].classes_ = known


def _made_up(public: PublicModel, count: int) -> Any:
    import pandas

    columns: dict[str, Any] = {}
    for feature in public.features:
        if feature.of is not None:
            continue
        known = np.array([0.0, 1.0]) if feature.kind == "number" else _named(feature, public.first_named)
        columns[feature.name] = pandas.Series(known[np.arange(count) % known.size])
    return pandas.DataFrame(columns)


def _named(feature: Feature, first_named: bool) -> NDArray[Any]:
    """The levels that a released encoder names, all but the first: numbers where they, and all that the first is, are numbers.

    The first has no indicator, and so has every value that is not named: it counts as the first, without a warning.
    """
    told, named = feature.levels[1:] if feature.open else feature.levels, feature.levels[1:]
    if first_named:
        return typed_levels(told)
    return typed_levels(named if numeric_levels(told) is None else [as_number(level) for level in named])


def _encoder(levels: NDArray[Any]) -> OneHotEncoder | Pipeline:
    """Indicators of levels; where these are numbers, a step before that scales by nothing makes "2", 2 and 2.0 one."""
    encoder = OneHotEncoder(categories=[levels], sparse_output=False, handle_unknown="ignore")
    if levels.dtype.kind == "O" or numeric_levels(levels) is None:
        return encoder
    return Pipeline([("numbers", StandardScaler(with_mean=False, with_std=False)), ("levels", encoder)])


def _encoder_naming_first(feature: Feature, levels: NDArray[Any]) -> OneHotEncoder:
    """As version 0.1.0 had them."""
    first = None if feature.open else "first"
    return OneHotEncoder(categories=[levels], drop=first, sparse_output=False, handle_unknown="ignore")


def _passing(public: PublicModel) -> ColumnTransformer:
    """Numbers as they are, public centres in their gaps, and an indicator for each level but the first.

    Every column gets the same steps whether rows lack it or not, so that they do not tell that someone does.
    """
    numbers = [feature.name for feature in public.features if feature.kind == "number"]
    # a mean takes whole numbers too, where a constant that is none would be refused; it is replaced by public centres
    passing = SimpleImputer() if public.fills else "passthrough"
    steps: list[tuple[str, Any, list[str]]] = [("numbers", passing, numbers)] if numbers else []
    for k, feature in enumerate(feature for feature in public.features if feature.kind == "category"):
        if feature.of is not None:
            steps.append((f"category {k + 1}", MissingIndicator(features="all", sparse=False), [feature.of]))
            continue
        levels = _named(feature, public.first_named)
        encoder = _encoder_naming_first(feature, levels) if public.first_named else _encoder(levels)
        steps.append((f"category {k + 1}", encoder, [feature.name]))
    return ColumnTransformer(steps)


def _with_centres(features: Sequence[Feature], columns: ColumnTransformer) -> None:
    """Public centres in place of what the imputer was fitted with."""
    centres = _public_centres(features)
    if centres.size:
        columns.named_transformers_["numbers"].statistics_ = centres


def _public_centres(features: Sequence[Feature]) -> Vector:
    return np.array([feature.centre for feature in features if feature.kind == "number"])


# The pipeline that attackers know


def pipeline_of(trained: Trained) -> tuple[Pipeline, Any, NDArray[Any]]:
    """The same model as a scikit-learn pipeline over the raw columns, with the frame and labels it was fitted on."""
    design = trained.design
    frame, labels = design.frame(), design.labels()
    estimator = estimator_for(trained)
    given = estimator.get_params()
    steps, solver = given.get("max_iter"), given.get("solver")
    model = Pipeline([("columns", _preprocessing(design)), ("model", estimator)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if steps is not None:
            estimator.set_params(max_iter=1)  # its parameters are replaced by those of the exact minimum
        if solver == "newton-cholesky":
            estimator.set_params(solver="lbfgs")  # whose step factors no matrix
        _fit_classes(model, frame, labels, design.target.classes, trained.weights)
    if steps is not None:
        estimator.set_params(max_iter=steps)
    if solver is not None:
        estimator.set_params(solver=solver)
    numbers = [feature for feature in design.features if feature.kind == "number"]
    if numbers:
        # scikit-learn weights its means where rows are weighted; here they are those of all rows alike
        scaler = model[0].named_transformers_["numbers"]
        scaler.mean_ = (
            np.array([feature.mean for feature in numbers]) if _free(trained) else _public_centres(design.features)
        )
        scaler.scale_ = np.array([feature.spread for feature in numbers])
        scaler.var_ = scaler.scale_**2
    set_parameters(model[-1], _to_standard(trained) @ own_parameters(trained))
    return model, frame, labels


def _free(trained: Trained) -> bool:
    """Whether intercepts have no penalty."""
    return trained.fit.intercept_l2 == 0


def known_pipeline(trained: Trained, model: Pipeline, released: Pipeline) -> Pipeline:
    """A released model with its parameters as they are in the pipeline that attackers know."""
    known = copy.deepcopy(model)
    set_parameters(known[-1], _to_standard(trained) @ framed(trained.design, released))
    return known


def freed_pipeline(trained: Trained, model: Pipeline) -> Pipeline:
    """The pipeline that attackers know, at the minimum that it has with free intercepts."""
    if _free(trained):
        return model
    freed = trained_on(trained.kind, trained.design, trained.l2, trained.weights, trained.public)
    known = copy.deepcopy(model)
    set_parameters(known[-1], _to_standard(trained) @ own_parameters(freed))
    return known


def _preprocessing(design: Design) -> ColumnTransformer:
    numbers = [feature.name for feature in design.features if feature.kind == "number"]
    categories = [feature for feature in design.features if feature.kind == "category"]
    steps: list[tuple[str, Any, list[str]]] = []
    if numbers:
        steps.append(("numbers", StandardScaler(), numbers))
    for k, feature in enumerate(categories):
        # the first of pooled levels stands for all that are not named
        unknown = "ignore" if feature.open else "error"
        levels = [_as_objects(feature.told_levels)]
        encoder = OneHotEncoder(drop="first", categories=levels, sparse_output=False, handle_unknown=unknown)
        steps.append((f"category {k + 1}", encoder, [feature.name]))
    return ColumnTransformer(steps)


def _to_standard(trained: Trained) -> Vector:
    """From parameters in the frame to those behind exact standardising, (p + 1, p + 1), or (K p + K, K p + K).

    Intercepts that have a penalty have it at public centres, which then stay the columns' centres.
    """
    means, spreads = spreads_in(trained.design)
    means = means if _free(trained) else np.zeros_like(means)
    eye = np.eye(trained.outputs)
    below = np.kron(eye, means[None, :])
    return np.block([[np.kron(eye, np.diag(spreads)), np.zeros(below.T.shape)], [below, eye]])


def standard_noise(trained: Trained, noise: Noise) -> Noise:
    """Noise on the parameters in the frame, as it is on those of the pipeline that attackers know."""
    return Turned(noise, _to_standard(trained))


@dataclass(frozen=True, eq=False)
class Turned:
    """A noise as other coordinates see it: A b, A a matrix of full rank and b drawn from the noise."""

    noise: Noise
    turn: Vector = field(repr=False)

    @property
    def scale(self) -> float:
        return self.noise.scale

    @property
    def normal(self) -> bool:
        return self.noise.normal

    @cached_property
    def _back(self) -> Vector:
        """A^-1."""
        return inverse_of(self.turn)

    @cached_property
    def _turned(self) -> Callable[[Vector], Vector]:
        """A times a matrix."""
        return by_entries(self.turn)

    def unit_information_root(self, size: int) -> Vector | None:
        root = self.noise.unit_information_root(size)
        return self._back if root is None else np.asarray(root @ self._back)

    def rescaled(self, scale: float) -> Self:
        other = replace(self, noise=self.noise.rescaled(scale))
        vars(other).update(_back=self._back, _turned=self._turned)  # the same for every scale
        return other

    def draw(self, size: int, random_state: int | np.random.Generator | None = None) -> Vector:
        return np.asarray(self.turn @ self.noise.draw(size, random_state))

    def draws(self, count: int, size: int, rng: np.random.Generator) -> Vector:
        return np.asarray(self._turned(self.noise.draws(count, size, rng).T).T)

    def log_density(self, b: Vector) -> Vector:
        volume = np.linalg.slogdet(self.turn)[1]
        return np.asarray(self.noise.log_density(b @ self._back.T) - volume)

    def record(self) -> Json:
        return self.noise.record() | {"turn": self.turn.tolist()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(noise_from_record(record), np.asarray(record["turn"]))


def _as_objects(levels: tuple[Any, ...]) -> NDArray[Any]:
    array = np.empty(len(levels), dtype=object)
    array[:] = levels
    return array
