r"""Released models, built anew: what may leave the house.

Where scalers are folded in, noise b without a shape acts in the frame F of the columns' public scales and centres. With
raw parameters w, what leaves is :math:`F^{-1}\, \mathrm{grid}(F w + b)`, whose covariance is :math:`F^{-1} \Sigma F^{-T}`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from fisherleak._support.arrays import Array, host, like, namespace
from fisherleak._support.namespaces import Estimator, Seed
from fisherleak.engine.fit.minimise import Fit, one_by_one
from fisherleak.engine.mechanisms.self_shaped import ObjectivePerturbation, Posterior, SelfShaped
from fisherleak.engine.noise import Noise, check_noise, released
from fisherleak.engine.noise.calibrated import Frame
from fisherleak.engine.noise.draw_and_round import check_fine, generator, grid_below, to_significant_bits
from fisherleak.errors import InvalidInputError, SeededReleaseWarning, UnsupportedModelError
from fisherleak.leakage.measure import measure
from fisherleak.models import as_table, checked_model, final_estimator
from fisherleak.models.estimators import check_supported, parameters, set_parameters
from fisherleak.models.rebuilt import FEW, PUBLIC, check_rebuildable, rebuilt, refuse_search
from fisherleak.models.several import all_parameters, outputs_of
from fisherleak.models.steps.imputers import noisy_fill
from fisherleak.models.steps.levels import check_common_classes, check_common_levels, learned_levels
from fisherleak.models.steps.scalers import (
    Scale,
    check_foldable,
    complete,
    frame_of,
    learned_fills,
    neutral,
    raw_parameters,
    refuse_learned_fills,
    split_outputs,
    within_frame,
)
from fisherleak.models.steps.transformers import check_steps
from fisherleak.protection.calibrate.calibration import publishable

__all__ = [
    "Released",
    "built",
    "check_public",
    "check_releasable",
    "counted_levels",
    "release",
    "set_parameters",
    "warn_of_seed",
]


@dataclass(frozen=True)
class Released:
    """Noisy parameters of a :class:`fisherleak.Fit`, and nothing else of it.

    Attributes
    ----------
    coef : array of shape (d,)
        (K, d) for a model of K classes or numbers.
    intercept : float or None
        (K,) likewise.
    noise : Noise
    """

    coef: Array
    intercept: Any
    noise: Noise


def release(
    model: Estimator,
    noise: Noise | SelfShaped,
    random_state: int | np.random.Generator | None = None,
    public: str = "nothing",
    *,
    rows: Any = None,
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
        more noisy parameter for each column; levels of encoders must be declared (``categories=``), or counted with ``rows``;
        other steps that learned something are refused by name. "levels": the same, with the levels that encoders learned
        public. "preprocessing": all that the steps before the model learned is public, the paper's assumption. Steps that
        hold rows or statistics of labels (``KNNImputer``, ``SelectKBest``) are refused in any case.
    rows : (X, y), optional
        The rows that the model was fitted on, of which nothing is kept. For a pipeline whose encoders learned their levels:
        each level must have at least five rows, and so must each class. Rarer levels are pooled by the encoder
        (``min_frequency=5``, ``handle_unknown="infrequent_if_exist"``), at least five rows together; their names do not
        leave. For a Fit with ``fl.ObjectivePerturbation`` of a loss other than the squared: it minimises the perturbed
        objective on them.

    Returns
    -------
    model or Released
        An object of the same classes, made anew from their constructors' parameters: coefficients, intercept, classes, column
        names, levels of encoders, which column goes where. Scalers that are folded in are left out. A Fit gives a
        :class:`Released` record.

    Notes
    -----
    Noise without a shape acts on (coefficients times their columns' scales, level at their centres) where scalers are folded
    in, and on the parameters themselves elsewhere. Scales and centres come from the bounds that were declared when the noise
    was calibrated, ``fl.calibrate(..., over="admissible", bounds=...)``. Of other columns they come from the rows, on a public
    grid, and a row whose removal moves one of them can be recognised (:meth:`Leakage.membership`). A shape is over raw
    coefficients, then the raw intercept, then :math:`w_k (c_k - m_k)` for each column k that an imputer fills with c and whose
    public centre is m. There, each parameter is a multiple of a power of two, at most 1/1024 of the standard deviation of its
    own noise: the bits below would tell more than the noise hides. Raw parameters are computed from these and from the grid
    alone. Draws of mechanisms have 30 significant bits.

    **What holds, and when.** With public "nothing" or "levels", what leaves is what ``fl.measure(..., public="nothing")`` with
    this noise measured; with "preprocessing", what ``fl.measure`` measures by default. Constructors' parameters, classes and
    column names are taken as public. Each further release of the same data adds to the leakage (:func:`fisherleak.compose`).

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
    if isinstance(noise, Posterior | ObjectivePerturbation):
        mechanism: Any = noise
        return _released_by(model, publishable(mechanism), random_state, rows)
    check_noise(noise)
    check_public(public)
    if rows is not None and not (public == "nothing" and learned_levels(model)):
        raise InvalidInputError(
            "rows is for ObjectivePerturbation, and for encoders that learned their levels where public='nothing': this "
            "release needs none. Leave it out."
        )
    noise = publishable(noise)
    if isinstance(model, Fit):
        return _released_fit(model, noise, random_state)
    check_releasable(model)
    return built(model, noise, random_state, public if rows is None else counted_levels(model, *_pair(rows), public))


def counted_levels(model: Estimator, X: Any, y: Any, public: str) -> str:
    """What is public once rows in memory have been seen to share the levels; refuses levels and classes of a few."""
    if public != "nothing":
        return public
    table = as_table(X)
    check_common_levels(model, table, FEW)
    check_common_classes(model, y, FEW)
    return public if table.lazy else "levels"


def _pair(rows: Any) -> tuple[Any, Any]:
    if not isinstance(rows, tuple) or len(rows) != 2:
        raise InvalidInputError(
            f"rows must be a pair (X, y), the rows that the model was fitted on; got a {type(rows).__name__}."
        )
    return rows


def warn_of_seed(random_state: Seed) -> None:
    """Say of a release that is drawn with a seed that it is for tests."""
    if random_state is not None:
        warnings.warn(
            "This release is drawn with random_state: noise that can be drawn again protects nothing. Use it for tests only, "
            "and leave random_state out of a release that is passed on.",
            SeededReleaseWarning,
            stacklevel=3,
        )


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


def built(model: Estimator, noise: Noise, random_state: Seed, public: str) -> Any:
    """The new model, of one that is checked."""
    plain, scales = (model, None) if public == "preprocessing" else neutral(model)
    _check_same_space(noise, scales is not None)
    several = outputs_of(final_estimator(model)) > 1
    if several and scales is not None:
        theta = all_parameters(final_estimator(model))
        noisy = _several_in_frame(final_estimator(model), theta, scales, noise, random_state)
        return rebuilt(plain, noisy, public, None)
    theta = (all_parameters if several else parameters)(final_estimator(model))
    if scales is None:
        return rebuilt(plain, released(theta, noise, random_state), public)
    noisy, filled = _in_frame(final_estimator(model), theta, scales, noise, random_state)
    return rebuilt(plain, noisy, public, filled)


def _check_same_space(noise: Noise, folds: bool) -> None:
    """Refuse noise that was calibrated for another release than this: its limit would not hold."""
    folded = getattr(getattr(noise, "calibrated", None), "folded", None)
    if folded is None or folded == folds:
        return
    if folds:
        raise InvalidInputError(
            "noise was calibrated with preprocessing taken as public, and this release folds scalers into the model: "
            "calibrate on fl.measure(…, public='nothing'), or release with public='preprocessing'."
        )
    raise InvalidInputError(
        "noise was calibrated end to end, and this release takes preprocessing as public: release with public='nothing', or "
        "calibrate on fl.measure(…, public='preprocessing')."
    )


def _in_frame(
    estimator: Estimator, theta: np.ndarray, scales: Sequence[Scale | None], noise: Noise, random_state: Seed
) -> tuple[np.ndarray, np.ndarray]:
    """Raw parameters with noise that acts where :func:`fisherleak.measure` takes it to act, and what imputers fill in, (d,)."""
    intercept = bool(estimator.fit_intercept)
    d = theta.shape[0] - int(intercept)
    known = within_frame(complete(scales, d), _declared_frame(noise))
    check_foldable(intercept, intercept and getattr(estimator, "solver", None) == "liblinear", known)
    raw = raw_parameters(theta, known, intercept)
    fills = learned_fills(known)
    columns, centres = list(fills), np.array([known[k].public[1] for k in fills])
    whole = np.append(raw, raw[columns] * (np.array(list(fills.values())) - centres))
    p, filled = raw.shape[0], np.full(d, np.nan)
    if getattr(noise, "shape", None) is not None:
        noisy = released(whole, noise, random_state)
        coef, level = noisy[:d], noisy[d:p]
    else:
        # rounded there: what is computed from these and from the public frame alone has no bit of the model before
        frame = frame_of(known, intercept, len(columns))
        noisy = released(frame @ whole, noise, random_state, np.abs(frame) @ np.abs(whole))
        coef = noisy[:d] / np.diag(frame)[:d]
        level = noisy[d:p] - frame[d:p, :d] @ coef
    filled[columns] = noisy_fill(coef[columns], noisy[p:], centres)
    return np.append(coef, level), filled


def _declared_frame(noise: Noise) -> Frame:
    """Centres and scales of features that declared bounds gave when the noise was calibrated."""
    return getattr(getattr(noise, "calibrated", None), "frame", None) or ()


def _several_in_frame(
    estimator: Estimator, theta: np.ndarray, scales: Sequence[Scale | None], noise: Noise, random_state: Seed
) -> np.ndarray:
    """Raw parameters of several outputs, with noise in the frame of one for each of them."""
    intercept, d = bool(estimator.fit_intercept), int(estimator.n_features_in_)
    known = within_frame(complete(scales, d), _declared_frame(noise))
    refuse_learned_fills(known)
    check_foldable(intercept, intercept and getattr(estimator, "solver", None) == "liblinear", known)
    raw = raw_parameters(theta, known, intercept)
    if getattr(noise, "shape", None) is not None:
        return released(raw, noise, random_state)
    frame = frame_of(known, intercept)
    coef, level = split_outputs(raw, d, intercept)
    through = _framed(np.abs(coef), None if level is None else np.abs(level), np.abs(frame))
    noisy = released(_framed(coef, level, frame), noise, random_state, through)
    coef, level = split_outputs(noisy, d, intercept)
    coef = coef / np.diag(frame)[:d]
    return coef.reshape(-1) if level is None else np.append(coef, level - coef @ frame[d, :d])


def _framed(coef: np.ndarray, level: np.ndarray | None, frame: np.ndarray) -> np.ndarray:
    """Coefficients (K, d) and levels (K,) in the frame of one output, one after the other."""
    d = coef.shape[1]
    parts = [coef @ frame[:d, :d].T] + ([] if level is None else [level + coef @ frame[d, :d]])
    return np.concatenate([part.reshape(-1) for part in parts])


def _released_fit(fit: Fit, noise: Noise, random_state: Seed) -> Released:
    if getattr(getattr(noise, "calibrated", None), "shape", None) is not None:
        raise InvalidInputError(
            "noise has a shape that stays with its rows, and the record of a released Fit holds its noise: release a model of "
            "scikit-learn, or use another shape."
        )
    xp = namespace(fit.coef)
    noisy = like(released(host(fit.theta), noise, random_state), fit.theta, xp)
    if fit.loss.several:
        K, d = fit.coef.shape
        return Released(xp.reshape(noisy[: K * d], (K, d)), None if fit.intercept is None else noisy[K * d :], noise)
    d = fit.coef.shape[0]
    return Released(noisy[:d], None if fit.intercept is None else float(noisy[d]), noise)


def _released_by(model: Estimator, mechanism: Any, random_state: Seed, rows: Any) -> Released:
    """A draw of a mechanism whose noise the data shape, in so many bits as no data decide."""
    name = type(mechanism).__name__
    if not isinstance(model, Fit):
        raise InvalidInputError(
            f"{name} is drawn from a fisherleak.Fit, which knows its Hessian; a {type(model).__name__} does not: fit with "
            "fisherleak.minimise, or use noise on its parameters."
        )
    own = None
    if rows is not None:
        # refuses rows that are not those of the fit
        X, y = _pair(rows)
        own = tuple(np.asarray(x) for x in measure(model, X, y, mechanism)._information.rows)
    if model.loss.several:
        return _released_numbers(model, mechanism, generator(random_state))
    values = like(_drawn_by(model, mechanism, generator(random_state), own), model.theta, namespace(model.coef))
    d = model.coef.shape[0]
    return Released(values[:d], None if model.intercept is None else float(values[d]), mechanism)


def _drawn_by(fit: Fit, mechanism: Any, rng: np.random.Generator, rows: Any) -> np.ndarray:
    """One draw of the parameters of a model of one output, in so many bits as no data decide."""
    noisy = mechanism.released_draws(fit, 1, rng, rows)[0]
    finest = np.full(noisy.shape, grid_below(mechanism.least_deviation(fit)))
    check_fine(noisy, np.asarray(host(fit.theta)), finest, mechanism.scale)
    return np.asarray(to_significant_bits(noisy))


def _released_numbers(model: Fit, mechanism: Any, rng: np.random.Generator) -> Released:
    """The same of a model of several numbers: given the data its outputs are independent."""
    if not model.loss.quadratic:
        raise UnsupportedModelError(
            f"{type(mechanism).__name__} is drawn for models of one output and of several numbers (squared loss); this has "
            f"{model.coef.shape[0]} classes: use noise on the parameters, fisherleak.Gaussian."
        )
    values = like(
        np.stack([_drawn_by(one, mechanism, rng, None) for one in one_by_one(model)]), model.coef, namespace(model.coef)
    )
    d = model.coef.shape[1]
    return Released(values[:, :d], None if model.intercept is None else values[:, d], mechanism)
