"""``fl.release``: a fitted model with noise on its parameters, built anew, and nothing else of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from fisherleak._support.arrays import host, like, namespace
from fisherleak._support.namespaces import Estimator, Seed, VectorLike
from fisherleak._support.numbers import two_digits
from fisherleak.engine.fit.minimise import Fit, is_fit, one_by_one
from fisherleak.engine.losses.multi_output import is_squared_numbers
from fisherleak.engine.mechanisms.self_shaped import SelfShaped, is_self_shaped
from fisherleak.engine.noise import Noise, check_noise
from fisherleak.engine.noise.add_noise_and_round import (
    Released,
    check_fine,
    generator,
    grid_below,
    to_significant_bits,
)
from fisherleak.engine.noise.calibration_record import ANY_RECORD, calibration_of, declared_frame, has_own_shape
from fisherleak.engine.noise.noise import covariance_of
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measure import measure, measure_own
from fisherleak.leakage.measurement import measurement
from fisherleak.models import as_table, checked_model, final_estimator
from fisherleak.models.estimators import check_supported, set_parameters
from fisherleak.models.rebuilt import FEW, PUBLIC, check_rebuildable, rebuilt, refuse_search
from fisherleak.models.several import all_parameters, outputs_of
from fisherleak.models.steps.imputers import noisy_fill
from fisherleak.models.steps.levels import check_common_classes, check_common_levels, check_settled_levels
from fisherleak.models.steps.scalers import (
    Scale,
    check_foldable,
    complete,
    learned_fills,
    neutral,
    raw_parameters,
    refuse_learned_fills,
    scaled_parameters,
    within_frame,
)
from fisherleak.models.steps.transformers import check_steps
from fisherleak.protection.calibrate.calibration import calibrate
from fisherleak.protection.certificates.declared_bounds import checked_bounds
from fisherleak.protection.release.model_bounds import check_clipped, clip_fills, model_numbers, unit_of_penalty
from fisherleak.protection.release.penalty_and_shape import PublicNumbers
from fisherleak.protection.release.procedure import (
    DecidedByPublicNumbers,
    NoiseFrame,
    ReleaseRequest,
    make_release,
    warn_of_seed,
)

Vector = NDArray[np.float64]


def release(
    model: Estimator,
    noise: Noise | SelfShaped,
    random_state: int | np.random.Generator | None = None,
    public: str = "nothing",
    *,
    rows: Any = None,
    bounds: Mapping[str, Any] | None = None,
    person: VectorLike | str = None,
) -> Any:
    """A new model with noisy parameters, and nothing else of a fitted one but what prediction needs.

    Parameters
    ----------
    model : fitted scikit-learn model or Fit
        Is left untouched. Of a search, pass ``best_estimator_``: that declares its choice public.
    noise : Noise
        From :func:`fisherleak.calibrate`, or one of ``fl.NOISES`` such as ``fl.Gaussian(scale)``. For a Fit of the squared loss
        also ``fl.Posterior`` and ``fl.ObjectivePerturbation``, the latter for other losses too: drawn by the mechanism itself.
    random_state : int or Generator, optional
        By default the noise is made of the operating system's randomness. With a seed it can be drawn again, so that it
        protects nothing: for tests only, and ``SeededReleaseWarning`` says so.
    public : {"nothing", "levels", "preprocessing"}
        What is declared public of what a pipeline learned beside the model's parameters. "nothing": scalers are folded into
        the model, whose coefficients and intercept leave in raw units; what imputers fill in (means, medians) leaves as one
        more noisy parameter for each column; categories of encoders must be declared (``categories=``, without
        ``min_frequency`` and ``max_categories``, where rows decide), or counted with ``rows``; other steps that learned
        something are refused by name. "levels": the same, with the categories that encoders learned, or pooled, public.
        "preprocessing": all that the steps before the model learned is public, the paper's assumption. Steps that hold rows or
        statistics of labels (``KNNImputer``, ``SelectKBest``) are refused in any case.
    rows : (X, y), optional
        The rows that the model was fitted on, of which nothing is kept. For a pipeline whose encoders learned their categories:
        each category must have at least five rows, and so must each class. Rarer categories are pooled by the encoder
        (``min_frequency=5``, ``handle_unknown="infrequent_if_exist"``), at least five rows together; their names do not
        leave. Encoders for which one row decides what is pooled are refused. For a Fit with ``fl.ObjectivePerturbation`` of a
        loss other than the squared: it minimises the perturbed objective on them. For an imputer with indicators: at least
        five rows lack each column that has one, and five have it.
    bounds : mapping, optional
        Of each column (low, high), declared: what an imputer fills gaps with is clipped to them after the draw, so that it is a
        plausible value. Columns that are not named keep the noisy value, which may be far outside.
    person : str or array of shape (n,), optional
        With ``rows``: a column of X, or whose row each is. Categories, classes and gaps are then shared by five people at
        least, where it is five rows without. What the noise hides of a person is asked of the noise:
        ``fl.calibrate(fl.measure(..., person=ids), eta=1.0)``.

    Returns
    -------
    model or Released
        A new object of the same classes, made from their constructors' parameters: coefficients, intercept, classes, column
        names, categories of encoders, which column goes where. Scalers that are folded in are left out. A Fit gives a
        :class:`Released` record.

    Notes
    -----
    Noise without a covariance acts on (coefficients times their columns' scales, intercept at their centres) where scalers
    are folded in, and on the parameters themselves elsewhere. Scales and centres come from the bounds that were declared when
    the noise was calibrated, ``fl.calibrate(..., over="any-record", bounds=...)``. Of other columns they come from the rows,
    on a public grid, and a row whose removal moves one of them can be recognised (:meth:`Leakage.membership`). A covariance
    is over raw coefficients, then the raw intercept, then :math:`w_k (c_k - m_k)` for each column k that an imputer fills
    with c and whose public centre is m. There, each parameter is a multiple of a power of two, at most 1/1024 of the standard
    deviation of its own noise: the bits below would reveal more than the noise hides. Raw parameters are computed from these
    and from the grid alone. Draws of mechanisms have 30 significant bits.

    **What holds, and when.** With public "nothing" or "levels", what leaves is what ``fl.measure(..., public="nothing")`` with
    this noise measured; with "preprocessing", what ``fl.measure`` measures by default. Constructors' parameters, classes and
    column names are taken as public. Noise is added to the parameters as given, and limits hold at the minimum: what an
    iterative solver leaves between the two is not counted. Fit with ``tol=1e-10``, or use :class:`fisherleak.PrivateRelease` or
    :func:`fisherleak.protect`, which go to the minimum. Each further release of the same data adds to the leakage
    (:func:`fisherleak.compose`).

    Examples
    --------
    >>> import numpy as np
    >>> import fisherleak as fl
    >>> from sklearn.linear_model import Ridge
    >>> model = Ridge().fit(np.array([[0.0], [1.0], [2.0]]), [0.0, 1.0, 2.0])
    >>> noisy = fl.release(model, fl.Gaussian(0.1))
    >>> bool(noisy.coef_[0] != model.coef_[0])
    True
    """
    warn_of_seed(random_state)
    given = checked_bounds(bounds)
    mechanism = is_self_shaped(noise)
    if not mechanism:
        check_noise(noise)
        check_public(public)
        if person is not None and rows is None:
            raise InvalidInputError("person names the person of each row: pass rows=(X, y) too.")
        if rows is not None and (public != "nothing" or is_fit(model)):
            raise InvalidInputError(
                "rows is for ObjectivePerturbation, and for scikit-learn models with public='nothing' (to count categories and "
                "classes). This release needs no rows: leave it out."
            )
    if is_fit(model):
        fitted: Any = FittedRecord(model, None if rows is None else _rows_of(model, noise, rows))
    elif mechanism:
        raise InvalidInputError(
            f"{type(noise).__name__} is drawn from a fisherleak.Fit, which knows its Hessian; a {type(model).__name__} does "
            "not: fit with fisherleak.minimise, or use noise on its parameters."
        )
    else:
        check_releasable(model)
        check_clipped(model, given)
        fitted = FittedModel(model, public if rows is None else counted_levels(model, *_pair(rows), public, person))
    made = make_release(lambda penalty: fitted, ReleaseRequest(noise=noise, random_state=random_state)).model
    if given and public != "preprocessing":
        clip_fills(made, given)
    return made


def counted_levels(model: Estimator, X: Any, y: Any, public: str, person: Any = None) -> str:
    """What is public once rows in memory have been seen to share the levels; refuses levels and classes of a few.

    A few rows, or, where ``person`` says whose row each is, a few people.
    """
    if public != "nothing":
        return public
    table = as_table(X)
    whose = table.labels(person) if isinstance(person, str) else person
    check_common_levels(model, table, FEW, whose)
    check_settled_levels(model, table, whose)
    check_common_classes(model, y, FEW, whose)
    return public if table.lazy else "levels"


def _pair(rows: Any) -> tuple[Any, Any]:
    if not isinstance(rows, tuple) or len(rows) != 2:
        raise InvalidInputError(
            f"rows must be a pair (X, y), the rows that the model was fitted on; got a {type(rows).__name__}."
        )
    return rows


def check_public(public: str) -> None:
    """One of the things that can be declared public."""
    if public not in PUBLIC:
        raise InvalidInputError(f"public must be one of {', '.join(PUBLIC)}; got {public!r}.")


def check_releasable(model: Estimator) -> None:
    """Refuse models and steps that never leave, by name and with the remedy."""
    refuse_search(model)
    model = checked_model(model)
    check_supported(model.steps[-1][1] if isinstance(model, Pipeline) else model)
    check_steps(model)
    check_rebuildable(model)


# A model of scikit-learn


def measured_model(
    model: Estimator, X: Any, y: Any, noise: Noise | None, weights: Any, polish: bool, public: str
) -> FittedModel:
    """A checked model that was just fitted on these rows, measured; ``polish`` moves it to its exact minimum."""
    counted = "preprocessing" if public == "preprocessing" else "nothing"
    leak = measure_own(model, X, y, noise, weights, polish, counted)
    if polish:
        _move(model, np.asarray(host(leak.fits[0].theta)), counted)
    return FittedModel(model, public, leak)


def _move(model: Estimator, theta: Vector, public: str) -> None:
    """Give a fitted model the parameters that were measured: in raw units where its scalers are counted."""
    _, scales = neutral(model) if public == "nothing" else (model, None)
    estimator = final_estimator(model)
    if scales is not None:
        width = theta.shape[0] - int(estimator.fit_intercept)
        theta = scaled_parameters(theta, complete(scales, width))
    set_parameters(estimator, theta)


@dataclass(frozen=True)
class FittedModel(DecidedByPublicNumbers):
    """A fitted model of scikit-learn that is checked, and what it reveals where a limit is asked for."""

    model: Any = field(repr=False)
    public: str
    """What is declared public of it, its levels counted."""
    leak: Leakage | None = field(default=None, repr=False)
    """With noise of scale 1, preprocessing folded in unless it is public; None where the noise is given."""

    @property
    def measured(self) -> Leakage:
        """The leakage of a model that was measured."""
        assert self.leak is not None
        return self.leak

    def calibrated(self, request: ReleaseRequest, shape: Any) -> Noise:
        """The least noise with this covariance that keeps the limit."""
        return calibrate(
            *(self.measured, request.eta, request.over),
            attributes=request.attributes,
            groups=request.groups,
            bounds=request.bounds,
            shape=shape,
            gap=request.gap,
            random_state=request.random_state if request.over == ANY_RECORD else None,
            person=request.person,
            rows_per_person=request.rows_per_person,
        )

    def unit_of_penalty(self, request: ReleaseRequest) -> float:
        """What an l2 of the rule is multiplied by where the estimator's acts."""
        return unit_of_penalty(self.measured, self._scales, request.bounds)

    def _numbers(self, request: ReleaseRequest) -> PublicNumbers:
        assert request.limit_of_one_row is not None
        return model_numbers(self.measured, self._scales, request.bounds, request.limit_of_one_row, request.attributes)

    def _l2(self, request: ReleaseRequest) -> float:
        fit = self.measured.fits[0]
        return float(fit.l2) * fit.n / two_digits(fit.n) / self.unit_of_penalty(request)

    @property
    def _scales(self) -> list[Scale] | None:
        """Of every feature, where scalers are folded in."""
        scales = self._folded[1]
        return None if scales is None else complete(scales, int(final_estimator(self.model).coef_.shape[-1]))

    @cached_property
    def _folded(self) -> tuple[Any, Sequence[Scale | None] | None]:
        """The model without scalers, and what they had learned; None where preprocessing is public, or nothing is scaled."""
        return (self.model, None) if self.public == "preprocessing" else neutral(self.model)

    @property
    def _intercept(self) -> bool:
        return bool(final_estimator(self.model).fit_intercept)

    def _known(self, noise: Any) -> list[Scale]:
        """What scalers and imputers learned of each feature, with scales and centres from the bounds of the noise."""
        estimator, scales = final_estimator(self.model), self._folded[1]
        known = within_frame(complete(scales or (), int(estimator.coef_.shape[-1])), declared_frame(noise))
        if outputs_of(estimator) > 1:
            refuse_learned_fills(known)
        penalised = self._intercept and getattr(estimator, "solver", None) == "liblinear"
        check_foldable(self._intercept, penalised, known)
        return known

    def acted_on(self, noise: Any) -> tuple[Vector, Vector | None]:
        """Parameters, and for each column that an imputer fills its coefficient times what that is from its centre."""
        theta, folded = all_parameters(final_estimator(self.model)), self._folded[1] is not None
        _check_same_space(noise, folded)
        if not folded:
            return theta, None
        known = self._known(noise)
        raw = raw_parameters(theta, known, self._intercept)
        # t_k = w_k (c_k - m_k)
        fills = np.array([raw[k] * (fill - known[k].public[1]) for k, fill in learned_fills(known).items()])
        frame = _frame_of(known, self._intercept, noise)
        if frame is None:
            return np.append(raw, fills), None
        return np.append(frame.framed(raw), fills), np.append(frame.largest_terms(raw), np.abs(fills))

    def built(self, noisy: Vector, noise: Any) -> Any:
        """The new model, in raw units where scalers are folded in."""
        plain, scales = self._folded
        if scales is None:
            return rebuilt(plain, noisy, self.public)
        known = self._known(noise)
        columns = list(learned_fills(known))
        p = noisy.size - len(columns)
        frame = _frame_of(known, self._intercept, noise)
        raw = noisy[:p] if frame is None else frame.raw(noisy[:p])
        if not columns:
            return rebuilt(plain, raw, self.public)
        filled, centres = np.full(len(known), np.nan), np.array([known[k].public[1] for k in columns])
        filled[columns] = noisy_fill(raw[columns], noisy[p:], centres)
        return rebuilt(plain, raw, self.public, filled)


def _frame_of(known: Sequence[Scale], intercept: bool, noise: Any) -> NoiseFrame | None:
    """Where this noise acts; None for a covariance over raw parameters."""
    if covariance_of(noise) is not None:
        return None
    scales, centres = np.array([scale.public for scale in known]).reshape(-1, 2).T
    return NoiseFrame(scales, centres, intercept)


def _check_same_space(noise: Any, folds: bool) -> None:
    """Refuse noise that was calibrated for another release than this: its limit would not hold."""
    told = calibration_of(noise)
    if told is None or told.folded is None or told.folded == folds:
        return
    if folds:
        raise InvalidInputError(
            "You measured with public='preprocessing' but release with public='nothing', which folds scalers into the model. "
            "Use the same value for both."
        )
    raise InvalidInputError(
        "You measured with public='nothing' but release with public='preprocessing'. Use the same value for both."
    )


# A Fit


def _rows_of(fit: Fit, noise: Any, rows: Any) -> tuple[Vector, ...]:
    """The rows that a mechanism needs; refuses others than those of the fit."""
    X, y = _pair(rows)
    return tuple(np.asarray(x) for x in measurement(measure(fit, X, y, noise)).information.rows)


@dataclass(frozen=True)
class FittedRecord:
    """A :class:`fisherleak.Fit`, whose parameters leave as they are, in a :class:`Released` record."""

    fit: Fit
    rows: Any = field(default=None, repr=False)

    def acted_on(self, noise: Any) -> tuple[Vector, None]:
        """All parameters."""
        if has_own_shape(noise):
            raise InvalidInputError(
                "noise has a covariance that was computed from the rows, and a released Fit would show it: "
                "release a model of scikit-learn, or use another `shape`."
            )
        return np.asarray(host(self.fit.theta)), None

    def drawn_by(self, mechanism: Any, random_state: Seed) -> Vector:
        """One draw of a mechanism whose noise the data shape; given the data, several numbers are independent."""
        fit, rng = self.fit, generator(random_state)
        if not fit.loss.several:
            return _draw_of(fit, mechanism, rng, self.rows)
        if not is_squared_numbers(fit.loss):
            raise UnsupportedModelError(
                f"{type(mechanism).__name__} is drawn for models of one output, and for several with the package's "
                f"squared loss; this one has {fit.coef.shape[0]} outputs and the loss {fit.loss.name!r}: use noise on the "
                "parameters, fisherleak.Gaussian."
            )
        drawn, d = np.stack([_draw_of(one, mechanism, rng, None) for one in one_by_one(fit)]), fit.coef.shape[1]
        return np.append(drawn[:, :d], drawn[:, d:])

    def built(self, noisy: Vector, noise: Any) -> Released:
        """The record, in the array library of the fit."""
        fit, xp = self.fit, namespace(self.fit.coef)
        theta, size = like(noisy, fit.theta, xp), int(np.prod(fit.coef.shape))
        levels = None if fit.intercept is None else theta[size:] if fit.loss.several else float(theta[size])
        return Released(xp.reshape(theta[:size], tuple(fit.coef.shape)), levels, noise)


def _draw_of(fit: Fit, mechanism: Any, rng: np.random.Generator, rows: Any) -> Vector:
    """The parameters of one output, in so many bits as no data decide."""
    noisy = mechanism.released_draws(fit, 1, rng, rows)[0]
    finest = np.full(noisy.shape, grid_below(mechanism.least_deviation(fit)))
    check_fine(noisy, np.asarray(host(fit.theta)), finest, mechanism.scale)
    return np.asarray(to_significant_bits(noisy))
