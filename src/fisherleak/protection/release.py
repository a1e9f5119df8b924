"""Perturbed copies of fitted models: what may leave the house."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from fisherleak._support.arrays import Array, device, host, like, namespace
from fisherleak._support.namespaces import Estimator, Seed
from fisherleak.engine.erm import Fit
from fisherleak.engine.noise import Noise, check_noise, released
from fisherleak.models import checked_model, final_estimator
from fisherleak.models.estimators import check_supported, parameters
from fisherleak.models.transformers import check_steps
from fisherleak.protection.calibration import publishable

__all__ = ["Released", "release"]

KEPT = {
    *("coef_", "intercept_", "classes_", "n_features_in_", "feature_names_in_"),
    *("_base_loss", "_label_binarizer"),  # the link of a Poisson model, the classes of a ridge classifier
}
"""What a released model keeps beside its parameters: what it needs to predict."""


@dataclass(frozen=True)
class Released:
    """Noisy parameters of a :class:`fisherleak.Fit`, and nothing else of it.

    Attributes
    ----------
    coef : array of shape (d,)
    intercept : float or None
    noise : Noise
    """

    coef: Array
    intercept: float | None
    noise: Noise


def release(model: Estimator, noise: Noise, random_state: int | np.random.Generator | None = None) -> Any:
    """A copy of a fitted model with noise in its coefficients and intercept.

    Parameters
    ----------
    model : fitted scikit-learn model or Fit
        Is left untouched. Of a search, the copy is that of its best estimator.
    noise : Noise
        From :func:`fisherleak.calibrate`, or one of ``fl.NOISES`` such as ``fl.Gaussian(scale)``.
    random_state : int or Generator, optional
        By default the noise is made of the operating system's randomness. A fixed seed makes it predictable, so that it
        protects nothing: for tests only.

    Returns
    -------
    model or Released
        The last step keeps only what it needs to predict (coefficients, intercept, classes, column names): fitted
        attributes such as singular values, scores or paths of coefficients would give the unperturbed model away. A Fit
        gives a :class:`Released` record.

    Notes
    -----
    Parameters are multiples of a power of two, at most 1/1024 of the noise's least standard deviation: the bits below
    would tell more than the noise hides.

    **What holds, and when.** The Fisher information loss measured with this noise is that of the released parameters.
    Preprocessing steps are copied as they are: what they learned from the data is taken as public. Each further release
    of the same data adds to the leakage (:func:`fisherleak.compose`).

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
    check_noise(noise)
    noise = publishable(noise)
    if isinstance(model, Fit):
        return _released_fit(model, noise, random_state)
    model = checked_model(model)
    check_supported(_last_step(model))
    check_steps(model)
    theta = released(parameters(final_estimator(model)), noise, random_state)
    noisy = copy.deepcopy(model)
    estimator = final_estimator(noisy)
    set_parameters(estimator, theta)
    kept = KEPT | set(estimator.get_params(deep=False))
    for name in [name for name in vars(estimator) if name not in kept]:
        delattr(estimator, name)
    return noisy


def _last_step(model: Estimator) -> Any:
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def set_parameters(estimator: Estimator, theta: np.ndarray) -> None:
    """Put coefficients (and intercept) into a fitted linear model, in the shapes it uses."""
    coef, level = estimator.coef_, theta[-1] if estimator.fit_intercept else None
    values = (theta if level is None else theta[:-1]).reshape(tuple(coef.shape))
    if not isinstance(coef, np.ndarray):
        # fitted with array_api_dispatch: the parameters stay arrays of the library of its data
        xp = namespace(coef)
        estimator.coef_ = xp.astype(like(values, coef, xp), coef.dtype)
        if level is not None:
            shape = tuple(estimator.intercept_.shape)
            estimator.intercept_ = xp.full(shape, float(level), dtype=coef.dtype, device=device(coef))
        return
    estimator.coef_ = values
    if level is not None:
        shape = np.shape(estimator.intercept_)
        estimator.intercept_ = np.full(shape, level) if shape else float(level)


def _released_fit(fit: Fit, noise: Noise, random_state: Seed) -> Released:
    xp = namespace(fit.coef)
    noisy = like(released(host(fit.theta), noise, random_state), fit.theta, xp)
    d = fit.coef.shape[0]
    return Released(noisy[:d], None if fit.intercept is None else float(noisy[d]), noise)
