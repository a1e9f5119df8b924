r"""Scalers at the end of a fitted model's preprocessing, taken apart so that what they learned is counted.

The scalers are made neutral in a copy of the model, which is then read as usual: its features are in raw units. What they
learned becomes scales in the penalty and a ``Folding`` of ``engine.jacobian.folding``. Steps that learn nothing (polynomials,
functions) may stand before a scaler; levels of encoders are taken as public, and said so; every other step that learned
something is refused by name. An imputer may stand before a scaler, or be all there is (``imputers``). Adding a scaler is adding
one function to ``SCALERS``.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn import compose, impute, pipeline, preprocessing

from fisherleak._support.arrays import like, namespace
from fisherleak._support.grids import public_units
from fisherleak._support.namespaces import Estimator, Vector, VectorLike
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.fit.risk import Risk
from fisherleak.engine.jacobian.folding import APART, Folding
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.models.steps.flow import steps_within
from fisherleak.models.steps.imputers import Fill, Mask, filling_of, fills_of, statistic_moves

LEARN_NOTHING = (preprocessing.PolynomialFeatures, preprocessing.FunctionTransformer, preprocessing.Normalizer)
LEVELS = (preprocessing.OneHotEncoder, preprocessing.OrdinalEncoder)
"""Their levels are taken as public."""
ANOTHER = 1e-8
"""Relative difference past which a scaler's scale is not that of the rows."""
NO_RANGE = 10 * float(np.finfo(float).eps)
"""Range below which scikit-learn takes a scale of 1 in its place."""
STANDARD = "StandardScaler"
IMPUTED = "SimpleImputer"
"""Name of a scale of one behind an imputer."""


@dataclass(frozen=True)
class Scale:
    """What one feature's scaler learned: centre and scale, and the order statistics that the scale is made of, if any."""

    name: str
    centre: float
    scale: float
    spread: bool
    points: tuple[tuple[float, float], ...] = ()
    """(probability or extreme, share): the scale is their sum; 0 is the least value, 1 the largest."""
    fill: Fill | None = None
    """What missing values are filled with before."""
    centred: bool = False
    """Whether the centre was learned."""
    declared: tuple[float, float] | None = None
    """Centre and scale that declared bounds give."""

    @property
    def by_moments(self) -> bool:
        """Whether centre and scale are the mean and the standard deviation."""
        return self.name == STANDARD

    @property
    def scaled(self) -> bool:
        """Whether the scale was learned."""
        return self.spread or bool(self.points)

    @property
    def public(self) -> tuple[float, float]:
        """Scale and centre in which noise acts: from declared bounds, or those that were learned, on a public grid."""
        centre, scale = public_units(self.centre, self.scale) if self.declared is None else self.declared
        return scale, centre


Scales = list[Scale | None]


def pools(step: Estimator) -> bool:
    """Whether it is an encoder that pools levels by how many rows have them, learned ones or declared ones."""
    return isinstance(step, LEVELS) and not (step.min_frequency is None and step.max_categories is None)


def clips(step: Estimator) -> bool:
    """Whether it is a scaler that takes values beyond its range as its ends."""
    return bool(getattr(step, "clip", False))


def neutral(model: Estimator) -> tuple[Any, Scales | None]:
    """A copy of a model whose last scalers do nothing, and what each of its features was scaled by; None where nothing was."""
    if not isinstance(model, pipeline.Pipeline):
        return model, None
    made = copy.copy(model)
    steps, scales = _steps(model.steps[:-1])
    made.steps = [*steps, model.steps[-1]]
    return made, scales


def declared(step: Estimator) -> bool:
    """Whether a step learns nothing from the values: all it needs was said when it was made."""
    if isinstance(step, preprocessing.SplineTransformer):
        return not isinstance(step.knots, str)
    if isinstance(step, impute.SimpleImputer):
        return step.strategy == "constant" and step.fill_value is not None and not step.add_indicator
    return isinstance(step, LEARN_NOTHING)


