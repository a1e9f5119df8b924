r"""Kinds of model, one record each: what is fitted to a target, and how well it does its work.

A model predicts from :math:`z = w \cdot x + b`. With :math:`\mu` the mean that z stands for, its work is measured by

=========  ============================================================  ==============
kind       measure                                                       constant model
=========  ============================================================  ==============
linear     :math:`1 - \sum (y - z)^2 / \sum (y - \bar y)^2`              :math:`\bar y`
logistic   part of the rows with the right sign of z                     the larger class
Poisson    mean of :math:`2 (y \log(y / \mu) - y + \mu)`                 :math:`\log \bar y`
Gamma      mean of :math:`2 (y / \mu - \log(y / \mu) - 1)`               :math:`\log \bar y`
softmax    part of the rows whose own class has the largest of K scores  log of shares
=========  ============================================================  ==============

and a softmax model by its log loss as well, the mean of :math:`\log \sum_k e^{z_k} - z_y`.

Adding a kind is adding one record to ``KINDS``; the command line then has it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.linear_model import GammaRegressor, LinearRegression, LogisticRegression, PoissonRegressor, Ridge

from fisherleak.engine.losses import Loss
from fisherleak.errors import InvalidInputError
from fisherleak.tables import LabelRule
from fisherleak.tables.decide.profile import Numbers
from fisherleak.tables.decide.target import RULES

__all__ = ["KINDS", "Kind", "Metric", "kind_of", "label_rules"]

Vector = NDArray[np.float64]
LARGEST_EXPONENT = 50.0
"""A mean is kept below exp(50), so that hopeless copies have a large deviance and not an infinite one."""


@dataclass(frozen=True)
class Metric:
    """A measure of utility.

    Parameters
    ----------
    name, label : str
        In data, and in words.
    higher_is_better : bool
    of : callable
        (z, y) -> one number for each copy: linear predictors z of shape (m, copies), or (m, K, copies) for several classes,
        and y (m,), as the model sees them.
    """

    name: str
    label: str
    higher_is_better: bool
    of: Callable[[Vector, Vector], Vector]


@dataclass(frozen=True)
class Kind:
    """A kind of model.

    Parameters
    ----------
    name : str
        As ``model=`` has it.
    words : str
        In sentences: "Poisson regression".
    labels : LabelRule
        Which labels it takes, and how they are recognised.
    loss : str or Loss
        What is minimised.
    metric : Metric
        How well it does its work.
    constant : callable
        Mean label (for several classes, the shares of all) -> linear predictor of the model that ignores the rows, both as the
        model sees them.
    estimator : callable, optional
        (rows, l2) -> the scikit-learn model whose minimum is that of ``minimise`` with this l2. Attacks, balancing and
        releases need it.
    estimators : tuple of types
        Those that ``estimator`` gives: what a released model may end with.
    holds : tuple of str
        Types of scikit-learn inside such a model that skops is to trust.
    also : Metric, optional
        A second measure, told beside the first.
    """

    name: str
    words: str
    labels: LabelRule
    loss: str | Loss
    metric: Metric
    constant: Callable[[Any], Any]
    estimator: Callable[[int, float], Any] | None = None
    estimators: tuple[type, ...] = ()
    holds: tuple[str, ...] = ()
    also: Metric | None = None

    @property
    def several(self) -> bool:
        """Whether it has a row of parameters for each of three classes or more."""
        return self.labels.classes and self.labels.most > 2


# Measures of utility.


def _explained(z: Vector, y: Vector) -> Vector:
    total = float(np.sum((y - y.mean()) ** 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1.0 - np.sum((z - y[:, None]) ** 2, axis=0) / total)


def _right(z: Vector, y: Vector) -> Vector:
    return np.asarray(np.mean((z > 0) == (y[:, None] > 0.5), axis=0))


def _right_class(z: Vector, y: Vector) -> Vector:
    return np.asarray(np.mean(z.argmax(axis=1) == y[:, None], axis=0))


def _log_loss(z: Vector, y: Vector) -> Vector:
    own = np.take_along_axis(z, y.astype(np.int64)[:, None, None], axis=1)
    return np.asarray(np.mean(logsumexp(z - own, axis=1), axis=0))


def _poisson_deviance(z: Vector, y: Vector) -> Vector:
    z = np.clip(z, -LARGEST_EXPONENT, LARGEST_EXPONENT)
    logs = np.log(np.where(y > 0, y, 1.0))
    return np.asarray(2.0 * np.mean(y[:, None] * (logs[:, None] - z) - y[:, None] + np.exp(z), axis=0))


def _gamma_deviance(z: Vector, y: Vector) -> Vector:
    apart = np.log(y)[:, None] - np.clip(z, -LARGEST_EXPONENT, LARGEST_EXPONENT)
    return np.asarray(2.0 * np.mean(np.expm1(apart) - apart, axis=0))


# Labels.


def _no_counts(numbers: Numbers) -> str:
    if numbers.low < 0:
        return "has values below zero: `model='poisson'` needs counts."
    if numbers.high > 1e9:
        return "has counts above 1e9: a Poisson model would overflow. Rescale it."
    return ""


def _like_counts(numbers: Numbers) -> str:
    return "whole numbers" if numbers.whole and numbers.low >= 0 else ""


def _not_positive(numbers: Numbers) -> str:
    return "has values of zero or below: `model='gamma'` needs numbers above zero." if numbers.low <= 0 else ""


# Models of scikit-learn.


def _least_squares(n: int, l2: float) -> Any:
    return LinearRegression() if l2 == 0 else Ridge(alpha=n * l2)


def _logistic(n: int, l2: float) -> Any:
    C = math.inf if l2 == 0 else 1.0 / (n * l2)
    return LogisticRegression(C=C, solver="newton-cholesky", tol=1e-10, max_iter=1000)


def _poisson(n: int, l2: float) -> Any:
    return PoissonRegressor(alpha=l2, solver="newton-cholesky", tol=1e-10, max_iter=1000)


def _gamma(n: int, l2: float) -> Any:
    return GammaRegressor(alpha=l2, solver="newton-cholesky", tol=1e-10, max_iter=1000)


KINDS: list[Kind] = [
    Kind(
        name="linear",
        words="linear regression",
        labels=RULES["linear"],
        loss="squared",
        metric=Metric("r2", "R² (part of the variance explained)", True, _explained),
        constant=float,
        estimator=_least_squares,
        estimators=(LinearRegression, Ridge),
    ),
    Kind(
        name="logistic",
        words="logistic regression",
        labels=RULES["logistic"],
        loss="logistic",
        metric=Metric("accuracy", "accuracy (part of the rows classified right)", True, _right),
        constant=lambda mean: 1.0 if mean > 0.5 else -1.0,
        estimator=_logistic,
        estimators=(LogisticRegression,),
    ),
    Kind(
        name="softmax",
        words="softmax (multinomial logistic) regression",
        labels=RULES["softmax"],
        loss="softmax",
        metric=Metric("accuracy", "accuracy (part of the rows classified right)", True, _right_class),
        constant=lambda shares: np.log(np.maximum(shares, np.finfo(float).tiny)),
        estimator=_logistic,
        estimators=(LogisticRegression,),
        also=Metric("log_loss", "log loss", False, _log_loss),
    ),
    Kind(
        name="poisson",
        words="Poisson regression",
        labels=LabelRule(refuses=_no_counts, suits=_like_counts, meant_for="counts"),
        loss="poisson",
        metric=Metric("deviance", "mean Poisson deviance", False, _poisson_deviance),
        constant=math.log,
        estimator=_poisson,
        estimators=(PoissonRegressor,),
        holds=("sklearn._loss.link.LogLink", "sklearn._loss.loss.HalfPoissonLoss"),
    ),
    Kind(
        name="gamma",
        words="Gamma regression",
        labels=LabelRule(refuses=_not_positive),
        loss="gamma",
        metric=Metric("deviance", "mean Gamma deviance", False, _gamma_deviance),
        constant=math.log,
        estimator=_gamma,
        estimators=(GammaRegressor,),
        holds=("sklearn._loss.link.LogLink", "sklearn._loss.loss.HalfGammaLoss"),
    ),
]
"""Every kind of model."""


def kind_of(name: str) -> Kind:
    """The record of that name."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    raise InvalidInputError(f"model must be one of {', '.join(kind.name for kind in KINDS)}; got {name!r}.")


def label_rules() -> dict[str, LabelRule]:
    """What each kind asks of its target, by name."""
    return {kind.name: kind.labels for kind in KINDS}