def has_scalers(step: Estimator) -> bool:
    """Whether a fitted model or step holds a scaler."""
    return any(type(each) in SCALERS for each in steps_within(step))


def complete(scales: Sequence[Scale | None], width: int) -> list[Scale]:
    """One for every feature: those that were not scaled have a scale of one that nothing moves."""
    return [
        Scale("", 0.0, 1.0, False) if scale is None else scale for scale in [*scales, *[None] * (width - len(scales))]
    ]


def within_frame(scales: Sequence[Scale], frame: Sequence[tuple[int, float, float]]) -> list[Scale]:
    """The same with the centres and scales that declared bounds give, by feature."""
    known = {place: (centre, scale) for place, centre, scale in frame}
    return [replace(scale, declared=known.get(k)) for k, scale in enumerate(scales)]


def refuse_learned_fills(scales: Sequence[Scale]) -> None:
    """Refuse imputers that learned what they fill in, before a model of several outputs."""
    if learned_fills(scales):
        raise UnsupportedModelError(
            "SimpleImputer of a mean or median before a model of several outputs cannot be folded in: fill with a declared "
            "value (strategy='constant', fill_value=…), or take preprocessing as public (public='preprocessing')."
        )


def learned_fills(scales: Sequence[Scale]) -> dict[int, float]:
    """What imputers learned to fill in, by feature: each is one more parameter that leaves."""
    return {k: scale.fill.value for k, scale in enumerate(scales) if scale.fill is not None and scale.fill.learned}


def _steps(steps: Sequence[tuple[str, Any]]) -> tuple[list[tuple[str, Any]], Scales | None]:
    """Steps one after the other: a step that is no scaler must not follow one."""
    made: list[tuple[str, Any]] = []
    scales: Scales | None = None
    for name, step in steps:
        if step is None or step == "passthrough":
            made.append((name, step))
            continue
        filled = _only_filled(scales)
        if filled is None or (filled and type(step) not in SCALERS):
            first = next(scale for scale in scales or () if scale is not None)
            remedy = "let only scalers follow it" if first.name == IMPUTED else "put the scaler last"
            raise UnsupportedModelError(
                f"{first.name} stands before {type(step).__name__}, so what {first.name} learned cannot be folded into the "
                f"model: {remedy}, or take preprocessing as public."
            )
        changed, scales = _step(step)
        if filled and scales is not None:
            scales = [
                replace(scale, fill=fill) for scale, fill in zip(scales, filled, strict=True) if scale is not None
            ]
        made.append((name, changed))
    return made, scales


def _only_filled(scales: Scales | None) -> list[Fill | None] | None:
    """What imputers filled before the next step; none where nothing was done so far, None where a scaler was there."""
    known = [scale for scale in scales or () if scale is not None]
    if any(scale.name != IMPUTED for scale in known):
        return None
    return [None if scale is None else scale.fill for scale in scales or ()] if known else []


def _step(step: Estimator) -> tuple[Any, Scales | None]:
    if type(step) in SCALERS:
        return SCALERS[type(step)](step)
    if declared(step) or isinstance(step, LEVELS):
        return step, None
    if isinstance(step, pipeline.Pipeline):
        inner = copy.copy(step)
        inner.steps, scales = _steps(step.steps)
        return inner, scales
    if isinstance(step, compose.ColumnTransformer):
        return _columns(step)
    # by name: scikit-learn's IterativeImputer is not always there to be imported
    if type(step).__name__.endswith("Imputer"):
        return step, [Scale(IMPUTED, 0.0, 1.0, False, fill=fill) for fill in fills_of(step)]
    raise UnsupportedModelError(
        f"{type(step).__name__} learned from the data, and what it learned cannot be folded into the model: leave it out, use "
        "a scaler, or take preprocessing as public."
    )


def _columns(step: Estimator) -> tuple[Any, Scales]:
    """The parts of a ColumnTransformer side by side."""
    made = copy.copy(step)
    width = max((part.stop for part in step.output_indices_.values()), default=0)
    scales: Scales = [None] * width
    transformers = []
    for name, part, columns in step.transformers_:
        changed, own = (part, None) if isinstance(part, str) else _step(part)
        transformers.append((name, changed, columns))
        if own is not None:
            scales[step.output_indices_[name]] = own
    made.transformers_ = transformers
    return made, scales


# One function for each scaler: a copy that does nothing, and what it had learned


def _standard(step: Estimator) -> tuple[Any, Scales]:
    made = copy.copy(step)
    count = step.n_features_in_
    centres = step.mean_ if step.with_mean else np.zeros(count)
    scales = step.scale_ if step.with_std else np.ones(count)
    if step.with_std:
        made.scale_ = np.ones(count)
        _refuse_constant(step, step.var_)
    if step.with_mean:
        made.mean_ = np.zeros(count)
    return made, _scales(STANDARD, centres, scales, spread=step.with_std, centred=step.with_mean)


def _min_max(step: Estimator) -> tuple[Any, Scales]:
    _refuse_clip(step)
    made = copy.copy(step)
    _refuse_constant(step, step.data_range_)
    low, high = step.feature_range
    made.scale_, made.min_ = np.ones_like(step.scale_), np.zeros_like(step.min_)
    share = 1.0 / (high - low)
    points = ((1.0, share), (0.0, -share))
    centres = -step.min_ / step.scale_
    return made, _scales("MinMaxScaler", centres, 1.0 / step.scale_, points, centred=True)


def _max_abs(step: Estimator) -> tuple[Any, Scales]:
    _refuse_clip(step)
    made = copy.copy(step)
    _refuse_constant(step, step.max_abs_)
    made.scale_ = np.ones_like(step.scale_)
    return made, _scales("MaxAbsScaler", np.zeros_like(step.scale_), step.scale_, ((math.inf, 1.0),))


def _robust(step: Estimator) -> tuple[Any, Scales]:
    if getattr(step, "unit_variance", False):
        raise UnsupportedModelError(
            "RobustScaler(unit_variance=True) cannot be folded into the model: leave unit_variance out."
        )
    made = copy.copy(step)
    count = step.n_features_in_
    centres = step.center_ if step.with_centering else np.zeros(count)
    scales = step.scale_ if step.with_scaling else np.ones(count)
    points: tuple[tuple[float, float], ...] = ()
    if step.with_scaling:
        made.scale_ = np.ones(count)
        low, high = (q / 100.0 for q in step.quantile_range)
        points = ((high, 1.0), (low, -1.0))
    if step.with_centering:
        made.center_ = np.zeros(count)
    return made, _scales("RobustScaler", centres, scales, points, centred=step.with_centering)


SCALERS: dict[type, Callable[[Any], tuple[Any, Scales]]] = {
    preprocessing.StandardScaler: _standard,
    preprocessing.MinMaxScaler: _min_max,
    preprocessing.MaxAbsScaler: _max_abs,
    preprocessing.RobustScaler: _robust,
}


def _scales(
    name: str,
    centres: Any,
    scales: Any,
    points: tuple[tuple[float, float], ...] = (),
    spread: bool = False,
    centred: bool = False,
) -> Scales:
    """What a scaler learned, for each of its features."""
    pairs = zip(np.asarray(centres).tolist(), np.asarray(scales).tolist(), strict=True)
    return [Scale(name, float(c), float(s), spread, points, centred=centred) for c, s in pairs]


def _refuse_clip(step: Estimator) -> None:
    if clips(step):
        raise UnsupportedModelError(
            f"{type(step).__name__}(clip=True) cannot be folded into the model: use clip=False."
        )


def _refuse_constant(step: Estimator, sizes: Any) -> None:
    zero = np.flatnonzero(~(np.asarray(sizes) > 0))
    if zero.size:
        names = getattr(step, "feature_names_in_", None)
        name = zero[0] if names is None else f"'{names[zero[0]]}'"
        raise InvalidInputError(f"Column {name} is constant, so {type(step).__name__} cannot scale it: drop it.")


# From what was learned to the risk in raw units


def in_raw_units(risk: Risk, theta: Any, scales: Sequence[Scale]) -> tuple[Risk, Any]:
    """The same model in raw units: the risk with scales in its penalty, and its parameters.

    ``risk`` has the raw features, ``theta`` the parameters for the scaled ones.
    """
    check_foldable(risk.intercept, risk.intercept_l2 > 0, scales)
    xp = namespace(risk.X)
    raw = raw_parameters(np.asarray(theta), scales, risk.intercept)
    s = like(np.array([scale.scale for scale in scales]), risk.X, xp)
    return replace(risk, intercept_l2=0.0, known_centre=None, scales=s), like(raw, risk.X, xp)


def check_foldable(intercept: bool, penalised: bool, scales: Sequence[Scale]) -> None:
    """Refuse centres that no free intercept takes up."""
    if penalised or (not intercept and any(scale.centre != 0 for scale in scales)):
        raise UnsupportedModelError(
            "Centring cannot be folded into a model without a free intercept: fit one, or do not centre the columns."
        )


def raw_parameters(theta: Vector, scales: Sequence[Scale], intercept: bool) -> Vector:
    """Parameters for scaled features as those of the same model for the features: all coefficients, then all intercepts."""
    coef, level = split_outputs(theta, len(scales), intercept)
    raw = coef / np.array([scale.scale for scale in scales])
    if level is None:
        return np.asarray(raw.reshape(-1))
    return np.append(raw, level - raw @ np.array([scale.centre for scale in scales]))


def split_outputs(theta: Vector, d: int, intercept: bool) -> tuple[Vector, Vector | None]:
    """Coefficients (K, d) and intercepts (K,) of released parameters; None where there are none."""
    K = theta.shape[0] // (d + int(intercept))
    return theta[: K * d].reshape(K, d), theta[K * d :] if intercept else None


def scaled_parameters(raw: Vector, scales: Sequence[Scale]) -> Vector:
    """The way back, (…, d) or (…, d + 1): parameters for features, as those for scaled ones."""
    coef = raw[..., : len(scales)]
    level = raw[..., len(scales) :] + (coef @ [scale.centre for scale in scales])[..., None]
    return np.concatenate([coef * [scale.scale for scale in scales], level], axis=-1)


def folding_of(risk: Risk, fit: Fit, scales: Sequence[Scale], absent: Mask) -> Folding:
    """How the scales and filled values of a risk in raw units move with the rows, at its minimiser.

    ``absent`` (n, d) says which features were filled by an imputer.
    """
    several = fit.loss.several
    # the term of several outputs has each one's coefficient beside what is kept here
    coef = np.ones(risk.X.shape[1]) if several else np.asarray(fit.coef)
    X = np.asarray(risk.X, dtype=np.float64)
    n, d = X.shape
    push = n * risk.l2 * coef
    slopes, means, totals, weighted = np.zeros(d), np.zeros(d), np.zeros(d), False
    most = max([1, *(2 * len(scale.points) for scale in scales)])
    values, shares, sides = np.full((most, d), np.nan), np.zeros((most, d)), np.zeros((3, 3, most, d))
    needed = np.ones((most, d))
    for k, scale in enumerate(scales):
        if scale.spread:
            mean, total, weighted = _spread_of(X[:, k], risk.weights, scale, risk.parameter_names[k])
            slopes[k], means[k], totals[k] = 2.0 * push[k] / total, mean, total
        filled = absent[:, k] if scale.fill is not None and scale.fill.learned else np.zeros(n, dtype=bool)
        for q, (value, place, share) in enumerate(_order_statistics(X[:, k], scale, risk.parameter_names[k])):
            values[q, k], shares[q, k] = value, 2.0 * push[k] * scale.scale * share
            sides[:, :, q, k] = shares[q, k] * statistic_moves(X[:, k], value, place, filled, by_size=place < 0)
            needed[q, k] = 1 if place < 0 or filled.any() else _moving_together(X[:, k], value, place)
    fills, centres = [scale.fill for scale in scales], [scale.public[1] for scale in scales]
    filling = None if several else filling_of(risk, fit, fills, centres, absent, (slopes, means, weighted))
    frame = frame_of(scales, risk.intercept, 0 if filling is None else filling.size)
    xp = namespace(risk.X)
    whole = filling is None and not any(scale.points for scale in scales)
    parts = [like(x, risk.X, xp) for x in (slopes, means, values, shares, frame, sides, needed)]
    found = Folding(
        *(parts[0], parts[1], weighted, parts[2], parts[3], parts[4]),
        totals=like(totals, risk.X, xp) if whole else None,
        filling=filling,
        sides=parts[5],
        needed=parts[6],
    )
    tied = np.any((shares != 0) & ~sides[APART].any(axis=0)) or (filling is not None and filling.sides is not None)
    return found if tied else found.on(APART)


def _spread_of(x: Vector, weights: VectorLike, scale: Scale, name: str) -> tuple[float, float, bool]:
    """Mean and total weight behind a standard deviation: with the rows' weights, or without."""
    for weighted in (False, True) if weights is not None else (False,):
        omega = np.asarray(weights) if weighted else np.ones(x.shape[0])
        total = float(omega.sum())
        mean = float(omega @ x) / total
        spread = math.sqrt(float(omega @ (x - mean) ** 2) / total)
        if abs(spread / scale.scale - 1.0) <= ANOTHER:
            return mean, total, weighted
    raise InvalidInputError(
        f"{scale.name} was not fitted on these rows: the standard deviation of {name} is {spread:.6g}, not {scale.scale:.6g}. "
        "Pass the table it was fitted on."
    )


def _order_statistics(x: Vector, scale: Scale, name: str) -> list[tuple[float, int, float]]:
    """The values that decide a scale, each with its place in order, -1 for the last by size, and its share in the scale."""
    found: list[tuple[float, int, float]] = []
    order = np.sort(x)
    for probability, share in scale.points:
        if probability == math.inf:
            largest = float(np.max(np.abs(x)))
            found += [(largest, -1, share), (-largest, -1, -share)]
            continue
        place = probability * (x.shape[0] - 1)
        low = math.floor(place)
        part = place - low
        found.append((float(order[low]), low, share * (1.0 - part)))
        if part > 0:
            found.append((float(order[low + 1]), low + 1, share * part))
    if found:
        by_size = scale.points[0][0] == math.inf
        size = found[0][0] if by_size else sum(value * share for value, _, share in found)
        if abs(size) < NO_RANGE and scale.scale == 1:
            raise InvalidInputError(
                f"{scale.name} has no scale for {name}: the quantiles that it takes are equal. Use StandardScaler for this "
                "column, or pass public='preprocessing'."
            )
        if abs(size / scale.scale - 1.0) > ANOTHER:
            what = "largest absolute value" if by_size else "range"
            raise InvalidInputError(
                f"{scale.name} was not fitted on these rows: the {what} of {name} is {size:.6g}, not {scale.scale:.6g}. Pass "
                "the table it was fitted on."
            )
    return found


def _moving_together(x: Vector, value: float, place: int) -> int:
    """How many of the values that tie at a place in order have to move, up or down, before what stands there does."""
    first, count = int(np.sum(x < value)), int(np.sum(x == value))
    return min(place - first + 1, first + count - place)


def frame_of(scales: Sequence[Scale], intercept: bool, filled: int = 0) -> Vector:
    """(s_j w_j, level at the centres, t) as a map of what is released, with scales and centres on a public grid."""
    d = len(scales)
    size = d + int(intercept) + filled
    frame = np.eye(size)
    for k, scale in enumerate(scales):
        public, centre = scale.public
        frame[k, k] = public
        if intercept:
            frame[d, k] = centre
    return frame
